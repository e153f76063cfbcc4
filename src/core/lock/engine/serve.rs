//! How a place is brought up to date: what is over ends, and those in front who fit are granted.

use super::transition::Transition;

use super::Engine;
use super::lock_mut::{Changed, LockMut, Outcome, Visit};
use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::lock::compatibility::Compatibility;
use crate::core::lock::keyspace::{Found, Keyspace};
use crate::core::lock::queue::{QueueId, Scope};
use crate::core::lock::stats::count;
use crate::core::lock::terms::{Answer, ClientId, EndReason, Grant, LockError, Request, WaiterId};
use crate::core::lock::value::{Hold, Lock};
use crate::core::time::UnixMs;

impl Engine {
    /// Releases the hold of `token`; whether there was one.
    pub(super) fn release_hold(&mut self, transition: &mut Transition, open: &mut LockMut<'_>, token: &Ident) -> bool {
        self.end_own_if_over(transition, open, token);
        let fence = open.lock.hold(token).map(|hold| hold.fence);
        if let Some(fence) = fence {
            transition.progress();
            self.end_hold(open, fence, EndReason::Released);
        }
        fence.is_some()
    }

    /// Leaves it to [`finish`](Self::finish) to hand over what `visit` has left to `queue`, the one of the place.
    pub(super) fn defer_handover<W: Keyspace, R>(
        &mut self,
        transition: &mut Transition,
        at: KeyRef<'_>,
        queue: Option<QueueId>,
        visit: Visit<R>,
        keyspace: &mut W,
    ) -> R {
        // Whoever is next takes the lock over as it is. If nobody fits, it is discarded then.
        match queue {
            Some(queue) => transition.work.push(queue),
            None => self.close(at, visit.vacant, keyspace),
        }
        visit.result
    }

    /// Gives the token its hold, as `compatibility` says.
    pub(super) fn grant(
        &mut self,
        transition: &mut Transition,
        open: &mut LockMut<'_>,
        compatibility: Compatibility,
        client: ClientId,
        request: &Request,
    ) -> Result<(Grant, Changed), LockError> {
        let before = open.lock.hold(&request.token);
        let session = if request.session { Some(client) } else { before.and_then(|hold| hold.session) };
        let fence = match before {
            Some(before) if !compatibility.needs_a_fence() => before.fence,
            _ => self.issue(transition)?,
        };
        let token = request.token.clone();
        let deadline = transition.now.ms.plus(request.lease).unwrap_or(UnixMs::MAX);
        let hold = Hold { token: token.clone(), fence, deadline, limit: request.mode.limit(), session };
        transition.progress();
        let changed = self.set_hold(open, request.mode.mode(), hold);
        if compatibility.needs_a_fence() {
            self.look_at_own(transition, open.at, &token);
        }
        Ok((Grant { token, fence, lease: deadline.left(transition.now.ms) }, changed))
    }

    /// Has requests of `token` looked at for which its own new hold at `at` may be enough, wherever they stand in line.
    pub(super) fn look_at_own(&self, transition: &mut Transition, at: KeyRef<'_>, token: &Ident) {
        if let Some(queue) = self.waiting.at(at)
            && self.waiting.blocked_multi_at(queue, token).next().is_some()
        {
            transition.work.push(queue);
        }
    }

    pub(super) fn issue(&mut self, transition: &Transition) -> Result<Fence, LockError> {
        let fence = self.fences.issue(transition.now.us).ok_or(LockError::FencesUsedUp)?;
        count(&mut self.stats.grants);
        Ok(fence)
    }

    /// Brings `at` up to date if anybody waits there, and returns its queue if somebody still does.
    pub(super) fn settle_at<W: Keyspace>(
        &mut self,
        transition: &mut Transition,
        at: KeyRef<'_>,
        keyspace: &mut W,
    ) -> Option<QueueId> {
        let queue = self.waiting.at(at)?;
        self.settle_queue(transition, queue, keyspace)
    }

    fn settle_queue<W: Keyspace>(
        &mut self,
        transition: &mut Transition,
        queue: QueueId,
        keyspace: &mut W,
    ) -> Option<QueueId> {
        transition.work.push(queue);
        self.settle(transition, keyspace);
        // It is closed when the last one leaves, and no other is opened meanwhile.
        self.waiting.queue(queue).map(|_| queue)
    }

