//! One schedule, played to the engine, to a replica of it, and to the model, which must agree.

mod compare;
mod keyspace;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::model::{Ask, Key, Model, Outcome, Serial};
use super::world::{Keys, Told, Value, World, client, notice, token};
use crate::core::fence::Fence;
use crate::core::key::{KeyBuf, KeyRef};
use crate::core::lock::{Acquired, Claim, Engine, Extension, Request, Wait, WaitResult, WaiterId, in_order};
use crate::core::tests::canonical::canonical;
use crate::core::time::{Millis, Wakeup};

pub(super) const DBS: i32 = 2;
pub(super) const NAMES: usize = 3;

/// The engine under test, what follows it, and what is known so far.
pub(super) struct Trial {
    world: World,
    replica: (Engine, Keys),
    model: Model,
    fences: BTreeMap<Serial, Fence>,
    seen: BTreeSet<Fence>,
    /// The clients that are connected.
    clients: Vec<u64>,
    /// All waiters that were ever parked, and whether their reply is still to be written.
    parked: Vec<WaiterId>,
    undelivered: Vec<WaiterId>,
    told: Vec<(WaiterId, WaitResult)>,
    /// The requests that are notified, each named by its number.
    notified: Vec<WaiterId>,
    script: VecDeque<WaiterId>,
}

fn place((db, number): Key) -> KeyBuf {
    KeyRef { db, key: format!("key-{number}").as_bytes() }.to_buf()
}

fn name(number: usize) -> String {
    format!("token-{number}")
}

pub(super) fn all_keys() -> impl Iterator<Item = Key> {
    (0..DBS).flat_map(|db| (0..NAMES).map(move |number| (db, number)))
}

impl Trial {
    /// With a `bound` on what a command does for others.
    pub(super) fn new(clients: usize, bound: Option<usize>, detects: bool, grace: i64) -> Self {
        let mut world = World::new();
        world.engine.settings.place_grace = Millis(grace);
        world.engine.settings.detects_deadlocks = detects;
        world.engine.bound = bound;
        let mut model = Model::default();
        model.lenient = bound.is_some();
        model.detects = detects;
        model.grace = grace;
        model.now = world.now.ms.0;
        Self {
            world,
            replica: (Engine::default(), Keys::default()),
            model,
            fences: BTreeMap::new(),
            seen: BTreeSet::new(),
            clients: (1..=clients as u64).collect(),
            parked: Vec::new(),
            undelivered: Vec::new(),
            told: Vec::new(),
            notified: Vec::new(),
            script: VecDeque::new(),
        }
    }

    pub(super) fn client(&self, slot: usize) -> u64 {
        self.clients[slot]
    }

    pub(super) fn acquire(&mut self, ask: &Ask, may_wait: bool) {
        if self.serves(&ask.keys) {
            // What waits may be granted before this request or after it, and so with another fence.
            let own = self.model.holds.iter().any(|hold| hold.token == ask.token);
            let may_close = may_wait && ask.wait.is_some() && own && !self.is_settled();
            self.catch_up(may_close || self.model.may_follow(ask.token) || self.model.may_overlook(&ask.keys));
            let lost = self.model.lost();
            self.acquire_now(ask, may_wait);
            self.catch_up(lost);
        }
    }

