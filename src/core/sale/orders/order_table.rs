//! The orders of a sale, their sums, and the hold that ends next.
//!
//! The table does the arithmetic. The sale decides which changes may be written.

use std::hash::RandomState;

use super::buyers::Buyers;
use super::counted_tree::{CountedTree, Source};
use super::hash_index::HashIndex;
use super::line::Line;
use super::record::{BuyerRef, Record, State};
use super::{ByBuyer, ByDeadline, Orders};
use crate::core::id::PackedId;
use crate::core::invariant::Known;
use crate::core::time::UnixMs;

/// Set in a number that the index of buyers gives: it is that of an entry. Not set: it is that of the buyer's only order.
pub(super) const ENTRY: u32 = 1 << 31;

/// Before every instant.
pub const BEGINNING: UnixMs = UnixMs(i64::MIN);
/// After every instant.
pub(super) const NEVER: UnixMs = UnixMs(i64::MAX);

/// The orders of a sale and the sums over them.
pub struct OrderTable {
    pub(in crate::core::sale) keys: RandomState,
    pub orders: Orders,
    /// All holds, the next to end first.
    pub(super) holds: CountedTree<ByDeadline>,
    pub(super) buyers: Buyers,
    /// Buyers by name: those with an entry, and those whose only order has another id. (An order without BUYER is found by its id.)
    pub(super) by_name: HashIndex,
    /// The holds of buyers with an entry.
    pub(super) by_buyer: CountedTree<ByBuyer>,
    /// The orders that wait; `None`: no order does, which is so for most sales.
    pub(super) line: Option<Box<Line>>,
    /// Units held, also by due holds. Modulo 2^64, as every sum that includes due holds: a cutoff frees units that can be held and ended
    /// again, any number of times. The units of live holds are less than 2^53.
    pub held: u64,
    /// Units bought.
    pub sold: u64,
    /// Buyers that hold or have bought units. Due holds count until they have expired.
    pub active: u64,
    /// How many orders fit in.
    pub(in crate::core::sale) most: u32,
}

/// Where a buyer's orders are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuyerLookup {
    /// The buyer has no order.
    Nobody,
    /// The buyer has this order only.
    Sole(u32),
    /// The buyer has an entry.
    Entry(u32),
}

impl OrderTable {
    pub fn new() -> Self {
        Self {
            keys: RandomState::new(),
            orders: Orders::new(),
            holds: CountedTree::default(),
            buyers: Buyers::new(),
            by_name: HashIndex::new(),
            by_buyer: CountedTree::default(),
            line: None,
            held: 0,
            sold: 0,
            active: 0,
            most: ENTRY,
        }
    }

    /// The number of the order of this id.
    pub fn find(&self, id: &PackedId<'_>) -> Option<u32> {
        self.orders.find(id, &self.keys)
    }

    /// Where the orders of this buyer are.
    pub fn look_up(&self, buyer: &PackedId<'_>) -> BuyerLookup {
        self.look_up_beside(buyer, || self.find(buyer))
    }

    /// As [`OrderTable::look_up`]; `same` finds the order whose id is the buyer's name.
    fn look_up_beside(&self, buyer: &PackedId<'_>, same: impl FnOnce() -> Option<u32>) -> BuyerLookup {
        if self.by_name.len() > 0 {
            let is = |found: u32| match found & ENTRY {
                0 => self.orders.get(found).is_some_and(|order| order.buyer == BuyerRef::Named(*buyer)),
                _ => self.buyers.is(found & !ENTRY, buyer),
            };
            match self.by_name.find(buyer.hash(&self.keys), is) {
                Some(found) if found & ENTRY != 0 => return BuyerLookup::Entry(found & !ENTRY),
                Some(found) => return BuyerLookup::Sole(found),
                None => {}
            }
        }
        let own = same().filter(|number| self.orders.get(*number).is_some_and(|o| o.buyer == BuyerRef::Own));
        own.map_or(BuyerLookup::Nobody, BuyerLookup::Sole)
    }

    /// Whose limit an order counts against.
    pub fn buyer_of<'a>(&'a self, order: &Record<'a>) -> PackedId<'a> {
        match order.buyer {
            BuyerRef::Own => order.id,
            BuyerRef::Named(name) => name,
            BuyerRef::Shared(entry) => self.buyers.name(entry).or_invariant("an order's entry is there", order.id),
        }
    }

