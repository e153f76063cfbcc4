//! The waitlist of a sale: which order is served next, and who is before whom.

use super::buyers::Account;
use super::order_table::OrderTable;
use super::record::Record;

impl OrderTable {
    /// Whether anybody waits.
    #[inline]
    pub fn has_line(&self) -> bool {
        self.waiting.is_some()
    }

    /// How many orders wait.
    pub fn waiting(&self) -> usize {
        self.waiting.as_ref().map_or(0, |waiting| waiting.order.len())
    }

    /// The order at this place, and its number; 0: the next to be served.
    pub fn in_line(&self, place: usize) -> Option<(u32, Record<'_>)> {
        let number = self.waiting.as_ref()?.order.get(place)?;
        Some((number, self.orders.get(number)?))
    }

    /// How many are served before this order, which waits.
    pub fn before(&self, number: u32) -> usize {
        let (Some(waiting), Some(key)) = (&self.waiting, self.orders.ticket(number)) else { return 0 };
        waiting.order.rank(key, |number| self.orders.ticket(number))
    }

    /// The most units that an order waits for.
    pub fn most_wanted(&self) -> u64 {
        self.waiting.as_ref().and_then(|waiting| waiting.quantities.last_key_value()).map_or(0, |(units, _)| *units)
    }

    /// Adds an order that waits to the line and to what its buyer has.
    pub(super) fn join_line(&mut self, number: u32, units: u64, entry: Option<u32>) {
        self.waiting.get_or_insert_default().join(number, units, &self.orders);
        self.count_waiting(entry, |all| all.saturating_add(units.into()));
    }

    /// Takes an order that waits out of the line and of what its buyer has.
    pub(super) fn leave_line(&mut self, number: u32, units: u64, entry: Option<u32>) {
        if let Some(waiting) = &mut self.waiting {
            waiting.leave(number, units, &self.orders);
            if waiting.order.len() == 0 {
                self.waiting = None;
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
