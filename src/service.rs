//! The module at work: its state, the inbox of what callbacks saw, and the work that is done between commands.

use std::mem;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::core::deadline_index::{DeadlineId, DeadlineIndex};
use crate::core::fence::Fence;
use crate::core::key::{KeyBuf, KeyRef};
use crate::core::lock::{
    Answer, ClientId, Engine, Found, Keyspace, Lock, LockError, LockInfo, Look, Next, Unsent, WaiterId,
};
use crate::core::sale::Status;
use crate::core::time::{Millis, Now, UnixMs};
use crate::core::unlinked::UnlinkedWatch;
use crate::error::Error;
use crate::server::args::Arg;
use crate::server::blocked_clients::{self, Unblocked};
use crate::server::cell::MainCell;
use crate::server::clock;
use crate::server::ctx::{Ctx, is_connected};
use crate::server::defer::{self, Authority};
use crate::server::entry;
use crate::server::events::Event;
use crate::server::faults;
use crate::server::import;
use crate::server::key::{Access, Content, Key, Name};
use crate::server::server_info::{self, Output};
use crate::store::destroyed;
use crate::store::lock_session::LockSession;
use crate::store::rename_scan::RenameScan;
use crate::store::repair;
use crate::store::sale_type;

pub mod sales;
pub mod warnings;

/// Everything the module remembers besides its keys.
#[derive(Default)]
pub struct State {
    /// Queues, sessions, fences and the ends of leases.
    pub locks: Engine,
    /// When the next hold of each sale ends.
    pub sales: DeadlineIndex,
    /// When to try again what a sale's stream, or the cluster, refused.
    pub refused: sales::Refused,
    /// How often each status was answered.
    pub answers: [u64; Status::ALL.len()],
    /// How many holds of sales have lapsed.
    pub lapses: u64,
    /// Locks and sales that were renamed, and where they may be.
    search: RenameScan,
    /// The notifications that are being read; empty in between, and kept for its memory only.
    reading: Vec<Notification>,
}

/// Something that a callback saw and could not act upon where it was called.
pub enum Notification {
    /// A sale with holds lost its name; the entry of the deadline index that it had, if it had been met, and a watch on where it goes.
    SaleVanished(Option<DeadlineId>, UnlinkedWatch),
    /// A lock is no longer at this place; the entry of the deadline index that it had there, and a watch on where it goes.
    LockVanished(KeyBuf, Option<DeadlineId>, UnlinkedWatch),
    /// A connection ended; how it looked then.
    ClientGone(ClientId, Look),
    /// The server told of something else.
    Event(Event),
    /// A parked client left.
    Left(WaiterId, Unblocked),
}

static STATE: LazyLock<MainCell<State>> = LazyLock::new(|| MainCell::new(State::default()));
static INBOX: MainCell<Vec<Notification>> = MainCell::new(Vec::new());
/// Where locks and sales were loaded that nobody has met. A list of its own, because meeting one means opening its key, which
/// a command has no time for and which can leave new notifications.
static LOADED: MainCell<Vec<KeyBuf>> = MainCell::new(Vec::new());

/// How long one turn of the timer may take, if there is so much to do. Then the server looks after its clients before the next one.
const TURN: Duration = Duration::from_micros(500);

/// How much each kind of work does, in steps, before it is another one's turn: some ten microseconds.
const SLICE: usize = 16;

/// The most clients that one turn of the timer answers because the server has forgotten their time.
const FORGOTTEN: usize = 100;

/// The most connections that one turn of the timer looks at.
const LOOKS: usize = 32;

/// Posts a notification and has it looked at in the next turn of the event loop.
pub fn post(note: Notification) {
    faults::point();
    INBOX.with(|inbox| inbox.push(note));
    defer::arm(defer::Next::Now);
}

/// A lock or a sale came with a file or a payload.
pub fn loaded(place: KeyBuf) {
    LOADED.with(|loaded| loaded.push(place));
    defer::arm(defer::Next::Now);
}

/// A fence came with it, and counts from now on, even if the lock is deleted before anybody meets it.
pub fn loaded_fence(fence: Fence) {
    STATE.with(|state| state.locks.observe_fence(fence));
}

