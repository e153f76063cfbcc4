//! Instants and durations of the contract: whole milliseconds, absolute where they are stored.

/// A point in time: milliseconds since the Unix epoch, by the server's clock.
///
/// Stored, replicated and persisted as it is, so that a replica or a restarted server means the same instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMs(pub i64);

/// How long something lasts: milliseconds, never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub i64);

/// One reading of the server's clock. It is taken once per command, so that everything in a command happens at the same
/// instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The instant that leases and waits are measured by.
    pub ms: UnixMs,
    /// Microseconds since the Unix epoch: what fences follow.
    pub us: u64,
}

impl Now {
    /// The instant `us` microseconds after the Unix epoch.
    #[must_use]
    pub fn from_micros(us: u64) -> Self {
        Self { ms: UnixMs(i64::try_from(us / 1_000).unwrap_or(i64::MAX)), us }
    }
}

impl UnixMs {
    /// The last instant that a 64-bit millisecond time can express.
    pub const MAX: Self = Self(i64::MAX);

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
