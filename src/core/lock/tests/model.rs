//! The contract once more, as plainly as it can be said: lists, looked through from end to end.
//!
//! Nothing is indexed and nothing is remembered that could be worked out. Before and after every request what is over ends,
//! and the waiters that the engine has answered must have been due, and none at these keys may have been forgotten; after
//! a tick, none anywhere.

mod circles;
mod commands;
mod grants;
mod places;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use self::grants::Owed;
use self::places::Vacant;
use crate::core::lock::{LockError, Mode, WaiterId, Wanted};

/// A database and one of its keys.
pub(super) type Key = (i32, usize);

/// The number of a grant, until the engine's own becomes known.
pub(super) type Serial = u64;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Held {
    pub(super) key: Key,
    pub(super) token: usize,
    pub(super) mode: Mode,
    pub(super) limit: u64,
    pub(super) serial: Serial,
    pub(super) deadline: i64,
    pub(super) session: Option<u64>,
}

/// A request, waiting or not. `keys` are in order and distinct.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) client: u64,
    pub(super) token: usize,
    pub(super) keys: Vec<Key>,
    /// Whether the command for many keys asks, for however many. It makes no difference.
    pub(super) many: bool,
    pub(super) wanted: Wanted,
    pub(super) lease: i64,
    pub(super) wait: Option<i64>,
    pub(super) session: bool,
    /// Whether its client is not blocked, and on which channel it hears of the outcome then.
    pub(super) notify: Option<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Parked {
    pub(super) id: Option<WaiterId>,
    pub(super) ask: Ask,
    pub(super) since: i64,
    rank: i64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outcome {
    Granted { token: usize, serial: Serial, lease: i64 },
    Refused,
    TimedOut,
    Replaced,
    Cancelled,
    Parked,
    Deadlock,
    Failed(LockError),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) now: i64,
    pub(super) holds: Vec<Held>,
    pub(super) foreign: BTreeSet<Key>,
    pub(super) elsewhere: BTreeSet<Key>,
    pub(super) line: Vec<Parked>,
    /// What has happened, and how often.
    pub(super) seen: BTreeMap<&'static str, u64>,
    owed: Vec<Owed>,
    /// The places that are kept, and for how long.
    vacant: Vec<Vacant>,
    pub(super) grace: i64,
    /// What waiters were told.
    pub(super) told: Vec<(WaiterId, Outcome)>,
    /// Whether a command may leave work that it sets off to the timer.
    pub(super) lenient: bool,
    /// Whether requests that would close a circle are refused, and how many were.
    pub(super) detects: bool,
    pub(super) deadlocks: u64,
    /// How long the requests that wait no more have waited.
    pub(super) waited: i64,
    gone: Vec<u64>,
    serials: Serial,
    ranks: i64,
}

impl Ask {
    /// Whether it needs several keys.
    pub(super) fn is_wide(&self) -> bool {
        self.keys.len() > 1
    }
}

