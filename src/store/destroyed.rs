//! Values that were destroyed while they still had a name, as far as they knew.
//!
//! The server tells a value that it loses its name, but not always: not when it drops a slot that has moved to another node, nor when it
//! replaces a database. What it always does is free the value, on whichever thread. So a value that is freed with its entry
//! in the agenda leaves that here, and the timer closes it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::core::agenda::HomeId;

/// Of locks.
pub static LOCKS: Destroyed = Destroyed::new();
/// Of sales.
pub static SALES: Destroyed = Destroyed::new();

/// Entries whose values are no more.
pub struct Destroyed {
    homes: Mutex<Vec<HomeId>>,
    /// How many there are, for whoever asks often.
    count: AtomicUsize,
}

/// Whether there are any.
pub fn any() -> bool {
    LOCKS.count.load(Ordering::Relaxed) > 0 || SALES.count.load(Ordering::Relaxed) > 0
}

impl Destroyed {
    const fn new() -> Self {
        Self { homes: Mutex::new(Vec::new()), count: AtomicUsize::new(0) }
    }

    /// Leaves an entry, on any thread.
    pub fn add(&self, home: HomeId) {
        let mut homes = self.lock();
        homes.push(home);
        self.count.store(homes.len(), Ordering::Relaxed);
    }

    /// Takes some of them, at most `most`.
    pub fn take(&self, most: usize) -> Vec<HomeId> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut homes = self.lock();
        let keep = homes.len().saturating_sub(most);
        let taken = homes.split_off(keep);
        if homes.is_empty() {
            // There may have been millions.
            *homes = Vec::new();
        }
        self.count.store(homes.len(), Ordering::Relaxed);
        taken
    }

    /// A fault elsewhere leaves the list as it was, which is whole at any time.
    fn lock(&self) -> MutexGuard<'_, Vec<HomeId>> {
        self.homes.lock().unwrap_or_else(PoisonError::into_inner)
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
                scope.spawn(|| (0..3).for_each(|_| destroyed.add(HomeId::FIRST)));
            }
        });
        assert_eq!([4, 4, 4].map(|most| destroyed.take(most).len()), [4, 2, 0]);
    }
}
