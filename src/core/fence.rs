//! Fences: numbers with which a resource can refuse a holder whose lease has expired.

use super::limits::MAX_FENCE;

/// The number of a grant. A larger fence was granted later; this holds across all keys of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64);

impl Fence {
    /// Whether the fence is more than an hour ahead of `now_us`, so that no server with a correct clock can have issued it. Once it is
    /// seen, every later fence is larger; so a client that could bring in such a fence could use up the numbers.
    pub fn is_out_of_reach(self, now_us: u64) -> bool {
        self.0 > now_us.saturating_add(3_600_000_000)
    }
}

/// Issues fences that never decrease.
///
/// One counter serves all keys, so nothing has to be remembered for a free lock. It follows the clock in microseconds. After a crash that
/// lost the newest grants, the clock has passed all their fences, because a server cannot grant a million locks in less than a second. (A
/// millisecond clock would not do: a short burst of grants runs ahead of it.) Setting the clock back does no harm: the counter continues
/// from its last value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FenceClock {
    last: u64,
}

impl FenceClock {
    /// The next fence at `now_us` (microseconds since the Unix epoch); `None` if the numbers are used up.
    pub fn issue(&mut self, now_us: u64) -> Option<Fence> {
        let next = self.last.checked_add(1)?.max(now_us);
        if next > MAX_FENCE {
            return None;
        }
        self.last = next;
        Some(Fence(next))
    }

    /// Observes a fence that was issued elsewhere: by the primary, before a restart, or in a restored key.
    pub fn observe(&mut self, fence: Fence) {
        self.last = self.last.max(fence.0);
    }

    /// The highest fence issued or seen; 0 if there was none.
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
