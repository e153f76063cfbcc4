//! Times and durations in whole milliseconds; stored times are absolute.

/// A point in time: milliseconds since the Unix epoch, by the server's clock.
///
/// It is stored, replicated and saved unchanged, so a replica or a restarted server means the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMs(pub i64);

/// A duration in milliseconds, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub i64);

/// One reading of the server's clock. It is taken once per command, so everything in a command happens at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The time for leases and waits.
    pub ms: UnixMs,
    /// Microseconds since the Unix epoch, for fences.
    pub us: u64,
}

/// When work that no command asks for is to be done; a smaller value is sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[must_use]
pub enum Wakeup {
    /// In the next turn of the event loop: there is more to do.
    Now,
    /// At this time.
    At(UnixMs),
    /// Not before something else has happened.
    Never,
}

impl Wakeup {
    /// This wakeup as it is at `now`: `Now` if its time has come.
    pub fn seen_at(self, now: UnixMs) -> Self {
        if matches!(self, Self::At(at) if at.reached(now)) { Self::Now } else { self }
    }
}

impl From<Option<UnixMs>> for Wakeup {
    fn from(time: Option<UnixMs>) -> Self {
        time.map_or(Self::Never, Self::At)
    }
}

impl Now {
    /// The time `us` microseconds after the Unix epoch.
    pub fn from_micros(us: u64) -> Self {
        Self { ms: UnixMs(i64::try_from(us / 1_000).unwrap_or(i64::MAX)), us }
    }
}

impl UnixMs {
    /// The last time that fits in 64-bit milliseconds.
    pub const MAX: Self = Self(i64::MAX);

    /// The time `span` after this one, or `None` if it does not fit in 64-bit milliseconds.
    pub fn plus(self, span: Millis) -> Option<Self> {
        self.0.checked_add(span.0).map(Self)
    }

    /// The duration from `now` until this time; zero once it has come.
    pub fn left(self, now: Self) -> Millis {
        Millis(self.0.saturating_sub(now.0).max(0))
    }

    /// Whether this time has come. A lease has expired at its deadline itself, not only after it.
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