/// Posts the events of the server, where anybody cares.
pub fn hear(ctx: &mut Ctx<'_>, event: Event) {
    let Event::ClientGone(number) = event else {
        if event == Event::Import {
            import::changed();
        }
        if let Event::Swapped(one, other) = event {
            // Whoever was loaded before the trade and is met after it lives on the other side by then.
            LOADED.with(|loaded| loaded.iter_mut().for_each(|place| place.swap(one, other)));
        }
        return post(Notification::Event(event));
    };
    let Some(client) = ClientId::new(number) else { return };
    // Connections come and go by the thousand; few of them hold or wait for anything.
    let known = STATE.with(|state| (state.locks.knows(client), state.locks.owes(client)));
    let (matters, owed) = known.unwrap_or((true, true));
    if matters {
        post(Notification::ClientGone(client, if owed { look_at(ctx, client) } else { Look::Unknown }));
    }
}

/// Runs a command on the lock `key`: `f` gets the engine, the place and the room to work in. The client may be blocked for `wait`.
pub fn locks<R>(
    ctx: &mut Ctx<'_>,
    key: Arg<'_>,
    wait: Option<Millis>,
    f: impl FnOnce(&mut Engine, KeyRef<'_>, &mut LockSession<'_>) -> Result<R, Error>,
) -> Result<R, Error> {
    let at = KeyRef { db: ctx.db(), key: key.bytes() };
    let mut session = LockSession::with_key(ctx.reborrow(), Name::of(key));
    session.may_wait(key, wait);
    let done = enter(|state| {
        let done = f(&mut state.locks, at, &mut session);
        arm(&state.locks);
        done
    });
    session.leave();
    done.unwrap_or(Err(Error::Internal))
}