    /// Visits the lock at `at` when its place is up to date; `change` also learns of the queue. The queue comes back, too, if somebody
    /// still waits there.
    ///
    /// Nearly always there is nothing to settle: nobody in line fits while the lock is held, nothing of it is over, no work is on
    /// its way for the queue, and the first in it wants no other key.
    pub(super) fn settle_then<W: Keyspace, R>(
        &mut self,
        transition: &mut Transition,
        at: KeyRef<'_>,
        keyspace: &mut W,
        change: impl FnOnce(&mut Self, &mut Transition, &mut LockMut<'_>, Option<QueueId>) -> R,
    ) -> (Option<QueueId>, Option<Visit<R>>) {
        let mut queue = self.waiting.at(at);
        let mut change = Some(change);
        if let Some(known) = queue {
            let visit = self.visit(transition, at, keyspace, |engine, transition, open| {
                let settled = transition.over.is_none() && !open.lock.is_empty() && engine.waiting.is_quiet(known);
                change.take_if(|_| settled).map(|change| change(engine, transition, open, queue))
            });
            if let Some(Visit { result: Some(result), vacant }) = visit {
                return (queue, Some(Visit { result, vacant }));
            }
            if let Some(over) = transition.over {
                // Whoever is granted the lock now owes it to that.
                self.waiting.mark(known, over);
            }
            queue = self.settle_queue(transition, known, keyspace);
        }
        let visit = self.visit(transition, at, keyspace, |engine, transition, open| {
            change.take().map(|change| change(engine, transition, open, queue))
        });
        let visit = visit.and_then(|Visit { result, vacant }| Some(Visit { result: result?, vacant }));
        (queue, visit)
    }

    /// Looks at all queues in the turn's work, and at those that come up while doing so.
    fn settle<W: Keyspace>(&mut self, transition: &mut Transition, keyspace: &mut W) {
        while let Some(queue) = transition.work.next() {
            if transition.budget == 0 {
                self.schedule_queue(queue, transition.cause);
                transition.vacated.extend(self.waiting.queue(queue).map(|queue| queue.place.clone()));
            } else {
                self.serve_queue(transition, queue, keyspace);
                transition.step();
            }
        }
    }

    /// Ends a turn whose last visit was `visit`.
    pub(super) fn leave_place<W: Keyspace, R>(
        &mut self,
        transition: &mut Transition,
        at: KeyRef<'_>,
        visit: Option<Visit<R>>,
        keyspace: &mut W,
    ) -> Option<R> {
        self.close(at, visit.as_ref().and_then(|visit| visit.vacant), keyspace);
        self.commit(transition, keyspace);
        visit.map(|visit| visit.result)
    }

    /// Ends the turn: settles what is left to do and discards the locks that nobody took over.
    pub(super) fn commit<W: Keyspace>(&mut self, transition: &mut Transition, keyspace: &mut W) {
        self.settle(transition, keyspace);
        for place in transition.vacated.drain(..) {
            let vacant = match keyspace.find(place.as_key()) {
                Found::Lock(lock) if lock.is_empty() => lock.deadline_id(),
                _ => None,
            };
            self.close(place.as_key(), vacant, keyspace);
        }
    }

    /// Ends what has expired at the place of `queue` and grants those at its head that fit.
    fn serve_queue<W: Keyspace>(&mut self, transition: &mut Transition, queue: QueueId, keyspace: &mut W) {
        let Some(place) = self.waiting.queue(queue).map(|queue| queue.place.clone()) else { return };
        let at = place.as_key();
        let cause = transition.cause;
        transition.cause = self.waiting.unmark(queue).unwrap_or(cause);
        if transition.outside && !keyspace.owns_slot(at) {
            self.put_off(transition, queue, keyspace);
        } else {
            match self.visit(transition, at, keyspace, |engine, transition, open| {
                engine.grant_fitting(transition, queue, open)
            }) {
                None => self.refuse_all(transition, queue, keyspace),
                Some(visit) => {
                    if let Some(waiter) = visit.result {
                        // One that was obstructed here is not any more, and the next may be looked at; one that was not will be the
                        // first in line again.
                        let obstacle = self.waiting.waiter(waiter).and_then(|waiter| waiter.obstacle);
                        if self.grant_multi(transition, waiter, keyspace) || obstacle == Some(queue) {
                            transition.work.extend(self.waiting.queue(queue).map(|_| queue));
                        }
                    }
                    transition.vacated.extend(visit.vacant.map(|_| place.clone()));
                }
            }
        }
        transition.cause = cause;
    }

    /// Who in `queue` may have its lock now: a request of the token that alone holds it, for which its own hold is no obstacle, or the
    /// first in line. And as what; a request for many keys needs more than this lock.
    fn next_to_admit(
        &self,
        transition: &Transition,
        queue: QueueId,
        lock: &Lock,
    ) -> Option<(WaiterId, Option<Compatibility>)> {
        let fits = |id: WaiterId| {
            let waiter = self.waiting.waiter(id)?;
            let token = &waiter.request.token;
            match waiter.scope {
                Scope::One(_) => {
                    let compatibility = lock.compatibility(token, waiter.wanted());
                    compatibility.allows().then_some((id, Some(compatibility)))
                }
                Scope::Many(_) => {
                    (lock.key_state(token).is_open() && !transition.blocked_multi.contains(&id)).then_some((id, None))
                }
            }
        };
        let own = || lock.sole_hold().into_iter().flat_map(|hold| self.waiting.blocked_multi_at(queue, &hold.token));
        own().find_map(fits).or_else(|| self.waiting.head(queue).and_then(fits))
    }

    /// Grants those in `queue` that fit into its lock. If the next of them is a request for many keys, it is returned: that takes more than
    /// one lock to decide.
    fn grant_fitting(
        &mut self,
        transition: &mut Transition,
        queue: QueueId,
        open: &mut LockMut<'_>,
    ) -> Option<WaiterId> {
        loop {
            let (next, compatibility) = self.next_to_admit(transition, queue, open.lock)?;
            let Some(compatibility) = compatibility else { return Some(next) };
            // A vacant lock is handed over at once, even if the last step was to end its last hold.
            if transition.budget == 0 && !open.lock.is_empty() {
                self.schedule_queue(queue, transition.cause());
                return None;
            }
            transition.step();
            transition.progress();
            let waiter = self.waiting.leave(next)?.waiter;
            let answer = match self.grant(transition, open, compatibility, waiter.client, &waiter.request) {
                Ok((grant, changed)) => {
                    self.stats.handed_over(transition.cause());
                    if compatibility.needs_a_fence() {
                        if self.track_delivery(transition.now.ms, next, &waiter, grant.fence, [changed.entry]) {
                            open.outcomes.push(Outcome::LookFirst(next, waiter.client));
                        }
                        self.keep_replaced(changed.entry, grant.fence, changed.before);
                    } else {
                        // A hold that its token had before, and keeps, is not taken back for want of this reply.
                        self.heard_of(changed);
                    }
                    Answer::Granted(grant)
                }
                Err(error) => Answer::Failed(error),
            };
            open.outcomes.push(Outcome::Answered(next, answer));
        }
    }

    /// Tells everybody in `queue` that the key holds something else.
    pub(super) fn refuse_all<W: Keyspace>(&mut self, transition: &mut Transition, queue: QueueId, keyspace: &mut W) {
        while let Some(head) = self.waiting.head(queue) {
            if transition.budget == 0 {
                self.schedule_queue(queue, transition.cause);
                return;
            }
            transition.step();
            transition.progress();
            self.vacate_with(transition, head, queue);
            let departed = self.waiting.leave(head);
            transition
                .work
                .extend(departed.into_iter().flat_map(|departed| departed.headed).filter(|other| *other != queue));
            keyspace.answer(head, Answer::Failed(LockError::WrongType));
        }
    }

    /// `waiter` is about to leave `queue` and all its other queues, and those in which it stands alone close. A lock there may have been
    /// released in this transition and be free still: it is discarded when the transition ends.
    fn vacate_with(&self, transition: &mut Transition, waiter: WaiterId, queue: QueueId) {
        let Some(waiter) = self.waiting.waiter(waiter) else { return };
        let others = waiter.scope.queues().iter().filter(|other| **other != queue);
        let closing = others.filter_map(|other| self.waiting.queue(*other)).filter(|other| other.line().len() == 1);
        transition.vacated.extend(closing.map(|other| other.place.clone()));
    }
}
