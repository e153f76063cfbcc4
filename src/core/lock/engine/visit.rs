//! A visit: a lock that is open. The engine changes values in no other way.

use super::Engine;
use super::course::Course;
use crate::core::deadline_index::DeadlineId;
use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::lock::hold::Hold;
use crate::core::lock::notes::Before;
use crate::core::lock::stats::{HandoverCause, count};
use crate::core::lock::terms::{EndReason, Mode, Wait, WaitResult, WaiterId};
use crate::core::lock::value::Lock;

/// A visit ends this many holds that are over even without budget. Only a lock that is shared or has permits can have more than one.
const AT_LEAST: usize = 4;

/// A lock that is open. Its changes are reported to the keyspace after [`close`](Self::close).
#[must_use]
pub(super) struct Visit<'v> {
    pub(super) engine: &'v mut Engine,
    pub(super) course: &'v mut Course,
    pub(super) at: KeyRef<'v>,
    pub(super) lock: &'v mut Lock,
    /// Whether the key holds nothing; then the lock is not in the keyspace yet.
    pub(super) is_new: bool,
    /// Whether the key held a lock without holds at some time of the visit, and the lock was taken then.
    pub(super) was_free: bool,
    pub(super) outcomes: Vec<Outcome>,
}

/// The changes of a visit.
#[must_use]
pub(super) struct Closed {
    /// A lock for a key that holds nothing; vacant if it was not taken.
    pub(super) new: Option<Lock>,
    /// Whether the lock was free and is held again.
    pub(super) was_passed_on: bool,
    /// The entry of the lock, if it is vacant in its key now.
    pub(super) emptied: Option<DeadlineId>,
    /// In order.
    pub(super) outcomes: Vec<Outcome>,
}

/// The reports to the keyspace, for when the lock is no longer borrowed from it.
#[derive(Debug)]
pub(super) enum Outcome {
    Held(Mode, Hold),
    Ended(Ident, EndReason),
    Answered(WaiterId, Wait, WaitResult),
}

/// A hold that was set, and the token's earlier hold of the same lock.
#[must_use]
pub(super) struct Changed {
    pub(super) entry: DeadlineId,
    pub(super) before: Option<Before>,
}

impl Visit<'_> {
    /// Ends the visit.
    pub(super) fn close(self) -> Closed {
        let Self { engine, lock, is_new, was_free, outcomes, .. } = self;
        let (entry, is_empty) = (lock.deadline_id(), lock.is_empty());
        if let (Some(entry), Some(earliest)) = (entry, lock.earliest()) {
            engine.deadlines.reschedule(entry, earliest);
        }
        Closed {
            new: is_new.then(|| std::mem::replace(lock, Lock::vacant())),
            was_passed_on: was_free && !is_empty,
            emptied: entry.filter(|_| is_empty && !is_new),
            outcomes,
        }
    }

    /// Ends the holds that are over, within the budget of the transition.
    pub(super) fn end_what_is_over(&mut self) {
        let mut least = AT_LEAST;
        while (self.course.budget > 0 || least > 0)
            && let Some((fence, why)) = self.next_over()
        {
            least = least.saturating_sub(1);
            self.course.step();
            self.end_over(fence, why);
        }
    }

    /// The next hold that is over; a revoked one is taken off the list.
    fn next_over(&mut self) -> Option<(Fence, EndReason)> {
        if let Some((_, fence)) = self.lock.first().filter(|(deadline, _)| deadline.reached(self.course.now.ms)) {
            return Some((fence, EndReason::Expired));
        }
        let entry = self.lock.deadline_id().filter(|_| self.engine.notes.any_revoked())?;
        self.engine.notes.take_revoked_at(entry)
    }

    /// Ends a hold that is over. A grant that was not delivered is taken back.
    fn end_over(&mut self, fence: Fence, why: EndReason) {
        self.course.progress();
        let cause = if why == EndReason::Expired { HandoverCause::Expiry } else { HandoverCause::Disconnect };
        self.course.over.get_or_insert(cause);
        match why {
            EndReason::Undelivered => return self.take_back(fence),
            EndReason::Expired => count(&mut self.engine.stats.expirations),
            EndReason::Released | EndReason::Disconnected => {}
        }
        self.end_hold(fence, why);
        // If a lost grant has replaced the hold, it is not restored.
        if let Some(entry) = self.lock.deadline_id() {
            self.engine.notes.end_before((entry, fence));
        }
    }

    /// Ends the hold of `token` if it is over but the budget did not reach it. So it ends on time for its owner.
    pub(super) fn end_own_if_over(&mut self, token: &Ident) {
        let (Some(hold), Some(entry)) = (self.lock.hold(token), self.lock.deadline_id()) else { return };
        let (fence, is_expired) = (hold.fence, hold.deadline.reached(self.course.now.ms));
        let why = if is_expired { Some(EndReason::Expired) } else { self.engine.notes.take_revoked((entry, fence)) };
        if let Some(why) = why {
            self.end_over(fence, why);
        }
    }

    /// Sets the hold of its token and the mode of the lock; returns the hold that it replaces.
    pub(super) fn set_hold(&mut self, mode: Mode, hold: Hold) -> Changed {
        let entry = self.lock.deadline_id().unwrap_or_else(|| self.engine.deadlines.insert(self.at, hold.deadline));
        self.lock.set_deadline_id(Some(entry));
        // A replica hears from its primary that the TTL of the key ends.
        self.was_free |= !self.is_new && !self.course.is_passive && self.lock.is_empty();
        let (session, fence, mode_before) = (hold.session, hold.fence, self.lock.mode());
        self.outcomes.push(Outcome::Held(mode, hold.clone()));
        let before = self.lock.set(mode, hold).map(|hold| Before { mode: mode_before, hold });
        if let Some(before) = &before {
            self.engine.notes.untie((entry, before.hold.fence));
        }
        if let Some(client) = session {
            self.lock.stamp(self.engine.era);
            self.engine.notes.tie(client, (entry, fence));
        }
        Changed { entry, before }
    }

    /// Ends the hold with this fence.
    pub(super) fn end_hold(&mut self, fence: Fence, why: EndReason) {
        if let Some(hold) = self.lock.take(fence) {
            self.forget(&hold);
            self.outcomes.push(Outcome::Ended(hold.token, why));
        }
    }

    /// Queues another look at requests of `token` that its own new hold may satisfy, at whatever position they wait.
    pub(super) fn look_at_own(&mut self, token: &Ident) {
        if let Some(queue) = self.engine.waiting.at(self.at)
            && self.engine.waiting.blocked_at(queue, token).next().is_some()
        {
            self.course.work.push(queue);
        }
    }

    /// A hold has ended, so it is final: its owner ended it and knew of it, or it no longer matters whether the owner knows.
    fn forget(&mut self, ended: &Hold) {
        if let Some(entry) = self.lock.deadline_id() {
            self.engine.notes.untie((entry, ended.fence));
            self.engine.notes.confirm((entry, ended.fence));
        }
    }
}
