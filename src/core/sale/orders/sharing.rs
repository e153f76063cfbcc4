//! Finding the buyers that several of a table's orders have, all at once.
//!
//! Sorted hashes bring together the orders of a buyer. Then one walk over the records, in the order in which they lie in memory, gives each
//! such buyer an entry and writes it into the records.

use std::iter;

use super::buyers::{Account, Buyers};
use super::hash_index::{HashIndex, number_of, tag_of, with_number};
use super::order_table::{ENTRY, OrderTable};
use super::record::{BuyerRef, Record, State};
use super::sum_tree::{Sum, SumTree};
use super::{ByBuyer, ByDeadline, Orders};
use crate::core::invariant::{Known, invariant};
use crate::core::time::UnixMs;

/// In place of an entry: none.
const NONE: u32 = u32::MAX;

/// What the trees get of a hold.
pub struct Hold {
    pub deadline: UnixMs,
    pub units: u64,
    pub number: u32,
    /// Whether its buyer has nothing any more when it ends.
    pub last: bool,
}

impl Hold {
    pub fn key(&self) -> ByDeadline {
        (self.deadline, self.number)
    }
}

/// Orders that may have the same buyer: the hashes of the names agree. The first order of a group stands for all of them.
#[derive(Default)]
pub struct Groups {
    /// What the index of buyers will have: the orders that are alone, and in place of an entry the first order of a group.
    by_name: Vec<u64>,
    /// The orders of groups: the first one in the upper half, the order in the lower one.
    members: Vec<u64>,
}

/// What is known of the buyers of groups while the records are walked over.
struct Sharing<'a> {
    buyers: &'a mut Buyers,
    /// What the buyer of each entry has.
    parties: Vec<Party>,
    /// Holds of these buyers, with their units.
    holds: Vec<(ByBuyer, u64)>,
    /// Orders whose buyer has another name than the first order of their group: by chance the hashes agree.
    strays: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct Party {
    account: Account,
    /// Orders that count in [`OrderTable::active`].
    active: u64,
    /// The last hold to end of a buyer that has bought nothing.
    last: Option<u32>,
}

impl Groups {
    /// Groups sorted orders with named buyers, and the orders among `ids` that have the name of such a buyer as id.
    pub fn new(names: &[u64], ids: &[u64], orders: &Orders) -> Self {
        let mut groups = Self { by_name: Vec::with_capacity(names.len()), members: Vec::new() };
        let is_own = |id: &u64| orders.get(number_of(*id)).is_some_and(|order| order.buyer == BuyerRef::Own);
        let mut ids = ids.iter().copied().peekable();
        for same in names.chunk_by(|one, other| tag_of(*one) == tag_of(*other)) {
            let Some((first, others)) = same.split_first() else { continue };
            while ids.next_if(|id| tag_of(*id) < tag_of(*first)).is_some() {}
            let same_id = iter::from_fn(|| ids.next_if(|id| tag_of(*id) == tag_of(*first)));
            let own: Vec<u64> = same_id.filter(is_own).collect();
            if others.is_empty() && own.is_empty() {
                groups.by_name.push(*first);
                continue;
            }
            let numbers = || same.iter().chain(&own).map(|order| number_of(*order));
            let Some(leader) = numbers().min() else { continue };
            groups.by_name.push(with_number(*first, leader | ENTRY));
            groups.members.extend(numbers().map(|number| u64::from(leader) << u32::BITS | u64::from(number)));
        }
        groups
    }

    /// The entry of each order, by its number. Entries are numbered as the first of their orders are.
    fn entries(&mut self, orders: usize) -> Vec<u32> {
        self.members.sort_unstable();
        let mut entries = vec![NONE; orders];
        let groups = self.members.chunk_by(|one, other| one >> u32::BITS == other >> u32::BITS);
        for (group, entry) in groups.zip(0..) {
            for order in group {
                if let Some(place) = entries.get_mut(number_of(*order) as usize) {
                    *place = entry;
                }
            }
        }
        for name in self.by_name.iter_mut().filter(|name| number_of(**name) & ENTRY != 0) {
            *name = with_number(*name, entry_of(&entries, number_of(*name) & !ENTRY) | ENTRY);
        }
        entries
    }
}