/// Runs a command on the locks of several `keys`: `f` gets the engine, the database, the keys and the room to work in. The client may be
/// blocked for `wait`.
pub fn many_locks<R>(
    ctx: &mut Ctx<'_>,
    keys: &[Arg<'_>],
    wait: Option<Millis>,
    f: impl FnOnce(&mut Engine, i32, &[&[u8]], &mut LockSession<'_>) -> Result<R, Error>,
) -> Result<R, Error> {
    let names: Vec<&[u8]> = keys.iter().map(|key| key.bytes()).collect();
    let db = ctx.db();
    let mut session = LockSession::new(ctx.reborrow());
    if let Some(key) = keys.first() {
        // They all lie in one slot.
        session.may_wait(*key, wait);
    }
    let done = enter(|state| {
        let done = f(&mut state.locks, db, &names, &mut session);
        arm(&state.locks);
        done
    });
    session.leave();
    done.unwrap_or(Err(Error::Internal))
}

/// How the lock `key` looks at `now`; `None` if nobody holds it and nobody waits.
pub fn look_at_lock(ctx: &mut Ctx<'_>, key: Arg<'_>, now: Now) -> Result<Option<LockInfo>, Error> {
    let at = KeyRef { db: ctx.db(), key: key.bytes() };
    let mut open = Key::open(ctx.reborrow(), &Name::of(key), Access::Read);
    let lock = match open.content::<Lock>() {
        Content::Nothing => None,
        Content::Value(lock) => Some(&*lock),
        Content::Foreign => return Err(Error::WrongType),
    };
    enter(|state| state.locks.info(now, at, lock)).ok_or(Error::Internal)
}

/// Looks at the state; `None` when it is in use by an outer call.
pub fn enter<R>(f: impl FnOnce(&mut State) -> R) -> Option<R> {
    STATE.with(|state| {
        drain_inbox(state);
        if destroyed::any() {
            // Another thread cannot arm the timer.
            defer::arm(defer::Next::Now);
        }
        f(state)
    })
}

/// How many requests wait.
pub fn waiters() -> usize {
    enter(|state| state.locks.waiters()).unwrap_or_default()
}

/// Takes in what callbacks saw, in the order in which they saw it; so that no command works on a picture that is older than
/// its own turn.
fn drain_inbox(state: &mut State) {
    INBOX.with(|inbox| mem::swap(inbox, &mut state.reading));
    if state.reading.is_empty() {
        return;
    }
    let mut inbox = mem::take(&mut state.reading);
    for note in inbox.drain(..) {
        match note {
            Notification::LockVanished(place, entry, watch) => {
                state.locks.vanished(place.as_key(), entry);
                state.search.add(watch);
            }
            Notification::ClientGone(client, look) => {
                state.locks.last_look(client, look);
                state.locks.client_gone(client);
            }
            Notification::SaleVanished(entry, watch) => {
                if let Some(entry) = entry {
                    state.sales.remove(entry);
                }
                state.search.add(watch);
            }
            Notification::Event(Event::Flushed(db)) => {
                state.locks.flushed(db);
                state.sales.flush(db);
            }
            Notification::Event(Event::Swapped(one, other)) => {
                state.locks.swapped(one, other);
                state.sales.swap(one, other);
                state.search.begin_again();
            }
            Notification::Event(Event::Role { primary: false }) => state.locks.demoted(),
            // The timer is awake now; that is all they are for.
            Notification::Event(
                Event::Role { primary: true } | Event::Loaded | Event::Import | Event::ClientGone(_),
            ) => {}
            Notification::Left(waiter, Unblocked::Answered(front)) => state.locks.written(waiter, front),
            Notification::Left(waiter, Unblocked::TimedOut) => state.locks.timed_out(waiter),
            Notification::Left(waiter, Unblocked::Gone) => state.locks.left(waiter),
        }
    }
    inbox.shrink_to(USUAL);
    state.reading = inbox;
}

/// How many notifications may well be there at once, time and again.
const USUAL: usize = 64;

/// How the connection of `client` looks, to which a grant was written.
fn look_at(ctx: &mut Ctx<'_>, client: ClientId) -> Look {
    match server_info::output(ctx, client.get()) {
        None => Look::Unknown,
        Some(Output { first: 0, blocks: 0, .. }) => Look::Sent,
        Some(Output { first, blocks, bytes, command, hears }) => {
            let asked = ["lock.acquire", "lock.macquire"].iter().any(|name| command.eq_ignore_ascii_case(name));
            Look::Unsent { unsent: Unsent { first, blocks, bytes }, another: hears || !asked }
        }
    }
}

/// Looks at connections that grants were written to, where it is time for that.
fn look_around(state: &mut State, ctx: &mut Ctx<'_>, now: UnixMs) {
    for _ in 0..LOOKS {
        let Some((waiter, client)) = state.locks.take_look(now) else { return };
        let look = look_at(ctx, client);
        state.locks.looked(now, waiter, look);
    }
}

/// Has the timer fire when the locks want it.
fn arm(locks: &Engine) {
    defer::arm(defer::Next::from(locks.next_due()).min(locks.next_look().into()));
}

/// The work of the timer.
pub fn work(ctx: &mut Ctx<'_>, right: Authority) -> defer::Next {
    let began = Instant::now();
    let now = clock::now();
    // Of a fault where nothing could be written, or on a replica that has been promoted since.
    repair::repair_all(ctx);
    let searching = catch_up(ctx, now);
    let next = loop {
        let locks = work_on_locks(ctx, now, right);
        let sales = if right == Authority::Primary { sales::tick(ctx, now, SLICE) } else { defer::Next::Never };
        let next = locks.min(sales);
        if next != defer::Next::Now || began.elapsed() >= TURN {
            break next;
        }
    };
    // The search can wait for whoever else wants the server.
    let search =
        if searching { now.ms.plus(Millis(1)).map_or(defer::Next::Never, defer::Next::At) } else { defer::Next::Never };
    next.min(search).min(blocked_clients::next_over(now.ms))
}

/// Takes in what has happened, and searches on for what was renamed; whether there is more to search.
fn catch_up(ctx: &mut Ctx<'_>, now: Now) -> bool {
    let mut session = LockSession::between_commands(ctx.reborrow());
    let caught_up = STATE.with(|state| {
        drain_inbox(state);
        let faulty = entry::take_fault();
        if faulty {
            state.locks.reconcile(|client| is_connected(client.get()), blocked_clients::is_waiting);
            for waiter in blocked_clients::unanswered().into_iter().filter(|waiter| !state.locks.is_queued(*waiter)) {
                session.answer(waiter, Answer::Failed(LockError::Fault));
            }
            state.search.for_everything();
        }
        let forgotten = blocked_clients::forgotten(now.ms, FORGOTTEN);
        for waiter in &forgotten {
            state.locks.timed_out(*waiter);
            session.answer(*waiter, Answer::Refused);
        }
        look_around(state, session.free_ctx(), now.ms);
        // What was found by now need not be looked for.
        meet_loaded(state, &mut session);
        (state.search.go_on(session.free_ctx(), loaded) | (forgotten.len() == FORGOTTEN), faulty)
    });
    session.leave();
    let (searching, faulty) = caught_up.unwrap_or((true, false));
    if faulty {
        blocked_clients::unblock_nameless(ctx, &Answer::Failed(LockError::Fault));
    }
    searching
}

/// A slice of the work on locks, and of meeting what was loaded.
fn work_on_locks(ctx: &mut Ctx<'_>, now: Now, right: Authority) -> defer::Next {
    let mut session = LockSession::between_commands(ctx.reborrow());
    let next = STATE.with(|state| {
        drain_inbox(state);
        let more = forget_destroyed(state) | meet_loaded(state, &mut session);
        for client in state.locks.take_unverified_sessions().into_iter().filter(|client| !is_connected(client.get())) {
            state.locks.client_gone(client);
        }
        let next = match right {
            Authority::Primary => state.locks.tick(now, SLICE, &mut session).into(),
            Authority::Observer => defer::Next::Never,
        };
        let next = next.min(state.locks.next_look().into());
        if more { defer::Next::Now } else { next }
    });
    session.leave();
    next.unwrap_or(defer::Next::Now)
}

/// Closes the entries of locks and sales that were destroyed without a word; whether there are more of them.
fn forget_destroyed(state: &mut State) -> bool {
    for entry in destroyed::LOCKS.take(SLICE) {
        state.locks.destroyed(entry);
    }
    for entry in destroyed::SALES.take(SLICE) {
        state.sales.remove(entry);
    }
    destroyed::any()
}

/// Makes the agendas acquainted with locks and sales that were loaded; whether there are more of them.
fn meet_loaded(state: &mut State, session: &mut LockSession<'_>) -> bool {
    for _ in 0..SLICE {
        let Some(Some(place)) = LOADED.with(next_loaded) else { return false };
        match session.find(place.as_key()) {
            Found::Nothing => {}
            Found::Lock(lock) => state.locks.register_again(place.as_key(), lock),
            Found::Foreign => {
                if let Some(sale) = session.sale(place.as_key()) {
                    sales::register(&mut state.sales, place.as_key(), sale);
                }
            }
        }
    }
    true
}

/// Takes one of the places where something was loaded. The list is as long as the file was, and has no use for its room after that.
fn next_loaded(loaded: &mut Vec<KeyBuf>) -> Option<KeyBuf> {
    let place = loaded.pop();
    if loaded.is_empty() {
        *loaded = Vec::new();
    }
    place
}

/// What has to be saved of the fence clock besides the locks themselves.
///
/// Nothing, as a rule: fences follow the wall clock in microseconds and so pass, after a restart, whatever was given before. But while
/// there are locks or sales the file needs the module anyway, and when the counter is ahead of the clock, because that was set
/// back, it must not be lost.
pub fn fence_to_save() -> Vec<u8> {
    let now = clock::now();
    let last = STATE
        .with(|state| (state.locks.last_fence(), state.locks.locks() > 0 || sale_type::sales() > 0))
        .unwrap_or_default();
    match last {
        (last, locks) if last > 0 && (locks || last >= now.us) => last.to_le_bytes().to_vec(),
        _ => Vec::new(),
    }
}

/// The fence clock, if it is ahead of the wall clock: then a file that does not say so would bring fences that were given back.
pub fn fence_ahead() -> Option<Fence> {
    let last = STATE.with(|state| state.locks.last_fence()).unwrap_or_default();
    (last >= clock::now().us).then_some(Fence(last))
}

/// Takes the fence clock back.
pub fn fence_saved(saved: &[u8]) -> Result<(), String> {
    let last = saved.try_into().map(u64::from_le_bytes).map_err(|_| "the fence is not 8 bytes long".to_owned())?;
    STATE.with(|state| state.locks.observe_fence(Fence(last)));
    Ok(())
}

impl From<Next> for defer::Next {
    fn from(next: Next) -> Self {
        match next {
            Next::Now => Self::Now,
            Next::At(at) => Self::At(at),
            Next::Never => Self::Never,
        }
    }
}

/// A parked client left.
pub fn client_unblocked(waiter: WaiterId, left: Unblocked) {
    match left {
        // Nothing follows from it that could not wait for the next note: not worth a turn of the event loop.
        Unblocked::Answered(_) => drop(INBOX.with(|inbox| inbox.push(Notification::Left(waiter, left)))),
        Unblocked::TimedOut | Unblocked::Gone => post(Notification::Left(waiter, left)),
    }
}