    fn acquire_now(&mut self, ask: &Ask, may_wait: bool) {
        let settled = self.is_settled();
        let request = Request {
            token: token(&name(ask.token)),
            mode: ask.wanted,
            lease: Millis(ask.lease),
            wait: match (ask.wait.filter(|_| may_wait).map(Millis), ask.notify) {
                (None, _) => Wait::No,
                (Some(limit), None) => Wait::Parked(limit),
                (Some(limit), Some(channel)) => {
                    let notice = notice(&channel.to_string(), &self.notified.len().to_string());
                    Wait::Notified(limit, Box::new(notice))
                }
            },
            client: Some(client(ask.client)),
            session: ask.session,
        };
        let World { engine, keys, now } = &mut self.world;
        let places: Vec<KeyBuf> = ask.keys.iter().map(|key| place(*key)).collect();
        let actual = if ask.many {
            // Backwards, and the first key twice: neither matters.
            let mut names: Vec<&[u8]> = places.iter().rev().map(|place| place.as_key().key).collect();
            names.push(places[0].as_key().key);
            engine.acquire_many(*now, &in_order(places[0].as_key().db, &names), &request, keys)
        } else {
            engine.acquire(*now, places[0].as_key(), &request, keys)
        };
        self.hear(true);
        let expected = self.model.acquire(ask, may_wait, &mut self.script);
        self.nobody_forgotten(settled);
        self.compare_told();
        match (expected, actual) {
            (Outcome::Granted { token: expected, serial, lease }, Ok(Acquired::Granted(grant))) => {
                assert_eq!((&grant.token, grant.lease), (&token(&name(expected)), Millis(lease)));
                self.number(serial, grant.fence);
            }
            (Outcome::Refused, Ok(Acquired::Refused)) => {}
            (Outcome::Parked, Ok(Acquired::Notified { waiter: id, place })) => {
                assert!(ask.notify.is_some());
                let exact = self.model.place_of_the_last() as u64;
                assert!((exact..=exact + self.parked.len() as u64 + self.notified.len() as u64).contains(&place));
                self.notified.push(id);
                self.model.line.iter_mut().find(|parked| parked.id.is_none()).unwrap().id = Some(id);
            }
            (Outcome::Parked, Ok(Acquired::Parked(id))) => {
                assert!(ask.notify.is_none());
                self.parked.push(id);
                self.model.line.iter_mut().find(|parked| parked.id.is_none()).unwrap().id = Some(id);
            }
            (Outcome::Deadlock, Ok(Acquired::Deadlock(keys))) => self.is_circle(ask, &keys),
            (Outcome::Failed(expected), Err(error)) => assert_eq!(error, expected),
            (expected, actual) => panic!("expected {expected:?}, got {actual:?}: {ask:?}, {:?}", self.model),
        }
    }

    /// One of the latest fences, if one is to be named.
    fn fence(&self, pick: Option<usize>) -> Option<(Serial, Fence)> {
        self.fences.iter().rev().nth(pick?).map(|(serial, fence)| (*serial, *fence))
    }

    pub(super) fn release(&mut self, keys: &[Key], many: bool, owner: usize, fence: Option<usize>) {
        if !self.serves(keys) {
            return;
        }
        self.catch_up(self.model.may_follow(owner));
        let (lost, settled) = (self.model.lost(), self.is_settled());
        let (ident, fence) = (token(&name(owner)), self.fence(fence));
        let claim = Claim { token: &ident, fence: fence.map(|(_, fence)| fence) };
        let World { engine, keys: keyspace, now } = &mut self.world;
        let places: Vec<KeyBuf> = keys.iter().map(|key| place(*key)).collect();
        let released = if many {
            let names: Vec<&[u8]> = places.iter().map(|place| place.as_key().key).collect();
            engine.release(*now, &in_order(places[0].as_key().db, &names), claim, keyspace)
        } else {
            engine.release(*now, &[places[0].as_key()], claim, keyspace)
        };
        self.hear(true);
        assert_eq!(released, self.model.release(keys, owner, fence.map(|(serial, _)| serial), &mut self.script));
        self.nobody_forgotten(settled);
        self.compare_told();
        self.catch_up(lost);
    }

