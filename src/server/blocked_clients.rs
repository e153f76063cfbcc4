//! Parking clients, and waking exactly the right one.
//!
//! A waiting client is blocked on a key ([`super::blocking_key`]), so that the server itself redirects it when the slot moves away, and
//! answers it when its time is over or an administrator unblocks it. No signal on that key serves it: the server would ask every client
//! that is blocked there. The one whose turn it is is unblocked by name, and the server asks for its reply through the timeout callback.
//!
//! A client is blocked first and gets its place in line, and so its name, right after that: only the server knows whether it can be
//! blocked, and if not, nothing has happened.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::hash::Hash;
use std::ptr::{self, NonNull};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;

use super::api::{self, RawBlocked, RawCtx, RawString};
use super::args::Arg;
use super::blocking_key::BlockingKeys;
use super::cell::MainCell;
use super::clock;
use super::compat;
use super::ctx::{Ctx, Level, has_user, is_blocked, is_connected};
use super::faults;
use super::guard::guard;
use super::panics;
use super::timer::{self, Next};
use crate::core::time::{Millis, UnixMs};

/// How a client left its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unblocked {
    /// Its time was over, or an administrator said so: it was answered null.
    TimedOut,
    /// Its connection ended, or the server sent it away with an error of its own.
    Gone,
    /// It has its reply; the server is done with it.
    Answered,
}

