//! The one timer: all work outside of commands.
//!
//! Leases expire, connections close, keys vanish, but nothing may be written in the server's event handlers. Replicating there can put our
//! write before its cause, or make a replica kill its own clients; and a write while writes are paused aborts the server. So handlers only
//! post notifications, and one timer does the work, as one unit, when writing is allowed.

use std::ffi::c_void;
use std::{mem, ptr};

use redis_module::raw;

use super::api::{self, RawCtx};
use super::cell::{self, ServerCell};
use super::clock;
use super::ctx::Ctx;
use super::faults;
use super::panics;
use crate::core::time::{UnixMs, Wakeup};

/// How long to wait after a repeated panic, so that it does not flood the log.
const FAULT_MS: i64 = 1_000;

/// The longest sleep of the timer. The server's clock may be set forward, so a far deadline is checked now and then.
const LONGEST_MS: i64 = 60_000;

/// Does the due work that this server may do now.
pub type Work = fn(&mut Ctx<'_>) -> Wakeup;

struct Timer {
    /// A context for events that bring none; created once, at load.
    detached: *mut RawCtx,
    /// The armed timer, and when it fires.
    armed: Option<(raw::RedisModuleTimerID, UnixMs)>,
    /// Whether the main thread was asked to arm the timer and has not yet.
    is_asked: bool,
    work: Option<Work>,
    /// Whether the last run ended in a panic.
    failed: bool,
    /// The clock as it was when it was last checked.
    checked: UnixMs,
}

impl Timer {
    /// Stops the armed timer, and says when it would have fired.
    fn disarm(&mut self) -> Option<UnixMs> {
        let (id, at) = self.armed.take()?;
        // SAFETY: the timer is pending, because `armed` is cleared before it runs. It has no data to return.
        unsafe { api::stop_timer(self.detached, id, ptr::null_mut()) };
        Some(at)
    }

    /// Has the main thread arm the timer. It reads the server's timers without the lock when it goes to sleep, so no other thread may change
    /// them. It may be asleep, so it must be woken.
    fn ask_main_thread(&mut self) {
        if !self.is_asked {
            // SAFETY: the function may be called on any thread; the callback takes no data.
            self.is_asked = unsafe { api::event_loop_add_one_shot(Some(arm_for_others), ptr::null_mut()) } == api::OK;
        }
    }
}

// SAFETY: the pointer is only used with the server's lock, as `ServerCell` guarantees; the context belongs to no thread.
unsafe impl Send for Timer {}

static TIMER: ServerCell<Timer> = ServerCell::new(Timer {
    detached: ptr::null_mut(),
    armed: None,
    is_asked: false,
    work: None,
    failed: false,
    checked: UnixMs(0),
});

/// Prepares the timer. Called once, at load.
pub fn install(ctx: &Ctx<'_>, work: Work) {
    // SAFETY: the context is valid; the server keeps the new one until the module is unloaded, and a module with data types is never
    // unloaded.
    let detached = unsafe { api::get_detached_thread_safe_context(ctx.raw()) };
    TIMER.with(|timer| {
        timer.detached = detached;
        timer.work = Some(work);
    });
}

/// Lends the module's own context, which has no client; `None` before the module is loaded.
pub fn with_detached<R>(f: impl FnOnce(&mut Ctx<'_>) -> R) -> Option<R> {
    let detached = TIMER.with(|timer| timer.detached).filter(|detached| !detached.is_null())?;
    // SAFETY: the context lives as long as the module, and this thread has the server's lock, or `TIMER` would have refused it.
    Some(f(&mut unsafe { Ctx::new(detached) }))
}

/// Makes the timer fire at `next` or earlier. Cheap if it already fires early enough.
pub fn arm(next: Wakeup) {
    faults::point();
    let at = match next {
        Wakeup::Now => UnixMs(0),
        Wakeup::At(at) => at,
        Wakeup::Never => return,
    };
    TIMER.with(|timer| {
        if timer.armed.is_some_and(|(_, armed)| armed <= at) {
            return;
        }
        if !cell::is_main_thread() {
            timer.ask_main_thread();
            return;
        }
        timer.disarm();
        let wait = at.left(clock::now().ms).0.min(LONGEST_MS);
        // SAFETY: the context is the module's own; the callback takes no data.
        let id = unsafe { api::create_timer(timer.detached, wait, Some(fire), ptr::null_mut()) };
        timer.armed = Some((id, at));
    });
}

/// Arms the timer anew if the clock was set. Called some times a second. The server measures the time of a timer in part by the wall clock and
/// in part by another clock. So if the wall clock is set back by a minute, the timer would fire a minute late.
pub fn check_clock() {
    let now = clock::now().ms;
    let next = TIMER.with(|timer| {
        let was_set_back = mem::replace(&mut timer.checked, now) > now;
        let (_, at) = timer.armed?;
        // Work that was put off until a time by the old clock is due after a step back.
        let next = if was_set_back { Wakeup::Now } else { Wakeup::At(at) };
        (was_set_back || at.reached(now)).then(|| timer.disarm()).map(|_| next)
    });
    if let Some(next) = next.flatten() {
        arm(next);
    }
}

/// Runs on the main thread after [`Timer::ask_main_thread`]. The work itself finds when it is needed next.
unsafe extern "C" fn arm_for_others(_data: *mut c_void) {
    TIMER.with(|timer| timer.is_asked = false);
    if panics::contain("arming the timer", || arm(Wakeup::Now)).is_none() {
        arm(Wakeup::Now);
    }
}

unsafe extern "C" fn fire(raw: *mut RawCtx, _data: *mut c_void) {
    // This must come first: stopping a running timer frees it twice.
    let work = TIMER.with(|timer| {
        timer.armed = None;
        timer.work
    });
    // SAFETY: the server calls timers on its main thread with a context that lives until this function returns.
    let mut ctx = unsafe { Ctx::new(raw) };
    if let Some(Some(work)) = work {
        let next = panics::contain("deferred work", || work(&mut ctx));
        let again = TIMER.with(|timer| mem::replace(&mut timer.failed, next.is_none())).unwrap_or_default();
        // After a panic the timer must be armed again, or it would never fire any more.
        arm(next.unwrap_or_else(|| {
            panics::make_good(&mut ctx);
            if again { Wakeup::At(UnixMs(clock::now().ms.0.saturating_add(FAULT_MS))) } else { Wakeup::Now }
        }));
    }
}
