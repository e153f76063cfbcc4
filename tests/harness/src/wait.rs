//! Waiting for a condition instead of for a time.

use std::thread;
use std::time::{Duration, Instant};

/// How long anything in a test may take before it counts as never: long, since it is only used up by failures.
pub const PATIENCE: Duration = Duration::from_mins(1);

const POLL: Duration = Duration::from_millis(1);

/// Returns as soon as `condition` holds; fails the test, naming `what` was waited for, if it never does.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    eventually_some(what, || condition().then_some(()));
}

/// The first thing that `attempt` gives; fails the test, naming `what` was waited for, if it gives none.
#[track_caller]
pub fn eventually_some<T>(what: &str, attempt: impl FnMut() -> Option<T>) -> T {
    let Some(found) = patiently(attempt) else { panic!("waited {PATIENCE:?} in vain: {what}") };
    found
}

/// The first thing that `attempt` gives; nothing if it gives none, for a caller with more to say of that.
pub fn patiently<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = attempt();
        if found.is_some() || Instant::now() >= deadline {
            return found;
        }
        pause();
    }
}

/// Leaves the core to the server for a moment between two looks.
pub(super) fn pause() {
    thread::sleep(POLL);
}
