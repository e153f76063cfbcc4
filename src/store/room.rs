//! The keyspace as the lock engine sees it.

use std::ffi::CStr;
use std::{mem, thread};

use smallvec::SmallVec;

use crate::core::ident::Ident;
use crate::core::lock::{Answer, End, Found, Grant, Hold, Lock, Mode, WaiterId, World};
use crate::core::place::At;
use crate::error::Error;
use crate::server::cluster;
use crate::server::ctx::Ctx;
use crate::server::faults;
use crate::server::key::{self, Access, Content, Key, Name};
use crate::server::park;
use crate::store::amends;
use crate::store::lock_effect::{self, Effects};
use crate::store::sale_type::SaleValue;

/// What the engine needs during one call: keys to look at, and a way to say what came of it.
///
/// Nearly every call is about one key, which stays open from the first look to the last change.
pub struct Room<'a> {
    ctx: Ctx<'a>,
    /// The database that the call began in.
    db: i32,
    /// Whether this is work between commands on a member of a cluster, where a key may be another node's meanwhile.
    asks: bool,
    open: Option<Open<'a>>,
    answers: SmallVec<[(WaiterId, Answer); 1]>,
}

struct Open<'a> {
    db: i32,
    name: Name<'a>,
    key: Key<'a>,
    /// What replicas and the AOF have not heard yet.
    news: Effects,
    /// What the listeners will be told once the key is closed: other modules may be among them, who may do anything to it.
    events: SmallVec<[&'static CStr; 4]>,
}

impl<'a> Open<'a> {
    fn new(db: i32, name: Name<'a>, key: Key<'a>) -> Self {
        Self { db, name, key, news: Effects::default(), events: SmallVec::new() }
    }
}

impl Drop for Open<'_> {
    /// When a fault cuts the work short, replicas may lack a part of it.
    fn drop(&mut self) {
        if thread::panicking() {
            amends::owe(At { db: self.db, key: self.name.bytes() }, None);
        }
    }
}

impl<'a> Room<'a> {
    /// A room without an open key.
    pub fn new(ctx: Ctx<'a>) -> Self {
        Self { ctx, db: ctx.db(), asks: false, open: None, answers: SmallVec::new() }
    }

    /// A room for work between commands.
    pub fn between_commands(ctx: Ctx<'a>) -> Self {
        let mut room = Self::new(ctx);
        room.asks = ctx.flags().is_cluster();
        room
    }

    /// A room for a command on one key, whose name the server already has as a string.
    pub fn with_key(ctx: Ctx<'a>, name: Name<'a>) -> Self {
        let mut room = Self::new(ctx);
        let key = Key::open(ctx, &name, Access::Write);
        room.open = Some(Open::new(room.db, name, key));
        room
    }

    /// The open key for `at`.
    fn at(&mut self, at: At<'_>) -> &mut Open<'a> {
        let is_open = self.open.as_ref().is_some_and(|open| open.db == at.db && open.name.bytes() == at.key);
        if !is_open {
            // The other one first.
            self.shut();
        }
        let ctx = self.ctx;
        self.open.get_or_insert_with(|| {
            ctx.select(at.db);
            let name = Name::make(ctx, at.key);
            let key = Key::open(ctx, &name, Access::Write);
            Open::new(at.db, name, key)
        })
    }

    /// Closes what is open, and tells everybody what came of it.
    fn shut(&mut self) {
        if let Some(mut open) = self.open.take() {
            open.key.close();
            if !open.events.is_empty() {
                lock_effect::send(self.ctx, &open.name, &open.news);
                key::touched(self.ctx, &open.name);
            }
            for event in mem::take(&mut open.events) {
                key::notify(self.ctx, event, &open.name);
            }
        }
    }

    /// The sale at `at`, if one is there.
    pub fn sale(&mut self, at: At<'_>) -> Option<&mut SaleValue> {
        match self.at(at).key.content() {
            Content::Value(sale) => Some(sale),
            Content::Nothing | Content::Foreign => None,
        }
    }

    /// Closes what is open and tells the clients that were parked and have an answer now. The state of the module must be free: on
    /// some servers their replies are written in here.
    pub fn leave(mut self) {
        self.shut();
        self.end();
    }

    /// Whoever was answered is answered even if the work comes to no good end: what it was granted, it holds.
    fn end(&mut self) {
        self.open = None;
        self.ctx.select(self.db);
        self.answers.reverse();
        while let Some((waiter, answer)) = self.answers.pop() {
            park::wake(waiter, answer);
        }
    }
}

/// Replies `[token, fence, lease in milliseconds]`.
pub fn reply_grant(ctx: Ctx<'_>, grant: &Grant) {
    ctx.reply_array(3);
    ctx.reply_bytes(&grant.token.text());
    ctx.reply_int(grant.fence.0);
    ctx.reply_int(grant.lease.0);
}

/// Replies what a waiter is told.
pub fn reply_answer(ctx: Ctx<'_>, answer: &Answer) {
    match answer {
        Answer::Granted(grant) => reply_grant(ctx, grant),
        Answer::Refused => ctx.reply_null(),
        Answer::Failed(error) => ctx.reply_error(&Error::from(*error).to_string()),
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.end();
        }
    }
}

impl World for Room<'_> {
    fn find(&mut self, at: At<'_>) -> Found<'_> {
        faults::point();
        match self.at(at).key.content() {
            Content::Nothing => Found::Nothing,
            Content::Value(lock) => Found::Lock(lock),
            Content::Foreign => Found::Foreign,
        }
    }

    fn put(&mut self, at: At<'_>, lock: Lock) {
        faults::point();
        self.at(at).key.set(lock);
    }

    fn delete(&mut self, at: At<'_>) {
        faults::point();
        let open = self.at(at);
        // Anything else was put there by a listener meanwhile.
        if let Content::Value(lock) = open.key.content::<Lock>()
            && lock.is_empty()
        {
            // The engine knows; the type's own callback need not tell it.
            lock.leave_home();
            open.key.delete();
        }
    }

    fn held(&mut self, at: At<'_>, mode: Mode, hold: Hold) {
        faults::point();
        let ctx = self.ctx;
        let Open { name, news, events, .. } = self.at(at);
        if news.held.is_some() {
            lock_effect::send(ctx, name, &mem::take(news));
        }
        news.held = Some((mode, hold));
        events.push(c"lock.held");
    }

    fn ended(&mut self, at: At<'_>, token: Ident, why: End) {
        faults::point();
        let ctx = self.ctx;
        let Open { name, news, events, .. } = self.at(at);
        if news.ended.is_some() || news.held.is_some() {
            lock_effect::send(ctx, name, &mem::take(news));
        }
        events.push(lock_effect::event_of(why));
        news.ended = Some((token, why));
    }

    fn passed_on(&mut self, at: At<'_>) {
        faults::point();
        self.at(at).key.persist();
    }

    fn answer(&mut self, waiter: WaiterId, answer: Answer) {
        faults::point();
        self.answers.push((waiter, answer));
    }

    fn may_grant(&mut self, at: At<'_>) -> bool {
        if !self.asks {
            return true;
        }
        // The question may delete a key whose own time is over; none must be open then.
        self.shut();
        self.ctx.select(at.db);
        cluster::serves(self.ctx, &Name::make(self.ctx, at.key))
    }
}
