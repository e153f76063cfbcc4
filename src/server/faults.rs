//! Faults on purpose: only in builds with the feature `inject-faults`, which exist to be tested (`make test-panics`).

use std::sync::{Mutex, PoisonError};

/// What the next fault strikes.
static ARMED: Mutex<Option<Vec<u8>>> = Mutex::new(None);

/// Has the next entry from the server that does `doing` panic, in place of any armed before; nothing does so if it is empty.
pub fn arm(doing: &[u8]) {
    *armed() = (!doing.is_empty()).then(|| doing.to_vec());
}

/// Panics if `doing` was armed.
pub(super) fn strike(doing: &str) {
    let struck = armed().take_if(|armed| armed == doing.as_bytes()).is_some();
    assert!(!struck, "injected while {doing}");
}

fn armed() -> std::sync::MutexGuard<'static, Option<Vec<u8>>> {
    ARMED.lock().unwrap_or_else(PoisonError::into_inner)
}
