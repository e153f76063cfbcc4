//! The server's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::core::time::{Now, UnixMs};

/// Reads the wall clock, once per command or timer: leases, windows and fences of one call belong to one instant.
///
/// This is the same clock, in the same unit, that the server itself uses for `EXPIRE` and for the timers of modules.
pub fn now() -> Now {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now {
        ms: UnixMs(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)),
        us: u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX),
    }
}
