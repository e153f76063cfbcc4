//! How a sale keeps its orders.
//!
//! Each order is a `record` in `pages`. The `hash_index` finds it by its id, and a `counted_tree` has the holds in the order of their
//! deadlines. `buyers` has an entry for each buyer with several orders. `line` has the orders that wait, in a `counted_tree`, too. An `id_set`
//! has ids of which nothing else is known. `order_table` holds all of these together, and `accounting` keeps its sums.
//! This file has the orders by number and by id.

mod accounting;
mod bulk;
mod buyers;
mod counted_tree;
mod hash_index;
mod id_set;
mod line;
mod order_state;
mod order_table;
mod pages;
pub mod record;
mod sharing;

use std::hash::RandomState;
use std::{iter, mem};

use crate::core::codec::Reader;
use crate::core::id::PackedId;
use crate::core::invariant::{Known, invariant};
use crate::core::time::UnixMs;
use counted_tree::Source;
use hash_index::HashIndex;
use pages::RecordPages;
use record::{HoldPart, OrderLayout, Record, State, id_part};

pub use bulk::Unindexed;
pub use id_set::IdSet;
pub use order_table::{BEGINNING, BuyerLookup, OrderTable};

/// Sorts holds by deadline, and those with the same deadline by number.
pub type ByDeadline = (UnixMs, u32);

/// Sorts waiting orders by ticket.
pub type ByTicket = (u64, u32);

/// Sorts holds by buyer, then by deadline.
pub type ByBuyer = (u32, UnixMs, u32);

/// Every order the sale remembers, in the order in which they came.
pub struct Orders {
    pages: RecordPages<OrderLayout>,
    by_id: HashIndex,
    /// The deadline of the first hold. Records keep deadlines relative to it, which makes them short.
    base: Option<UnixMs>,
    /// Where a record is put together before it goes into its page.
    draft: Vec<u8>,
}

impl Orders {
    pub fn new() -> Self {
        Self { pages: RecordPages::new(), by_id: HashIndex::new(), base: None, draft: Vec::new() }
    }

    /// How many there are; the next one's number.
    pub fn len(&self) -> u32 {
        self.pages.len()
    }

    #[inline]
    pub fn get(&self, number: u32) -> Option<Record<'_>> {
        Record::read(self.pages.get(number)?, self.base()).ok().known("a record is what was written")
    }

    pub fn find(&self, id: &PackedId<'_>, keys: &RandomState) -> Option<u32> {
        let is = |number| self.pages.get(number).and_then(id_part).is_some_and(|bytes| id.leads(bytes));
        self.by_id.find(id.hash(keys), is)
    }

    /// Adds an order whose id is not there yet; `None` when there are too many.
    pub fn add(&mut self, order: &Record<'_>, keys: &RandomState) -> Option<u32> {
        let number = self.append(order)?;
        self.by_id.insert(order.id.hash(keys), number);
        Some(number)
    }

    /// Adds an order that will not be found by its id before [`Orders::set_index`]; `None` when there are too many.
    fn append(&mut self, order: &Record<'_>) -> Option<u32> {
        self.set_base(order.state, order.deadline);
        self.draft.truncate(0);
        order.write(self.base(), &mut self.draft);
        self.pages.push(&self.draft)
    }

    /// The index of all orders by their ids.
    fn set_index(&mut self, by_id: HashIndex) {
        self.by_id = by_id;
    }

    /// Writes an order anew. Its id stays the same.
    pub fn replace(&mut self, number: u32, order: &Record<'_>) {
        self.set_base(order.state, order.deadline);
        self.draft.truncate(0);
        order.write(self.base(), &mut self.draft);
        self.pages.replace(number, &self.draft);
    }

    /// Writes an order anew, as `edit` changes it.
    pub fn edit(&mut self, number: u32, edit: impl for<'r> FnOnce(Record<'r>) -> Record<'r>) {
        let mut draft = mem::take(&mut self.draft);
        draft.truncate(0);
        if let Some(order) = self.get(number).known("only an order of the table is edited") {
            edit(order).write(self.base(), &mut draft);
            self.pages.replace(number, &draft);
        }
        self.draft = draft;
    }

    /// The orders from this number on, with their numbers.
    pub fn from(&self, mut number: u32) -> impl Iterator<Item = (u32, Record<'_>)> {
        let run = move || {
            let (orders, next) = self.run(number)?;
            number = next;
            Some(orders)
        };
        iter::from_fn(run).flatten()
    }

    /// Some orders from this number on, and the number after the last of them.
    fn run(&self, number: u32) -> Option<(impl Iterator<Item = (u32, Record<'_>)>, u32)> {
        let (bytes, next) = self.pages.run(number)?;
        let (base, mut reader) = (self.base(), Reader::new(bytes));
        let orders = (number..next).map_while(move |number| {
            let order = Record::read_next(&mut reader, base).ok().known("a record is what was written")?;
            Some((number, order))
        });
        Some((orders, next))
    }

    /// Heap bytes.
    pub fn memory(&self) -> usize {
        self.pages.memory().saturating_add(self.by_id.memory()).saturating_add(self.draft.capacity())
    }

    /// Allocations to free.
    pub fn effort(&self) -> usize {
        self.pages.effort().saturating_add(self.by_id.effort())
    }

    fn base(&self) -> UnixMs {
        self.base.unwrap_or(UnixMs(0))
    }

    /// Chooses the base of stored deadlines, before the first hold is written.
    pub fn set_base(&mut self, state: State, deadline: UnixMs) {
        if self.base.is_none() && state == State::Held {
            self.base = Some(deadline);
        }
    }

    #[inline]
    fn hold(&self, number: u32) -> Option<HoldPart> {
        HoldPart::read(self.pages.get(number)?, self.base()).known("a tree has holds only")
    }
}

impl Source<ByDeadline> for Orders {
    #[inline]
    fn read(&self, number: u32) -> Option<(ByDeadline, u64)> {
        let hold = self.hold(number)?;
        Some(((hold.deadline, number), hold.units))
    }
}

impl Source<ByBuyer> for Orders {
    #[inline]
    fn read(&self, number: u32) -> Option<(ByBuyer, u64)> {
        let hold = self.hold(number)?;
        Some(((hold.entry, hold.deadline, number), hold.units))
    }
}

impl Source<ByTicket> for Orders {
    fn read(&self, number: u32) -> Option<(ByTicket, u64)> {
        let order = self.get(number)?;
        let waits = invariant!(order.waits(), "a line has waiting orders only");
        waits.then_some(((order.ticket.number, number), order.units))
    }
}
