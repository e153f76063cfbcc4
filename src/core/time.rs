//! Instants and durations of the contract: whole milliseconds, absolute where they are stored.

/// A point in time: milliseconds since the Unix epoch, by the server's clock.
///
/// Stored, replicated and persisted as it is, so that a replica or a restarted server means the same instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMs(pub i64);

/// How long something lasts: milliseconds, never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub i64);

impl UnixMs {
    /// The instant `span` after this one, or `None` when a 64-bit millisecond time cannot express it.
    #[must_use]
    pub fn plus(self, span: Millis) -> Option<Self> {
        self.0.checked_add(span.0).map(Self)
    }

    /// How long it is from `now` until this instant; zero once it has come.
    #[must_use]
    pub fn left(self, now: Self) -> Millis {
        Millis(self.0.saturating_sub(now.0).max(0))
    }

    /// Whether this instant has come. A deadline belongs to what follows it: at the deadline itself the lease is over.
    #[must_use]
    pub fn reached(self, now: Self) -> bool {
        self <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_over_at_its_own_millisecond() {
        let deadline = UnixMs(1_000);
        assert!(!deadline.reached(UnixMs(999)));
        assert!(deadline.reached(UnixMs(1_000)));
        assert_eq!(deadline.left(UnixMs(400)), Millis(600));
        assert_eq!(deadline.left(UnixMs(1_400)), Millis(0));
    }

    #[test]
    fn a_lease_past_the_end_of_time_is_refused_not_wrapped() {
        assert_eq!(UnixMs(1).plus(Millis(i64::MAX)), None);
        assert_eq!(UnixMs(0).plus(Millis(i64::MAX)), Some(UnixMs(i64::MAX)));
    }
}