    pub(super) fn extend(
        &mut self,
        keys: &[Key],
        many: bool,
        (owner, fence): (usize, Option<usize>),
        lease: i64,
        only_later: bool,
    ) {
        if self.serves(keys) {
            self.catch_up(self.model.may_follow(owner));
            let lost = self.model.lost();
            let extension = Extension { lease: Millis(lease), only_later };
            let (ident, fence) = (token(&name(owner)), self.fence(fence));
            let claim = Claim { token: &ident, fence: fence.map(|(_, fence)| fence) };
            let World { engine, keys: keyspace, now } = &mut self.world;
            let places: Vec<KeyBuf> = keys.iter().map(|key| place(*key)).collect();
            let extended = if many {
                let names: Vec<&[u8]> = places.iter().map(|place| place.as_key().key).collect();
                engine.extend(*now, &in_order(places[0].as_key().db, &names), claim, extension, keyspace)
            } else {
                engine.extend(*now, &[places[0].as_key()], claim, extension, keyspace)
            };
            self.hear(true);
            let meant = (owner, fence.map(|(serial, _)| serial));
            assert_eq!(extended, self.model.extend(keys, meant, lease, only_later, &mut self.script));
            self.compare_told();
            self.catch_up(lost);
        }
    }

    /// Whether no client must be told anything, and the timer has nothing to do now.
    fn is_settled(&self) -> bool {
        let idle = match self.world.engine.next_wakeup() {
            Wakeup::Now => false,
            Wakeup::At(due) => !due.reached(self.world.now.ms),
            Wakeup::Never => true,
        };
        idle && self.model.is_settled()
    }

    /// If everything was in order before a command, it is so after it: all that it makes possible is done in the same step.
    fn nobody_forgotten(&self, settled: bool) {
        if settled && !self.model.lenient {
            self.model.nobody_forgotten(|_| true);
        }
    }

    /// Lets the timer catch up with the model if that `may_differ`. The model does everything at once everywhere, the engine only where it
    /// comes by. For one: the token of a lost grant may save it until it is taken back; one request is let in between.
    fn catch_up(&mut self, may_differ: bool) {
        if may_differ {
            self.tick(usize::MAX);
        }
    }

    /// Lets the timer catch up, then time pass.
    pub(super) fn advance(&mut self, ms: i64) {
        self.tick(usize::MAX);
        self.world.pass(ms);
        self.model.now += ms;
    }

    /// Lets the timer run until it has nothing to do now, `budget` steps at a time, and compares everything.
    pub(super) fn tick(&mut self, budget: usize) {
        for round in 0.. {
            assert!(round < 10_000, "the timer spins: {:?}", self.world.engine);
            let World { engine, keys, now } = &mut self.world;
            let next = engine.tick(*now, budget, keys);
            self.hear(false);
            for value in self.world.keys.values.values() {
                assert!(!matches!(value, Value::Lock(lock) if lock.is_empty()), "a vacant lock between ticks");
            }
            match next {
                Wakeup::Now => {}
                Wakeup::At(due) => {
                    assert!(due > self.world.now.ms);
                    break;
                }
                Wakeup::Never => break,
            }
        }
        self.model.tick(&mut self.script);
        self.compare_told();
        self.compare();
    }

    pub(super) fn waiter_left(&mut self, pick: usize, timed_out: bool) {
        if let Some(id) = self.parked.get(pick % self.parked.len().max(1)).copied() {
            // The server never says this of a reply it has written.
            if timed_out && !self.undelivered.contains(&id) {
                self.world.engine.timed_out(self.world.now.ms, id);
            } else {
                self.world.engine.left(self.world.now.ms, id);
            }
            self.model.left(id);
            self.undelivered.retain(|other| *other != id);
        }
    }

    pub(super) fn delivered(&mut self, pick: usize) {
        if !self.undelivered.is_empty() {
            let id = self.undelivered.remove(pick % self.undelivered.len());
            self.world.engine.delivered(id);
            self.model.delivered(id);
        }
    }

    pub(super) fn all_delivered(&mut self) {
        while !self.undelivered.is_empty() {
            self.delivered(0);
        }
    }

