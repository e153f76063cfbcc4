//! What cannot happen, said aloud.
//!
//! Code that must not panic needs an answer for the impossible, too. If that answer is a silent `else { return }`, a reader cannot tell it from
//! what does happen and is ignored, and no test can see that it was needed. So it is marked: where tests, fuzzers or injected faults look on, a
//! broken invariant panics; for users, the safe answer counts.

/// Whether a broken invariant panics.
const FAILS: bool = cfg!(any(test, fuzzing, feature = "inject-faults"));

/// Fails if the condition does not hold; the text says why it always does. Gives the condition back, for those who can do without.
macro_rules! invariant {
    ($holds:expr, $why:literal) => {
        $crate::core::invariant::check($holds, $why)
    };
}
pub(crate) use invariant;

/// What [`invariant!`] calls.
#[inline]
#[track_caller]
pub(crate) fn check(holds: bool, why: &str) -> bool {
    assert!(holds || !FAILS, "this cannot be: {why}");
    holds
}

/// A value that is always there.
pub(crate) trait Known<T> {
    /// Fails if the value is missing; `why` says why it never is.
    fn known(self, why: &str) -> Option<T>;

    /// As [`Known::known`], with what does no harm in place of a missing value.
    fn or_invariant(self, why: &str, harmless: T) -> T;
}

impl<T> Known<T> for Option<T> {
    #[inline]
    #[track_caller]
    fn known(self, why: &str) -> Self {
        check(self.is_some(), why);
        self
    }

    #[inline]
    #[track_caller]
    fn or_invariant(self, why: &str, harmless: T) -> T {
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
    #[should_panic(expected = "this cannot be: two is not less than one")]
    fn what_does_not_hold_fails_where_tests_look_on() {
        invariant!(2 < 1, "two is not less than one");
    }

    #[test]
    #[should_panic(expected = "this cannot be: one is more than two")]
    fn a_missing_value_fails_where_tests_look_on() {
        let _ = 1_u8.checked_sub(2).or_invariant("one is more than two", 0);
    }
}
