//! A visit: the lock is opened, changed and closed. The engine changes values in no other way.

use super::Engine;
use super::lock_mut::{Changed, LockMut, Outcome, Visited};
use super::transition::Transition;
use crate::core::deadline_index::DeadlineId;
use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::lock::keyspace::{Found, Keyspace};
use crate::core::lock::replaced::Before;
use crate::core::lock::stats::{HandoverCause, count};
use crate::core::lock::terms::{EndReason, Mode};
use crate::core::lock::value::{Hold, Lock};

/// A visit ends this many holds that are over even without budget. Only a lock that is shared or has permits can have more than one.
const AT_LEAST: usize = 4;

impl Engine {
    /// Opens the lock at `at`, or an empty one if there is none, ends the holds that are over, and lets `change` change it. The outcome
    /// is saved and reported to the keyspace. `None` if the key holds a value of another type.
    pub(super) fn visit<W: Keyspace, R>(
        &mut self,
        transition: &mut Transition,
        at: KeyRef<'_>,
        keyspace: &mut W,
        change: impl FnOnce(&mut Self, &mut Transition, &mut LockMut<'_>) -> R,
    ) -> Option<Visited<R>> {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let mut fresh = None;
        let mut emptied = None;
        let mut passed_on = false;
        let result = match keyspace.find(at) {
            Found::Foreign => None,
            Found::Nothing => {
                transition.over = None;
                let lock = fresh.insert(Lock::vacant());
                let result = change(self, transition, &mut LockMut { at, lock, outcomes: &mut outcomes });
                self.keep_time(lock);
                Some(result)
            }
            Found::Lock(lock) => {
                self.register(at, lock);
                let mut open = LockMut { at, lock, outcomes: &mut outcomes };
                transition.over = None;
                if !transition.passive {
                    self.end_what_is_over(transition, &mut open);
                }
                let was_free = open.lock.is_empty();
                let result = change(self, transition, &mut open);
                let lock = open.lock;
                passed_on = was_free && !lock.is_empty();
                self.keep_time(lock);
                emptied = lock.deadline_id().filter(|_| lock.is_empty());
                Some(result)
            }
        };
        if let Some(fresh) = fresh.filter(|lock| !lock.is_empty()) {
            keyspace.put(at, fresh);
        }
        if passed_on {
            keyspace.clear_expire(at);
        }
        for item in outcomes.drain(..) {
            item.tell(at, keyspace);
        }
        self.outcomes = outcomes;
        result.map(|result| Visited { result, emptied })
    }

    /// Brings the deadline index up to date with the leases of `lock`.
    fn keep_time(&mut self, lock: &Lock) {
        if let (Some(entry), Some(earliest)) = (lock.deadline_id(), lock.earliest()) {
            self.deadlines.reschedule(entry, earliest);
        }
    }

    /// Deletes the lock at `at` if it is empty; `emptied` is its entry then.
    pub(super) fn close<W: Keyspace>(&mut self, at: KeyRef<'_>, emptied: Option<DeadlineId>, keyspace: &mut W) {
        if let Some(entry) = emptied {
            self.deadlines.remove(entry);
            keyspace.delete(at);
        }
    }

    /// Ends the holds that are over, within the budget of the transition.
    fn end_what_is_over(&mut self, transition: &mut Transition, open: &mut LockMut<'_>) {
        let mut least = AT_LEAST;
        while (transition.budget > 0 || least > 0)
            && let Some(hold) = open.lock.take_expired(transition.now.ms)
        {
            least = least.saturating_sub(1);
            transition.step();
            transition.progress();
            transition.over = Some(HandoverCause::Expiry);
            count(&mut self.stats.expirations);
            self.forget(open.lock, &hold);
            open.outcomes.push(Outcome::Ended(hold.token, EndReason::Expired));
        }
        while (transition.budget > 0 || least > 0)
            && (self.sessions.any_ended() || !self.revoked.is_empty())
            && let Some((fence, why)) = open.lock.deadline_id().and_then(|entry| self.take_revoked(entry))
        {
            least = least.saturating_sub(1);
            transition.step();
            transition.progress();
            transition.over.get_or_insert(HandoverCause::Disconnect);
            self.end_forfeit(transition, open, fence, why);
        }
    }

    fn end_forfeit(&mut self, transition: &mut Transition, open: &mut LockMut<'_>, fence: Fence, why: EndReason) {
        match why {
            EndReason::Undelivered => self.take_back(transition, open, fence),
            EndReason::Released | EndReason::Expired | EndReason::Disconnected => {
                self.end_hold(open, fence, why);
                if let Some(entry) = open.lock.deadline_id() {
                    self.replaced.end(entry, fence);
                }
            }
        }
    }

    /// Ends the hold of `token` if it is over but the budget did not reach it. So it ends on time for its owner.
    pub(super) fn end_own_if_over(&mut self, transition: &mut Transition, open: &mut LockMut<'_>, token: &Ident) {
        let Some(hold) = open.lock.hold(token) else { return };
        let (fence, expired) = (hold.fence, hold.deadline.reached(transition.now.ms));
        if expired {
            transition.progress();
            count(&mut self.stats.expirations);
            self.end_hold(open, fence, EndReason::Expired);
        } else if let Some(why) = self.take_revoked_one(open.lock, fence) {
            transition.progress();
            self.end_forfeit(transition, open, fence, why);
        }
    }

    /// Sets the hold of its token and the mode of the lock; returns what it replaces.
    pub(super) fn set_hold(&mut self, open: &mut LockMut<'_>, mode: Mode, hold: Hold) -> Changed {
        let entry = open.lock.deadline_id().unwrap_or_else(|| self.deadlines.insert(open.at, hold.deadline));
        open.lock.set_deadline_id(Some(entry));
        let (session, fence, mode_before) = (hold.session, hold.fence, open.lock.mode());
        open.outcomes.push(Outcome::Held(mode, hold.clone()));
        let before = open.lock.set(mode, hold).map(|hold| Before { mode: mode_before, hold, over: false });
        if let Some(before) = &before {
            self.untie(open.lock, &before.hold);
        }
        if let Some(client) = session {
            open.lock.stamp(self.era);
            self.sessions.tie(client, (entry, fence));
        }
        Changed { entry, before }
    }

    /// Ends the hold with this fence.
    pub(super) fn end_hold(&mut self, open: &mut LockMut<'_>, fence: Fence, why: EndReason) {
        if let Some(hold) = open.lock.take(fence) {
            self.forget(open.lock, &hold);
            open.outcomes.push(Outcome::Ended(hold.token, why));
        }
    }

    /// A hold has ended. Either its owner ended it and so knew of it, or it no longer matters who knows.
    fn forget(&mut self, lock: &Lock, ended: &Hold) {
        self.untie(lock, ended);
        if let Some(entry) = lock.deadline_id() {
            self.unacked.confirm(ended.fence, entry);
            self.drop_replaced(entry, ended.fence);
        }
    }

    /// The hold is not tied to its connection any more.
    fn untie(&mut self, lock: &Lock, hold: &Hold) {
        if let (Some(client), Some(entry)) = (hold.session, lock.deadline_id()) {
            self.sessions.untie(client, (entry, hold.fence));
        }
    }
}
