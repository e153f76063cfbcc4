//! The server's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::core::time::{Now, UnixMs};

/// Reads the wall clock, once per command or timer, so that leases, windows and fences of one call use the same time.
///
/// The server itself uses the same clock in the same unit for `EXPIRE` and for module timers.
pub fn now() -> Now {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now {
        ms: UnixMs(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)),
        us: u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX),
    }
}
