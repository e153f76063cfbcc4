//! The keyspace for one call of the lock engine.

use std::ffi::CStr;
use std::{mem, ptr};

use smallvec::SmallVec;

use crate::core::key::KeyRef;
use crate::core::lock::{self, Claim, Engine, Lock, LockView, Notice, WaitResult, WaiterId};
use crate::core::time::Now;
use crate::error::Error;
use crate::module::blocked::BLOCKED;
use crate::module::lock_effect::{self, LockChange, SaidToken};
use crate::module::repair;
use crate::module::sale_type::SaleValue;
use crate::module::verbatim_release::VerbatimRelease;
use crate::module::{notify_message, state};
use crate::server::args::{Arg, Name};
use crate::server::ctx::Ctx;
use crate::server::key::{self, Access, Key};
use crate::server::publish;
use crate::server::replicate;
use crate::server::timer;

mod keyspace;

/// Gives the engine access to keys during one call, and takes the outcome.
///
/// Nearly every call is about one key, which stays open from the first look to the last change.
pub struct LockSession<'a> {
    /// The context of the call, and the key that is open.
    key: Key<'a>,
    /// The database that the call began in.
    db: i32,
    /// The database of the context now, if it is known.
    selected: Option<i32>,
    /// Whether the last answer of the cluster was that it is down as a whole.
    down: bool,
    at_work: Option<AtWork<'a>>,
    /// Finished keys, with the events to notify at the end: listeners may be other modules, which may do anything to any key.
    finished: SmallVec<[AtWork<'a>; 1]>,
    answers: SmallVec<[(WaiterId, WaitResult); 1]>,
    /// Channels, and the messages for them.
    messages: Vec<(Box<[u8]>, String)>,
    /// The key that a client is blocked on: one of the running command.
    block_on: Option<Arg<'a>>,
    /// The words of the running command, if it releases holds and has done nothing else so far.
    pub verbatim: Option<VerbatimRelease<'a>>,
    /// The token of the running command, if it names one.
    pub said: Option<SaidToken<'a>>,
}

/// The key in use.
struct AtWork<'a> {
    db: i32,
    name: Name<'a>,
    /// Effects that are not sent to replicas and the AOF yet.
    change: LockChange,
    events: Events,
}

/// The events of a key, in order.
type Events = SmallVec<[&'static CStr; 2]>;

impl<'a> AtWork<'a> {
    fn new(db: i32, name: Name<'a>) -> Self {
        Self { db, name, change: LockChange::default(), events: Events::new() }
    }

    fn is_of(&self, at: KeyRef<'_>) -> bool {
        // Nearly always it is the same word of the same command.
        let name = self.name.bytes();
        self.db == at.db && (ptr::eq(name, at.key) || name == at.key)
    }
}

impl<'a> LockSession<'a> {
    /// A session without an open key.
    pub fn new(ctx: Ctx<'a>) -> Self {
        let db = ctx.db();
        let (key, selected) = (Key::closed(ctx), Some(db));
        let (finished, answers, messages) = Default::default();
        let (at_work, block_on, verbatim, said) = Default::default();
        Self { key, db, selected, down: false, at_work, finished, answers, messages, block_on, verbatim, said }
    }

    /// A session for a command on one key, whose name the server already has as a string.
    pub fn with_key(ctx: Ctx<'a>, name: Name<'a>) -> Self {
        let mut session = Self::new(ctx);
        session.key.reopen(&name, Access::Write);
        session.at_work = Some(AtWork::new(session.db, name));
        session
    }

    /// The context, for server calls that run no other code.
    pub fn ctx(&self) -> &Ctx<'a> {
        self.key.quiet()
    }

    /// The context, for server calls that may run other code. Closes the key and sends all effects first.
    pub fn free_ctx(&mut self) -> &mut Ctx<'a> {
        self.shut();
        self.send_releases();
        self.selected = None;
        self.key.ctx()
    }

    /// The unsent effects and events of `at`. The key need not be open.
    #[inline]
    fn at(&mut self, at: KeyRef<'_>) -> &mut AtWork<'a> {
        if !self.at_work.as_ref().is_some_and(|work| work.is_of(at)) {
            self.go_to(at.db);
        }
        self.at_work.get_or_insert_with(|| AtWork::new(at.db, Name::make(at.key)))
    }

    /// Finishes the key in use, and selects the database of another one.
    fn go_to(&mut self, db: i32) {
        self.shut();
        self.select(db);
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
        if self.at_work.as_ref().is_none_or(|work| work.events.is_empty()) {
            self.at_work = None;
            return;
        }
        self.send();
        if let Some(work) = self.at_work.take() {
            key::touched(self.ctx(), &work.name);
            self.finished.push(work);
        }
    }

    /// A request has failed for a reason that the engine does not know.
    pub fn fail(&mut self, notice: Notice, error: &Error) {
        let text = notify_message::failure(&notice, error);
        self.messages.push((notice.channel, text));
    }

    /// Sends the effects of the key in use, unless the words of the command will say them.
    fn send(&mut self) {
        let Some(work) = &mut self.at_work else { return };
        let (db, change) = (work.db, mem::take(&mut work.change));
        if db == self.db && self.verbatim.as_mut().is_some_and(|verbatim| verbatim.take_over(&work.name, &change)) {
            return;
        }
        self.send_releases();
        self.select(db);
        if let Some(work) = &self.at_work {
            lock_effect::send(self.ctx(), &work.name, &change, self.said);
        }
    }

    /// The command had other effects than releases, so the releases are sent as effects, too.
    fn send_releases(&mut self) {
        let Some(verbatim) = self.verbatim.take() else { return };
        self.select(self.db);
        for (name, change) in verbatim.effects() {
            lock_effect::send(self.ctx(), &name, &change, self.said);
        }
    }

    /// The sale at `at`, if one is there.
    pub fn sale(&mut self, at: KeyRef<'_>) -> Option<&mut SaleValue> {
        self.open(at).content().ok().flatten()
    }

    /// Lets `f` use the engine, arms the timer for the work that is left, and leaves.
    fn run<R>(mut self, f: impl FnOnce(&mut Engine, &mut Self) -> Result<R, Error>) -> Result<R, Error> {
        let done = state::enter(|state| {
            let done = f(&mut state.locks, &mut self);
            timer::arm(state.locks.next_wakeup());
            done
        });
        self.leave();
        done.unwrap_or(Err(Error::Internal))
    }

    /// Closes the open key, then publishes messages and unblocks the answered clients, then notifies listeners. The module state must not
    /// be in use: some servers write the replies in here, and listeners run commands.
    pub fn leave(&mut self) {
        self.shut();
        if self.verbatim.as_ref().is_some_and(VerbatimRelease::has_any) {
            self.select(self.db);
            replicate::verbatim(self.ctx());
        }
        self.verbatim = None;
        self.end();
        for AtWork { db, name, events, .. } in mem::take(&mut self.finished) {
            self.select(db);
            for event in events {
                key::notify(self.key.ctx(), event, &name);
            }
            // On Valkey 8.1 a listener may have selected another one for the caller.
            self.selected = None;
        }
        self.select(self.db);
    }

    fn select(&mut self, db: i32) {
        if self.selected.replace(db) != Some(db) {
            self.ctx().select(db);
        }
    }

    /// Deliver queued messages and replies even when unwinding: those grants are already in the keyspace.
    fn end(&mut self) {
        self.at_work = None;
        self.select(self.db);
        if self.messages.is_empty() && self.answers.is_empty() {
            return;
        }
        self.messages.reverse();
        while let Some((channel, text)) = self.messages.pop() {
            publish::publish(self.ctx(), &channel, text.as_bytes());
        }
        self.answers.reverse();
        while let Some((waiter, answer)) = self.answers.pop() {
            BLOCKED.unblock(self.key.ctx(), waiter, answer);
        }
    }
}

