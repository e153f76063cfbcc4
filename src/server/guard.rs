//! The guard around every entry from the server.

use super::cell;
use super::panics::contain;
use super::timer;
use crate::core::time::Wakeup;

/// Runs `f`, an entry from the server. A panic in it ends here and gives `None`; the timer soon does the necessary repairs.
pub(super) fn guard<R>(doing: &str, f: impl FnOnce() -> R) -> Option<R> {
    let done = contain(doing, f);
    if done.is_none() {
        timer::arm(Wakeup::Now);
    }
    done
}

/// [`guard`] for an entry that the server makes on any thread, perhaps without its lock.
pub(super) fn guard_unlocked<R>(doing: &str, f: impl FnOnce() -> R) -> Option<R> {
    cell::without_lock(|| guard(doing, f))
}
