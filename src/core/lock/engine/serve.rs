//! Settling a key: ended holds are removed, then the waiters at the head that fit are granted.

use smallvec::smallvec;

use super::transition::Transition;

use super::Engine;
use super::lock_mut::{Changed, LockMut, Outcome, Visited};
use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::lock::claim::Claim;
use crate::core::lock::compatibility::Compatibility;
use crate::core::lock::keyspace::{Found, Keyspace};
use crate::core::lock::queue::Queue;
use crate::core::lock::stats::{HandoverCause, count};
use crate::core::lock::terms::{ClientId, EndReason, Grant, LockError, Mode, Request, WaitResult, WaiterId};
use crate::core::lock::unacked::UnackedGrant;
use crate::core::lock::value::{Hold, Lock};
use crate::core::lock::waiter::{Departed, Headed, QueueId, Scope, Waiter};
use crate::core::time::UnixMs;

impl Engine {
    /// Releases the claimed hold; returns whether there was one.
    pub(super) fn release_hold(
        &mut self,
        transition: &mut Transition,
        open: &mut LockMut<'_>,
        claim: Claim<'_>,
    ) -> bool {
        self.end_own_if_over(transition, open, claim.token);
        let fence = claim.hold(open.lock).map(|hold| hold.fence);
        if let Some(fence) = fence {
            transition.progress();
            transition.cause = HandoverCause::Release;
            self.end_hold(open, fence, EndReason::Released);
        }
        fence.is_some()
    }

    /// Queues the released lock for hand-over; [`commit`](Self::commit) grants it to the next waiter, or deletes the key if nobody fits.
    pub(super) fn defer_handover<W: Keyspace, R>(
        &mut self,
        transition: &mut Transition,
        at: KeyRef<'_>,
        queue: Option<QueueId>,
        visit: Visited<R>,
        keyspace: &mut W,
    ) -> R {
        // The empty lock stays in its key, so that the next waiter needs no new one.
        match queue {
            Some(queue) => transition.work.push(queue),
            None => self.close(at, visit.emptied, keyspace),
        }
        visit.result
    }

    /// Gives the token its hold, according to `compatibility`.
    pub(super) fn grant(
        &mut self,
        transition: &mut Transition,
        open: &mut LockMut<'_>,
        compatibility: Compatibility,
        client: Option<ClientId>,
        request: &Request,
    ) -> Result<(Grant, Changed), LockError> {
        let before = open.lock.hold(&request.token);
        let session = if request.session { client } else { before.and_then(|hold| hold.session) };
        let fence = match before {
            Some(before) if !compatibility.needs_a_fence() => before.fence,
            _ => self.issue(transition)?,
        };
        let token = request.token.clone();
        let deadline = transition.now.ms.plus(request.lease).unwrap_or(UnixMs::MAX);
        let hold = Hold { token: token.clone(), fence, deadline, limit: request.mode.limit(), session };
        transition.progress();
        let changed = self.set_hold(open, request.mode.mode(), hold);
        Ok((Grant { token, fence, lease: deadline.left(transition.now.ms) }, changed))
    }

    /// Queues another look at requests of `token` that its own new hold at `at` may satisfy, at whatever position they wait.
    pub(super) fn look_at_own(&self, transition: &mut Transition, at: KeyRef<'_>, token: &Ident) {
        if let Some(queue) = self.waiting.at(at)
            && self.waiting.blocked_at(queue, token).next().is_some()
        {
            transition.work.push(queue);
        }
    }

    pub(super) fn issue(&mut self, transition: &Transition) -> Result<Fence, LockError> {
        let fence = self.fences.issue(transition.now.us).ok_or(LockError::FencesUsedUp)?;
        count(&mut self.stats.grants);
        Ok(fence)
    }

