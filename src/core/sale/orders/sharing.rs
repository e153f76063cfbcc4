//! Finding the buyers that several of a table's orders have, all at once.
//!
//! Sorted hashes bring together the orders of a buyer. Then one walk over the records, in the order in which they lie in memory, gives each
//! such buyer an entry and writes it into the records. The holds of each are brought together by counting them.

use super::buyers::{Account, Buyers};
use super::counted_tree::CountedTree;
use super::hash_index::{number_of, tag_of, with_number};
use super::order_table::{ENTRY, OrderTable};
use super::pages::ROOM;
use super::record::{BuyerRef, Record};
use super::{ByDeadline, Orders};
use crate::core::codec::Reader;
use crate::core::invariant::{Known, invariant};
use crate::core::time::UnixMs;

/// In place of a number: none.
const NONE: u32 = u32::MAX;

/// The values of a hold that the trees get.
pub struct Hold {
    pub deadline: UnixMs,
    pub units: u64,
    pub number: u32,
}

impl Hold {
    pub fn key(&self) -> ByDeadline {
        (self.deadline, self.number)
    }
}

/// The entries of orders that may have the same buyer: the hashes of the names agree.
#[derive(Default)]
pub struct Entries {
    /// By the number of an order; [`NONE`]: no other order may have its buyer. Empty: so it is for all.
    /// Before the entries have numbers: an earlier order of the same entry, or for the first one the order itself.
    of: Vec<u32>,
    /// How many entries there are.
    count: u32,
}

/// The state of the buyers with entries during the pass over the records.
struct Sharing<'a> {
    buyers: &'a mut Buyers,
    entries: Entries,
    /// The sums of the buyer of each entry.
    accounts: Vec<Account>,
    /// Orders that count in [`OrderTable::active`].
    active: u64,
    /// Orders whose buyer has another name than the first order of their entry: by chance the hashes agree.
    strays: Vec<u32>,
}

impl Entries {
    /// Finds them among sorted orders with named buyers, and among `ids`: a buyer's name may be the id of an order. Turns `names` into the
    /// contents of the index of buyers. Entries are numbered as the first of their orders are.
    pub fn new(names: &mut Vec<u64>, ids: &[u64], orders: &Orders) -> Self {
        let mut entries = Self::default();
        let mut join = |one: &mut u64, other: u64| *one = entries.join(*one, other, orders.len());
        names.dedup_by(|name, first| {
            let same = tag_of(*name) == tag_of(*first);
            if same {
                join(first, *name);
            }
            same
        });
        let is_own = |id: u64| orders.get(number_of(id)).is_some_and(|order| order.buyer == BuyerRef::Own);
        let mut ids = ids.iter().copied().peekable();
        for name in &mut *names {
            while ids.next_if(|id| tag_of(*id) < tag_of(*name)).is_some() {}
            while let Some(id) = ids.next_if(|id| tag_of(*id) == tag_of(*name)) {
                if is_own(id) {
                    join(name, id);
                }
            }
        }
        entries.number();
        for name in names.iter_mut().filter(|name| number_of(**name) & ENTRY != 0) {
            *name = with_number(*name, entries.get(number_of(*name) & !ENTRY).unwrap_or(NONE) | ENTRY);
        }
        entries
    }

    /// Puts two orders, or one and the first of an entry, under one entry. Returns the first of them, marked.
    fn join(&mut self, one: u64, other: u64, orders: u32) -> u64 {
        if self.of.is_empty() {
            self.of = vec![NONE; orders as usize];
        }
        let numbers = [one, other].map(|order| number_of(order) & !ENTRY);
        let first = numbers.into_iter().fold(NONE, u32::min);
        for number in numbers {
            self.set(number as usize, first);
        }
        with_number(one, first | ENTRY)
    }

    fn number(&mut self) {
        for number in 0..self.of.len() {
            let Some(earlier) = self.of.get(number).copied().filter(|earlier| *earlier != NONE) else { continue };
            let is_first = earlier as usize == number;
            let entry = if is_first { self.count } else { self.get(earlier).unwrap_or(NONE) };
            self.count = self.count.wrapping_add(is_first.into());
            self.set(number, entry);
        }
    }

