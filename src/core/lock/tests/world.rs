//! A world made of a map, which speaks to the engine in short sentences.

use std::collections::HashMap;

use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::key::{KeyBuf, KeyRef};
use crate::core::lock::{
    Acquired, Claim, ClientId, EndReason, Engine, Extension, Found, Grant, Hold, Keyspace, Lock, LockError, LockView,
    Mode, Notice, Request, Wait, WaitResult, WaiterId, Wanted, in_order,
};
use crate::core::time::{Millis, Now, Wakeup};

/// What a key holds.
#[derive(Debug, PartialEq)]
pub(super) enum Value {
    Lock(Lock),
    Foreign,
}

/// What the engine told the keyspace, in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Told {
    Put(KeyBuf),
    Deleted(KeyBuf),
    Held(KeyBuf, Mode, Hold),
    Ended(KeyBuf, Ident, EndReason),
    PassedOn(KeyBuf),
    Answered(WaiterId, WaitResult),
    Published(Notice, WaitResult),
}

/// Another module moves a value, at the first event about a key.
#[derive(Debug)]
pub(super) struct Meddling {
    pub(super) event: Event,
    pub(super) key: &'static str,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
}

/// What the server tells at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Event {
    /// The key is looked at, and what was there is over.
    Over,
    /// The key is made.
    Made,
}

/// Keys in a map, and a record of everything the engine said.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pub(super) values: HashMap<KeyBuf, Value>,
    pub(super) told: Vec<Told>,
    /// Keys that this node does not serve.
    pub(super) elsewhere: Vec<KeyBuf>,
    /// Whether this node serves no key at all.
    pub(super) down: bool,
    /// How often the engine has asked whether this node serves a key.
    pub(super) asked: usize,
    /// How often the engine has looked at a key.
    pub(super) looks: usize,
    /// Whether clients cannot be blocked.
    pub(super) unblockable: bool,
    /// What another module does as soon as it hears of something.
    pub(super) meddling: Option<Meddling>,
}

impl Keys {
    fn tell(&mut self, event: Event, key: KeyRef<'_>) {
        if let Some(it) = self.meddling.take_if(|it| it.event == event && at(it.key) == key) {
            let moved = self.values.remove(&at(it.from).to_buf()).unwrap();
            self.values.insert(at(it.to).to_buf(), moved);
        }
    }
}

impl Keyspace for Keys {
    fn find(&mut self, at: KeyRef<'_>) -> Found<'_> {
        self.looks += 1;
        self.tell(Event::Over, at);
        match self.values.get_mut(&at.to_buf()) {
            None => Found::Nothing,
            Some(Value::Lock(lock)) => Found::Lock(lock),
            Some(Value::Foreign) => Found::Foreign,
        }
    }

    fn put(&mut self, at: KeyRef<'_>, lock: Lock) {
        assert!(!lock.is_empty(), "a free lock leaves no key");
        self.told.push(Told::Put(at.to_buf()));
        assert!(self.values.insert(at.to_buf(), Value::Lock(lock)).is_none(), "the key held something");
        self.tell(Event::Made, at);
    }

    fn delete(&mut self, at: KeyRef<'_>) {
        self.told.push(Told::Deleted(at.to_buf()));
        match self.values.remove(&at.to_buf()) {
            Some(Value::Lock(lock)) => assert!(lock.is_empty(), "a held lock was deleted"),
            other => panic!("no lock to delete: {other:?}"),
        }
    }

    fn held(&mut self, at: KeyRef<'_>, mode: Mode, hold: Hold) {
        self.told.push(Told::Held(at.to_buf(), mode, hold));
    }

    fn ended(&mut self, at: KeyRef<'_>, token: Ident, why: EndReason) {
        self.told.push(Told::Ended(at.to_buf(), token, why));
    }

    fn clear_expire(&mut self, at: KeyRef<'_>) {
        assert!(self.values.contains_key(&at.to_buf()), "the key was never gone");
        self.told.push(Told::PassedOn(at.to_buf()));
    }

    fn block_client(&mut self, _: Millis) -> bool {
        !self.unblockable
    }

    fn client_blocked(&mut self, _: WaiterId) {}

    fn answer(&mut self, waiter: WaiterId, answer: WaitResult) {
        self.told.push(Told::Answered(waiter, answer));
    }

    fn publish(&mut self, notice: Box<Notice>, outcome: WaitResult) {
        self.told.push(Told::Published(*notice, outcome));
    }

    fn owns_slot(&mut self, at: KeyRef<'_>) -> bool {
        self.asked += 1;
        !self.down && !self.elsewhere.contains(&at.to_buf())
    }

    fn serves_nothing(&mut self) -> bool {
        self.down
    }
}

/// An engine, its keyspace and a clock.
pub(super) struct World {
    pub(super) engine: Engine,
    pub(super) keys: Keys,
    pub(super) now: Now,
}

pub(super) fn token(name: &str) -> Ident {
    Ident::new(name.as_bytes()).unwrap()
}

pub(super) fn client(number: u64) -> ClientId {
    ClientId::new(number).unwrap()
}

pub(super) fn at(key: &str) -> KeyRef<'_> {
    KeyRef { db: 0, key: key.as_bytes() }
}

