//! Values that were destroyed without an `unlink` callback.
//!
//! The server usually calls `unlink` when a value loses its key, but not when it drops a migrated slot, and not when it replaces a
//! database. It always frees the value, though on any thread. So a value that is freed while it has an entry in the deadline index records
//! that entry here, and the timer closes it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::core::deadline_index::DeadlineId;

/// Of locks.
pub static LOCKS: Destroyed = Destroyed::new();
/// Of sales.
pub static SALES: Destroyed = Destroyed::new();

/// Deadline index entries whose values are destroyed.
pub struct Destroyed {
    entries: Mutex<Vec<DeadlineId>>,
    /// The number of entries, for frequent checks without the mutex.
    count: AtomicUsize,
}

/// Whether there are any entries.
pub fn any() -> bool {
    LOCKS.count.load(Ordering::Relaxed) > 0 || SALES.count.load(Ordering::Relaxed) > 0
}

impl Destroyed {
    const fn new() -> Self {
        Self { entries: Mutex::new(Vec::new()), count: AtomicUsize::new(0) }
    }

    /// Adds an entry, on any thread.
    pub fn add(&self, entry: DeadlineId) {
        let mut entries = self.lock();
        entries.push(entry);
        self.count.store(entries.len(), Ordering::Relaxed);
    }

    /// Takes at most `most` of the entries.
    pub fn take(&self, most: usize) -> Vec<DeadlineId> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut entries = self.lock();
        let keep = entries.len().saturating_sub(most);
        let taken = entries.split_off(keep);
        if entries.is_empty() {
            // Free the memory: there may have been millions.
            *entries = Vec::new();
        }
        self.count.store(entries.len(), Ordering::Relaxed);
        taken
    }

    /// A panic in another thread cannot leave the list inconsistent, so a poisoned mutex is fine.
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
