//! Blocking clients, and unblocking exactly one of them.
//!
//! A waiting client is blocked on a key ([`super::blocking_key`]). So the server itself redirects it when the slot moves, and answers it at
//! its timeout or when an administrator unblocks it. A signal on that key serves no client, because the server would then ask every client
//! that is blocked there. Instead, the next client is unblocked by its handle, and the server asks for its reply through the timeout
//! callback.
//!
//! A client is blocked first and gets its waiter id right after that. Only the server knows whether the client can be blocked; if not,
//! nothing has changed.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::hash::Hash;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use redis_module::raw;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::api::{self, RawBlocked, RawCtx, RawString};
use super::args::Arg;
use super::blocking_key::BlockingKeys;
use super::cell::ServerCell;
use super::clock;
use super::compat;
use super::ctx::{Ctx, Level, has_user, is_blocked, is_connected};
use super::faults;
use super::guard::guard;
use super::panics;
use super::timer;
use crate::core::time::{Millis, UnixMs, Wakeup};

/// How a client was unblocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unblocked {
    /// It timed out, or an administrator unblocked it: it got a null reply.
    TimedOut,
    /// Its connection ended, or the server unblocked it with an error.
    Gone,
    /// It got its reply, and the server is done with it.
    Answered,
}

/// Writes the reply to an unblocked client.
pub type Reply<A> = fn(&Ctx<'_>, &A);

/// Called for every unblocked client, inside a callback of the server: may change no key.
pub type Hear<I> = fn(waiter: I, left: Unblocked);

/// All clients that are blocked for one purpose. An `I` identifies a waiter, and an `A` is its answer.
pub struct BlockedClients<I: 'static, A: 'static>(ServerCell<Table<I, A>>);

struct BlockedClient<I: 'static, A: 'static> {
    among: &'static BlockedClients<I, A>,
    /// `None` until it has a waiter id.
    waiter: Option<I>,
    /// When the server should notice that the client has timed out.
    over: Option<UnixMs>,
    handle: *mut RawBlocked,
    answer: Option<A>,
    /// `replied`: a reply was written. `aside`: the server has only stored it for now. `left`: how the wait ended was reported.
    replied: bool,
    aside: bool,
    left: bool,
}

type Blocked<I, A> = NonNull<BlockedClient<I, A>>;

struct Table<I: 'static, A: 'static> {
    parked: FxHashMap<I, Blocked<I, A>>,
    /// Clients that are blocked but have no waiter id yet: that of the running command, and more only after panics.
    nameless: Vec<Blocked<I, A>>,
    /// The clients with a timeout, by its time.
    over: BTreeSet<(UnixMs, Blocked<I, A>)>,
    hear: Option<Hear<I>>,
    reply: Option<Reply<A>>,
    keys: Option<BlockingKeys>,
}

// SAFETY: the pointers are only used with the server's lock, as `ServerCell` guarantees.
unsafe impl<I, A> Send for Table<I, A> {}

/// The number of clients taken over; see [`taken_over`].
static TAKEN_OVER: AtomicU64 = AtomicU64::new(0);

/// How often the client of a command was taken over since the module was loaded: it is blocked, or the server itself has replied. If this
/// number has risen during a command, the command must not reply to the client.
pub fn taken_over() -> u64 {
    TAKEN_OVER.load(Ordering::Relaxed)
}

impl<I: Copy + Eq + Hash + 'static, A: 'static> BlockedClients<I, A> {
    /// An empty table.
    pub const fn new() -> Self {
        Self(ServerCell::new(Table {
            parked: FxHashMap::with_hasher(FxBuildHasher),
            nameless: Vec::new(),
            over: BTreeSet::new(),
            hear: None,
            reply: None,
            keys: None,
        }))
    }

    /// Sets the callbacks for unblocked clients and for replies. Called once, at load.
    pub fn install(&self, ctx: &Ctx<'_>, hear: Hear<I>, reply: Reply<A>) {
        let keys = BlockingKeys::new(ctx.flags().is_cluster());
        self.0.with(|table| (table.hear, table.reply, table.keys) = (Some(hear), Some(reply), Some(keys)));
    }

    /// Blocks the client of the running command for `lock`, one of the keys in its slot, for at most `wait` (zero: without limit). Returns
    /// `false` if the server refuses; then nothing has changed, and [`taken_over`] tells whether the server has replied.
    ///
    /// The caller must call [`name`](Self::name) for this client right after it.
    pub fn block(&'static self, ctx: &Ctx<'_>, lock: Arg<'_>, wait: Millis) -> bool {
        faults::point();
        // Another module may run a command that may block (since Redis 7.2), through a client without a connection. Nothing would report
        // the end of such a client, and Valkey 9.1 must not be asked whether it is blocked, because that crashes the server.
        let client = ctx.client_id();
        if compat::may_not_block() && !(is_connected(client) && has_user(ctx, client)) {
            return false;
        }
        if let Some(over) = over(wait) {
            timer::arm(Wakeup::At(over));
        }
        let parked = Box::new(BlockedClient {
            among: self,
            waiter: None,
            over: None,
            handle: ptr::null_mut(),
            answer: None,
            replied: false,
            aside: false,
            left: false,
        });
        let parked = NonNull::from(Box::leak(parked));
        let handle = self.0.with(|table| {
            let Some(keys) = &table.keys else { return ptr::null_mut() };
            let key = keys.for_lock(lock);
            let mut name = key.arg().raw();
            // SAFETY: `api::missing` has seen the function. The context is that of a running command; the server takes its own reference to
            // the key, and calls none of our code in here. From here on the box belongs to the blocked client, and `on_free` frees it.
            unsafe {
                raw::RedisModule_BlockClientOnKeys.unwrap_unchecked()(
                    ctx.raw(),
                    Some(on_signal),
                    Some(on_answer::<I, A>),
                    Some(on_free::<I, A>),
                    wait.0,
                    &raw mut name,
                    1,
                    parked.as_ptr().cast(),
                )
            }
        });
        let handle = handle.unwrap_or(ptr::null_mut());
        if handle.is_null() {
            // SAFETY: no client was blocked, so nothing else points to the box.
            drop(unsafe { Box::from_raw(parked.as_ptr()) });
            return false;
        }
        TAKEN_OVER.fetch_add(1, Ordering::Relaxed);
        if compat::may_not_block() && !is_blocked(client) {
            // The server has replied with an error of its own, and the handle belongs to no client. Unblocking it would crash the server,
            // so it is never used. It points to the box, so the box is never freed.
            ctx.log(Level::Warning, "lockstock: the server did not block a client that has to wait");
            return false;
        }
        // Recompute: the server set its timeout after our first reading.
        let over = over(wait);
        // SAFETY: the box was made above and is alive; the handle belongs to the client that was just blocked.
        unsafe {
            (*parked.as_ptr()).handle = handle;
            (*parked.as_ptr()).over = over;
            api::set_disconnect_callback(handle, Some(on_gone::<I, A>));
        }
        self.0.with(|table| {
            table.nameless.push(parked);
            table.over.extend(over.map(|over| (over, parked)));
        });
        true
    }

    /// Sets the waiter id of the client that was blocked last.
    pub fn name(&self, waiter: I) {
        self.0.with(|table| {
            if let Some(parked) = table.nameless.pop() {
                // SAFETY: entries are removed when their box is freed, so this one is alive; only this thread touches it.
                unsafe { (*parked.as_ptr()).waiter = Some(waiter) };
                table.parked.insert(waiter, parked);
            }
        });
    }

    /// Unblocks `waiter` with its answer. Does nothing if it is gone already.
    ///
    /// Some servers write the reply inside this call, others at the end of the event loop's turn. So the caller must have finished its own
    /// work, and must not use any state that the callbacks need.
    pub fn unblock(&self, _: &mut Ctx<'_>, waiter: I, answer: A) {
        faults::point();
        if let Some(parked) = self.find(waiter) {
            unblock_one(parked, answer);
        }
    }

    /// Unblocks the clients that have no waiter id because of a panic.
    pub fn unblock_nameless(&self, _: &mut Ctx<'_>, answer: &A)
    where
        A: Clone,
    {
        // They stay in the list until the server is done with them.
        for parked in self.0.with(|table| table.nameless.clone()).unwrap_or_default() {
            unblock_one(parked, answer.clone());
        }
    }

    /// The server has sent the written reply to the client of `waiter`, but it is not done with the client. Does nothing if nothing was
    /// written.
    pub fn handed_over(&self, waiter: I) {
        if let Some(parked) = self.find(waiter) {
            // SAFETY: entries are removed when their box is freed, so this one is alive; only this thread touches it.
            let parked = unsafe { &mut *parked.as_ptr() };
            if parked.replied && !parked.aside {
                tell(parked, Unblocked::Answered);
            }
        }
    }

    /// Whether the client of `waiter` is blocked.
    pub fn is_waiting(&self, waiter: I) -> bool {
        // SAFETY: entries are removed when their box is freed, so this one is alive; only this thread touches it.
        let waits = |parked: Blocked<I, A>| unsafe { !(*parked.as_ptr()).handle.is_null() };
        self.0.with(|table| table.parked.get(&waiter).copied().is_some_and(waits)).unwrap_or(true)
    }

    fn find(&self, waiter: I) -> Option<Blocked<I, A>> {
        self.0.with(|table| table.parked.get(&waiter).copied())?
    }

    /// All blocked waiters that have no answer yet.
    pub fn unanswered(&self) -> Vec<I> {
        let unanswered = |table: &mut Table<I, A>| {
            table.parked.iter().filter(|(_, parked)| is_unanswered(**parked)).map(|(waiter, _)| *waiter).collect()
        };
        self.0.with(unanswered).unwrap_or_default()
    }

    /// The first time after `now` when a blocked client times out, or is so late that the server must have [forgotten](Self::forgotten) it.
    ///
    /// The server checks for timeouts before it sleeps, but does not wake up for them; without the timer it may sleep a tenth of a second
    /// too long.
    pub fn next_over(&self, now: UnixMs) -> Wakeup {
        let next = self.0.with(|table| {
            let over = table.first_over(now);
            let late = latest_late(now).and_then(|before| table.first_over(before)?.plus(LATE));
            over.into_iter().chain(late).min()
        });
        next.flatten().into()
    }

    /// At most `most` of the waiters that should have timed out a while ago and have no answer.
    ///
    /// If a client had to wait for the end of a pause (a failover, `CLIENT PAUSE`) before its command ran, Redis 8.0 and Valkey 8.1 block
    /// it without a timeout, even for their own commands.
    pub fn forgotten(&self, now: UnixMs, most: usize) -> Vec<I> {
        let waiter = |(_, parked): &(UnixMs, Blocked<I, A>)| {
            // SAFETY: as in `is_waiting`.
            unsafe { (*parked.as_ptr()).waiter }.filter(|_| is_unanswered(*parked))
        };
        let late = |table: &mut Table<I, A>| {
            let is_late = |(over, _): &&(UnixMs, Blocked<I, A>)| latest_late(now).is_some_and(|late| *over <= late);
            table.over.iter().take_while(is_late).filter_map(waiter).take(most).collect()
        };
        self.0.with(late).unwrap_or_default()
    }
}

impl<I: Copy + Eq + Hash + 'static, A: 'static> Table<I, A> {
    /// Removes a client that the server is done with.
    fn leave(&mut self, client: Blocked<I, A>, waiter: Option<I>, over: Option<UnixMs>) {
        match waiter {
            Some(waiter) => drop(self.parked.remove(&waiter)),
            None => self.nameless.retain(|other| *other != client),
        }
        if let Some(over) = over {
            self.over.remove(&(over, client));
        }
    }

    /// The first timeout of a client after `time`.
    fn first_over(&self, time: UnixMs) -> Option<UnixMs> {
        let after = UnixMs(time.0.checked_add(1)?);
        self.over.range((after, NonNull::dangling())..).next().map(|(over, _)| *over)
    }
}

/// When the server should be awake to notice the end of a wait that begins now. It counts only a time in the past as over.
fn over(wait: Millis) -> Option<UnixMs> {
    (wait.0 > 0).then(|| clock::now().ms.plus(Millis(wait.0.saturating_add(2)))).flatten()
}

/// How long a client may stay blocked after its timeout.
const LATE: Millis = Millis(50);

/// Clients with a timeout at or before this time are late at `now`.
fn latest_late(now: UnixMs) -> Option<UnixMs> {
    now.0.checked_sub(LATE.0).map(UnixMs)
}

/// Whether a client is blocked and has no answer yet.
fn is_unanswered<I: 'static, A: 'static>(parked: Blocked<I, A>) -> bool {
    // SAFETY: entries are removed when their box is freed, so this one is alive; only this thread touches it.
    let parked = unsafe { &*parked.as_ptr() };
    !parked.handle.is_null() && parked.answer.is_none() && !parked.left
}

fn unblock_one<I: 'static, A: 'static>(parked: Blocked<I, A>, answer: A) {
    // SAFETY: entries are removed when their box is freed, so this one is alive; only this thread touches it. The reference ends before the
    // call into the server, whose callbacks may use the box.
    let handle = unsafe {
        let parked = &mut *parked.as_ptr();
        parked.answer = Some(answer);
        parked.handle
    };
    if !handle.is_null() {
        // SAFETY: the server's handle lives until `on_free`, which clears it if the box outlives it. The server calls `on_free` when it is
        // done with the client, never before the end of the running call; so the box is alive after this, too.
        unsafe {
            api::unblock_client(handle, ptr::null_mut());
            let parked = &mut *parked.as_ptr();
            parked.aside = parked.replied && compat::keeps_early_replies_aside();
        }
    }
}

/// Reports that the client was unblocked; only the first reason counts.
fn tell<I: Copy + 'static, A: 'static>(parked: &mut BlockedClient<I, A>, how: Unblocked) {
    faults::point();
    if !parked.left {
        if let (Some(Some(hear)), Some(waiter)) = (parked.among.0.with(|table| table.hear), parked.waiter) {
            hear(waiter, how);
        }
        // Set last, so that after a panic the report is repeated.
        parked.left = true;
    }
}

/// A key was signalled. No client is ever served this way.
unsafe extern "C" fn on_signal(_: *mut RawCtx, _: *mut *mut RawString, _: c_int) -> c_int {
    api::ERR
}

/// The client was unblocked or timed out. Blocked clients get replies only here.
unsafe extern "C" fn on_answer<I: Copy + 'static, A: 'static>(
    raw: *mut RawCtx,
    _: *mut *mut RawString,
    _: c_int,
) -> c_int {
    // SAFETY: the server calls this with its lock; the private data is the box of `block`, which lives until `on_free`.
    let (ctx, parked) =
        unsafe { (Ctx::new(raw), api::get_blocked_client_private_data(raw).cast::<BlockedClient<I, A>>().as_mut()) };
    if let Some(parked) = parked {
        let answered = guard("an answer to a parked client", || {
            // The answer stays there until the server is done with the client, to show that it has been answered.
            if let Some(answer) = &parked.answer {
                if let Some(Some(reply)) = parked.among.0.with(|table| table.reply) {
                    reply(&ctx, answer);
                }
                parked.replied = true;
            } else {
                tell(parked, Unblocked::TimedOut);
                ctx.reply_null();
            }
        });
        if answered.is_none() {
            // A grant is taken back, because the client was not told of it.
            guard("the end of a parked client", || tell(parked, Unblocked::Gone));
            ctx.reply_error(panics::FAULT);
        }
    }
    api::OK
}

/// The client is gone: its connection ended, or the server sent it an error (unblocked, moved, demoted).
unsafe extern "C" fn on_gone<I: Copy + 'static, A: 'static>(raw: *mut RawCtx, _: *mut RawBlocked) {
    // SAFETY: as in `on_answer`.
    let parked = unsafe { api::get_blocked_client_private_data(raw).cast::<BlockedClient<I, A>>().as_mut() };
    if let Some(parked) = parked {
        guard("the end of a parked client", || tell(parked, Unblocked::Gone));
    }
}

/// The server is done with the client. Called exactly once, however it was unblocked.
unsafe extern "C" fn on_free<I: Copy + Eq + Hash + 'static, A: 'static>(raw: *mut RawCtx, data: *mut c_void) {
    let Some(data) = NonNull::new(data.cast::<BlockedClient<I, A>>()) else { return };
    // SAFETY: `block` made this box, the server passes it here once, and nothing else uses it meanwhile.
    let parked = unsafe { &mut *data.as_ptr() };
    let ended = guard("the end of a parked client", || {
        parked.among.0.with(|table| table.leave(data, parked.waiter, parked.over));
        // SAFETY: the context is that of this call.
        let sent_away = parked.aside && unsafe { api::blocked_client_disconnected(raw) } != 0;
        // The server drops a stored reply if the client was unblocked with another reply before.
        let answered = parked.replied && !sent_away;
        tell(parked, if answered { Unblocked::Answered } else { Unblocked::Gone });
    });
    match ended {
        // SAFETY: as above, and the entry that also pointed to it has been removed.
        Some(()) => drop(unsafe { Box::from_raw(data.as_ptr()) }),
        // The entry may still be there, so the box must stay; but there is no client left to unblock.
        None => parked.handle = ptr::null_mut(),
    }
}
