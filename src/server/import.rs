//! Valkey's import mode: a copying tool fills this server and decides about every key. Then no key expires by itself, and none of our holds
//! ends either. Servers without such a mode are never in it.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::ctx::Ctx;
use super::server_facts;

/// The server's name for the mode.
pub const SETTING: &CStr = c"import-mode";

static IS_ON: AtomicBool = AtomicBool::new(false);
/// Whether the mode may have changed since the last check; initially true.
static IS_OLD: AtomicBool = AtomicBool::new(true);

/// The setting was changed.
pub fn changed() {
    IS_OLD.store(true, Ordering::Relaxed);
}

/// Whether the server is in import mode.
pub fn is_on(ctx: &mut Ctx<'_>) -> bool {
    if IS_OLD.load(Ordering::Relaxed) && IS_OLD.swap(false, Ordering::Relaxed) {
        let on = server_facts::setting(ctx, SETTING).is_some_and(|value| value == "yes");
        IS_ON.store(on, Ordering::Relaxed);
    }
    IS_ON.load(Ordering::Relaxed)
}
