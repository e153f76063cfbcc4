//! Marking states that cannot happen.
//!
//! Code that must not panic needs a result even for an impossible state. With a silent `else { return }` a reader cannot tell the
//! impossible from a case that is ignored, and no test can see that it happened. So such places are marked: in tests, fuzzing and debug
//! builds a violated invariant panics. In release builds the safe result is used, the violation is counted, and its place is
//! reported once.

use std::panic::Location;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Whether a violated invariant panics.
const FAILS: bool = cfg!(any(test, fuzzing, debug_assertions));

/// Fails if the condition is false; the text says why it always holds. Returns the condition, for callers that can continue.
macro_rules! invariant {
    ($holds:expr, $why:literal) => {
        $crate::core::invariant::check($holds, $why)
    };
}
pub(crate) use invariant;

/// The implementation of [`invariant!`].
#[inline]
#[track_caller]
pub(crate) fn check(holds: bool, why: &'static str) -> bool {
    if !holds {
        violated(why);
    }
    holds
}

#[cold]
#[track_caller]
#[expect(clippy::assertions_on_constants, reason = "it depends on the build")]
fn violated(why: &'static str) {
    assert!(!FAILS, "invariant violated: {why}");
    count(why);
}

/// Counts a violation, and keeps its place for the report if it is new. Any thread may come here, for values are freed on others, too.
#[track_caller]
pub(crate) fn count(why: &'static str) {
    VIOLATIONS.fetch_add(1, Ordering::Relaxed);
    let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Location::caller();
    if places.iter().all(|(known, _)| *known != place) {
        places.push((place, why));
        NEW.fetch_add(1, Ordering::Relaxed);
    }
}

/// The number of violations so far.
pub(crate) fn violations() -> u64 {
    VIOLATIONS.load(Ordering::Relaxed)
}

/// Passes each place that was not reported yet to `report`. Cheap if there is none.
pub(crate) fn report_new(mut report: impl FnMut(&str)) {
    if NEW.load(Ordering::Relaxed) == 0 {
        return;
    }
    let places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    for (place, why) in places.iter().rev().take(NEW.swap(0, Ordering::Relaxed)).rev() {
        report(&format!("invariant violated: {why} ({place})"));
    }
}

static VIOLATIONS: AtomicU64 = AtomicU64::new(0);
/// The places whose invariants were violated, each with the text of its invariant.
static PLACES: Mutex<Vec<(&'static Location<'static>, &'static str)>> = Mutex::new(Vec::new());
/// How many of them, the last ones, are not reported yet.
static NEW: AtomicUsize = AtomicUsize::new(0);

/// A value that is always present.
pub(crate) trait Known<T> {
    /// Fails if the value is missing; `why` says why it never is.
    fn known(self, why: &'static str) -> Option<T>;

    /// Like [`Known::known`], but returns `harmless` in place of a missing value.
    fn or_invariant(self, why: &'static str, harmless: T) -> T;
}

impl<T> Known<T> for Option<T> {
    #[inline]
    #[track_caller]
    fn known(self, why: &'static str) -> Self {
        check(self.is_some(), why);
        self
    }

    #[inline]
    #[track_caller]
    fn or_invariant(self, why: &'static str, harmless: T) -> T {
        self.known(why).unwrap_or(harmless)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_is_given_back() {
        assert!(invariant!(1 < 2, "numbers are ordered"));
        assert_eq!(Some(3).known("it is there"), Some(3));
        assert_eq!(3_u8.checked_sub(1).or_invariant("three is more than one", 0), 2);
    }

    #[test]
    fn a_place_is_reported_once_and_counted_each_time() {
        let violate = || count("a test violates it");
        let before = violations();
        let mut reports = Vec::new();
        for _ in 0..3 {
            violate();
            report_new(|line| reports.push(line.to_owned()));
        }
        assert_eq!(violations() - before, 3);
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert!(
            reports[0].starts_with("invariant violated: a test violates it (src/core/invariant.rs:"),
            "{reports:?}"
        );
    }

    #[test]
    #[should_panic(expected = "invariant violated: two is not less than one")]
    fn what_does_not_hold_fails_where_tests_look_on() {
        invariant!(2 < 1, "two is not less than one");
    }

    #[test]
    #[should_panic(expected = "invariant violated: one is more than two")]
    fn a_missing_value_fails_where_tests_look_on() {
        let _ = 1_u8.checked_sub(2).or_invariant("one is more than two", 0);
    }
}