    /// The entry of an order.
    fn get(&self, number: u32) -> Option<u32> {
        self.of.get(number as usize).copied().filter(|entry| *entry != NONE)
    }

    fn set(&mut self, number: usize, entry: u32) {
        if let Some(of) = self.of.get_mut(number) {
            *of = entry;
        }
    }

    /// The places in `holds` of those that have an entry, those of an entry together. `holds` are in the order of their deadlines, and so
    /// are those of an entry.
    fn places(&self, holds: &[Hold]) -> Vec<u32> {
        let mut ends = vec![0_u32; self.count as usize];
        let entry = |hold: &Hold| self.get(hold.number).map_or(usize::MAX, |entry| entry as usize);
        for hold in holds {
            if let Some(count) = ends.get_mut(entry(hold)) {
                *count = count.wrapping_add(1);
            }
        }
        let mut before = 0_u32;
        for end in &mut ends {
            (*end, before) = (before, before.wrapping_add(*end));
        }
        let mut places = vec![0; before as usize];
        for (hold, at) in holds.iter().zip(0..) {
            let Some(end) = ends.get_mut(entry(hold)) else { continue };
            if let Some(place) = places.get_mut(*end as usize) {
                *place = at;
            }
            *end = end.wrapping_add(1);
        }
        places
    }
}

impl OrderTable {
    /// Gives each buyer with several orders its entry. `holds` are in the order of their deadlines. Returns the orders that have another buyer
    /// than their entry, and none now.
    pub(super) fn share_all(&mut self, entries: Entries, holds: &[Hold]) -> Vec<u32> {
        if entries.count == 0 {
            return Vec::new();
        }
        let accounts = vec![Account::default(); entries.count as usize];
        let mut sharing = Sharing { buyers: &mut self.buyers, entries, accounts, active: 0, strays: Vec::new() };
        self.orders.share(&mut sharing);
        let Sharing { entries, accounts, active, strays, .. } = sharing;
        self.buyers.set_all(&accounts);
        let places = entries.places(holds);
        self.by_buyer = CountedTree::from_sorted(&places, |place| {
            let Hold { deadline, units, number, .. } = holds.get(*place as usize)?;
            Some(((entries.get(*number)?, *deadline, *number), *number, *units))
        });
        let sharing = accounts.iter().filter(|account| account.is_active()).count();
        self.active = self.active.wrapping_sub(active).wrapping_add(sharing as u64);
        strays
    }
}

impl Orders {
    /// Gives orders their entries in the records.
    fn share(&mut self, sharing: &mut Sharing<'_>) {
        let base = self.base();
        self.pages.rewrite(|number, bytes, out| {
            let entry = sharing.entry(number)?;
            let mut reader = Reader::new(bytes);
            let order = Record::read_next(&mut reader, base).ok().known("a record is what was written")?;
            if !sharing.join(entry, number, &order) {
                return None;
            }
            Record { buyer: BuyerRef::Shared(entry), ..order }.write(base, out);
            Some(reader.rest())
        });
    }
}

impl Sharing<'_> {
    /// The entry of an order, if it has one.
    fn entry(&self, number: u32) -> Option<u32> {
        if number.is_multiple_of(ROOM) {
            let next = self.entries.of.iter().skip(number as usize).take(ROOM as usize);
            next.for_each(|entry| self.buyers.fetch(*entry));
        }
        self.entries.get(number)
    }

    /// Adds an order to the buyer of an entry; false if it has another buyer. The first one opens the entry.
    fn join(&mut self, entry: u32, number: u32, order: &Record<'_>) -> bool {
        let name = if let BuyerRef::Named(name) = order.buyer { name } else { order.id };
        let Some(account) = self.accounts.get_mut(entry as usize) else { return false };
        if account.orders == 0 {
            let opened = self.buyers.open(&name);
            invariant!(opened == Some(entry), "entries are opened in the order of their numbers");
        } else if !self.buyers.is(entry, &name) {
            self.strays.push(number);
            self.entries.set(number as usize, NONE);
            return false;
        }
        account.orders = account.orders.wrapping_add(1);
        if order.waits() {
            account.waiting = account.waiting.saturating_add(order.units.into());
        }
        if order.active() {
            account.units = account.units.wrapping_add(order.units);
            self.active = self.active.wrapping_add(1);
        }
        true
    }
}
