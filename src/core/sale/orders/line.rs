//! The line of a sale: the orders that wait, in the order in which they are served.

use std::collections::BTreeMap;

use super::counted_tree::CountedTree;
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

    /// Takes out an order that waited for so many units.
    pub fn leave(&mut self, number: u32, units: u64, orders: &Orders) {
        self.by_ticket.remove(number, orders);
        if let Some(many) = self.quantities.get_mut(&units) {
            *many = many.saturating_sub(1);
            if *many == 0 {
                self.quantities.remove(&units);
            }
        }
    }

    /// How many orders wait.
    pub fn len(&self) -> usize {
        self.by_ticket.len()
    }

    /// The number of the order at this place; 0: the next to be served.
    pub fn get(&self, place: usize) -> Option<u32> {
        self.by_ticket.get(place)
    }

    /// The place of the order with this ticket, as [`Line::get`] has it.
    pub fn place(&self, ticket: ByTicket, orders: &Orders) -> Option<usize> {
        self.by_ticket.count_to(ticket, orders).checked_sub(1)
    }

    /// The units of the orders at the front that are together at most so many.
    pub fn gets(&self, units: u64, orders: &Orders) -> u64 {
        self.by_ticket.units_within(units, self.most_wanted(), orders)
    }

    /// The most units that an order waits for.
    pub fn most_wanted(&self) -> u64 {
        self.quantities.last_key_value().map_or(0, |(units, _)| *units)
    }
}
