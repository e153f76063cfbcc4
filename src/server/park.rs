//! Parking clients, and waking exactly the right one.
//!
//! A waiting client is blocked on its keys, so that the server itself redirects it when the slot moves away, and answers it when its
//! time is over or an administrator unblocks it. But it is never served by a signal on the key: that would ask every
//! client parked there, which costs the number of waiters for each hand-over, or its square. The queue is ours; the one
//! whose turn it is gets woken by name. The server then asks for the reply through the timeout callback, the only one in here
//! that replies.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::{c_int, c_void};
use std::ops::Bound::{Excluded, Unbounded};
use std::ptr::{self, NonNull};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::api::{self, RawBlocked, RawCtx, RawString};
use super::args::Arg;
use super::cell::MainCell;
use super::clock;
use super::ctx::Ctx;
use super::defer::{self, Next};
use super::entry::guard;
use super::faults;
use crate::core::lock::{Answer, WaiterId};
use crate::core::time::{Millis, UnixMs};
use crate::error::Error;

/// Writes the reply that a client was woken for.
pub type Reply = fn(&Ctx<'_>, &Answer);

/// How a client left its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Its time was over, or an administrator said so: it was answered null.
    TimedOut,
    /// Its connection ended, or the server sent it away with an error of its own.
    Gone,
    /// It has its reply; the server is done with it.
    Answered,
}

/// Hears of every client that left. Runs inside a callback of the server: may write nothing.
pub type Hear = fn(waiter: WaiterId, left: Left);

struct Parked {
    waiter: WaiterId,
    /// When the server should be awake to see that the time of the client is over.
    over: Option<UnixMs>,
    handle: *mut RawBlocked,
    answer: Option<Answer>,
    left: bool,
}

#[derive(Default)]
struct Lot {
    parked: FxHashMap<WaiterId, NonNull<Parked>>,
    /// How many clients are parked until when.
    over: BTreeMap<UnixMs, usize>,
    hear: Option<Hear>,
    reply: Option<Reply>,
}

// SAFETY: the pointers are only used on the main thread: `MainCell` sees to it.
unsafe impl Send for Lot {}

static LOT: LazyLock<MainCell<Lot>> = LazyLock::new(|| MainCell::new(Lot::default()));

/// How many clients have been parked; see [`parked_so_far`].
static PARKED: AtomicU64 = AtomicU64::new(0);

/// How many clients have been parked since the module was loaded. Where that has risen during a command, the command's client is
/// parked and must not be replied to.
pub(super) fn parked_so_far() -> u64 {
    PARKED.load(Ordering::Relaxed)
}

/// Names those who hear of clients that leave and who write replies. Called once, at load.
pub fn install(hear: Hear, reply: Reply) {
    LOT.with(|lot| (lot.hear, lot.reply) = (Some(hear), Some(reply)));
}

/// Parks the client of the running command on `keys` as `waiter`, for `wait` (zero: without limit). False when the server
/// would not have it, in which case nothing is left behind.
pub fn park(ctx: &Ctx<'_>, waiter: WaiterId, keys: &[Arg<'_>], wait: Millis) -> bool {
    faults::point();
    let mut keys: SmallVec<[*mut RawString; 1]> = keys.iter().map(|key| key.raw()).collect();
    if let Some(over) = over(wait) {
        defer::arm(Next::At(over));
    }
    let parked = Box::new(Parked { waiter, over: None, handle: ptr::null_mut(), answer: None, left: false });
    let parked = NonNull::from(Box::leak(parked));
    LOT.with(|lot| lot.parked.insert(waiter, parked));
    // SAFETY: the context is that of a running command; the server takes its own references to the keys. The box belongs to
    // the blocked client from here on, and `on_free` is what frees it.
    let handle = unsafe {
        api::block_client_on_keys(
            ctx.raw(),
            Some(on_signal),
            Some(on_answer),
            Some(on_free),
            wait.0,
            keys.as_mut_ptr(),
            c_int::try_from(keys.len()).unwrap_or_default(),
            parked.as_ptr().cast(),
        )
    };
    if handle.is_null() {
        LOT.with(|lot| lot.parked.remove(&waiter));
        // SAFETY: there is no blocked client, and the entry is gone, so nobody else knows of the box.
        drop(unsafe { Box::from_raw(parked.as_ptr()) });
        return false;
    }
    PARKED.fetch_add(1, Ordering::Relaxed);
    // Not the time from above, for the server has read its own clock after that.
    let over = over(wait);
    // SAFETY: the box was made above and is alive; the handle is that of a client that was blocked just now.
    unsafe {
        (*parked.as_ptr()).handle = handle;
        (*parked.as_ptr()).over = over;
        api::set_disconnect_callback(handle, Some(on_gone));
    }
    if let Some(over) = over {
        LOT.with(|lot| {
            let count = lot.over.entry(over).or_default();
            *count = count.saturating_add(1);
        });
    }
    true
}

/// When the server should be awake to see that a wait that begins now is over: only what is past counts as over.
fn over(wait: Millis) -> Option<UnixMs> {
    (wait.0 > 0).then(|| clock::now().ms.plus(Millis(wait.0.saturating_add(2)))).flatten()
}

