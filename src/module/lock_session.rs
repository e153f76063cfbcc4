//! The keyspace for one call of the lock engine.

use std::ffi::CStr;
use std::{mem, thread};

use smallvec::SmallVec;

use crate::config;
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::lock::{
    Answer, ClientId, EndReason, Engine, Found, Hold, Keyspace, Lock, LockInfo, Mode, Notice, WaiterId,
};
use crate::core::time::{Millis, Now};
use crate::error::Error;
use crate::module::lock_effect::{self, LockChange};
use crate::module::repair;
use crate::module::sale_type::SaleValue;
use crate::module::waiters::WAITERS;
use crate::module::{connection, notice, state};
use crate::server::args::Arg;
use crate::server::cluster::{self, Serves};
use crate::server::ctx::Ctx;
use crate::server::faults;
use crate::server::key::{self, Access, Content, Key, Name};
use crate::server::publish;
use crate::server::replicate;
use crate::server::timer;

/// Gives the engine access to keys during one call, and takes the outcome.
///
/// Nearly every call is about one key, which stays open from the first look to the last change.
pub struct LockSession<'a> {
    /// The context of the call, and the key that is open.
    key: Key<'a>,
    /// The database that the call began in.
    db: i32,
    /// The database of the context now, or [`UNKNOWN`].
    selected: i32,
    /// Whether the cluster is asked before work on a key: by the timer, because another node may serve the key by now.
    asks: bool,
    /// Whether the last answer of the cluster was that it is down as a whole.
    down: bool,
    at_work: Option<AtWork<'a>>,
    /// Finished keys, with the events to notify at the end: listeners may be other modules, which may do anything to any key.
    events: SmallVec<[Told<'a>; 1]>,
    answers: SmallVec<[(WaiterId, Answer); 1]>,
    /// Channels, and what is published there.
    messages: Vec<(Box<[u8]>, String)>,
    /// The last of the answered clients that waited long: its unsent output is looked at before its reply is written.
    look_first: Option<(WaiterId, ClientId)>,
    /// The key and the timeout to block on, if the client may be blocked.
    patience: Option<(Arg<'a>, Millis)>,
    said: Option<Said>,
}

/// What the words of a command that releases holds say.
struct Said {
    token: Ident,
    is_sent: bool,
}

/// No database has this number.
const UNKNOWN: i32 = -1;

/// The key in use.
struct AtWork<'a> {
    db: i32,
    name: Name<'a>,
    /// Effects that are not sent to replicas and the AOF yet.
    change: LockChange,
    events: Events,
}

/// The events of a key, in order.
type Events = SmallVec<[&'static CStr; 4]>;

struct Told<'a> {
    db: i32,
    name: Name<'a>,
    events: Events,
}

impl<'a> LockSession<'a> {
    /// A session without an open key.
    pub fn new(ctx: Ctx<'a>) -> Self {
        let db = ctx.db();
        Self {
            key: Key::closed(ctx),
            db,
            selected: db,
            asks: false,
            down: false,
            at_work: None,
            events: SmallVec::new(),
            answers: SmallVec::new(),
            messages: Vec::new(),
            look_first: None,
            patience: None,
            said: None,
        }
    }

    /// A session for timer work.
    pub fn between_commands(ctx: Ctx<'a>) -> Self {
        let mut session = Self::new(ctx);
        session.asks = session.ctx().flags().is_cluster();
        session
    }

    /// A session for a command on one key, whose name the server already has as a string.
    pub fn with_key(ctx: Ctx<'a>, name: Name<'a>) -> Self {
        let mut session = Self::new(ctx);
        session.key.reopen(&name, Access::Write);
        session.at_work = Some(AtWork { db: session.db, name, change: LockChange::default(), events: Events::new() });
        session
    }

    /// Allows blocking the client of the running command, on `lock`, one of its keys, for at most `wait`.
    pub fn may_wait(&mut self, lock: Arg<'a>, wait: Option<Millis>) {
        self.patience = wait.map(|wait| (lock, wait));
    }

