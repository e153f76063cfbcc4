//! Scheduling retries, so that all of them together cost little, however many there are.

use super::time::{Millis, UnixMs};

/// The most retries at one time, and the distance to the next ones: 10,000 per second take a few percent of a core.
const AT_ONCE: u32 = 100;
const APART: Millis = Millis(10);

/// Schedules retries in order, each as soon as its delay is over and there is room at that time.
///
/// A single retry comes exactly after its delay. A hundred thousand that were refused together come back over ten seconds, instead of all
/// at the end of each delay.
#[derive(Debug)]
pub struct Retries {
    /// The time of the last retry, and the number of retries at that time.
    last: (UnixMs, u32),
}

impl Default for Retries {
    fn default() -> Self {
        Self { last: (UnixMs(0), 0) }
    }
}

impl Retries {
    /// The longest pause, about, for retries with at least this `delay`.
    #[must_use]
    pub fn longest(delay: Millis) -> Millis {
        Millis(delay.0.saturating_mul(100))
    }

    /// When to retry, at least `delay` after `now`.
    pub fn next(&mut self, now: UnixMs, delay: Millis) -> UnixMs {
        let earliest = now.plus(delay).unwrap_or(UnixMs::MAX);
        // The clock may have been set back; then earlier plans must not cause a long pause.
        let far = now.plus(Self::longest(delay)).unwrap_or(UnixMs::MAX);
        let (at, given) = self.last;
        self.last = if at < earliest || at > far {
            (earliest, 1)
        } else if given < AT_ONCE {
            (at, given.saturating_add(1))
        } else {
            (at.plus(APART).unwrap_or(UnixMs::MAX), 1)
        };
        self.last.0
    }
}

/// When to retry expirations of holds in sales that were refused.
#[derive(Debug, Default)]
pub struct RefusedExpirations {
    /// For sales whose slot is being migrated.
    moving: Retries,
    /// For sales whose stream refuses events.
    stuck: Retries,
    /// No sale is tried before this time, because the cluster is down.
    down: Option<UnixMs>,
}

impl RefusedExpirations {
    /// When to retry a sale whose slot is moving, or else whose stream refuses events, at least `delay` after `now`.
    pub fn next(&mut self, is_moving: bool, now: UnixMs, delay: Millis) -> UnixMs {
        let retries = if is_moving { &mut self.moving } else { &mut self.stuck };
        retries.next(now, delay)
    }

    /// The cluster is down; no sale is tried before `until`.
    pub fn close(&mut self, until: Option<UnixMs>) {
        self.down = until;
    }

    /// The time before which no sale is tried. If it is further away than `delay`, the clock was set back since, and it is dropped.
    pub fn closed(&mut self, now: UnixMs, delay: Millis) -> Option<UnixMs> {
        self.down.take_if(|until| until.reached(now) || until.left(now) > delay);
        self.down
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_comes_after_its_delay_and_many_come_spread_out() {
        let mut retries = Retries::default();
        assert_eq!(retries.next(UnixMs(1_000), Millis(100)), UnixMs(1_100));
        assert_eq!(retries.next(UnixMs(2_000), Millis(100)), UnixMs(2_100));
        let all: Vec<i64> = (0..2_000).map(|_| retries.next(UnixMs(5_000), Millis(100)).0).collect();
        assert_eq!((all[0], all[99], all[100], all[1_999]), (5_100, 5_100, 5_110, 5_290));
        assert_eq!(retries.next(UnixMs(5_250), Millis(100)), UnixMs(5_350));
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_keep_sales_closed() {
        let mut refused = RefusedExpirations::default();
        refused.close(Some(UnixMs(9_000_050)));
        assert_eq!(refused.closed(UnixMs(9_000_000), Millis(50)), Some(UnixMs(9_000_050)));
        assert_eq!(refused.closed(UnixMs(1_000), Millis(50)), None);
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_stop_them() {
        let mut retries = Retries::default();
        assert_eq!(retries.next(UnixMs(9_000_000), Millis(100)), UnixMs(9_000_100));
        assert_eq!(retries.next(UnixMs(1_000), Millis(100)), UnixMs(1_100));
    }
}
