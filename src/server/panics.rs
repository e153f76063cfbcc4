//! Catching panics.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};

use super::cell::ServerCell;
use super::ctx::{self, Ctx, Level};
use crate::core::invariant;

/// The error reply after a module panic.
pub const FAULT: &str = "ERR lockstock could not carry this out, see the server's log";

/// Runs `f`, an entry from the server; catches a panic in it, logs it, and returns `None`. Logs invariants that were violated, too.
///
/// Unwinding into the server would be undefined behaviour, and aborting would disconnect every client because of one bad call.
pub(super) fn contain<R>(doing: &str, f: impl FnOnce() -> R) -> Option<R> {
    let f = || {
        #[cfg(debug_assertions)]
        let _entry = super::faults::Entry::begin(doing);
        f()
    };
    let done = panic::catch_unwind(AssertUnwindSafe(f));
    invariant::report_new(|line| log_line(Level::Warning, &format!("lockstock: {line}, noticed in {doing}")));
    done.inspect_err(|_| {
        FAULTY.store(true, Ordering::Relaxed);
        log_line(Level::Warning, &format!("lockstock: {doing} was given up after the fault above"));
    })
    .ok()
}

/// Set by a panic until `take_fault`. Atomic, because values are freed on other threads, too.
static FAULTY: AtomicBool = AtomicBool::new(false);

/// Whether there was a panic since the last call: then notifications may have been lost.
pub fn take_fault() -> bool {
    FAULTY.swap(false, Ordering::Relaxed)
}

/// Logs the position of a panic in the server's log instead of on its standard error.
pub fn log_panics() {
    panic::set_hook(Box::new(|fault| log_line(Level::Warning, &format!("lockstock: fault: {fault}"))));
}

/// Writes a line into the server's log outside of a call.
pub fn log_line(level: Level, text: &str) {
    ctx::log(std::ptr::null_mut(), level, text);
}

/// Repairs the keys on which a panic interrupted the work. Runs as a part of the interrupted entry, if that may write.
pub type MakeGood = fn(&mut Ctx<'_>);

static MAKE_GOOD: ServerCell<Option<MakeGood>> = ServerCell::new(None);

/// Sets the repair function. Called once, at load.
pub fn install(make_good: MakeGood) {
    MAKE_GOOD.with(|slot| *slot = Some(make_good));
}

/// Runs the repair function. Damage that it cannot repair, because it panics too, is lost.
pub(super) fn make_good(ctx: &mut Ctx<'_>) {
    if let Some(Some(make_good)) = MAKE_GOOD.with(|slot| *slot) {
        contain("making a fault good", || make_good(ctx));
    }
}