/// Runs a command on the lock `key`; `f` gets the engine, the key and the session.
pub fn run<'a, R>(
    ctx: &'a mut Ctx<'_>,
    key: Arg<'a>,
    f: impl FnOnce(&mut Engine, KeyRef<'_>, &mut LockSession<'a>) -> Result<R, Error>,
) -> Result<R, Error> {
    let at = KeyRef { db: ctx.db(), key: key.bytes() };
    let mut session = LockSession::with_key(ctx.reborrow(), Name::of(key));
    session.block_on = Some(key);
    session.run(|engine, session| f(engine, at, session))
}

/// Runs a command on several locks; `f` gets the engine, the keys in order and the session.
pub fn run_many<'a, R>(
    ctx: &'a mut Ctx<'_>,
    keys: &[Arg<'a>],
    f: impl FnOnce(&mut Engine, &[KeyRef<'_>], &mut LockSession<'a>) -> Result<R, Error>,
) -> Result<R, Error> {
    let names: Vec<&[u8]> = keys.iter().map(|key| key.bytes()).collect();
    let locks = lock::in_order(ctx.db(), &names);
    let mut session = LockSession::new(ctx.reborrow());
    // All keys are in one slot, so any of them will do.
    session.block_on = keys.first().copied();
    session.run(|engine, session| f(engine, &locks, session))
}

/// The public view of the lock `key` at `now`; `None` if it has neither holders nor waiters.
pub fn look(ctx: &mut Ctx<'_>, key: Arg<'_>, now: Now) -> Result<Option<LockView>, Error> {
    read(ctx, key, |engine, at, lock| engine.info(now, at, lock))
}

/// Whether the lock `key` has the claimed hold at `now`. The key is closed afterwards.
pub fn guards(ctx: &mut Ctx<'_>, key: Arg<'_>, now: Now, claim: Claim<'_>) -> Result<bool, Error> {
    read(ctx, key, |engine, _, lock| engine.guards(now, lock, claim))
}

/// Reads the lock `key`; `f` gets the engine, the key, and the lock if there is one.
fn read<R>(
    ctx: &mut Ctx<'_>,
    key: Arg<'_>,
    f: impl FnOnce(&mut Engine, KeyRef<'_>, Option<&Lock>) -> R,
) -> Result<R, Error> {
    let at = KeyRef { db: ctx.db(), key: key.bytes() };
    let mut open = Key::open(ctx.reborrow(), &Name::of(key), Access::Read);
    let lock = open.content::<Lock>().map_err(|_| Error::WrongType)?.map(|lock| &*lock);
    state::enter(|state| f(&mut state.locks, at, lock)).ok_or(Error::Internal)
}

impl Drop for LockSession<'_> {
    fn drop(&mut self) {
        repair::if_interrupted(|| {
            // A panic cut the work short, so replicas may have missed a part of it.
            if let Some(work) = &self.at_work {
                repair::schedule(KeyRef { db: work.db, key: work.name.bytes() }, Vec::new());
            }
            if let Some(verbatim) = &self.verbatim {
                verbatim.mark_for_repair(self.db);
            }
            self.end();
        });
    }
}
