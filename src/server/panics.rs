//! The end of every panic.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};

use super::cell::MainCell;
use super::ctx::{self, Ctx, Level};

/// What a caller is told after a fault of the module's own.
pub const FAULT: &str = "ERR lockstock could not carry this out, see the server's log";

/// Runs `f`; a panic inside ends here, with a line in the log, and gives `None`.
///
/// Unwinding into the server would be undefined, and aborting would take every client down for one bad call.
pub(super) fn contain<R>(doing: &str, f: impl FnOnce() -> R) -> Option<R> {
    let f = || {
        #[cfg(feature = "inject-faults")]
        let _entry = super::faults::Entry::begin(doing);
        f()
    };
    panic::catch_unwind(AssertUnwindSafe(f))
        .inspect_err(|_| {
            FAULTY.store(true, Ordering::Relaxed);
            log_line(Level::Warning, &format!("lockstock: {doing} was given up after the fault above"));
        })
        .ok()
}

/// Set by a fault until somebody asks. Atomic, because values are freed on other threads, too.
static FAULTY: AtomicBool = AtomicBool::new(false);

/// Whether something was given up since this was asked last: then messages may have been lost.
pub fn take_fault() -> bool {
    FAULTY.swap(false, Ordering::Relaxed)
}

/// Lets faults report where they happened in the server's log instead of on its standard error.
pub fn log_panics() {
    panic::set_hook(Box::new(|fault| log_line(Level::Warning, &format!("lockstock: fault: {fault}"))));
}

/// Writes a line into the server's log when there is no call to write it for.
pub fn log_line(level: Level, text: &str) {
    ctx::log(std::ptr::null_mut(), level, text);
}

/// Makes good what a fault cut short. Runs as a part of the entry that it ended, where that may write.
pub type MakeGood = fn(&mut Ctx<'_>);

static MAKE_GOOD: MainCell<Option<MakeGood>> = MainCell::new(None);

/// Names who makes good what faults cut short. Called once, at load.
pub fn install(make_good: MakeGood) {
    MAKE_GOOD.with(|slot| *slot = Some(make_good));
}

/// Has that done. What is left then, because this one fails, too, is lost.
pub(super) fn make_good(ctx: &mut Ctx<'_>) {
    if let Some(Some(make_good)) = MAKE_GOOD.with(|slot| *slot) {
        contain("making a fault good", || make_good(ctx));
    }
}