impl OrderTable {
    /// Makes the index of buyers, and gives each buyer with several orders an entry. Returns the orders that are not in the index.
    pub(super) fn share_all(&mut self, mut groups: Groups, holds: &mut [Hold]) -> Vec<u32> {
        if groups.members.is_empty() {
            self.by_name = HashIndex::from_sorted(&groups.by_name);
            return Vec::new();
        }
        let mut entries = groups.entries(self.orders.len() as usize);
        self.by_name = HashIndex::from_sorted(&groups.by_name);
        drop(groups);
        let mut sharing =
            Sharing { buyers: &mut self.buyers, parties: Vec::new(), holds: Vec::new(), strays: Vec::new() };
        self.orders.share(&mut entries, |entry, number, order| sharing.join(entry, number, order));
        let Sharing { mut parties, holds: mut shared, strays, .. } = sharing;
        shared.sort_unstable();
        self.by_buyer =
            SumTree::from_sorted(&shared, |(key, units)| (*key, key.2, Sum { orders: 1, units: *units, buyers: 0 }));
        for ((entry, _, number), _) in shared {
            if let Some(party) = parties.get_mut(entry as usize).filter(|party| party.account.sold == 0) {
                party.last = Some(number);
            }
        }
        for hold in holds {
            let Some(party) = parties.get(entry_of(&entries, hold.number) as usize) else { continue };
            hold.last = party.last == Some(hold.number);
            if hold.last {
                self.orders.set_last_hold(hold.number, true);
            }
        }
        for (party, entry) in parties.iter().zip(0..) {
            self.buyers.set(entry, party.account);
            self.active = self.active.wrapping_sub(party.active.saturating_sub(1));
        }
        strays
    }
}

impl Orders {
    /// Gives orders their entries in the records, those that `join` agrees to. The others have none any more.
    fn share(&mut self, entries: &mut [u32], mut join: impl FnMut(u32, u32, &Record<'_>) -> bool) {
        let base = self.base();
        self.pages.rewrite(|number, bytes, out| {
            let entry = entries.get_mut(number as usize).filter(|entry| **entry != NONE);
            let Some(entry) = entry else { return false };
            let Some(order) = Record::read(bytes, base).ok().known("a record is what was written") else {
                return false;
            };
            let joins = join(*entry, number, &order);
            if joins {
                Record { buyer: BuyerRef::Shared { entry: *entry, last_hold: false }, ..order }.write(base, out);
            } else {
                *entry = NONE;
            }
            joins
        });
    }
}

impl Sharing<'_> {
    /// Adds an order to the buyer of an entry; false if it has another buyer. The first one opens the entry.
    fn join(&mut self, entry: u32, number: u32, order: &Record<'_>) -> bool {
        let name = if let BuyerRef::Named(name) = order.buyer { name } else { order.id };
        if entry as usize == self.parties.len() {
            let opened = self.buyers.open(&name);
            invariant!(opened == Some(entry), "entries are opened in the order of their numbers");
            self.parties.push(Party::default());
        } else if !self.buyers.is(entry, &name) {
            self.strays.push(number);
            return false;
        }
        let Some(Party { account, active, .. }) = self.parties.get_mut(entry as usize) else { return false };
        account.orders = account.orders.wrapping_add(1);
        if order.active() || order.waits() {
            account.units = account.units.wrapping_add(order.units);
        }
        if order.active() {
            *active = active.wrapping_add(1);
        }
        match order.state {
            State::Held => self.holds.push(((entry, order.deadline, number), order.units)),
            State::Sold => account.sold = account.sold.wrapping_add(order.units),
            State::Waiting | State::Cancelled | State::Expired => {}
        }
        true
    }
}

/// The entry of an order.
fn entry_of(entries: &[u32], number: u32) -> u32 {
    entries.get(number as usize).copied().unwrap_or(NONE)
}
