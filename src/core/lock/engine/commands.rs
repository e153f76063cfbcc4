//! Acquiring one lock, and releasing locks.

use super::Engine;
use super::transition::Transition;
use super::visit::{Changed, Outcome, Visit};
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::lock::compatibility::Compatibility;
use crate::core::lock::hold::{Claim, Hold};
use crate::core::lock::keyspace::{Found, Keyspace};
use crate::core::lock::stats::{HandoverCause, count};
use crate::core::lock::terms::{Acquired, EndReason, Grant, LockError, Request, Wait, WaitResult, Wanted};
use crate::core::lock::waiter::{QueueId, Scope, Waiter};
use crate::core::time::{Now, UnixMs};

impl Engine {
    /// Asks for the lock at `at`.
    ///
    /// O(log n) in the holds of the lock and the waiters of its queue, plus the cost of settling the key.
    ///
    /// # Errors
    /// See [`LockError`].
    pub fn acquire<W: Keyspace>(
        &mut self,
        now: Now,
        at: KeyRef<'_>,
        request: &Request,
        keyspace: &mut W,
    ) -> Result<Acquired, LockError> {
        now.ms.plus(request.lease).ok_or(LockError::LeaseTooLong)?;
        if keyspace.has_moved(at) {
            return Err(LockError::Moved);
        }
        let named = [at];
        let mut transition = Transition::command(self, keyspace, now, &named);
        transition.adopt_same(&named, request);
        if request.wait == Wait::No && transition.is_taken(at, &request.token) {
            return Ok(Acquired::Refused);
        }
        transition.settle(at);
        let mut in_front = false;
        let answer = match transition.open(at) {
            None => Err(LockError::WrongType),
            Some(mut visit) => {
                let answer = visit.decide(request);
                // A holder that wants more of the lock waits in front of all others.
                in_front = matches!(answer, Ok(Acquired::Refused)) && visit.lock.hold(&request.token).is_some();
                let closed = visit.close();
                transition.keep(at, closed);
                answer
            }
        };
        transition.commit();
        match answer? {
            Acquired::Refused => Ok(transition.wait(&named, None, request, in_front)),
            answer => Ok(answer),
        }
    }

    /// Ends the claimed holds of these locks, which are [`in_order`](super::in_order), and, unless the claim names a fence, every request of
    /// the token that waits for any of them; returns how many holds there were.
    ///
    /// # Errors
    /// [`LockError::WrongType`] if any of the keys holds something else; then nothing was released.
    pub fn release<W: Keyspace>(
        &mut self,
        now: Now,
        locks: &[KeyRef<'_>],
        claim: Claim<'_>,
        keyspace: &mut W,
    ) -> Result<u64, LockError> {
        let mut transition = Transition::command(self, keyspace, now, locks);
        transition.adopt_each(locks, claim);
        transition.cancel(locks, claim);
        for at in locks {
            transition.settle(*at);
        }
        // Of a single key it is found out when it is opened.
        let is_single = locks.len() == 1;
        let mut is_foreign = !is_single && locks.iter().any(|at| transition.is_foreign(*at));
        let mut released = 0_u64;
        for at in if is_foreign { &[] } else { locks } {
            let ended = transition.release(*at, claim);
            is_foreign = is_single && ended.is_none();
            released = released.saturating_add(ended.unwrap_or(false).into());
        }
        transition.commit();
        if is_foreign { Err(LockError::WrongType) } else { Ok(released) }
    }
}

impl<W: Keyspace> Transition<'_, W> {
    /// Whether one look shows that the lock is another token's and nothing has to be done there. Most refused requests find such a lock.
    fn is_taken(&mut self, at: KeyRef<'_>, token: &Ident) -> bool {
        let Self { engine, keyspace, course, .. } = self;
        !engine.notes.any_revoked()
            && engine.waiting.at(at).is_none()
            && matches!(keyspace.find(at), Found::Lock(lock)
                if engine.is_registered(lock) && lock.is_held_against(token, course.now.ms))
    }

    /// Releases the claimed hold of the lock at `at`; whether there was one, or `None` if the key holds something else. The lock stays in its
    /// key for the first waiter, which is served before the end of the transition.
    fn release(&mut self, at: KeyRef<'_>, claim: Claim<'_>) -> Option<bool> {
        let mut visit = self.open(at)?;
        let released = visit.release(claim);
        let closed = visit.close();
        let emptied = self.tell(at, closed);
        match self.engine.waiting.at(at) {
            Some(queue) => self.course.work.push(queue),
            None => self.delete(at, emptied),
        }
        Some(released)
    }
}

