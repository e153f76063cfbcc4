//! Scheduling retries, so that all of them together cost little, however many there are.

use std::collections::{BTreeSet, VecDeque};
use std::mem;

use super::deadline_index::DeadlineId;
use super::pause::Pause;
use super::time::{Millis, UnixMs};

/// The most retries at one time, and the distance to the next ones: 10,000 per second take a tenth to a fifth of a core.
const AT_ONCE: u32 = 100;
const APART: Millis = Millis(10);

/// Work that was refused, each piece to be tried again as soon as its delay is over and there is room at that time.
///
/// A single retry comes exactly after its delay. A hundred thousand that were refused together come back over ten seconds, instead of all
/// at the end of each delay. When the clock is set back, all of them are due: no delay gets longer by that.
#[derive(Debug)]
pub struct Retries<T> {
    /// The pieces of work with their times, which never decrease.
    planned: VecDeque<(UnixMs, T)>,
    /// How many pieces of work have the same time as the last one.
    at_last: u32,
    /// The clock as it was at the last call.
    seen: UnixMs,
}

impl<T> Default for Retries<T> {
    fn default() -> Self {
        Self { planned: VecDeque::new(), at_last: 0, seen: UnixMs(0) }
    }
}

impl<T> Retries<T> {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.planned.is_empty()
    }

    /// The time of the next retry.
    pub fn next(&self) -> Option<UnixMs> {
        self.planned.front().map(|(at, _)| *at)
    }

    /// Plans a retry at least `delay` after `now`.
    pub fn put_off(&mut self, now: UnixMs, delay: Millis, work: T) {
        self.look(now);
        let earliest = now.plus(delay).unwrap_or(UnixMs::MAX);
        let last = self.planned.back().map(|(at, _)| *at).filter(|at| *at >= earliest);
        let (at, before) = match last {
            Some(last) if self.at_last < AT_ONCE => (last, self.at_last),
            Some(last) => (last.plus(APART).unwrap_or(UnixMs::MAX), 0),
            None => (earliest, 0),
        };
        self.at_last = before.saturating_add(1);
        self.planned.push_back((at, work));
    }

    /// Takes the next piece of work that is due.
    pub fn take_due(&mut self, now: UnixMs) -> Option<T> {
        self.look(now);
        self.planned.pop_front_if(|(at, _)| at.reached(now)).map(|(_, work)| work)
    }

    /// Notices that the clock was set back.
    fn look(&mut self, now: UnixMs) {
        if mem::replace(&mut self.seen, now) > now {
            self.planned.iter_mut().for_each(|(at, _)| *at = now.min(*at));
        }
    }
}

/// Sales whose due work was refused, by their entries in the deadline index.
#[derive(Debug, Default)]
pub struct RefusedSales {
    /// The sales whose slot is being migrated.
    moving: Retries<DeadlineId>,
    /// The sales whose stream refuses events.
    stuck: Retries<DeadlineId>,
    /// The sales of both, so that each is planned once however often it is refused.
    planned: BTreeSet<DeadlineId>,
    /// No sale is tried before its end, because the cluster is down.
    pub down: Pause,
}

impl RefusedSales {
    /// Puts a sale off whose slot is moving, or else whose stream refuses events, for at least `delay`. A sale that is put off already keeps
    /// its time.
    pub fn put_off(&mut self, is_moving: bool, now: UnixMs, delay: Millis, sale: DeadlineId) {
        if self.planned.insert(sale) {
            let retries = if is_moving { &mut self.moving } else { &mut self.stuck };
            retries.put_off(now, delay, sale);
        }
    }

    /// Takes a sale that is to be tried again.
    pub fn take_due(&mut self, now: UnixMs) -> Option<DeadlineId> {
        let sale = self.moving.take_due(now).or_else(|| self.stuck.take_due(now))?;
        self.planned.remove(&sale);
        Some(sale)
    }

    /// When a sale is to be tried again.
    pub fn next(&self) -> Option<UnixMs> {
        self.moving.next().into_iter().chain(self.stuck.next()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_comes_after_its_delay_and_many_come_spread_out() {
        let mut retries = Retries::default();
        for now in [1_000, 2_000] {
            retries.put_off(UnixMs(now), Millis(100), now);
            assert_eq!((retries.next(), retries.take_due(UnixMs(now + 99))), (Some(UnixMs(now + 100)), None));
            assert_eq!((retries.take_due(UnixMs(now + 100)), retries.next()), (Some(now), None));
        }
        (0..2_000).for_each(|n| retries.put_off(UnixMs(5_000), Millis(100), n));
        let times: Vec<i64> = retries.planned.iter().map(|(at, _)| at.0).collect();
        assert_eq!((times[0], times[99], times[100], times[1_999]), (5_100, 5_100, 5_110, 5_290));
        assert_eq!(std::iter::from_fn(|| retries.take_due(UnixMs(5_250))).count(), 1_600);
        retries.put_off(UnixMs(5_250), Millis(100), 2_000);
        assert_eq!(retries.planned.back(), Some(&(UnixMs(5_350), 2_000)));
    }

    #[test]
    fn a_sale_that_is_refused_again_and_again_is_tried_once() {
        let mut refused = RefusedSales::default();
        for now in 1_000..1_100 {
            refused.put_off(now % 2 == 0, UnixMs(now), Millis(50), DeadlineId::FIRST);
        }
        assert_eq!(refused.take_due(UnixMs(2_000)), Some(DeadlineId::FIRST));
        assert_eq!((refused.take_due(UnixMs(9_000)), refused.next()), (None, None));
        refused.put_off(false, UnixMs(9_000), Millis(50), DeadlineId::FIRST);
        assert_eq!(refused.take_due(UnixMs(9_050)), Some(DeadlineId::FIRST));
    }

    #[test]
    fn a_clock_that_is_set_back_delays_none_of_them() {
        let mut retries = Retries::default();
        retries.put_off(UnixMs(9_000_000), Millis(100), "first");
        retries.put_off(UnixMs(1_000), Millis(100), "second");
        assert_eq!((retries.take_due(UnixMs(1_000)), retries.take_due(UnixMs(1_000))), (Some("first"), None));
        assert_eq!((retries.take_due(UnixMs(1_099)), retries.take_due(UnixMs(1_100))), (None, Some("second")));
    }
}
