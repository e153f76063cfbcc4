//! One transition of the engine, while it runs.
//!
//! A [`Transition`] owns the engine and the keyspace for one call. It opens a lock as a [`Visit`], which borrows the engine and the value,
//! but not the keyspace; so the keyspace hears of the changes of a visit when the visit is closed. Every call reads alike: open, change,
//! close, tell, and at the end commit.

use std::mem;
use std::sync::Arc;

use super::course::Course;
use super::visit::{Closed, Outcome, Visit};
use super::{BOUND, Engine};
use crate::core::deadline_index::DeadlineId;
use crate::core::key::{KeyBuf, KeyRef};
use crate::core::lock::keyspace::{Found, Keyspace};
use crate::core::lock::value::Lock;
use crate::core::time::{Now, UnixMs};

/// One transition of the engine: a command, a turn of the timer, or an effect.
pub(super) struct Transition<'t, W> {
    pub(super) engine: &'t mut Engine,
    pub(super) keyspace: &'t mut W,
    pub(super) course: Course,
    /// The keys that the command names, in order; none for the timer's work. The server has checked that this node serves them.
    named: &'t [KeyRef<'t>],
    /// Keys whose locks may be vacant. A waiter may still take them over in this transition.
    pub(super) emptied: Vec<Arc<KeyBuf>>,
    /// Lent to the visit of a key that holds nothing. Vacant between visits.
    vacant: Lock,
}

impl<'t, W: Keyspace> Transition<'t, W> {
    fn new(engine: &'t mut Engine, keyspace: &'t mut W, now: Now, budget: usize, named: &'t [KeyRef<'t>]) -> Self {
        let course = Course::new(now, budget);
        Self { engine, keyspace, course, named, emptied: Vec::new(), vacant: Lock::vacant() }
    }

    /// The transition of a command on `keys`, which are in order. Work for other clients beyond the bound is left to `tick`. No request
    /// overtakes: while a waiter of a key still has to be served, the key counts as taken.
    pub(super) fn command(engine: &'t mut Engine, keyspace: &'t mut W, now: Now, keys: &'t [KeyRef<'t>]) -> Self {
        let budget = engine.bound.unwrap_or(BOUND).saturating_add(keys.len());
        Self::new(engine, keyspace, now, budget, keys)
    }

    /// A turn of the timer, of at most `budget` steps.
    pub(super) fn turn(engine: &'t mut Engine, keyspace: &'t mut W, now: Now, budget: usize) -> Self {
        Self::new(engine, keyspace, now, budget, &[])
    }

    /// A transition that applies an effect; nothing expires in it.
    pub(super) fn passive(engine: &'t mut Engine, keyspace: &'t mut W) -> Self {
        let mut transition = Self::new(engine, keyspace, Now { ms: UnixMs(0), us: 0 }, usize::MAX, &[]);
        transition.course.is_passive = true;
        transition
    }

    /// Opens the lock at `at`, or a vacant one if the key holds nothing, and ends the holds that are over. `None` if the key holds a value of
    /// another type.
    pub(super) fn open<'v>(&'v mut self, at: KeyRef<'v>) -> Option<Visit<'v>> {
        let Self { engine, keyspace, course, vacant, .. } = self;
        course.over = None;
        let (lock, is_new) = match keyspace.find(at) {
            Found::Foreign => return None,
            Found::Nothing => (vacant, true),
            Found::Lock(lock) => (lock, false),
        };
        if !is_new {
            engine.register(at, lock);
        }
        let outcomes = mem::take(&mut engine.outcomes);
        let mut visit = Visit { engine, course, at, lock, is_new, was_free: false, outcomes };
        if !is_new && !visit.course.is_passive {
            visit.end_what_is_over();
        }
        Some(visit)
    }

    /// Tells the keyspace the changes of a visit to `at`. Returns the entry of the lock if it stands vacant in its key now: this transition
    /// must grant it to a waiter or delete it.
    #[must_use]
    pub(super) fn tell(&mut self, at: KeyRef<'_>, closed: Closed) -> Option<DeadlineId> {
        let Closed { new, was_passed_on, emptied, mut outcomes } = closed;
        if let Some(new) = new.filter(|lock| !lock.is_empty()) {
            self.keyspace.put(at, new);
        }
        if was_passed_on {
            self.keyspace.clear_expire(at);
        }
        for outcome in outcomes.drain(..) {
            match outcome {
                Outcome::Held(mode, hold) => self.keyspace.held(at, mode, hold),
                Outcome::Ended(token, why) => self.keyspace.ended(at, token, why),
                Outcome::Answered(waiter, wait, answer) => wait.tell(waiter, answer, self.keyspace),
            }
        }
        self.engine.outcomes = outcomes;
        emptied
    }

    /// Tells the changes of the only visit to `at`, and deletes the lock if it is vacant.
    pub(super) fn finish(&mut self, at: KeyRef<'_>, closed: Closed) {
        let emptied = self.tell(at, closed);
        self.delete(at, emptied);
    }

    /// Tells the changes of a visit to `at` that was not for its queue. If the visit has ended holds, the queue is served before the end of the
    /// transition. If the lock is vacant, it stays in its key until then.
    pub(super) fn keep(&mut self, at: KeyRef<'_>, closed: Closed) {
        if let Some(over) = self.course.over
            && let Some(queue) = self.engine.waiting.at(at)
        {
            self.engine.waiting.set_dirty(queue, over);
            self.course.work.push(queue);
        }
        if self.tell(at, closed).is_some() {
            self.emptied.push(Arc::new(at.to_buf()));
        }
    }

    /// Deletes the lock at `at` if it is vacant; `emptied` is its entry then.
    pub(super) fn delete(&mut self, at: KeyRef<'_>, emptied: Option<DeadlineId>) {
        if let Some(entry) = emptied {
            self.engine.deadlines.remove(entry);
            self.keyspace.delete(at);
        }
    }

    /// Ends the transition: serves the remaining queues and deletes the locks that are vacant.
    pub(super) fn commit(&mut self) {
        self.serve();
        for key in mem::take(&mut self.emptied) {
            let emptied = match self.keyspace.find(key.as_key()) {
                Found::Lock(lock) if lock.is_empty() => lock.deadline_id(),
                _ => None,
            };
            self.delete(key.as_key(), emptied);
        }
    }

    /// Whether the lock at `at` may be granted here. While its slot moves key by key, a key that the command does not name may have moved to
    /// another node by itself.
    pub(super) fn may_grant(&mut self, at: KeyRef<'_>) -> bool {
        let is_named = self.named.binary_search(&at).is_ok();
        if is_named { !self.keyspace.has_moved(at) } else { self.keyspace.owns_slot(at) }
    }

    /// Whether the key `at` holds a value of another type.
    pub(super) fn is_foreign(&mut self, at: KeyRef<'_>) -> bool {
        matches!(self.keyspace.find(at), Found::Foreign)
    }
}