    /// The sums of a buyer's orders, including due holds and the units that they wait for.
    pub fn counted(&self, lookup: BuyerLookup) -> u64 {
        match lookup {
            BuyerLookup::Nobody => 0,
            BuyerLookup::Sole(number) => self.found(number).map_or(0, |order| order.counted_at(BEGINNING)),
            BuyerLookup::Entry(entry) => self.account(entry).counted(0),
        }
    }

    /// The sums of a buyer's orders at `now`, including the units that they wait for.
    pub fn units_of(&self, lookup: BuyerLookup, now: UnixMs) -> u64 {
        match lookup {
            BuyerLookup::Nobody => 0,
            BuyerLookup::Sole(number) => self.found(number).map_or(0, |order| order.counted_at(now)),
            BuyerLookup::Entry(_) if self.next_deadline().is_none_or(|deadline| !deadline.reached(now)) => {
                self.counted(lookup)
            }
            BuyerLookup::Entry(entry) => {
                let units_to = |key| self.by_buyer.sum_to(key, &self.orders).units;
                let others = last_of_entry_before(entry).map_or(0, units_to);
                self.account(entry).counted(units_to((entry, now, u32::MAX)).wrapping_sub(others))
            }
        }
    }

    /// The holds of a buyer that are due at `now` and were not at `over`, the earliest first.
    pub fn due_of(
        &self,
        lookup: BuyerLookup,
        over: Option<UnixMs>,
        now: UnixMs,
    ) -> impl Iterator<Item = (u32, Record<'_>)> {
        let (sole, entry) = match lookup {
            BuyerLookup::Nobody => (None, None),
            BuyerLookup::Sole(number) => (Some(number), None),
            BuyerLookup::Entry(entry) => (None, Some(entry)),
        };
        let shared = entry.into_iter().flat_map(move |entry| {
            let over = over.map(|over| (entry, over, u32::MAX));
            let holds = self.by_buyer.above(over.or(last_of_entry_before(entry)), &self.orders);
            holds.take_while(move |n| Source::<ByBuyer>::key(&self.orders, *n).is_some_and(|(e, ..)| e == entry))
        });
        let is_later = |order: Record<'_>| order.state == State::Held && over.is_none_or(|over| order.deadline > over);
        let sole = sole.filter(|number| self.found(*number).is_some_and(is_later));
        self.due_records(sole.into_iter().chain(shared), now)
    }

    /// All holds that are due at `now` and were not at `over`, the earliest first.
    pub fn due(&self, over: Option<UnixMs>, now: UnixMs) -> impl Iterator<Item = (u32, Record<'_>)> {
        self.due_records(self.holds.above(over.map(|over| (over, u32::MAX)), &self.orders), now)
    }

    /// The units of all due holds.
    pub fn due_units(&self, now: UnixMs) -> u64 {
        self.holds.sum_to((now, u32::MAX), &self.orders).units
    }

    /// When the next hold ends.
    pub fn next_deadline(&self) -> Option<UnixMs> {
        Some(self.holds.first()?.0)
    }

