//! What the server asks of a sale besides its business: counters, memory, the effort of freeing it.

use super::Sale;
use super::answer::Status;
use super::change::{Change, InvalidChange};

impl Sale {
    /// Counts a command's answer. Successes and lapses are counted when they are committed.
    pub fn count_answer(&mut self, status: Status) {
        let counter = match status {
            Status::Duplicate => &mut self.counters.duplicate,
            Status::SoldOut | Status::Insufficient => &mut self.counters.soldout,
            Status::Limit => &mut self.counters.limited,
            Status::Ok
            | Status::NotStarted
            | Status::Ended
            | Status::Expired
            | Status::Cancelled
            | Status::NoOrder
            | Status::NoStock => return,
        };
        *counter = counter.saturating_add(1);
    }

    /// Commits a change that another server decided, or this one in an earlier life: it counts for nothing here.
    ///
    /// # Errors
    ///
    /// As [`Sale::commit`].
    pub fn replay(&mut self, change: &Change<'_>) -> Result<(), InvalidChange> {
        let counters = self.counters;
        let done = self.commit(change);
        self.counters = counters;
        done
    }

    /// Heap bytes, without what the allocator adds. Costs a step for about 30,000 orders.
    #[must_use]
    pub fn memory(&self) -> usize {
        let stream = self.terms.stream.as_ref().map_or(0, |stream| stream.key.len());
        self.book.memory().saturating_add(stream)
    }

    /// How many allocations freeing the sale frees.
    #[must_use]
    pub fn effort(&self) -> usize {
        self.book.effort().saturating_add(1)
    }
}
