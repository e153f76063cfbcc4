//! The orders themselves, by number and by id.

use std::hash::RandomState;
use std::mem;

use super::hash_index::HashIndex;
use super::packed_id::PackedId;
use super::pages::{Layout, RecordPages};
use super::record::{HoldPart, OrderLayout, Record, State, id_part, marked};
use super::sum_tree::{Source, Sum};
use crate::core::time::UnixMs;

/// By deadline, and by number where that is the same.
pub type ByDeadline = (UnixMs, u32);

/// By buyer, then by deadline.
pub type ByBuyer = (u32, UnixMs, u32);

/// Every order the sale remembers, in the order in which they came.
pub struct Orders {
    shelf: RecordPages<OrderLayout>,
    by_id: HashIndex,
    /// What deadlines are counted from: the first one there was.
    base: Option<UnixMs>,
    /// Where a record is put together before it is shelved.
    draft: Vec<u8>,
}

impl Orders {
    pub fn new() -> Self {
        Self { shelf: RecordPages::new(), by_id: HashIndex::new(), base: None, draft: Vec::new() }
    }

    /// How many there are; the next one's number.
    pub fn len(&self) -> u32 {
        self.shelf.len()
    }

    #[inline]
    pub fn get(&self, number: u32) -> Option<Record<'_>> {
        Record::read(self.shelf.get(number)?, self.base())
    }

    pub fn find(&self, id: &PackedId<'_>, keys: &RandomState) -> Option<u32> {
        let is = |number| self.shelf.get(number).and_then(id_part).is_some_and(|bytes| id.leads(bytes));
        self.by_id.find(id.hash(keys), is)
    }

    /// Adds an order whose id is not there yet; `None` when there are too many.
    pub fn add(&mut self, order: &Record<'_>, keys: &RandomState) -> Option<u32> {
        self.set_base(order);
        self.draft.clear();
        order.write(self.base(), &mut self.draft);
        let number = self.shelf.push(&self.draft)?;
        self.by_id.insert(order.id.hash(keys), number);
        Some(number)
    }

    /// Writes an order anew. Its id stays the same.
    pub fn replace(&mut self, number: u32, order: &Record<'_>) {
        self.set_base(order);
        self.draft.clear();
        order.write(self.base(), &mut self.draft);
        self.shelf.replace(number, &self.draft);
    }

    /// Writes an order anew, with what `edit` makes of it.
    pub fn edit(&mut self, number: u32, edit: impl for<'r> FnOnce(Record<'r>) -> Record<'r>) {
        let mut draft = mem::take(&mut self.draft);
        draft.clear();
        if let Some(order) = self.get(number) {
            edit(order).write(self.base(), &mut draft);
            self.shelf.replace(number, &draft);
        }
        self.draft = draft;
    }

    /// Marks whether a hold is the last of a buyer that shares an entry.
    pub fn set_closing(&mut self, number: u32, closing: bool) {
        self.shelf.touch(number, |flags| marked(flags, closing));
    }

    /// The orders from this number on in a convenient piece, with their numbers, and the number after the piece.
    pub fn run(&self, number: u32) -> Option<(impl Iterator<Item = (u32, Record<'_>)>, u32)> {
        let (mut rest, next) = self.shelf.run(number)?;
        let base = self.base();
        let orders = (number..next).map_while(move |number| {
            let order = Record::read(rest, base)?;
            rest = rest.get(OrderLayout::length(rest)?..)?;
            Some((number, order))
        });
        Some((orders, next))
    }

    /// Heap bytes.
    pub fn memory(&self) -> usize {
        self.shelf.memory().saturating_add(self.by_id.memory()).saturating_add(self.draft.capacity())
    }

    /// Allocations to free.
    pub fn effort(&self) -> usize {
        self.shelf.effort().saturating_add(self.by_id.effort())
    }

    fn base(&self) -> UnixMs {
        self.base.unwrap_or(UnixMs(0))
    }

    fn set_base(&mut self, order: &Record<'_>) {
        if self.base.is_none() && order.state == State::Held {
            self.base = Some(order.deadline);
        }
    }

    #[inline]
    fn hold(&self, number: u32) -> Option<HoldPart> {
        HoldPart::read(self.shelf.get(number)?, self.base())
    }
}

impl Source<ByDeadline> for Orders {
    #[inline]
    fn key(&self, number: u32) -> Option<ByDeadline> {
        Some((self.hold(number)?.deadline, number))
    }

    fn sum(&self, number: u32) -> Sum {
        self.hold(number).map_or(Sum::default(), |hold| Sum {
            orders: 1,
            units: hold.units,
            buyers: u64::from(hold.closing),
        })
    }
}

impl Source<ByBuyer> for Orders {
    #[inline]
    fn key(&self, number: u32) -> Option<ByBuyer> {
        let hold = self.hold(number)?;
        Some((hold.entry, hold.deadline, number))
    }

    fn sum(&self, number: u32) -> Sum {
        self.hold(number).map_or(Sum::default(), |hold| Sum { orders: 1, units: hold.units, buyers: 0 })
    }
}