    /// The context, for server calls that run no other code.
    pub fn ctx(&self) -> &Ctx<'a> {
        self.key.quiet()
    }

    /// The context, for server calls that may run other code. Closes the key and sends all effects first.
    pub fn free_ctx(&mut self) -> &mut Ctx<'a> {
        self.shut();
        self.selected = UNKNOWN;
        self.key.ctx()
    }

    /// The unsent effects and events of `at`. The key need not be open.
    fn at(&mut self, at: KeyRef<'_>) -> (&Ctx<'a>, &mut AtWork<'a>) {
        if !self.at_work.as_ref().is_some_and(|work| work.db == at.db && work.name.bytes() == at.key) {
            // Finish the other key first.
            self.shut();
            self.select(at.db);
        }
        let work = self.at_work.get_or_insert_with(|| AtWork {
            db: at.db,
            name: Name::make(at.key),
            change: LockChange::default(),
            events: Events::new(),
        });
        (self.key.quiet(), work)
    }

    /// Opens the key `at`, if it is not open.
    fn open(&mut self, at: KeyRef<'_>) -> &mut Key<'a> {
        self.at(at);
        if let Some(work) = &self.at_work
            && !self.key.is_open()
        {
            self.key.reopen(&work.name, Access::Write);
        }
        &mut self.key
    }

    /// Closes the open key, sends its effects, and signals WATCH.
    fn shut(&mut self) {
        self.key.close();
        if self.at_work.as_ref().is_some_and(|work| !work.events.is_empty()) {
            self.send();
        }
        if let Some(work) = self.at_work.as_ref().filter(|work| !work.events.is_empty()) {
            key::touched(self.ctx(), &work.name);
        }
        if let Some(AtWork { db, name, events, .. }) = self.at_work.take()
            && !events.is_empty()
        {
            self.events.push(Told { db, name, events });
        }
    }

    /// Whether this is timer work on a cluster node.
    pub fn is_clustered(&self) -> bool {
        self.asks
    }

    /// A request has failed for a reason that the engine does not know.
    pub fn fail(&mut self, notice: Notice, error: &Error) {
        let text = notice::failure(&notice, error);
        self.messages.push((notice.channel, text));
    }

    /// Sends the effects of the key in use.
    fn send(&mut self) {
        let Some(work) = &mut self.at_work else { return };
        let (ctx, change) = (self.key.quiet(), mem::take(&mut work.change));
        match &mut self.said {
            // The command releases all its keys wherever it is applied, so it is sent once.
            Some(said) if change.is_release_by(&said.token) => {
                if !mem::replace(&mut said.is_sent, true) {
                    replicate::verbatim(ctx);
                }
            }
            said => {
                // What comes next may be about what has just been granted.
                *said = None;
                lock_effect::send(ctx, &work.name, &change);
            }
        }
    }

    /// The words of the running command say that `token` has released its holds of all keys that it names. While nothing else happens, they
    /// are the effect.
    pub fn says_released(&mut self, token: &Ident) {
        self.said = config::REPLICATE_COMMANDS.get().then(|| Said { token: token.clone(), is_sent: false });
    }

    /// The sale at `at`, if one is there.
    pub fn sale(&mut self, at: KeyRef<'_>) -> Option<&mut SaleValue> {
        match self.open(at).content() {
            Content::Value(sale) => Some(sale),
            Content::Nothing | Content::Foreign => None,
        }
    }

    /// Closes the open key, then publishes messages and unblocks the answered clients, then notifies listeners. The module state must not
    /// be in use: some servers write the replies in here, and listeners run commands.
    pub fn leave(mut self) {
        self.shut();
        if let Some((waiter, client)) = self.look_first.take() {
            let front = connection::front(self.key.ctx(), client);
            state::peek(|state| state.locks.goes_behind(waiter, front));
        }
        self.end();
        for Told { db, name, events } in mem::take(&mut self.events) {
            self.select(db);
            for event in events {
                key::notify(self.key.ctx(), event, &name);
            }
        }
        self.select(self.db);
    }

    fn select(&mut self, db: i32) {
        if mem::replace(&mut self.selected, db) != db {
            self.ctx().select(db);
        }
    }

    /// Deliver queued messages and replies even when unwinding: those grants are already in the keyspace.
    fn end(&mut self) {
        self.at_work = None;
        self.select(self.db);
        self.messages.reverse();
        while let Some((channel, text)) = self.messages.pop() {
            publish::publish(self.ctx(), &channel, text.as_bytes());
        }
        self.answers.reverse();
        while let Some((waiter, answer)) = self.answers.pop() {
            WAITERS.unblock(self.key.ctx(), waiter, answer);
        }
    }
}

/// Runs a command on the lock `key`; `f` gets the engine, the key and the session. The client may be blocked for `wait`.
pub fn run<R>(
    ctx: &mut Ctx<'_>,
    key: Arg<'_>,
    wait: Option<Millis>,
    f: impl FnOnce(&mut Engine, KeyRef<'_>, &mut LockSession<'_>) -> Result<R, Error>,
) -> Result<R, Error> {
    let at = KeyRef { db: ctx.db(), key: key.bytes() };
    let mut session = LockSession::with_key(ctx.reborrow(), Name::of(key));
    session.may_wait(key, wait);
    let done = state::enter(|state| {
        let done = f(&mut state.locks, at, &mut session);
        arm(&state.locks);
        done
    });
    session.leave();
    done.unwrap_or(Err(Error::Internal))
}

