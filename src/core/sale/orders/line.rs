//! The line of a sale: the orders that wait, in the order in which they are served.

use std::collections::BTreeMap;

use super::buyers::Account;
use super::counted_tree::{CountedTree, Source};
use super::order_table::OrderTable;
use super::record::Record;
use super::{ByTicket, Orders};

/// The orders that wait.
#[derive(Default)]
pub struct Line {
    by_ticket: CountedTree<ByTicket>,
    /// How many orders wait for this many units.
    quantities: BTreeMap<u64, u32>,
}

impl Line {
    /// Heap bytes, its own among them.
    pub fn memory(&self) -> usize {
        let quantities = self.quantities.len().saturating_mul(3).saturating_mul(size_of::<(u64, u32)>()) / 2;
        size_of::<Self>().saturating_add(self.by_ticket.memory()).saturating_add(quantities)
    }

    /// Allocations to free.
    pub fn effort(&self) -> usize {
        self.by_ticket.effort().saturating_add(1)
    }

    /// Adds an order that waits for so many units.
    pub fn join(&mut self, number: u32, units: u64, orders: &Orders) {
        self.by_ticket.insert(number, orders);
        let many = self.quantities.entry(units).or_default();
        *many = many.saturating_add(1);
    }

    fn leave(&mut self, number: u32, units: u64, orders: &Orders) {
        self.by_ticket.remove(number, orders);
        if let Some(many) = self.quantities.get_mut(&units) {
            *many = many.saturating_sub(1);
            if *many == 0 {
                self.quantities.remove(&units);
            }
        }
    }
}

impl OrderTable {
    /// Whether an order waits.
    #[inline]
    pub fn has_line(&self) -> bool {
        self.line.is_some()
    }

    /// How many orders wait.
    pub fn waiting(&self) -> usize {
        self.line.as_ref().map_or(0, |line| line.by_ticket.len())
    }

    /// The order at this place, and its number; 0: the next to be served.
    pub fn in_line(&self, place: usize) -> Option<(u32, Record<'_>)> {
        let number = self.line.as_ref()?.by_ticket.get(place)?;
        Some((number, self.orders.get(number)?))
    }

    /// The place of this order, which waits, as [`OrderTable::in_line`] has it.
    pub fn place(&self, number: u32) -> Option<usize> {
        let ticket: ByTicket = self.orders.key(number)?;
        self.line.as_ref()?.by_ticket.count_to(ticket, &self.orders).checked_sub(1)
    }

    /// The most units that an order waits for.
    pub fn most_wanted(&self) -> u64 {
        self.line.as_ref().and_then(|line| line.quantities.last_key_value()).map_or(0, |(units, _)| *units)
    }

    /// Adds an order that waits to the line and to what its buyer has.
    pub(super) fn join_line(&mut self, number: u32, units: u64, entry: Option<u32>) {
        self.line.get_or_insert_default().join(number, units, &self.orders);
        self.count_waiting(entry, |all| all.saturating_add(units.into()));
    }

    /// Takes an order that waits out of the line and of what its buyer has.
    pub(super) fn leave_line(&mut self, number: u32, units: u64, entry: Option<u32>) {
        if let Some(line) = &mut self.line {
            line.leave(number, units, &self.orders);
            if line.by_ticket.len() == 0 {
                self.line = None;
            }
        }
        self.count_waiting(entry, |all| all.saturating_sub(units.into()));
    }

    /// Counts the units of a waiting order anew in its buyer's entry.
    fn count_waiting(&mut self, entry: Option<u32>, count: impl FnOnce(u128) -> u128) {
        if let Some(entry) = entry {
            let account = self.account(entry);
            self.buyers.set(entry, Account { waiting: count(account.waiting), ..account });
        }
    }
}
