//! Serving queues: ended holds are removed, then the waiters at the head that fit are granted.

use super::transition::Transition;
use super::visit::{Outcome, Visit};
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::lock::compatibility::Compatibility;
use crate::core::lock::keyspace::{Found, Keyspace};
use crate::core::lock::queue::Queue;
use crate::core::lock::stats::count;
use crate::core::lock::terms::{LockError, Mode, Request, WaitResult, WaiterId, Wanted};
use crate::core::lock::waiter::{Departed, Headed, QueueId, Scope, Waiter};

impl<W: Keyspace> Transition<'_, W> {
    /// Serves the queue at `at`, if there is one.
    ///
    /// Usually one look shows that there is nothing to do: the lock is held, so no waiter fits; none of its holds has ended; no work is
    /// scheduled for the queue; and the first waiter wants no other key.
    pub(super) fn settle(&mut self, at: KeyRef<'_>) {
        if let Some(queue) = self.engine.waiting.at(at)
            && !self.is_settled(at, queue)
        {
            self.course.work.push(queue);
            self.serve();
        }
    }

    fn is_settled(&mut self, at: KeyRef<'_>, queue: QueueId) -> bool {
        let Self { engine, keyspace, course, .. } = self;
        engine.waiting.is_quiet(queue)
            && matches!(keyspace.find(at), Found::Lock(lock)
                if engine.is_registered(lock) && !engine.has_over(lock, course.now.ms) && !lock.is_empty())
    }

    /// Serves all queues in the transition's work, including queues that are added during this.
    pub(super) fn serve(&mut self) {
        while let Some(queue) = self.course.work.next() {
            if self.course.budget == 0 {
                self.engine.schedule_queue(queue, self.course.cause);
                self.emptied.extend(self.engine.waiting.queue(queue).map(|queue| queue.key.clone()));
            } else {
                self.serve_queue(queue);
                self.course.step();
            }
        }
    }

    /// Removes ended holds at the key of `queue` and grants the waiters at its head that fit.
    fn serve_queue(&mut self, queue: QueueId) {
        let Some(key) = self.engine.waiting.queue(queue).map(|queue| queue.key.clone()) else { return };
        let (at, cause) = (key.as_key(), self.course.cause);
        self.course.cause = self.engine.waiting.take_dirty(queue).unwrap_or(cause);
        if !self.end_waits_of(queue) {
            self.emptied.push(key);
        } else if !self.may_grant(at) {
            self.put_off(queue);
            // It may have been released in this transition.
            self.emptied.push(key);
        } else if let Some(mut visit) = self.open(at) {
            let next = visit.grant_fitting(queue);
            let closed = visit.close();
            let emptied = self.tell(at, closed);
            if let Some(waiter) = next {
                // This queue is served on if the request was granted, and also if the request had been put aside because of this queue: now
                // another queue is its obstacle. Otherwise the request would be the first in line again.
                let obstacle = self.engine.waiting.waiter(waiter).and_then(|waiter| waiter.obstacle);
                if self.grant_multi(waiter) || obstacle == Some(queue) {
                    self.course.work.extend(self.engine.waiting.queue(queue).map(|_| queue));
                }
            }
            self.emptied.extend(emptied.map(|_| key));
        } else {
            self.refuse_all(queue);
        }
        self.course.cause = cause;
    }

    /// Answers every waiter in `queue` that the key holds a value of another type.
    pub(super) fn refuse_all(&mut self, queue: QueueId) {
        self.send_away(queue, &WaitResult::Failed(LockError::WrongType), |_| true);
    }

    /// Ends the waits at the head of `queue` whose time is over; `false` if there are more of them than the budget allows.
    fn end_waits_of(&mut self, queue: QueueId) -> bool {
        let now = self.course.now.ms;
        self.send_away(queue, &WaitResult::TimedOut, |waiter| waiter.is_timed_out(now))
    }

    /// Answers the waiters at the head of `queue` while they are `such`; `false` if there are more of them than the budget allows.
    fn send_away(&mut self, queue: QueueId, answer: &WaitResult, such: impl Fn(&Waiter) -> bool) -> bool {
        while let Some(head) = self.engine.waiting.head(queue)
            && let Some(waiter) = self.engine.waiting.waiter(head).filter(|waiter| such(waiter))
        {
            if self.course.budget == 0 {
                self.engine.schedule_queue(queue, self.course.cause);
                return false;
            }
            // It leaves each of its queues.
            self.course.steps(waiter.scope.queues().len());
            self.course.progress();
            let answer = if waiter.is_timed_out(self.course.now.ms) { WaitResult::TimedOut } else { answer.clone() };
            // A queue where it is alone closes. The lock of such a queue may be free since this transition, so the end of the transition
            // deletes it.
            let others = waiter.scope.queues().iter().filter(|other| **other != queue);
            let closing = others.filter_map(|other| self.engine.waiting.queue(*other)).filter(|other| other.len() == 1);
            self.emptied.extend(closing.map(|other| other.key.clone()));
            let headed = self.answer_and_remove(head, answer);
            self.course.work.extend(headed.into_iter().filter(|other| *other != queue));
        }
        true
    }

    /// Removes a waiter from all its queues and answers it; returns the queues that have a new head.
    pub(super) fn answer_and_remove(&mut self, waiter: WaiterId, answer: WaitResult) -> Headed {
        let Some(Departed { waiter: left, headed }) = self.engine.waiting.leave(self.course.now.ms, waiter) else {
            return Headed::new();
        };
        if answer == WaitResult::TimedOut {
            count(&mut self.engine.stats.timeouts);
        }
        left.request.wait.tell(waiter, answer, self.keyspace);
        headed
    }
}