    pub(super) fn client_gone(&mut self, slot: usize) {
        self.catch_up(self.model.may_be_over());
        let next = self.clients.iter().max().unwrap() + 1;
        let gone = std::mem::replace(&mut self.clients[slot], next);
        self.world.engine.client_gone(self.world.now.ms, client(gone));
        self.model.client_gone(gone);
        let Self { model, undelivered, .. } = self;
        undelivered.retain(|id| !model.is_lost(*id));
    }

    fn serves(&self, keys: &[Key]) -> bool {
        !keys.iter().any(|key| self.model.elsewhere.contains(key))
    }

    /// Takes note of what the engine said and passes the effects on to the replica.
    fn hear(&mut self, one_command: bool) {
        let mut deleted = BTreeSet::new();
        for told in self.world.told() {
            match told {
                Told::Put(place) => assert!(!(one_command && deleted.contains(&place)), "deleted and put again"),
                Told::Deleted(place) => drop(deleted.insert(place)),
                Told::PassedOn(place) => assert!(!deleted.contains(&place), "passed on although it was deleted"),
                Told::Held(place, mode, hold) => {
                    let highest = self.seen.last().copied();
                    if self.seen.insert(hold.fence) {
                        assert!(Some(hold.fence) > highest, "a fence went back");
                    }
                    self.replica.0.apply_held(place.as_key(), mode, hold.clone(), &mut self.replica.1).unwrap();
                    self.replica.0.apply_held(place.as_key(), mode, hold, &mut self.replica.1).unwrap();
                }
                Told::Ended(place, token, _) => {
                    self.replica.0.apply_ended(place.as_key(), &token, &mut self.replica.1).unwrap();
                    self.replica.0.apply_ended(place.as_key(), &token, &mut self.replica.1).unwrap();
                }
                Told::Published(notice, outcome) => {
                    let id = self.notified[notice.about.parse::<usize>().unwrap()];
                    self.script.push_back(id);
                    self.told.push((id, outcome));
                }
                Told::Answered(id, answer) => {
                    if matches!(answer, WaitResult::Granted(_)) {
                        self.undelivered.push(id);
                    }
                    self.script.push_back(id);
                    self.told.push((id, answer));
                }
            }
        }
    }

    /// Leaves out of what can be picked the waiters that have an answer which was delivered, or have left.
    pub(super) fn forget_the_gone(&mut self) {
        let Self { parked, model, undelivered, .. } = self;
        parked.retain(|id| undelivered.contains(id) || model.line.iter().any(|other| other.id == Some(*id)));
    }

    /// Everything that decides what can happen next.
    pub(super) fn state(&self) -> String {
        let Self { world, replica, model, parked, undelivered, clients, .. } = self;
        let engines = (&world.engine, &world.keys.values, &world.keys.elsewhere, &replica.0, &replica.1.values);
        let state = format!("{:?}", (engines, model, parked, undelivered, self.fences.last_key_value()));
        canonical(&state, world.now.ms.0, clients)
    }

    /// All clients leave and all leases expire. Nothing may be left. Returns what has happened, and how often.
    pub(super) fn finish(mut self) -> BTreeMap<&'static str, u64> {
        let seen = std::mem::take(&mut self.model.seen);
        for db in self.model.elsewhere.iter().map(|key| key.0).collect::<BTreeSet<_>>() {
            self.migrate(db);
        }
        for slot in 0..self.clients.len() {
            self.client_gone(slot);
        }
        self.advance(1_000_000);
        self.tick(3);
        for key in self.model.foreign.clone() {
            self.delete(key);
        }
        self.tick(1);
        self.world.assert_blank();
        let (mut engine, mut keys) = self.replica;
        assert!(keys.values.is_empty() && engine.is_blank(), "the replica keeps something");
        assert_eq!(engine.tick(self.world.now, 1, &mut keys), Wakeup::Never);
        assert_eq!(engine.last_fence(), self.world.engine.last_fence());
        seen
    }
}