impl Model {
    pub(super) fn see(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn at(&self, key: Key) -> impl Iterator<Item = &Held> {
        self.holds.iter().filter(move |hold| hold.key == key)
    }

    pub(super) fn hold(&self, key: Key, token: usize) -> Option<&Held> {
        self.at(key).find(|hold| hold.token == token)
    }

    /// The hold of `token`, if it has this fence.
    fn claimed(&self, key: Key, token: usize, fence: Option<Serial>) -> Option<&Held> {
        self.hold(key, token).filter(|hold| fence.is_none_or(|fence| fence == hold.serial))
    }

    pub(super) fn queue(&self, key: Key) -> impl Iterator<Item = &Parked> {
        let mut queue: Vec<&Parked> = self.line.iter().filter(|parked| parked.ask.keys.contains(&key)).collect();
        queue.sort_by_key(|parked| parked.rank);
        queue.into_iter()
    }

    fn first(&self, key: Key, rank: i64) -> bool {
        self.queue(key).next().is_none_or(|first| first.rank >= rank)
    }

    fn owns(&self, key: Key, token: usize) -> bool {
        self.hold(key, token).is_some_and(|hold| hold.mode == Mode::Exclusive)
    }

    /// Whether the holds at `key` leave room for `token`.
    fn fits(&self, key: Key, token: usize, wanted: Wanted) -> bool {
        let others = self.at(key).filter(|hold| hold.token != token).count();
        match (self.hold(key, token).map(|hold| hold.mode), wanted) {
            (Some(mode), wanted) if mode == wanted.mode() => true,
            (Some(Mode::Exclusive), Wanted::Shared) => true,
            (Some(Mode::Shared) | None, Wanted::Exclusive) => others == 0,
            (Some(_), _) => false,
            (None, Wanted::Shared) => self.at(key).all(|hold| hold.mode == Mode::Shared),
            (None, Wanted::Limit(n)) => {
                others == 0 || (self.at(key).all(|hold| hold.mode == Mode::Limit) && (others as u64) < n)
            }
        }
    }

    /// Whether the time of `parked` is over. The server looks after that for blocked clients.
    fn is_over(&self, parked: &Parked) -> bool {
        let wait = parked.ask.wait.filter(|wait| *wait > 0 && parked.ask.notify.is_some());
        wait.is_some_and(|wait| parked.since + wait <= self.now)
    }

    fn ready(&self, parked: &Parked) -> bool {
        let (ask, rank) = (&parked.ask, parked.rank);
        if ask.keys.iter().any(|key| self.elsewhere.contains(key)) {
            return false;
        }
        ask.keys.iter().all(|key| self.is_open(ask, *key, rank))
    }

    /// Whether `key` is not in the way of `ask`, which stands at `rank`.
    fn is_open(&self, ask: &Ask, key: Key, rank: i64) -> bool {
        // A lock that the token alone holds is free to it, whatever waits in front.
        let own = self.at(key).all(|hold| hold.token == ask.token) && self.hold(key, ask.token).is_some();
        let fits = if ask.is_wide() {
            self.owns(key, ask.token) || self.at(key).next().is_none()
        } else {
            self.fits(key, ask.token, ask.wanted)
        };
        fits && (own || self.first(key, rank))
    }

    fn is_foreign(&self, key: Key) -> bool {
        self.foreign.contains(&key) && !self.elsewhere.contains(&key)
    }

    /// Whether `parked` must be told something now that a command may find out. That its time is over only the timer has to find.
    fn due(&self, parked: &Parked) -> bool {
        let fails = || parked.ask.keys.iter().any(|key| self.is_foreign(*key));
        !self.is_over(parked) && (self.ready(parked) || fails())
    }

    /// Whether `parked` may be told something now.
    fn tells(&self, parked: &Parked) -> bool {
        self.is_over(parked) || self.due(parked)
    }

    /// The place of the request that came last, if requests that have left still count.
    pub(super) fn place_of_the_last(&self) -> usize {
        let last = self.line.last().unwrap();
        let place = |key: &Key| self.queue(*key).position(|parked| parked.rank == last.rank).unwrap() + 1;
        last.ask.keys.iter().map(place).max().unwrap()
    }

    /// Tells the next waiters of `script` what they must hear, as long as they must hear something now. In which order
    /// waiters at different places come is left to the engine.
    fn follow(&mut self, script: &mut VecDeque<WaiterId>) {
        self.expire();
        while let Some(next) =
            self.line.iter().position(|parked| parked.id.as_ref() == script.front() && self.tells(parked))
        {
            script.pop_front();
            let parked = self.line.remove(next);
            self.waited += self.now - parked.since;
            let id = parked.id.unwrap();
            let outcome = if self.is_over(&parked) {
                self.see("time limits of notified requests");
                Outcome::TimedOut
            } else if parked.ask.keys.iter().any(|key| self.foreign.contains(key)) {
                Outcome::Failed(LockError::WrongType)
            } else {
                let notified = parked.ask.notify.is_some();
                self.see(if notified { "grants published" } else { "grants to blocked clients" });
                let (outcome, holds) = self.grant(&parked.ask, notified, true);
                if !holds.is_empty() && !notified {
                    self.owed.push(Owed { id, parked, holds, lost: false });
                }
                outcome
            };
            self.told.push((id, outcome));
        }
    }

    /// No waiter at one of `keys` has been forgotten; and the script is at its end.
    fn check(&self, script: &VecDeque<WaiterId>, here: impl Fn(&Ask) -> bool) {
        assert!(script.is_empty(), "told without need: {script:?}, {self:?}");
        self.nobody_forgotten(|ask| !self.lenient && here(ask));
    }

    /// Whether nothing is over and no client must be told anything.
    pub(super) fn is_settled(&self) -> bool {
        let mut settled = self.clone();
        settled.expire();
        settled.holds == self.holds && !self.line.iter().any(|parked| self.tells(parked))
    }

    /// No waiter, wherever it stands, must be told anything now.
    pub(super) fn nobody_forgotten(&self, here: impl Fn(&Ask) -> bool) {
        for parked in self.line.iter().filter(|parked| here(&parked.ask)) {
            assert!(!self.due(parked), "{parked:?} is forgotten, {self:?}");
        }
    }

    pub(super) fn tick(&mut self, script: &mut VecDeque<WaiterId>) {
        self.follow(script);
        self.check(script, |_| true);
        self.forget_what_is_over();
        self.nobody_forgotten(|_| true);
        assert!(!self.line.iter().any(|parked| self.is_over(parked)), "nobody has been told that its time is over");
    }

    /// Whether a request of `token` that waits may be due soon, because another request is due now: it may be answered before the next command of
    /// the token or after it.
    pub(super) fn may_follow(&self, token: usize) -> bool {
        let mut settled = self.clone();
        settled.expire();
        let follows = |ask: &Ask| ask.is_wide() || self.lenient || self.may_overlook(&ask.keys);
        let waits = settled.line.iter().any(|parked| parked.ask.token == token && follows(&parked.ask));
        let over = |parked: &Parked| parked.ask.token == token && settled.is_over(parked);
        settled.line.iter().any(over) || (waits && settled.line.iter().any(|parked| settled.tells(parked)))
    }

    /// Whether a request stands at one of `keys` that fails over another key, and the timer may have to find that out: a command that comes
    /// for these keys looks no further than to the first key that the request cannot have.
    pub(super) fn may_overlook(&self, keys: &[Key]) -> bool {
        let mut settled = self.clone();
        settled.expire();
        settled.line.iter().filter(|parked| keys.iter().any(|key| parked.ask.keys.contains(key))).any(|parked| {
            let (foreign, other): (Vec<Key>, Vec<Key>) =
                parked.ask.keys.iter().partition(|key| settled.is_foreign(**key));
            !foreign.is_empty() && other.iter().any(|key| !settled.is_open(&parked.ask, *key, parked.rank))
        })
    }

    /// Whether a grant is going to be taken back.
    pub(super) fn lost(&self) -> bool {
        self.owed.iter().any(|owed| owed.lost)
    }

    /// Whether the grant of this waiter is going to be taken back.
    pub(super) fn is_lost(&self, id: WaiterId) -> bool {
        self.owed.iter().any(|owed| owed.id == id && owed.lost)
    }

    pub(super) fn left(&mut self, id: WaiterId) {
        self.leave(|parked| parked.id == Some(id));
        for owed in self.owed.iter_mut().filter(|owed| owed.id == id) {
            owed.lost = true;
        }
    }

    pub(super) fn client_gone(&mut self, client: u64) {
        let gone: Vec<Parked> = self.line.iter().filter(|parked| parked.ask.client == client).cloned().collect();
        self.leave(|parked| parked.ask.client == client);
        for parked in gone {
            self.keep_place(parked);
        }
        let mut ungranted = Vec::new();
        for owed in self.owed.iter_mut().filter(|owed| owed.parked.ask.client == client && !owed.lost) {
            owed.lost = true;
            ungranted.extend(Some(owed.parked.clone()).filter(|_| !owed.holds.is_empty()));
        }
        for parked in ungranted {
            self.see("places kept of grants that are taken back");
            self.keep_place(parked);
        }
        self.gone.push(client);
    }

    /// Another server goes on with the same holds. It knows of no connection and of no grant that is on its way.
    pub(super) fn promoted(&mut self) {
        self.holds.iter_mut().for_each(|hold| hold.session = None);
        self.line.clear();
        self.vacant.clear();
        self.owed.clear();
        (self.waited, self.deadlocks) = (0, 0);
        self.see("promotions");
    }

    /// Everything at the keys becomes what `moves` says: another key, or nothing.
    pub(super) fn relocate(&mut self, moves: &BTreeMap<Key, Option<Key>>) {
        let to = |key: &Key| moves.get(key).copied().unwrap_or(Some(*key));
        self.holds = self.holds.iter().filter_map(|hold| Some(Held { key: to(&hold.key)?, ..hold.clone() })).collect();
        self.foreign = self.foreign.iter().filter_map(to).collect();
        self.owed.iter_mut().for_each(|owed| owed.relocate(to));
    }
}