/// Runs a command on several locks; `f` gets the engine, the database, the keys and the session. The client may be blocked for `wait`.
pub fn run_many<R>(
    ctx: &mut Ctx<'_>,
    keys: &[Arg<'_>],
    wait: Option<Millis>,
    f: impl FnOnce(&mut Engine, i32, &[&[u8]], &mut LockSession<'_>) -> Result<R, Error>,
) -> Result<R, Error> {
    let names: Vec<&[u8]> = keys.iter().map(|key| key.bytes()).collect();
    let db = ctx.db();
    let mut session = LockSession::new(ctx.reborrow());
    if let Some(key) = keys.first() {
        // All keys are in one slot, so any of them will do.
        session.may_wait(*key, wait);
    }
    let done = state::enter(|state| {
        let done = f(&mut state.locks, db, &names, &mut session);
        arm(&state.locks);
        done
    });
    session.leave();
    done.unwrap_or(Err(Error::Internal))
}

/// The public view of the lock `key` at `now`; `None` if nobody holds it and nobody waits.
pub fn look(ctx: &mut Ctx<'_>, key: Arg<'_>, now: Now) -> Result<Option<LockInfo>, Error> {
    let at = KeyRef { db: ctx.db(), key: key.bytes() };
    let mut open = Key::open(ctx.reborrow(), &Name::of(key), Access::Read);
    let lock = match open.content::<Lock>() {
        Content::Nothing => None,
        Content::Value(lock) => Some(&*lock),
        Content::Foreign => return Err(Error::WrongType),
    };
    state::enter(|state| state.locks.info(now, at, lock)).ok_or(Error::Internal)
}

/// Arms the timer for the next work on locks.
fn arm(locks: &Engine) {
    timer::arm(timer::Next::from(locks.next_due()).min(locks.next_look().into()));
}

impl Drop for LockSession<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            // A panic cut the work short, so replicas may have missed a part of it.
            if let Some(work) = &self.at_work {
                repair::mark(KeyRef { db: work.db, key: work.name.bytes() }, Vec::new());
            }
            self.end();
        }
    }
}

impl Keyspace for LockSession<'_> {
    fn find(&mut self, at: KeyRef<'_>) -> Found<'_> {
        faults::point();
        match self.open(at).content() {
            Content::Nothing => Found::Nothing,
            Content::Value(lock) => Found::Lock(lock),
            Content::Foreign => Found::Foreign,
        }
    }

    fn put(&mut self, at: KeyRef<'_>, lock: Lock) {
        faults::point();
        self.open(at).set(lock);
    }

    fn delete(&mut self, at: KeyRef<'_>) {
        faults::point();
        let key = self.open(at);
        // If it is anything else, a listener has put it there meanwhile.
        if let Content::Value(lock) = key.content::<Lock>()
            && lock.is_empty()
        {
            // The engine knows of this deletion, so the callback of the type need not report it.
            lock.take_deadline_id();
            key.delete();
        }
    }

    fn held(&mut self, at: KeyRef<'_>, mode: Mode, hold: Hold) {
        faults::point();
        if self.at(at).1.change.held.is_some() {
            self.send();
        }
        let (_, AtWork { change, events, .. }) = self.at(at);
        change.held = Some((mode, hold));
        events.push(c"lock.held");
    }

    fn ended(&mut self, at: KeyRef<'_>, token: Ident, why: EndReason) {
        faults::point();
        let change = &self.at(at).1.change;
        if change.ended.is_some() || change.held.is_some() {
            self.send();
        }
        let (_, AtWork { change, events, .. }) = self.at(at);
        events.push(lock_effect::event_of(why));
        change.ended = Some((token, why));
    }

    fn clear_expire(&mut self, at: KeyRef<'_>) {
        faults::point();
        self.open(at).persist();
    }

    fn block_client(&mut self) -> bool {
        if self.patience.is_some() && self.ctx().db() != self.db {
            // A circle of waiting tokens may lead through other databases, and the server blocks a client in the one that is selected.
            self.shut();
            self.ctx().select(self.db);
        }
        self.patience.is_some_and(|(lock, wait)| WAITERS.block(self.ctx(), lock, wait))
    }

    fn client_blocked(&mut self, waiter: WaiterId) {
        faults::point();
        WAITERS.name(waiter);
    }

    fn answer(&mut self, waiter: WaiterId, answer: Answer) {
        faults::point();
        self.answers.push((waiter, answer));
    }

    fn publish(&mut self, notice: Box<Notice>, outcome: Answer) {
        let text = notice::message(&notice, &outcome);
        self.messages.push((notice.channel, text));
    }

    fn look_first(&mut self, waiter: WaiterId, client: ClientId) {
        self.look_first = Some((waiter, client));
    }

    fn owns_slot(&mut self, at: KeyRef<'_>) -> bool {
        if !self.asks {
            return true;
        }
        self.shut();
        self.select(at.db);
        let name = Name::make(at.key);
        let serves = cluster::serves(self.free_ctx(), &name);
        self.down = serves == Serves::Nothing;
        serves == Serves::These
    }

    fn serves_nothing(&mut self) -> bool {
        self.down
    }
}
