//! The server's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::core::time::Now;

/// Reads the wall clock, once per command or timer, so that leases, windows and fences of one call use the same time.
///
/// The server itself uses the same clock in the same unit for `EXPIRE` and for module timers.
pub fn now() -> Now {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let us = since_epoch.as_secs().saturating_mul(1_000_000).saturating_add(since_epoch.subsec_micros().into());
    Now::from_micros(us)
}