impl Visit<'_> {
    /// Grants the lock to the waiters of `queue` that fit. If the next one is a request for many keys, returns it, because that decision
    /// needs more than one lock.
    fn grant_fitting(&mut self, queue: QueueId) -> Option<WaiterId> {
        loop {
            let (next, compatibility) = self.next_to_admit(queue)?;
            let Some(compatibility) = compatibility else { return Some(next) };
            // A vacant lock is granted at once, even if ending its last hold used up the budget.
            if self.course.budget == 0 && !self.lock.is_empty() {
                self.engine.schedule_queue(queue, self.course.cause());
                return None;
            }
            self.course.step();
            self.course.progress();
            let token = self.grant_waiter(next, compatibility)?;
            if self.engine.waiting.queue(queue).is_some_and(Queue::has_many) {
                // The token may also ask for this lock with others.
                self.look_at_own(&token);
            } else if !self.lock.is_empty() && self.lock.mode() == Mode::Exclusive {
                return None;
            }
        }
    }

    /// The waiter of `queue` that may have the lock now, and how: a request of the token that is the only holder, because its own hold is no
    /// obstacle, or the first in line. `None` for how means a request for many keys, which needs more than this lock.
    fn next_to_admit(&self, queue: QueueId) -> Option<(WaiterId, Option<Compatibility>)> {
        let waiting = &self.engine.waiting;
        let fits = |id: WaiterId| {
            let waiter = waiting.waiter(id).filter(|waiter| !waiter.is_timed_out(self.course.now.ms))?;
            let token = &waiter.request.token;
            match waiter.scope {
                Scope::One(_) => {
                    let compatibility = self.lock.compatibility(token, waiter.request.mode);
                    compatibility.allows().then_some((id, Some(compatibility)))
                }
                Scope::Many(_) => {
                    let may_fit = self.lock.key_state(token).is_open() && !self.course.blocked_multi.contains(&id);
                    may_fit.then_some((id, None))
                }
            }
        };
        // While the token shares the lock, none of its requests for many keys fits.
        let most = if self.lock.mode() == Mode::Exclusive { usize::MAX } else { 1 };
        let own =
            || self.lock.sole_hold().into_iter().flat_map(|hold| waiting.blocked_at(queue, hold.token)).take(most);
        own().find_map(fits).or_else(|| waiting.head(queue).and_then(fits))
    }

    /// Takes a waiter out of the line and grants it the lock; returns its token.
    fn grant_waiter(&mut self, id: WaiterId, compatibility: Compatibility) -> Option<Ident> {
        let place = self.engine.place_of(id);
        let mut waiter = self.engine.waiting.leave(self.course.now.ms, id)?.waiter;
        if compatibility == Compatibility::Downgrade {
            // The hold that its token has come to by another request serves this one, too, and is as exclusive as that was told.
            waiter.request.mode = Wanted::Exclusive;
        }
        let answer = match self.grant(compatibility, &waiter.request) {
            Ok((grant, changed)) => {
                self.engine.stats.handed_over(self.course.cause());
                self.engine.note_grant(id, waiter.parked(), grant.fence, place, [changed]);
                WaitResult::Granted(grant)
            }
            Err(error) => WaitResult::Failed(error),
        };
        let Request { token, wait, .. } = waiter.request;
        self.outcomes.push(Outcome::Answered(id, wait, answer));
        Some(token)
    }
}
