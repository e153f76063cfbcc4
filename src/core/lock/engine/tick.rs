//! Work without a command: expired leases, ended connections, queues with a new head.

use super::backlog::{Kind, RETRY, Retry};

use super::Engine;
use super::transition::Transition;
use crate::core::deadline_index::DeadlineId;
use crate::core::fence::Fence;
use crate::core::key::KeyRef;
use crate::core::lock::claim::Claim;
use crate::core::lock::keyspace::{Found, Keyspace};
use crate::core::lock::stats::HandoverCause;
use crate::core::lock::terms::{ClientId, EndReason, WaitResult};
use crate::core::lock::value::{HoldRef, Lock};
use crate::core::lock::waiter::QueueId;
use crate::core::time::{Now, UnixMs, Wakeup};

impl Engine {
    /// Does the work that is due, at most `budget` steps of it, and returns when to call it again.
    ///
    /// A step is a hold that begins or ends, a waiter that is answered, or a key that is looked at. The last unit of work is always
    /// finished: a request for a thousand keys is granted in one go.
    pub fn tick<W: Keyspace>(&mut self, now: Now, budget: usize, keyspace: &mut W) -> Wakeup {
        let mut transition = Transition::by_timer(now, budget);
        self.backlog.take_up(now, &mut self.deadlines);
        while transition.budget > 0 && self.vacant_places.expire(now.ms) {
            transition.step();
        }
        let mut idle = 0_usize;
        while transition.budget > 0 && idle < Kind::COUNT && self.backlog.closed.is_none() {
            let kind = self.backlog.next;
            self.backlog.next = kind.next();
            if self.work_on(kind, &mut transition, keyspace) {
                // Counted afterwards, so that the last step is not used up by the look itself.
                transition.step();
                idle = 0;
            } else {
                idle = idle.saturating_add(1);
            }
        }
        self.next_wakeup().seen_at(now.ms)
    }

    /// Does one unit of this kind of work; `false` if there is none.
    fn work_on<W: Keyspace>(&mut self, kind: Kind, transition: &mut Transition, keyspace: &mut W) -> bool {
        match kind {
            Kind::Session => {
                let Some((entry, fence)) = self.sessions.take_ended() else { return false };
                self.revoke(entry, fence, EndReason::Disconnected);
            }
            Kind::Ending => {
                let Some(entry) = self.backlog.endings.pop_front() else { return false };
                self.end_revoked(transition, entry, keyspace);
            }
            Kind::Queue => {
                let Some(queue) = self.backlog.queues.pop_front() else { return false };
                self.waiting.delist(queue);
                transition.cause = HandoverCause::Other;
                transition.work.push(queue);
                self.commit(transition, keyspace);
            }
            Kind::Lease => {
                let Some(entry) = self.deadlines.due(transition.now.ms) else { return false };
                self.expire(transition, entry, keyspace);
            }
            Kind::Wait => {
                let now = transition.now.ms;
                let Some((_, waiter)) = self.waiting.first_end().filter(|(end, _)| end.reached(now)) else {
                    return false;
                };
                // It leaves each of its queues, and whoever stood behind may fit now.
                transition.steps(self.waiting.waiter(waiter).map_or(0, |waiter| waiter.scope.queues().len()));
                transition.progress();
                for queue in self.answer_and_remove(now, waiter, WaitResult::TimedOut, keyspace) {
                    self.schedule_queue(queue, HandoverCause::Other);
                }
            }
            Kind::Retired => {
                let most = transition.budget.max(1);
                let Some(headed) = self.waiting.unlink_retired(most) else { return false };
                transition.steps(most);
                transition.progress();
                for queue in headed {
                    self.schedule_queue(queue, HandoverCause::Other);
                }
            }
        }
        true
    }

