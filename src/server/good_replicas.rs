//! `min-replicas-to-write`: a primary that has lost its replicas takes no writes.
//!
//! The server refuses commands then, but it does not stop the timer of a module. So the module asks before it grants, sells or ends anything
//! by itself.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::ctx::Ctx;
use super::server_facts;

/// The server's two names for the setting.
pub const SETTINGS: [&CStr; 2] = [c"min-replicas-to-write", c"min-slaves-to-write"];

/// How many good replicas a write needs.
static NEEDED: AtomicU64 = AtomicU64::new(0);
/// Whether the setting may have changed since the last check; initially true.
static IS_OLD: AtomicBool = AtomicBool::new(true);

/// The setting was changed.
pub fn changed() {
    IS_OLD.store(true, Ordering::Relaxed);
}

/// Whether this primary has fewer good replicas than a write needs.
pub fn are_missing(ctx: &mut Ctx<'_>) -> bool {
    if IS_OLD.load(Ordering::Relaxed) && IS_OLD.swap(false, Ordering::Relaxed) {
        let [setting, _] = SETTINGS;
        let needed = server_facts::setting(ctx, setting).and_then(|value| value.parse().ok());
        NEEDED.store(needed.unwrap_or_default(), Ordering::Relaxed);
    }
    let needed = NEEDED.load(Ordering::Relaxed);
    if needed == 0 {
        return false;
    }
    // Without the field the server does not count its replicas, because `min-replicas-max-lag` is 0.
    let good = server_facts::of_info(c"replication", c"min_slaves_good_slaves");
    good.and_then(|good| good.parse::<u64>().ok()).is_some_and(|good| good < needed)
}
