//! The way in for the server, and the end of every panic.

use std::ffi::c_int;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};

use super::api::{self, RawCtx, RawString};
use super::args::Args;
use super::blocked_clients;
use super::cell::MainCell;
use super::ctx::{self, Ctx, Level};
use super::defer::{self, Next};

/// One call of a command by a client, a script, the primary or the AOF.
pub struct Call<'a> {
    /// What the server handed to the call.
    pub ctx: Ctx<'a>,
    /// The arguments after the command's name.
    pub args: Args<'a>,
}

/// What a command does with its call. It replies exactly once, or returns the error that is replied for it.
pub trait Run {
    /// What the caller is told when it does not come to a reply.
    type Error: fmt::Display;

    /// Runs the command.
    fn run(call: Call<'_>) -> Result<(), Self::Error>;
}

/// What a caller is told after a fault of the module's own.
pub const FAULT: &str = "ERR lockstock could not carry this out, see the server's log";

/// The function that the server calls for the command `C`.
pub(super) unsafe extern "C" fn command<C: Run>(raw: *mut RawCtx, words: *mut *mut RawString, count: c_int) -> c_int {
    // SAFETY: the server calls commands on its main thread; context and arguments live until this function returns.
    let (mut ctx, args) = unsafe { (Ctx::new(raw), Args::new(words, count)) };
    let before = blocked_clients::taken_over();
    match guard("a command", || C::run(Call { ctx: ctx.reborrow(), args })) {
        Some(Ok(())) => {}
        Some(Err(error)) => ctx.reply_error(&error.to_string()),
        None => {
            make_good(&mut ctx);
            // A client that was blocked before the fault waits for another answer.
            if blocked_clients::taken_over() == before {
                ctx.reply_error(FAULT);
            }
        }
    }
    api::OK
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
        guard("making a fault good", || make_good(ctx));
    }
}

/// Runs `f`; a panic inside ends here, with a line in the log, and gives `None`.
///
/// Unwinding into the server would be undefined, and aborting would take every client down for one bad call.
pub(super) fn guard<R>(doing: &str, f: impl FnOnce() -> R) -> Option<R> {
    let done = contain(doing, f);
    if done.is_none() {
        defer::arm(Next::Now);
    }
    done
}

/// As [`guard`], but nothing is done about it soon.
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