    /// When to call [`tick`](Self::tick).
    pub fn next_wakeup(&self) -> Wakeup {
        if let Some(until) = self.backlog.closed {
            return Wakeup::At(until);
        }
        let idle = self.backlog.endings.is_empty() && self.backlog.queues.is_empty();
        if !(idle && self.unverified_sessions.is_empty()) || self.sessions.any_ended() || self.waiting.has_retired() {
            return Wakeup::Now;
        }
        let retry = self.backlog.put_off.next();
        let wait = self.waiting.first_end().map(|(end, _)| end);
        let sooner = |one: Option<UnixMs>, other: Option<UnixMs>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            _ => one.or(other),
        };
        let due = [retry, wait, self.vacant_places.next()].into_iter().fold(self.deadlines.next(), sooner);
        due.into()
    }

    /// The connection that a hold of `lock` ends with; none if the session is from before the last demotion.
    pub(super) fn session(&self, lock: &Lock, hold: HoldRef<'_>) -> Option<ClientId> {
        hold.session.filter(|_| lock.era() == self.era)
    }

    /// Whether a hold of `lock` has ended because of a connection.
    pub(super) fn is_revoked(&self, lock: &Lock, hold: HoldRef<'_>) -> bool {
        let has_ended = |client| self.sessions.has_ended(client);
        self.session(lock, hold).is_some_and(has_ended) || self.revoked.contains(lock.deadline_id(), hold.fence)
    }

    /// Takes a hold at `entry` that has ended because of a connection off the lists, so that the caller ends it.
    pub(super) fn take_revoked(&mut self, entry: DeadlineId) -> Option<(Fence, EndReason)> {
        if self.sessions.any_ended()
            && let Some(fence) = self.sessions.take_ended_at(entry)
        {
            // Its grant may also have been revoked as undelivered.
            self.revoked.add(entry, fence, EndReason::Disconnected);
            return self.revoked.take_one(entry, fence).map(|why| (fence, why));
        }
        self.revoked.take(entry)
    }

    /// Takes this hold of `lock` off the lists if it has ended because of a connection, so that the caller ends it.
    pub(super) fn take_revoked_one(&mut self, lock: &Lock, fence: Fence) -> Option<EndReason> {
        let entry = lock.deadline_id()?;
        if self.sessions.any_ended()
            && let Some(client) = lock.hold_of(fence).and_then(|hold| self.session(lock, hold))
            && self.sessions.has_ended(client)
        {
            self.sessions.untie(client, (entry, fence));
            self.revoked.add(entry, fence, EndReason::Disconnected);
        }
        self.revoked.take_one(entry, fence)
    }

    /// Records that a hold has ended because of a connection.
    pub(super) fn revoke(&mut self, entry: DeadlineId, fence: Fence, why: EndReason) {
        if self.revoked.add(entry, fence, why) {
            self.end_later(entry);
        }
    }

    /// Makes `tick` remove the revoked holds at `entry`.
    pub(super) fn end_later(&mut self, entry: DeadlineId) {
        self.backlog.endings.push_back(entry);
    }

    /// A token whose undelivered grant is revoked asks again from another connection: the grant stands.
    pub(super) fn pardon<W: Keyspace>(&mut self, at: KeyRef<'_>, claim: Claim<'_>, keyspace: &mut W) {
        if !self.revoked.is_empty()
            && let Found::Lock(lock) = keyspace.find(at)
            && let (Some(entry), Some(hold)) = (lock.deadline_id(), claim.hold(lock))
            && self.revoked.pardon(entry, hold.fence)
        {
            let fence = hold.fence;
            self.drop_replaced(entry, fence);
        }
    }

    /// Makes `tick` serve `queue`.
    pub(super) fn schedule_queue(&mut self, queue: QueueId, cause: HandoverCause) {
        if self.waiting.enlist(queue, cause) {
            self.backlog.queues.push_back(queue);
        }
    }

    /// Makes `tick` serve `queue` after a pause.
    pub(super) fn put_off<W: Keyspace>(&mut self, transition: &Transition, queue: QueueId, keyspace: &mut W) {
        self.refused(transition, keyspace);
        if self.waiting.enlist(queue, transition.cause) {
            self.backlog.put_off(transition.now, Retry::Queue(queue));
        }
    }

    /// Removes the revoked holds of the lock at `entry` and hands over.
    fn end_revoked<W: Keyspace>(&mut self, transition: &mut Transition, entry: DeadlineId, keyspace: &mut W) {
        if self.deadlines.contains(entry) {
            transition.cause = HandoverCause::Disconnect;
            if !self.refresh(transition, entry, keyspace) {
                self.refused(transition, keyspace);
                self.backlog.put_off(transition.now, Retry::Ending(entry));
            } else if self.revoked.at(entry) {
                self.end_later(entry);
            }
        } else {
            self.revoked.forget(entry);
            self.replaced.forget(entry);
        }
    }

    /// Removes the expired holds at `entry` and hands over.
    fn expire<W: Keyspace>(&mut self, transition: &mut Transition, entry: DeadlineId, keyspace: &mut W) {
        transition.cause = HandoverCause::Expiry;
        if !self.refresh(transition, entry, keyspace) {
            self.refused(transition, keyspace);
            // The entry is due again when the backlog says so.
            self.deadlines.reschedule(entry, UnixMs::MAX);
            self.backlog.put_off(transition.now, Retry::Lease(entry));
        }
    }

    /// This node does not serve a key. If it serves no key at all, trying the others is useless.
    fn refused<W: Keyspace>(&mut self, transition: &Transition, keyspace: &mut W) {
        if keyspace.serves_nothing() {
            self.backlog.closed = transition.now.ms.plus(RETRY);
        }
    }

    /// Settles the key of `entry`; `false` if the lock is there and this node does not serve it.
    fn refresh<W: Keyspace>(&mut self, transition: &mut Transition, entry: DeadlineId, keyspace: &mut W) -> bool {
        let Some(key) = self.deadlines.key(entry).map(KeyRef::to_buf) else { return true };
        let at = key.as_key();
        // The value may have gone without a notice to the engine, for example with a migrated slot. Then the key may have another value
        // with an entry of its own.
        let gone = !matches!(keyspace.find(at), Found::Lock(lock) if lock.deadline_id() == Some(entry));
        if gone {
            self.vanished(at, Some(entry));
        }
        if !keyspace.owns_slot(at) {
            return gone;
        }
        if let Some(queue) = self.waiting.at(at) {
            transition.work.push(queue);
            self.commit(transition, keyspace);
        } else {
            let visit = self.visit(transition, at, keyspace, |_, _, _| ());
            self.finish_visit(transition, at, visit, keyspace);
        }
        true
    }
}