/// Writes the reply that a client was woken for.
pub type Reply<A> = fn(&Ctx<'_>, &A);

/// Hears of every client that left. Runs inside a callback of the server: may write nothing.
pub type Hear<I> = fn(waiter: I, left: Unblocked);

/// All clients that are blocked for one purpose. Each is known by an `I`, and is told an `A` in the end.
pub struct BlockedClients<I: 'static, A: 'static>(LazyLock<MainCell<Table<I, A>>>);

struct BlockedClient<I: 'static, A: 'static> {
    among: &'static BlockedClients<I, A>,
    /// `None` until it has its place in line.
    waiter: Option<I>,
    /// When the server should see that the time of the client is over.
    over: Option<UnixMs>,
    handle: *mut RawBlocked,
    answer: Option<A>,
    /// Whether a reply was written, and whether the server has put it aside for now.
    replied: bool,
    aside: bool,
    left: bool,
}

type Blocked<I, A> = NonNull<BlockedClient<I, A>>;

struct Table<I: 'static, A: 'static> {
    parked: FxHashMap<I, Blocked<I, A>>,
    /// Clients that are blocked and have no place in line yet: the one of the running command, and more only after faults.
    nameless: Vec<Blocked<I, A>>,
    /// Who is parked until when.
    over: BTreeSet<(UnixMs, Blocked<I, A>)>,
    hear: Option<Hear<I>>,
    reply: Option<Reply<A>>,
    keys: Option<BlockingKeys>,
}

// SAFETY: the pointers are only used on the main thread: `MainCell` sees to it.
unsafe impl<I, A> Send for Table<I, A> {}

/// How many clients were taken over; see [`taken_over`].
static TAKEN_OVER: AtomicU64 = AtomicU64::new(0);

/// How often the client of a command was taken over from it since the module was loaded: it is blocked, or the server itself has replied.
/// Where that has risen during a command, the client must not be replied to.
pub fn taken_over() -> u64 {
    TAKEN_OVER.load(Ordering::Relaxed)
}

impl<I: Copy + Eq + Hash + 'static, A: 'static> BlockedClients<I, A> {
    /// Nobody yet.
    pub const fn new() -> Self {
        Self(LazyLock::new(|| MainCell::new(Table::new())))
    }

    /// Names those who hear of clients that leave and who write replies. Called once, at load.
    pub fn install(&self, ctx: &Ctx<'_>, hear: Hear<I>, reply: Reply<A>) {
        let keys = BlockingKeys::new(ctx.flags().is_cluster());
        self.0.with(|table| (table.hear, table.reply, table.keys) = (Some(hear), Some(reply), Some(keys)));
    }

    /// Blocks the client of the running command, which waits for `lock` among others of the same slot, for `wait` (zero: without limit). False
    /// when the server would not have it, in which case nothing is left behind; [`taken_over`] tells whether it has replied.
    ///
    /// After this [`name`] is called for the client, at once.
    pub fn block(&'static self, ctx: &Ctx<'_>, lock: Arg<'_>, wait: Millis) -> bool {
        faults::point();
        // Another module may have a command run for it that may block (servers have that since Redis 7.2), through a client that nobody is
        // connected to. Nothing would tell of its end, and Valkey 9.1 must not be asked whether it is blocked: that ends the server.
        let client = ctx.client_id();
        if compat::may_not_block() && !(is_connected(client) && has_user(ctx, client)) {
            return false;
        }
        if let Some(over) = over(wait) {
            timer::arm(Next::At(over));
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
            let mut name = key.raw();
            // SAFETY: the context is that of a running command; the server takes its own reference to the key, and calls nothing of ours
            // in here. The box belongs to the blocked client from here on, and `on_free` is what frees it.
            unsafe {
                api::block_client_on_keys(
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
            // SAFETY: there is no blocked client, so nobody else knows of the box.
            drop(unsafe { Box::from_raw(parked.as_ptr()) });
            return false;
        }
        TAKEN_OVER.fetch_add(1, Ordering::Relaxed);
        if compat::may_not_block() && !is_blocked(client) {
            // The server has replied an error of its own, and this is the handle of nobody. To unblock it would end the server, so it is never
            // used, and the box, which it points to, is never freed.
            ctx.log(Level::Warning, "lockstock: the server did not block a client that has to wait");
            return false;
        }
        // Not the time from above, for the server has read its own clock after that.
        let over = over(wait);
        // SAFETY: the box was made above and is alive; the handle is that of a client that was blocked just now.
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

    /// The client that was blocked last waits in line as `waiter`.
    pub fn name(&self, waiter: I) {
        self.0.with(|table| {
            if let Some(parked) = table.nameless.pop() {
                // SAFETY: entries are removed when their box is freed, so this one is alive; only this thread touches it.
                unsafe { (*parked.as_ptr()).waiter = Some(waiter) };
                table.parked.insert(waiter, parked);
            }
        });
    }

    /// Wakes `waiter` with its answer. Nothing happens if it is gone already.
    ///
    /// On some servers the reply is written inside this call and on others at the end of the event loop's turn, so the caller
    /// must have finished its own work, and must hold no state that the callbacks need.
    pub fn unblock(&self, _: &mut Ctx<'_>, waiter: I, answer: A) {
        faults::point();
        let found = self.0.with(|table| table.parked.get(&waiter).copied());
        if let Some(Some(parked)) = found {
            unblock_one(parked, answer);
        }
    }

    /// Wakes the clients that a fault has kept from getting a place in line.
    pub fn unblock_nameless(&self, _: &mut Ctx<'_>, answer: &A)
    where
        A: Clone,
    {
        // They stay in the list until the server is done with them.
        for parked in self.0.with(|table| table.nameless.clone()).unwrap_or_default() {
            unblock_one(parked, answer.clone());
        }
    }

    /// Whether `waiter` is parked.
    pub fn is_waiting(&self, waiter: I) -> bool {
        // SAFETY: entries are removed when their box is freed, so this one is alive; only this thread touches it.
        let waits = |parked: Blocked<I, A>| unsafe { !(*parked.as_ptr()).handle.is_null() };
        self.0.with(|table| table.parked.get(&waiter).copied().is_some_and(waits)).unwrap_or(true)
    }

    /// Everybody who is parked and has neither been answered nor left.
    pub fn unanswered(&self) -> Vec<I> {
        // SAFETY: as in `is_waiting`.
        let waits = |parked: Blocked<I, A>| unsafe {
            let parked = &*parked.as_ptr();
            !parked.handle.is_null() && parked.answer.is_none() && !parked.left
        };
        self.0
            .with(|table| {
                table.parked.iter().filter(|(_, parked)| waits(**parked)).map(|(waiter, _)| *waiter).collect()
            })
            .unwrap_or_default()
    }

    /// When, after `now`, the time of a parked client is over for the first time, or so long over that the server must have [forgotten](forgotten)
    /// it.
    ///
    /// The server looks for such clients before it sleeps, but it does not wake up for them; left alone it may sleep a tenth of a second
    /// too long.
    pub fn next_over(&self, now: UnixMs) -> Next {
        let next = self.0.with(|table| {
            let over = table.first_over(now);
            let late = latest_late(now).and_then(|before| table.first_over(before)?.plus(LATE));
            over.into_iter().chain(late).min()
        });
        next.flatten().map_or(Next::Never, Next::At)
    }

    /// Some of those whose time was over a while ago, at most `most`, and who have not been answered.
    ///
    /// Where a client had to wait for the end of a pause (a failover, `CLIENT PAUSE`) before its command was run, Redis 8.0 and Valkey 8.1 park it
    /// without a time limit, also for their own commands.
    pub fn forgotten(&self, now: UnixMs, most: usize) -> Vec<I> {
        // SAFETY: entries are removed when their box is freed, so this one is alive; only this thread touches it.
        let waiter = |(_, parked): &(UnixMs, Blocked<I, A>)| unsafe {
            let parked = &*parked.as_ptr();
            parked.waiter.filter(|_| parked.answer.is_none() && !parked.left && !parked.handle.is_null())
        };
        let late = |table: &mut Table<I, A>| {
            let is_late = |(over, _): &&(UnixMs, Blocked<I, A>)| latest_late(now).is_some_and(|late| *over <= late);
            table.over.iter().take_while(is_late).filter_map(waiter).take(most).collect()
        };
        self.0.with(late).unwrap_or_default()
    }
}

impl<I: Copy + Eq + Hash + 'static, A: 'static> Table<I, A> {
    fn new() -> Self {
        Self {
            parked: FxHashMap::default(),
            nameless: Vec::new(),
            over: BTreeSet::new(),
            hear: None,
            reply: None,
            keys: None,
        }
    }

    /// Forgets a client that the server is done with.
    fn leave(&mut self, client: Blocked<I, A>, waiter: Option<I>, over: Option<UnixMs>) {
        match waiter {
            Some(waiter) => drop(self.parked.remove(&waiter)),
            None => self.nameless.retain(|other| *other != client),
        }
        if let Some(over) = over {
            self.over.remove(&(over, client));
        }
    }

    /// When, after `time`, the time of a client is over for the first time.
    fn first_over(&self, time: UnixMs) -> Option<UnixMs> {
        let after = UnixMs(time.0.checked_add(1)?);
        self.over.range((after, NonNull::dangling())..).next().map(|(over, _)| *over)
    }
}

/// When the server should be awake to see that a wait that begins now is over: only what is past counts as over.
fn over(wait: Millis) -> Option<UnixMs> {
    (wait.0 > 0).then(|| clock::now().ms.plus(Millis(wait.0.saturating_add(2)))).flatten()
}

/// How long a client may be parked after its time.
const LATE: Millis = Millis(50);

/// Those whose time was over then are late at `now`.
fn latest_late(now: UnixMs) -> Option<UnixMs> {
    now.0.checked_sub(LATE.0).map(UnixMs)
}

fn unblock_one<I: 'static, A: 'static>(parked: Blocked<I, A>, answer: A) {
    // SAFETY: entries are removed when their box is freed, so this one is alive; only this thread touches it. The reference
    // ends before the server is called, which may come back for the box.
    let handle = unsafe {
        let parked = &mut *parked.as_ptr();
        parked.answer = Some(answer);
        parked.handle
    };
    if !handle.is_null() {
        // SAFETY: the server's handle lives until `on_free`, which clears it if the box outlives it. It is called when the server is done
        // with the client, which is never before the end of the running call; so the box is alive after this, too.
        unsafe {
            api::unblock_client(handle, ptr::null_mut());
            let parked = &mut *parked.as_ptr();
            parked.aside = parked.replied && compat::keeps_early_replies_aside();
        }
    }
}

/// Tells that the client of `parked` left; the first reason counts.
fn tell<I: Copy + 'static, A: 'static>(parked: &mut BlockedClient<I, A>, how: Unblocked) {
    faults::point();
    if !parked.left {
        if let (Some(Some(hear)), Some(waiter)) = (parked.among.0.with(|table| table.hear), parked.waiter) {
            hear(waiter, how);
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
unsafe extern "C" fn on_answer<I: Copy + 'static, A: 'static>(
    raw: *mut RawCtx,
    _: *mut *mut RawString,
    _: c_int,
) -> c_int {
    // SAFETY: the server calls this on its main thread; the private data is the box of `block`, which lives until `on_free`.
    let (ctx, parked) =
        unsafe { (Ctx::new(raw), api::get_blocked_client_private_data(raw).cast::<BlockedClient<I, A>>().as_mut()) };
    if let Some(parked) = parked {
        let answered = guard("an answer to a parked client", || {
            // It stays there: until the server is done with the client, this is how one knows that it has been answered.
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
            // What it was granted is taken back, for it has not heard of it.
            guard("the end of a parked client", || tell(parked, Unblocked::Gone));
            ctx.reply_error(panics::FAULT);
        }
    }
    api::OK
}

/// The client is gone: its connection ended, or the server sent it an error of its own (unblocked, moved, demoted).
unsafe extern "C" fn on_gone<I: Copy + 'static, A: 'static>(raw: *mut RawCtx, _: *mut RawBlocked) {
    // SAFETY: as in `on_answer`.
    let parked = unsafe { api::get_blocked_client_private_data(raw).cast::<BlockedClient<I, A>>().as_mut() };
    if let Some(parked) = parked {
        guard("the end of a parked client", || tell(parked, Unblocked::Gone));
    }
}

/// The server is done with the client. Called exactly once, on every way out.
unsafe extern "C" fn on_free<I: Copy + Eq + Hash + 'static, A: 'static>(raw: *mut RawCtx, data: *mut c_void) {
    let Some(data) = NonNull::new(data.cast::<BlockedClient<I, A>>()) else { return };
    // SAFETY: `block` made this box, the server passes it here once, and nobody else looks at it meanwhile.
    let parked = unsafe { &mut *data.as_ptr() };
    let ended = guard("the end of a parked client", || {
        parked.among.0.with(|table| table.leave(data, parked.waiter, parked.over));
        // SAFETY: the context is the one of this call.
        let sent_away = parked.aside && unsafe { api::blocked_client_disconnected(raw) } != 0;
        // A reply that was put aside is forgotten if the client was sent away with another one meanwhile.
        let answered = parked.replied && !sent_away;
        tell(parked, if answered { Unblocked::Answered } else { Unblocked::Gone });
    });
    match ended {
        // SAFETY: as above, and the entry that also pointed to it has been removed.
        Some(()) => drop(unsafe { Box::from_raw(data.as_ptr()) }),
        // The entry may still be there, so the box must be, too; but there is nobody left to wake.
        None => parked.handle = ptr::null_mut(),
    }
}