    /// Settles `at` if somebody waits there; returns its queue if somebody still does.
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
        // A queue is closed when its last waiter leaves, and no other is opened meanwhile.
        self.waiting.queue(queue).map(|_| queue)
    }

    /// Settles the key, then visits its lock; `change` also gets the queue. The queue is returned too, if somebody still waits there.
    ///
    /// Usually there is nothing to settle: the lock is held, so no waiter fits; none of its holds has ended; no work is scheduled for the
    /// queue; and the first waiter wants no other key. Then one visit is enough.
    pub(super) fn settle_then<W: Keyspace, R>(
        &mut self,
        transition: &mut Transition,
        at: KeyRef<'_>,
        keyspace: &mut W,
        change: impl FnOnce(&mut Self, &mut Transition, &mut LockMut<'_>, Option<QueueId>) -> R,
    ) -> (Option<QueueId>, Option<Visited<R>>) {
        let mut queue = self.waiting.at(at);
        let mut change = Some(change);
        if let Some(known) = queue {
            let visit = self.visit(transition, at, keyspace, |engine, transition, open| {
                let settled = transition.over.is_none() && !open.lock.is_empty() && engine.waiting.is_quiet(known);
                change.take_if(|_| settled).map(|change| change(engine, transition, open, queue))
            });
            if let Some(Visited { result: Some(result), emptied }) = visit {
                return (queue, Some(Visited { result, emptied }));
            }
            if let Some(over) = transition.over {
                // The next grant of this lock is counted under this cause.
                self.waiting.set_dirty(known, over);
            }
            queue = self.settle_queue(transition, known, keyspace);
        }
        let visit = self.visit(transition, at, keyspace, |engine, transition, open| {
            change.take().map(|change| change(engine, transition, open, queue))
        });
        let visit = visit.and_then(|Visited { result, emptied }| Some(Visited { result: result?, emptied }));
        (queue, visit)
    }

    /// Serves all queues in the transition's work, including those that are added meanwhile.
    pub(super) fn settle<W: Keyspace>(&mut self, transition: &mut Transition, keyspace: &mut W) {
        while let Some(queue) = transition.work.next() {
            if transition.budget == 0 {
                self.schedule_queue(queue, transition.cause);
                transition.emptied.extend(self.waiting.queue(queue).map(|queue| queue.key.clone()));
            } else {
                self.serve_queue(transition, queue, keyspace);
                transition.step();
            }
        }
    }

    /// Commits a transition whose last visit was `visit`.
    pub(super) fn finish_visit<W: Keyspace, R>(
        &mut self,
        transition: &mut Transition,
        at: KeyRef<'_>,
        visit: Option<Visited<R>>,
        keyspace: &mut W,
    ) -> Option<R> {
        self.close(at, visit.as_ref().and_then(|visit| visit.emptied), keyspace);
        self.commit(transition, keyspace);
        visit.map(|visit| visit.result)
    }

    /// Ends the transition: settles the remaining work and deletes the locks that nobody took over.
    pub(super) fn commit<W: Keyspace>(&mut self, transition: &mut Transition, keyspace: &mut W) {
        self.settle(transition, keyspace);
        for key in transition.emptied.drain(..) {
            let emptied = match keyspace.find(key.as_key()) {
                Found::Lock(lock) if lock.is_empty() => lock.deadline_id(),
                _ => None,
            };
            self.close(key.as_key(), emptied, keyspace);
        }
    }

    /// Removes ended holds at the key of `queue` and grants the waiters at its head that fit.
    fn serve_queue<W: Keyspace>(&mut self, transition: &mut Transition, queue: QueueId, keyspace: &mut W) {
        let Some(key) = self.waiting.queue(queue).map(|queue| queue.key.clone()) else { return };
        let at = key.as_key();
        let cause = transition.cause;
        transition.cause = self.waiting.take_dirty(queue).unwrap_or(cause);
        if !self.end_waits(transition, queue, keyspace) {
            transition.emptied.push(key);
        } else if !transition.may_grant(at, keyspace) {
            self.put_off(transition, queue, keyspace);
        } else {
            match self.visit(transition, at, keyspace, |engine, transition, open| {
                engine.grant_fitting(transition, queue, open)
            }) {
                None => self.refuse_all(transition, queue, keyspace),
                Some(visit) => {
                    if let Some(waiter) = visit.result {
                        // If this queue was the obstacle, it is not any more, and the next waiter can be looked at. Otherwise the request
                        // will be the first in line again.
                        let obstacle = self.waiting.waiter(waiter).and_then(|waiter| waiter.obstacle);
                        if self.grant_multi(transition, waiter, keyspace) || obstacle == Some(queue) {
                            transition.work.extend(self.waiting.queue(queue).map(|_| queue));
                        }
                    }
                    transition.emptied.extend(visit.emptied.map(|_| key.clone()));
                }
            }
        }
        transition.cause = cause;
    }

    /// The waiter of `queue` that may have its lock now, and how: a request of the token that is the only holder, because its own hold is
    /// no obstacle, or the first in line. `None` for how means a request for many keys, which needs more than this lock.
    fn next_to_admit(
        &self,
        transition: &Transition,
        queue: QueueId,
        lock: &Lock,
    ) -> Option<(WaiterId, Option<Compatibility>)> {
        let fits = |id: WaiterId| {
            let waiter = self.waiting.waiter(id).filter(|waiter| !waiter.is_timed_out(transition.now.ms))?;
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
        let own = || lock.sole_hold().into_iter().flat_map(|hold| self.waiting.blocked_at(queue, hold.token));
        own().find_map(fits).or_else(|| self.waiting.head(queue).and_then(fits))
    }

    /// Grants the lock to the waiters of `queue` that fit. If the next one is a request for many keys, returns it, because that decision
    /// needs more than one lock.
    fn grant_fitting(
        &mut self,
        transition: &mut Transition,
        queue: QueueId,
        open: &mut LockMut<'_>,
    ) -> Option<WaiterId> {
        loop {
            let (next, compatibility) = self.next_to_admit(transition, queue, open.lock)?;
            let Some(compatibility) = compatibility else { return Some(next) };
            // A vacant lock is granted at once, even if ending its last hold used up the budget.
            if transition.budget == 0 && !open.lock.is_empty() {
                self.schedule_queue(queue, transition.cause());
                return None;
            }
            transition.step();
            transition.progress();
            let place = self.place_of(next);
            let waiter = self.waiting.leave(transition.now.ms, next)?.waiter;
            let answer = match self.grant(transition, open, compatibility, waiter.recipient.client(), &waiter.request) {
                Ok((grant, changed)) => {
                    self.stats.handed_over(transition.cause());
                    if let Some(client) = waiter.recipient.parked().filter(|_| compatibility.needs_a_fence()) {
                        let (fence, entries) = (grant.fence, smallvec![changed.entry]);
                        self.unacked.track(next, UnackedGrant { client, fence, entries, place });
                        self.keep_replaced(changed.entry, grant.fence, changed.before);
                    } else {
                        // The token already had this hold and keeps it, so a lost reply does not take it back.
                        self.heard_of(changed);
                    }
                    WaitResult::Granted(grant)
                }
                Err(error) => WaitResult::Failed(error),
            };
            open.outcomes.push(Outcome::Answered(next, waiter.recipient, answer));
            if self.waiting.queue(queue).is_some_and(Queue::has_many) {
                // The token may also ask for this lock with others.
                self.look_at_own(transition, open.at, &waiter.request.token);
            } else if !open.lock.is_empty() && open.lock.mode() == Mode::Exclusive {
                return None;
            }
        }
    }

    /// Answers every waiter in `queue` that the key holds a value of another type.
    pub(super) fn refuse_all<W: Keyspace>(&mut self, transition: &mut Transition, queue: QueueId, keyspace: &mut W) {
        self.send_away(transition, queue, &WaitResult::Failed(LockError::WrongType), keyspace, |_| true);
    }

    /// Ends the waits at the head of `queue` whose time is over; `false` if there are more of them than the budget allows.
    fn end_waits<W: Keyspace>(&mut self, transition: &mut Transition, queue: QueueId, keyspace: &mut W) -> bool {
        let now = transition.now.ms;
        self.send_away(transition, queue, &WaitResult::TimedOut, keyspace, |waiter| waiter.is_timed_out(now))
    }

    /// Answers the waiters at the head of `queue` while they are `such`; `false` if there are more of them than the budget allows.
    fn send_away<W: Keyspace>(
        &mut self,
        transition: &mut Transition,
        queue: QueueId,
        answer: &WaitResult,
        keyspace: &mut W,
        such: impl Fn(&Waiter) -> bool,
    ) -> bool {
        while let Some(head) = self.waiting.head(queue).filter(|head| self.waiting.waiter(*head).is_some_and(&such)) {
            if transition.budget == 0 {
                self.schedule_queue(queue, transition.cause);
                return false;
            }
            // It leaves each of its queues.
            transition.steps(self.waiting.waiter(head).map_or(1, |waiter| waiter.scope.queues().len()));
            transition.progress();
            self.vacate_with(transition, head, queue);
            let over = self.waiting.waiter(head).is_some_and(|waiter| waiter.is_timed_out(transition.now.ms));
            let answer = if over { WaitResult::TimedOut } else { answer.clone() };
            let headed = self.answer_and_remove(transition.now.ms, head, answer, keyspace);
            transition.work.extend(headed.into_iter().filter(|other| *other != queue));
        }
        true
    }

    /// Removes a waiter from all its queues and answers it; returns the queues that have a new head.
    pub(super) fn answer_and_remove<W: Keyspace>(
        &mut self,
        now: UnixMs,
        waiter: WaiterId,
        answer: WaitResult,
        keyspace: &mut W,
    ) -> Headed {
        let Some(Departed { waiter: left, headed }) = self.waiting.leave(now, waiter) else { return Headed::new() };
        if answer == WaitResult::TimedOut {
            count(&mut self.stats.timeouts);
        }
        left.recipient.tell(waiter, answer, keyspace);
        headed
    }

    /// `waiter` is about to leave `queue` and all its other queues; a queue where it is alone closes. The lock of such a queue may be free
    /// since this transition, so the end of the transition deletes it.
    fn vacate_with(&self, transition: &mut Transition, waiter: WaiterId, queue: QueueId) {
        let Some(waiter) = self.waiting.waiter(waiter) else { return };
        let others = waiter.scope.queues().iter().filter(|other| **other != queue);
        let closing = others.filter_map(|other| self.waiting.queue(*other)).filter(|other| other.len() == 1);
        transition.emptied.extend(closing.map(|other| other.key.clone()));
    }
}
