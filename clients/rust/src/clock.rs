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
    static BEGUN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    BEGUN.get_or_init(std::time::Instant::now).elapsed()
}