impl Visit<'_> {
    /// Grants the request, if its lock and its line allow that now.
    fn decide(&mut self, request: &Request) -> Result<Acquired, LockError> {
        self.end_own_if_over(&request.token);
        let queue = self.engine.waiting.at(self.at);
        let compatibility = self.lock.compatibility(&request.token, request.mode);
        let is_patient = request.wait != Wait::No;
        match (compatibility, queue) {
            (Compatibility::OtherMode, _) => return Err(LockError::OtherMode),
            (Compatibility::UpgradeLater, Some(queue)) if is_patient && self.other_upgrader(queue, &request.token) => {
                count(&mut self.engine.stats.deadlocks);
                return Ok(Acquired::Deadlock(vec![self.at.to_buf()]));
            }
            (Compatibility::UpgradeLater | Compatibility::Full, _) => return Ok(Acquired::Refused),
            (Compatibility::Join, Some(queue)) if !self.is_first(queue, request) => {
                return Ok(Acquired::Refused);
            }
            (Compatibility::Downgrade, Some(queue)) => self.course.work.push(queue),
            (Compatibility::Join | Compatibility::Renew | Compatibility::Downgrade | Compatibility::Upgrade, _) => {}
        }
        if is_patient {
            self.engine.vacant_places.take_up(request.for_keys(&[self.at]));
        }
        if let Some(queue) = queue {
            self.replace_earlier(queue, compatibility, request);
        }
        let (grant, changed) = self.grant(compatibility, request)?;
        if compatibility.needs_a_fence() {
            self.look_at_own(&request.token);
        }
        self.engine.heard_of(changed);
        Ok(Acquired::Granted(grant))
    }

    /// Whether no waiter in `queue` would be in front of the request.
    fn is_first(&self, queue: QueueId, request: &Request) -> bool {
        let asked = [self.at];
        let ticket = self.engine.ticket_of(self.course.now.ms, request.for_keys(&asked), &request.wait);
        self.engine.is_first(queue, ticket)
    }

    /// The answer to `request` also settles an earlier request of its token for this key, so that one need not wait any more.
    fn replace_earlier(&mut self, queue: QueueId, compatibility: Compatibility, request: &Request) {
        let Some(earlier) = self.engine.waiting.waiting_request(&request.token, &Scope::One(queue)) else { return };
        let wants = |wanted: Wanted| wanted.mode() == request.mode.mode();
        let is_settled = compatibility == Compatibility::Join
            || self.engine.waiting.waiter(earlier).is_some_and(|waiter| wants(waiter.request.mode));
        if is_settled && let Some(departed) = self.engine.waiting.leave(self.course.now.ms, earlier) {
            self.course.work.extend(departed.headed);
            if !request.repeats(&departed.waiter.request) {
                self.outcomes.push(Outcome::Answered(earlier, departed.waiter.request.wait, WaitResult::Replaced));
            }
        }
    }

    /// Gives the token its hold, according to `compatibility`.
    pub(super) fn grant(
        &mut self,
        compatibility: Compatibility,
        request: &Request,
    ) -> Result<(Grant, Changed), LockError> {
        let before = self.lock.hold(&request.token);
        let session = if request.session { request.client } else { before.and_then(|hold| hold.session) };
        let fence = match before {
            Some(before) if !compatibility.needs_a_fence() => before.fence,
            _ => self.engine.issue(self.course.now)?,
        };
        let (token, now) = (request.token.clone(), self.course.now.ms);
        let deadline = now.plus(request.lease).unwrap_or(UnixMs::MAX);
        let hold = Hold { token: token.clone(), fence, deadline, limit: request.mode.limit(), session };
        self.course.progress();
        let changed = self.set_hold(request.mode.mode(), hold);
        Ok((Grant { token, fence, lease: deadline.left(now) }, changed))
    }

    /// Whether another holder of the lock waits in its queue to upgrade. It is the head then: it went in front of all others, and a second one
    /// is refused.
    fn other_upgrader(&self, queue: QueueId, token: &Ident) -> bool {
        let waiting = &self.engine.waiting;
        let head = waiting.head(queue).and_then(|head| waiting.waiter(head));
        head.is_some_and(|Waiter { scope, request, .. }| {
            matches!(scope, Scope::One(_))
                && request.token != *token
                && self.lock.compatibility(&request.token, request.mode) == Compatibility::UpgradeLater
        })
    }

    /// Ends the claimed hold; returns whether there was one.
    fn release(&mut self, claim: Claim<'_>) -> bool {
        self.end_own_if_over(claim.token);
        let Some(fence) = self.lock.claimed(claim).map(|hold| hold.fence) else { return false };
        self.course.progress();
        self.course.cause = HandoverCause::Release;
        self.end_hold(fence, EndReason::Released);
        true
    }
}
