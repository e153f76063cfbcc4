//! Values that were destroyed while they still had a name, as far as they knew.
//!
//! The server tells a value that it loses its name, but not always: not when it drops a slot that has moved to another node, nor when it
//! replaces a database. What it always does is free the value, on whichever thread. So a value that is freed with its entry
//! in the deadline index leaves that here, and the timer closes it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::core::deadline_index::DeadlineId;

/// Of locks.
pub static LOCKS: Destroyed = Destroyed::new();
/// Of sales.
pub static SALES: Destroyed = Destroyed::new();

/// Entries whose values are no more.
pub struct Destroyed {
    entries: Mutex<Vec<DeadlineId>>,
    /// How many there are, for whoever asks often.
    count: AtomicUsize,
}

/// Whether there are any.
pub fn any() -> bool {
    LOCKS.count.load(Ordering::Relaxed) > 0 || SALES.count.load(Ordering::Relaxed) > 0
}

impl Destroyed {
    const fn new() -> Self {
        Self { entries: Mutex::new(Vec::new()), count: AtomicUsize::new(0) }
    }

    /// Leaves an entry, on any thread.
    pub fn add(&self, entry: DeadlineId) {
        let mut entries = self.lock();
        entries.push(entry);
        self.count.store(entries.len(), Ordering::Relaxed);
    }

    /// Takes some of them, at most `most`.
    pub fn take(&self, most: usize) -> Vec<DeadlineId> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut entries = self.lock();
        let keep = entries.len().saturating_sub(most);
        let taken = entries.split_off(keep);
        if entries.is_empty() {
            // There may have been millions.
            *entries = Vec::new();
        }
        self.count.store(entries.len(), Ordering::Relaxed);
        taken
    }

    /// A fault elsewhere leaves the list as it was, which is whole at any time.
    fn lock(&self) -> MutexGuard<'_, Vec<DeadlineId>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_threads_leave_is_taken_piece_by_piece() {
        let destroyed = Destroyed::new();
        assert!(destroyed.take(10).is_empty());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..3).for_each(|_| destroyed.add(DeadlineId::FIRST)));
            }
        });
        assert_eq!([4, 4, 4].map(|most| destroyed.take(most).len()), [4, 2, 0]);
    }
}
