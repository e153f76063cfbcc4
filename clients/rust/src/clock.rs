//! A clock that goes on while the machine sleeps, as the server's does.

use std::time::Duration;

/// The time since some beginning.
#[cfg(target_os = "linux")]
pub fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

/// The time since some beginning.
#[cfg(not(target_os = "linux"))]
pub fn now() -> Duration {
    use std::sync::{LazyLock, Mutex, PoisonError};
    use std::time::{Instant, SystemTime};

    static CLOCK: LazyLock<(Instant, Mutex<Leaps>)> = LazyLock::new(|| (Instant::now(), Mutex::default()));
    let (begun, leaps) = &*CLOCK;
    let wall = || SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    leaps.lock().unwrap_or_else(PoisonError::into_inner).read(|| begun.elapsed(), wall)
}

/// A clock where the timer may stand still while the machine sleeps: a leap of the wall clock ahead is taken for a sleep. It leaps also when it
/// is set; a hold that is then thought to be over too early does no harm.
#[cfg(any(test, not(target_os = "linux")))]
#[derive(Default)]
struct Leaps {
    /// How far the wall clock is ahead of the timer.
    ahead: Option<Duration>,
    slept: Duration,
}

#[cfg(any(test, not(target_os = "linux")))]
impl Leaps {
    /// The clocks may differ by so much before it counts.
    const LEAP: Duration = Duration::from_millis(50);

    fn read(&mut self, timer: impl Fn() -> Duration, wall: impl FnOnce() -> Duration) -> Duration {
        // What passes between two looks is no leap.
        let (before, wall, after) = (timer(), wall(), timer());
        let (least, most) = (wall.saturating_sub(after), wall.saturating_sub(before));
        let ahead = *self.ahead.get_or_insert(least);
        let leapt = least.saturating_sub(ahead);
        if leapt > Self::LEAP {
            self.slept += leapt;
            self.ahead = Some(least);
        } else if most + Self::LEAP < ahead {
            self.ahead = Some(most);
        }
        after + self.slept
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::Leaps;

    #[test]
    fn a_leap_of_the_wall_clock_ahead_is_a_sleep() {
        let mut leaps = Leaps::default();
        let mut at = |timer, wall| leaps.read(|| Duration::from_secs(timer), || Duration::from_secs(wall)).as_secs();
        assert_eq!([at(0, 1000), at(5, 1005), at(6, 1066), at(7, 1067)], [0, 5, 66, 67]);
        // It was set back, and gets on.
        assert_eq!([at(8, 500), at(9, 501), at(10, 532)], [68, 69, 100]);
    }

    #[test]
    fn a_pause_between_two_looks_is_none() {
        let mut leaps = Leaps::default();
        let now = Cell::new(0);
        let look = || Duration::from_millis(now.replace(now.get() + 500));
        let wall = || look() + Duration::from_secs(1000);
        let times: Vec<_> = (0..3).map(|_| leaps.read(look, wall).as_millis()).collect();
        assert_eq!(times, [1000, 2500, 4000]);
    }
}
