//! Values that were destroyed without an `unlink` callback.
//!
//! The server usually calls `unlink` when a value loses its key, but not when it drops a migrated slot, and not when it replaces a
//! database. It always frees the value, though on any thread. So a value that is freed while it has an entry in the deadline index records
//! that entry here, and the timer closes it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::core::deadline_index::DeadlineId;

/// A deadline index entry whose value is destroyed.
pub enum Destroyed {
    Lock(DeadlineId),
    Sale(DeadlineId),
}

static ENTRIES: Mutex<Vec<Destroyed>> = Mutex::new(Vec::new());
/// Whether there are any, for frequent checks without the mutex.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether there are any entries.
pub fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Adds an entry, on any thread.
pub fn add(entry: Destroyed) {
    let mut entries = lock();
    entries.push(entry);
    ANY.store(true, Ordering::Relaxed);
}

/// Takes at most `most` of the entries.
pub fn take(most: usize) -> Vec<Destroyed> {
    if !any() {
        return Vec::new();
    }
    let mut entries = lock();
    let keep = entries.len().saturating_sub(most);
    let taken = entries.split_off(keep);
    if entries.is_empty() {
        // Free the memory: there may have been millions.
        *entries = Vec::new();
        ANY.store(false, Ordering::Relaxed);
    }
    taken
}

/// A panic in another thread cannot leave the list inconsistent, so a poisoned mutex is fine.
fn lock() -> MutexGuard<'static, Vec<Destroyed>> {
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_threads_leave_is_taken_piece_by_piece() {
        assert!(take(10).is_empty());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..3).for_each(|_| add(Destroyed::Lock(DeadlineId::FIRST))));
            }
        });
        assert_eq!([4, 4, 4].map(|most| (any(), take(most).len())), [(true, 4), (true, 2), (false, 0)]);
    }
}