impl Lot {
    /// Forgets a client that the server is done with.
    fn leave(&mut self, waiter: WaiterId, over: Option<UnixMs>) {
        self.parked.remove(&waiter);
        if let Some(over) = over
            && let Entry::Occupied(mut count) = self.over.entry(over)
        {
            *count.get_mut() = count.get().saturating_sub(1);
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// Wakes `waiter` with its answer. Nothing happens if it is gone already.
///
/// On some servers the reply is written inside this call and on others at the end of the event loop's turn, so the caller
/// must have finished its own work, and must hold no state that the callbacks need.
pub fn wake(_: &mut Ctx<'_>, waiter: WaiterId, answer: Answer) {
    faults::point();
    let found = LOT.with(|lot| lot.parked.get(&waiter).copied());
    if let Some(Some(parked)) = found {
        // SAFETY: entries are removed when their box is freed, so this one is alive; only this thread touches it. The reference
        // ends before the server is called, which may come back for the box.
        let handle = unsafe {
            let parked = &mut *parked.as_ptr();
            parked.answer = Some(answer);
            parked.handle
        };
        if !handle.is_null() {
            // SAFETY: the server's handle lives until `on_free`, which clears it if the box outlives it.
            unsafe { api::unblock_client(handle, ptr::null_mut()) };
        }
    }
}

/// Whether `waiter` is parked.
pub fn is_parked(waiter: WaiterId) -> bool {
    // SAFETY: entries are removed when their box is freed, so this one is alive; only this thread touches it.
    let waits = |parked: NonNull<Parked>| unsafe { !(*parked.as_ptr()).handle.is_null() };
    LOT.with(|lot| lot.parked.get(&waiter).copied().is_some_and(waits)).unwrap_or(true)
}

/// Everybody who is parked and has neither been answered nor left.
pub fn unanswered() -> Vec<WaiterId> {
    // SAFETY: as in `is_parked`.
    let waits = |parked: NonNull<Parked>| unsafe {
        let parked = &*parked.as_ptr();
        !parked.handle.is_null() && parked.answer.is_none() && !parked.left
    };
    LOT.with(|lot| lot.parked.iter().filter(|(_, parked)| waits(**parked)).map(|(waiter, _)| *waiter).collect())
        .unwrap_or_default()
}

/// When, after `now`, the time of a parked client is over for the first time.
///
/// The server looks for such clients before it sleeps, but it does not wake up for them; left alone it may sleep a tenth of a second
/// too long.
pub fn next_over(now: UnixMs) -> Next {
    let next = LOT.with(|lot| lot.over.range((Excluded(now), Unbounded)).next().map(|(over, _)| *over));
    next.flatten().map_or(Next::Never, Next::At)
}

/// Tells that the client of `parked` left; the first reason counts.
fn tell(parked: &mut Parked, how: Left) {
    faults::point();
    if !parked.left || how == Left::Answered {
        if let Some(Some(hear)) = LOT.with(|lot| lot.hear) {
            hear(parked.waiter, how);
        }
        // Only now: if a fault came first, it is told again.
        parked.left = true;
    }
}

/// A key was signalled. Never served this way.
unsafe extern "C" fn on_signal(_: *mut RawCtx, _: *mut *mut RawString, _: c_int) -> c_int {
    api::ERR
}

/// The client was woken, or its time is over: the one place where a parked client is replied to.
unsafe extern "C" fn on_answer(raw: *mut RawCtx, _: *mut *mut RawString, _: c_int) -> c_int {
    // SAFETY: the server calls this on its main thread; the private data is the box of `park`, which lives until `on_free`.
    let (ctx, parked) = unsafe { (Ctx::new(raw), api::get_blocked_client_private_data(raw).cast::<Parked>().as_mut()) };
    if let Some(parked) = parked {
        let answered = guard("an answer to a parked client", || {
            // It stays there: until the server is done with the client, this is how one knows that it has been answered.
            if let Some(answer) = &parked.answer {
                if let Some(Some(reply)) = LOT.with(|lot| lot.reply) {
                    reply(&ctx, answer);
                }
            } else {
                tell(parked, Left::TimedOut);
                ctx.reply_null();
            }
        });
        if answered.is_none() {
            // What it was granted is taken back, for it has not heard of it.
            guard("the end of a parked client", || tell(parked, Left::Gone));
            ctx.reply_error(&Error::Internal.to_string());
        }
    }
    api::OK
}

/// The client is gone: its connection ended, or the server sent it an error of its own (unblocked, moved, demoted).
unsafe extern "C" fn on_gone(raw: *mut RawCtx, _: *mut RawBlocked) {
    // SAFETY: as in `on_answer`.
    let parked = unsafe { api::get_blocked_client_private_data(raw).cast::<Parked>().as_mut() };
    if let Some(parked) = parked {
        guard("the end of a parked client", || tell(parked, Left::Gone));
    }
}

/// The server is done with the client. Called exactly once, on every way out.
unsafe extern "C" fn on_free(_: *mut RawCtx, data: *mut c_void) {
    if data.is_null() {
        return;
    }
    let data = data.cast::<Parked>();
    // SAFETY: `park` made this box, the server passes it here once, and nobody else looks at it meanwhile.
    let Some(parked) = (unsafe { data.as_mut() }) else { return };
    let ended = guard("the end of a parked client", || {
        LOT.with(|lot| lot.leave(parked.waiter, parked.over));
        let how = if parked.left { Left::Gone } else { Left::Answered };
        if how == Left::Answered {
            tell(parked, how);
        }
    });
    match ended {
        // SAFETY: as above, and the entry that also pointed to it has been removed.
        Some(()) => drop(unsafe { Box::from_raw(data) }),
        // The entry may still be there, so the box must be, too; but there is nobody left to wake.
        None => parked.handle = ptr::null_mut(),
    }
}
