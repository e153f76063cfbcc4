//! The orders that wait, in the order in which they are served.

use std::collections::BTreeMap;

use super::rank_tree::RankTree;
use super::record::State;
use super::{ByTicket, Orders};
use crate::core::invariant::invariant;

/// Orders that wait.
#[derive(Default)]
pub struct WaitingOrders {
    /// The orders by their tickets.
    pub(super) order: RankTree<ByTicket>,
    /// How many of them wait for this many units.
    pub(super) quantities: BTreeMap<u64, u32>,
}

impl WaitingOrders {
    /// Heap bytes, its own among them.
    pub fn memory(&self) -> usize {
        let quantities = self.quantities.len().saturating_mul(3).saturating_mul(size_of::<(u64, u32)>()) / 2;
        size_of::<Self>().saturating_add(self.order.memory()).saturating_add(quantities)
    }

    /// Allocations to free.
    pub fn effort(&self) -> usize {
        self.order.effort().saturating_add(1)
    }

    pub(super) fn join(&mut self, number: u32, units: u64, orders: &Orders) {
        let Some(key) = orders.ticket(number) else { return };
        self.order.insert(number, key, |number| orders.ticket(number));
        let many = self.quantities.entry(units).or_default();
        *many = many.saturating_add(1);
    }

    pub(super) fn leave(&mut self, number: u32, units: u64, orders: &Orders) {
        let Some(key) = orders.ticket(number) else { return };
        let removed = self.order.remove(number, key, |number| orders.ticket(number));
        invariant!(removed, "who waits is in the line");
        if let Some(many) = self.quantities.get_mut(&units) {
            *many = many.saturating_sub(1);
            if *many == 0 {
                self.quantities.remove(&units);
            }
        }
    }
}

impl Orders {
    /// The place of a waiting order relative to others.
    pub(super) fn ticket(&self, number: u32) -> Option<ByTicket> {
        let order = self.get(number)?;
        let waits = invariant!(order.state == State::Waiting, "a line has waiting orders only");
        waits.then_some((order.ticket.number, number))
    }
}
