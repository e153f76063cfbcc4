//! Marking states that cannot happen.
//!
//! Code that must not panic needs a result even for an impossible state. With a silent `else { return }` a reader cannot tell the
//! impossible from a case that is ignored, and no test can see that it happened. So such places are marked: in tests, fuzzing and builds
//! with injected faults a broken invariant panics; in release builds the safe result is used.

/// Whether a broken invariant panics.
const FAILS: bool = cfg!(any(test, fuzzing, feature = "inject-faults"));

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
pub(crate) fn check(holds: bool, why: &str) -> bool {
    assert!(holds || !FAILS, "this cannot be: {why}");
    holds
}

/// A value that is always present.
pub(crate) trait Known<T> {
    /// Fails if the value is missing; `why` says why it never is.
    fn known(self, why: &str) -> Option<T>;

    /// Like [`Known::known`], but returns `harmless` in place of a missing value.
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