/// A request called `about`, whose outcome goes to `channel`.
pub(super) fn notice(channel: &str, about: &str) -> Notice {
    Notice { channel: channel.as_bytes().into(), about: about.into() }
}

/// An exclusive request with a lease of a second that does not wait.
pub(super) fn ask(name: &str) -> Request {
    let (mode, lease) = (Wanted::Exclusive, Millis(1_000));
    Request { token: token(name), mode, lease, wait: Wait::No, client: None, session: false }
}

impl Request {
    pub(super) fn shared(self) -> Self {
        Self { mode: Wanted::Shared, ..self }
    }

    pub(super) fn limit(self, permits: u64) -> Self {
        Self { mode: Wanted::Limit(permits), ..self }
    }

    pub(super) fn lease(self, ms: i64) -> Self {
        Self { lease: Millis(ms), ..self }
    }

    pub(super) fn waiting(self, ms: i64) -> Self {
        Self { wait: Wait::Parked(Millis(ms)), ..self }
    }

    /// This request, sent by this connection.
    pub(super) fn by(&self, number: u64) -> Self {
        Self { client: Some(client(number)), ..self.clone() }
    }

    /// This request, waiting without limit unless it has a limit.
    pub(super) fn patient(&self) -> Self {
        let wait = if self.wait == Wait::No { Wait::Parked(Millis(0)) } else { self.wait.clone() };
        Self { wait, ..self.clone() }
    }

    /// This request, waiting without a blocked client.
    pub(super) fn notified(&self, notice: Notice) -> Self {
        let Wait::Parked(limit) = self.patient().wait else { panic!("it is notified already") };
        Self { wait: Wait::Notified(limit, Box::new(notice)), ..self.clone() }
    }

    pub(super) fn session(self) -> Self {
        Self { session: true, ..self }
    }
}

impl Acquired {
    /// The grant of a request that must have been granted.
    pub(super) fn granted(self) -> Grant {
        match self {
            Self::Granted(grant) => grant,
            other => panic!("not granted: {other:?}"),
        }
    }

    /// The id of a request that must be notified later, and its place.
    pub(super) fn notified(self) -> (WaiterId, u64) {
        match self {
            Self::Notified { waiter, place } => (waiter, place),
            other => panic!("not in line: {other:?}"),
        }
    }

    /// The id of a request that must have been parked.
    pub(super) fn parked(self) -> WaiterId {
        match self {
            Self::Parked(waiter) => waiter,
            other => panic!("not parked: {other:?}"),
        }
    }
}

impl World {
    pub(super) fn new() -> Self {
        Self { engine: Engine::default(), keys: Keys::default(), now: Now::from_micros(1_000_000_000) }
    }

    pub(super) fn acquire(&mut self, key: &str, by: u64, request: &Request) -> Result<Acquired, LockError> {
        self.engine.acquire(self.now, at(key), &request.by(by), &mut self.keys)
    }

    /// Acquires for a client that no story is about.
    pub(super) fn try_acquire(&mut self, key: &str, request: &Request) -> Result<Acquired, LockError> {
        self.acquire(key, 99, request)
    }

    /// Acquires a lock that is free.
    pub(super) fn take(&mut self, key: &str, request: &Request) -> Fence {
        self.try_acquire(key, request).unwrap().granted().fence
    }

    /// Acquires a lock that is taken, and waits for it without limit.
    pub(super) fn wait(&mut self, key: &str, by: u64, request: &Request) -> WaiterId {
        self.acquire(key, by, &request.patient()).unwrap().parked()
    }

    /// Acquires several keys, some of which are taken, and waits for them without limit.
    pub(super) fn wait_many(&mut self, keys: &[&str], by: u64, request: &Request) -> WaiterId {
        self.acquire_many(keys, by, &request.patient()).unwrap().parked()
    }

    pub(super) fn acquire_many(&mut self, keys: &[&str], by: u64, request: &Request) -> Result<Acquired, LockError> {
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        self.engine.acquire_many(self.now, &in_order(0, &keys), &request.by(by), &mut self.keys)
    }

