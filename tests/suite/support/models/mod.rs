//! The contract once more, as plainly as it can be said, for comparison with a real server reply by reply.

pub mod lock;
pub mod sale;

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use harness::unix_ms;

/// How many random steps a run has: some for every run of the tests, as many as `LOCKSTOCK_STEPS` says for `make fuzz`.
pub fn steps(usual: usize) -> usize {
    std::env::var("LOCKSTOCK_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(usual)
}

/// Does `f` and says between which times of the clock it was done. The servers of the tests have the same clock.
pub fn timed<R>(f: impl FnOnce() -> R) -> (R, RangeInclusive<i64>) {
    let before = unix_ms();
    let result = f();
    (result, before..=unix_ms())
}

/// Waits until it is later than `time`.
pub fn pass(time: i64) {
    let begun = Instant::now();
    while unix_ms() <= time {
        assert!(begun.elapsed() < Duration::from_secs(5), "the clock stands still");
        std::thread::yield_now();
    }
}
