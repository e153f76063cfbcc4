//! Fences: the numbers that let a resource refuse a holder whose lease is over.

use super::limits::MAX_FENCE;

/// The number a hold was given. Larger means granted later, for every key of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64);

impl Fence {
    /// Whether no server whose clock is right can have given it by now: it is more than an hour ahead of `now_us`. Once it is seen,
    /// every other fence is larger; so whoever could bring such a one could use the numbers up.
    #[must_use]
    pub fn is_out_of_reach(self, now_us: u64) -> bool {
        self.0 > now_us.saturating_add(3_600_000_000)
    }
}

/// Issues fences that never go back.
///
/// One counter serves every key, so that nothing has to be remembered for a lock that is free. It follows the clock
/// in microseconds: after a crash that lost the newest grants, the clock has moved past every fence they were given,
/// for a server cannot grant a million locks in less than a second. (A millisecond clock fails there: a short burst
/// runs ahead of it.) A clock that was set back does no harm either: the counter then goes on from where it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FenceClock {
    last: u64,
}

impl FenceClock {
    /// The next fence at `now_us` (microseconds since the Unix epoch); `None` when the numbers are used up.
    pub fn issue(&mut self, now_us: u64) -> Option<Fence> {
        let next = self.last.checked_add(1)?.max(now_us);
        if next > MAX_FENCE {
            return None;
        }
        self.last = next;
        Some(Fence(next))
    }

    /// Learns of a fence that somebody else issued: the primary, an earlier life of this server, a restored key.
    pub fn observe(&mut self, fence: Fence) {
        self.last = self.last.max(fence.0);
    }

    /// The highest fence issued or seen; 0 when there was none.
    #[must_use]
    pub fn last(self) -> u64 {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_follow_the_clock_and_never_go_back_with_it() {
        let mut clock = FenceClock::default();
        assert_eq!(clock.issue(1_000), Some(Fence(1_000)));
        assert_eq!(clock.issue(1_000), Some(Fence(1_001)));
        assert_eq!(clock.issue(400), Some(Fence(1_002)), "the clock was set back");
        assert_eq!(clock.issue(5_000), Some(Fence(5_000)));
    }

    #[test]
    fn fences_seen_elsewhere_are_passed() {
        let mut clock = FenceClock::default();
        clock.observe(Fence(9_000));
        clock.observe(Fence(3));
        assert_eq!(clock.issue(10), Some(Fence(9_001)));
    }

    #[test]
    fn an_hour_ahead_is_within_reach() {
        assert!(!Fence(3_600_000_007).is_out_of_reach(7));
        assert!(Fence(3_600_000_008).is_out_of_reach(7));
        assert!(!Fence(MAX_FENCE).is_out_of_reach(u64::MAX));
    }

    #[test]
    fn the_last_number_is_not_reused() {
        let mut clock = FenceClock::default();
        clock.observe(Fence(MAX_FENCE - 1));
        assert_eq!(clock.issue(1), Some(Fence(MAX_FENCE)));
        assert_eq!(clock.issue(1), None);
        assert_eq!(clock.last(), MAX_FENCE);
    }
}