    pub(super) fn release(&mut self, key: &str, name: &str) -> bool {
        self.engine.release(self.now, &[at(key)], Claim::of(&token(name)), &mut self.keys).unwrap() == 1
    }

    pub(super) fn release_many(&mut self, keys: &[&str], name: &str) -> Result<u64, LockError> {
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        self.engine.release(self.now, &in_order(0, &keys), Claim::of(&token(name)), &mut self.keys)
    }

    pub(super) fn extend(&mut self, key: &str, name: &str, ms: i64) -> Result<bool, LockError> {
        let extension = Extension { lease: Millis(ms), only_later: false };
        self.engine.extend(self.now, &[at(key)], Claim::of(&token(name)), extension, &mut self.keys)
    }

    /// Extends the holds by a lease from now, but none to end sooner than it would.
    pub(super) fn extend_many(&mut self, keys: &[&str], name: &str, ms: i64) -> Result<bool, LockError> {
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let extension = Extension { lease: Millis(ms), only_later: true };
        self.engine.extend(self.now, &in_order(0, &keys), Claim::of(&token(name)), extension, &mut self.keys)
    }

    /// Waits for a lock without being blocked; returns the place in line.
    pub(super) fn line_up(&mut self, key: &str, by: u64, request: &Request, channel: &str) -> u64 {
        let request = request.notified(notice(channel, key)).by(by);
        self.engine.acquire(self.now, at(key), &request, &mut self.keys).unwrap().notified().1
    }

    /// Waits for several keys without being blocked; returns the place in line.
    pub(super) fn line_up_many(&mut self, keys: &[&str], by: u64, request: &Request, channel: &str) -> u64 {
        let request = request.notified(notice(channel, &keys.join("+"))).by(by);
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        self.engine.acquire_many(self.now, &in_order(0, &keys), &request, &mut self.keys).unwrap().notified().1
    }

    /// What was published since this was asked last: channel, request, outcome.
    pub(super) fn published(&mut self) -> Vec<(String, String, WaitResult)> {
        let published = |told| match told {
            Told::Published(notice, outcome) => {
                Some((String::from_utf8(notice.channel.to_vec()).unwrap(), notice.about.to_string(), outcome))
            }
            _ => None,
        };
        self.told().into_iter().filter_map(published).collect()
    }

    /// Lets time pass without the timer.
    pub(super) fn pass(&mut self, ms: i64) {
        self.now = Now::from_micros(self.now.us + u64::try_from(ms).unwrap() * 1_000);
    }

    /// Lets the timer do all it has to do now.
    pub(super) fn tick(&mut self) -> Wakeup {
        self.engine.tick(self.now, usize::MAX, &mut self.keys)
    }

    /// What the engine said since this was asked last.
    pub(super) fn told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.keys.told)
    }

    /// The answers among that.
    pub(super) fn answers(&mut self) -> Vec<(WaiterId, WaitResult)> {
        let answered = |told| if let Told::Answered(waiter, answer) = told { Some((waiter, answer)) } else { None };
        self.told().into_iter().filter_map(answered).collect()
    }

    /// The waiters that were granted since this was asked last, in order; nobody else had an answer.
    pub(super) fn granted(&mut self) -> Vec<WaiterId> {
        let granted = |(waiter, answer)| {
            assert!(matches!(answer, WaitResult::Granted(_)), "{answer:?}");
            waiter
        };
        self.answers().into_iter().map(granted).collect()
    }

    pub(super) fn lock(&self, key: &str) -> Option<&Lock> {
        match self.keys.values.get(&at(key).to_buf()) {
            Some(Value::Lock(lock)) => Some(lock),
            _ => None,
        }
    }

    pub(super) fn info(&self, key: &str) -> Option<LockView> {
        self.engine.info(self.now, at(key), self.lock(key))
    }

    /// The holders of the lock at `key`, oldest first.
    pub(super) fn holders(&self, key: &str) -> Vec<String> {
        let holders = self.info(key).map(|info| info.holders).unwrap_or_default();
        holders.iter().map(|holder| String::from_utf8(holder.token.text().to_vec()).unwrap()).collect()
    }

    /// Removes the value at `key` behind the engine's back, as DEL does.
    pub(super) fn delete(&mut self, key: &str) -> Option<Lock> {
        let Some(Value::Lock(lock)) = self.keys.values.remove(&at(key).to_buf()) else { return None };
        self.engine.vanished(at(key), lock.deadline_id());
        Some(lock)
    }

    /// Asserts that the engine remembers nothing.
    pub(super) fn assert_blank(&self) {
        assert!(self.keys.values.is_empty(), "{:?}", self.keys.values);
        assert!(self.engine.is_blank(), "{:?}", self.engine);
    }
}