    fn due_records<'a>(
        &'a self,
        numbers: impl Iterator<Item = u32> + 'a,
        now: UnixMs,
    ) -> impl Iterator<Item = (u32, Record<'a>)> + 'a {
        let records = numbers.map_while(|number| Some((number, self.found(number)?)));
        records.take_while(move |(_, order)| order.state == State::Held && order.deadline.reached(now))
    }

    /// The order of a number that an index gave.
    fn found(&self, number: u32) -> Option<Record<'_>> {
        self.orders.get(number).known("what an index names is in the table")
    }

    /// Whether no further order fits: there is one for each 31-bit number.
    pub fn is_full(&self) -> bool {
        self.orders.len() >= self.most
    }

    /// How many further orders fit.
    pub fn room(&self) -> usize {
        usize::try_from(self.most.saturating_sub(self.orders.len())).unwrap_or(usize::MAX)
    }

    /// Whether an order waits.
    #[inline]
    pub fn has_line(&self) -> bool {
        self.line.is_some()
    }

    /// How many orders wait.
    pub fn waiting(&self) -> usize {
        self.line.as_ref().map_or(0, |line| line.len())
    }

    /// The order at this place, and its number; 0: the next to be served.
    pub fn in_line(&self, place: usize) -> Option<(u32, Record<'_>)> {
        let number = self.line.as_ref()?.get(place)?;
        Some((number, self.orders.get(number)?))
    }

    /// The place of this order, which waits, as [`OrderTable::in_line`] has it.
    pub fn place(&self, number: u32) -> Option<usize> {
        self.line.as_ref()?.place(self.orders.key(number)?, &self.orders)
    }

    /// The most units that an order waits for.
    pub fn most_wanted(&self) -> u64 {
        self.line.as_ref().map_or(0, |line| line.most_wanted())
    }

    /// The units of the orders at the front of the line that are together at most so many.
    pub fn line_gets(&self, units: u64) -> u64 {
        self.line.as_ref().map_or(0, |line| line.gets(units, &self.orders))
    }

    /// Adds an order, or writes the `known` one anew, which must be cancelled or expired. For a new order the table must have room.
    pub fn enter<'a>(&mut self, known: Option<u32>, mut order: Record<'a>, buyer: &PackedId<'a>) {
        if let Some(number) = known {
            self.leave_buyer(number);
        }
        let found = self.look_up_beside(buyer, || if *buyer == order.id { known } else { self.find(buyer) });
        // An order that is written anew does not share an entry with itself.
        let entry =
            if known.is_some_and(|known| found == BuyerLookup::Sole(known)) { None } else { self.entry(found, buyer) };
        order.buyer = match entry {
            Some(entry) => BuyerRef::Shared(entry),
            None if *buyer == order.id => BuyerRef::Own,
            None => BuyerRef::Named(*buyer),
        };
        let Some(number) = self.write(known, &order) else { return };
        match order.buyer {
            BuyerRef::Own => {}
            BuyerRef::Named(name) => self.name(&name, number),
            BuyerRef::Shared(entry) => self.join_entry(entry),
        }
        self.attach(number, &order);
    }

    /// The entry of a buyer that gets another order; `None` if the order is its first.
    pub(super) fn entry(&mut self, found: BuyerLookup, buyer: &PackedId<'_>) -> Option<u32> {
        match found {
            BuyerLookup::Entry(entry) => Some(entry),
            BuyerLookup::Sole(other) => self.share(other, buyer),
            BuyerLookup::Nobody => None,
        }
    }

    /// Writes an order over the `known` one or, if there is none, behind the others.
    fn write(&mut self, known: Option<u32>, order: &Record<'_>) -> Option<u32> {
        match known {
            Some(number) => self.orders.replace(number, order),
            None => return self.orders.add(order, &self.keys).known("a full table gets no further order"),
        }
        known
    }

    /// Moves an order to another state or deadline.
    pub fn set_state(&mut self, number: u32, state: State, deadline: UnixMs) {
        self.orders.set_base(state, deadline);
        self.amend(number, |order| Record { state, deadline, ..order });
    }

    /// Changes how many units an order is about.
    pub fn set_units(&mut self, number: u32, units: u64) {
        self.amend(number, |order| Record { units, ..order });
    }

    /// Marks an order as one that can never be confirmed. The mark takes no memory of its own.
    pub fn refuse(&mut self, number: u32) {
        self.orders.edit(number, |order| Record { refused: true, ..order });
    }

    /// Heap bytes.
    pub fn memory(&self) -> usize {
        let trees = self.holds.memory().saturating_add(self.by_buyer.memory());
        let buyers = self.buyers.memory().saturating_add(self.by_name.memory());
        let line = self.line.as_ref().map_or(0, |line| line.memory());
        self.orders.memory().saturating_add(trees).saturating_add(buyers).saturating_add(line)
    }

    /// Allocations to free.
    pub fn effort(&self) -> usize {
        let trees = self.holds.effort().saturating_add(self.by_buyer.effort());
        let buyers = self.buyers.effort().saturating_add(self.by_name.effort());
        let line = self.line.as_ref().map_or(0, |line| line.effort());
        self.orders.effort().saturating_add(trees).saturating_add(buyers).saturating_add(line)
    }
}

/// Above every hold of the entries before this one, and below those of its own; `None`: there are none before.
fn last_of_entry_before(entry: u32) -> Option<ByBuyer> {
    Some((entry.checked_sub(1)?, NEVER, u32::MAX))
}
