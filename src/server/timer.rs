//! The one timer: whatever is not a command happens in here.
//!
//! Leases end, connections close, keys vanish: none of it may be acted upon where the server tells of it. Replicating from
//! an event handler can put our write before its cause, or let a replica kill clients of its own; and a write while writes are paused
//! aborts the server. So handlers only post notifications, and one timer does the work, as one unit, when it may.

use std::ffi::c_void;
use std::{mem, ptr};

use redis_module::raw;

use super::api::{self, RawCtx};
use super::cell::MainCell;
use super::clock;
use super::ctx::Ctx;
use super::faults;
use super::import;
use super::panics;
use crate::core::time::UnixMs;

/// How long to wait before asking again while writes are paused or data is loading. There is no event for the end of a pause.
const PAUSED_MS: i64 = 5;

/// How long to wait after a fault that has come again: the log shall not be flooded.
const FAULT_MS: i64 = 1_000;

/// The longest the timer sleeps. The server's clock may be set forward, so a far deadline is looked at now and then.
const LONGEST_MS: i64 = 60_000;

/// When the work that is left wants to be looked at again; the sooner the smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Next {
    /// In the next turn of the event loop: there is more to do.
    Now,
    /// When this instant comes.
    At(UnixMs),
    /// Not before somebody arms the timer.
    Never,
}

/// What the work may do at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// Decide and write.
    Primary,
    /// Only take note: this server is a replica, or being filled by a tool, or writes are paused.
    Observer,
}

/// Does the work that is due.
pub type Work = fn(&mut Ctx<'_>, Authority) -> Next;

struct Timer {
    /// A context for calls from events that bring none; made once, at load.
    detached: *mut RawCtx,
    /// The timer that is armed, and when it fires.
    armed: Option<(raw::RedisModuleTimerID, UnixMs)>,
    work: Option<Work>,
    /// Whether a fault cut the work short when it was done last.
    failed: bool,
}

// SAFETY: the pointer is only used on the main thread: `MainCell` sees to it.
unsafe impl Send for Timer {}

static TIMER: MainCell<Timer> =
    MainCell::new(Timer { detached: ptr::null_mut(), armed: None, work: None, failed: false });

/// Prepares the timer. Called once, at load.
pub fn install(ctx: &Ctx<'_>, work: Work) {
    // SAFETY: the context is valid; the server keeps the new one until the module is unloaded, which a module with data types
    // never is.
    let detached = unsafe { api::get_detached_thread_safe_context(ctx.raw()) };
    TIMER.with(|timer| {
        timer.detached = detached;
        timer.work = Some(work);
    });
}

/// Lends the module's own context to whoever is called without one.
pub fn with_detached(f: impl FnOnce(&Ctx<'_>)) {
    let detached = TIMER.with(|timer| timer.detached).unwrap_or(ptr::null_mut());
    if !detached.is_null() {
        // SAFETY: the context lives as long as the module, and this is the main thread, on which alone `TIMER` answers.
        f(&unsafe { Ctx::new(detached) });
    }
}

/// Has the work done when `next` says, or before. Cheap when the timer is early enough already.
pub fn arm(next: Next) {
    faults::point();
    let at = match next {
        Next::Now => UnixMs(0),
        Next::At(at) => at,
        Next::Never => return,
    };
    TIMER.with(|timer| {
        if timer.armed.is_some_and(|(_, armed)| armed <= at) {
            return;
        }
        if let Some((id, _)) = timer.armed.take() {
            // SAFETY: the timer is pending: `armed` is cleared before it runs. It carries no data to give back.
            unsafe { api::stop_timer(timer.detached, id, ptr::null_mut()) };
        }
        let wait = at.left(clock::now().ms).0.min(LONGEST_MS);
        // SAFETY: the context is the module's own; the callback takes no data.
        let id = unsafe { api::create_timer(timer.detached, wait, Some(fire), ptr::null_mut()) };
        timer.armed = Some((id, at));
    });
}

unsafe extern "C" fn fire(raw: *mut RawCtx, _data: *mut c_void) {
    // First of all: stopping a timer that is running frees it twice.
    let work = TIMER.with(|timer| {
        timer.armed = None;
        timer.work
    });
    // SAFETY: the server calls timers on its main thread with a context that lives until this function returns.
    let mut ctx = unsafe { Ctx::new(raw) };
    if let Some(Some(work)) = work {
        let next = panics::contain("deferred work", || run(&mut ctx, work));
        let again = TIMER.with(|timer| mem::replace(&mut timer.failed, next.is_none())).unwrap_or_default();
        // A fault must not be the last thing that ever happens here.
        arm(next.unwrap_or_else(|| {
            panics::make_good(&mut ctx);
            if again { Next::At(UnixMs(clock::now().ms.0.saturating_add(FAULT_MS))) } else { Next::Now }
        }));
    }
}

/// Whether this server may write at this moment: it is a primary with its data, and writes are not paused.
pub fn may_write(ctx: &Ctx<'_>) -> bool {
    let flags = ctx.flags();
    // SAFETY: the function takes nothing and only reads the server's state.
    let quiet = flags.is_loading() || unsafe { api::avoid_replica_traffic() } != 0;
    flags.is_primary() && !quiet
}

/// Asks whether this server may decide and write at this moment, and then works.
fn run(ctx: &mut Ctx<'_>, work: Work) -> Next {
    // While a copying tool fills the server, that decides. The server tells when it ends.
    let may_decide = !import::is_on(ctx);
    if may_decide && may_write(ctx) {
        return work(ctx, Authority::Primary);
    }
    let next = work(ctx, Authority::Observer);
    // A replica need not ask again: the primary's effects will come, and a change of role arms the timer.
    if may_decide && ctx.flags().is_primary() {
        return Next::At(UnixMs(clock::now().ms.0.saturating_add(PAUSED_MS)));
    }
    next
}
