//! Work without a command: expired leases, ended connections, queues with a new head.

use super::backlog::{Kind, RETRY, Retry};

use super::Engine;
use super::transition::Transition;
use crate::core::deadline_index::DeadlineId;
use crate::core::key::KeyRef;
use crate::core::lock::hold::HoldRef;
use crate::core::lock::keyspace::{Found, Keyspace};
use crate::core::lock::notes::HoldId;
use crate::core::lock::stats::HandoverCause;
use crate::core::lock::terms::{ClientId, EndReason, WaitResult};
use crate::core::lock::value::Lock;
use crate::core::lock::waiter::QueueId;
use crate::core::pause::Pause;
use crate::core::time::{Now, UnixMs, Wakeup};

impl Engine {
    /// Does the work that is due, at most `budget` steps of it, and returns when to call it again.
    ///
    /// A step is a hold that begins or ends, a waiter that is answered, or a key that is looked at. The last unit of work is always
    /// finished: a request for a thousand keys is granted in one go.
    pub fn tick<W: Keyspace>(&mut self, now: Now, budget: usize, keyspace: &mut W) -> Wakeup {
        self.backlog.take_up(now, &mut self.deadlines);
        let mut transition = Transition::turn(self, keyspace, now, budget);
        let mut idle = 0_usize;
        for kind in Kind::ALL.into_iter().cycle().skip(transition.engine.backlog.next) {
            if transition.course.budget == 0 || idle == Kind::ALL.len() || transition.engine.backlog.is_closed() {
                break;
            }
            let next = transition.engine.backlog.next.wrapping_add(1);
            transition.engine.backlog.next = if next < Kind::ALL.len() { next } else { 0 };
            if transition.work_on(kind) {
                // Counted afterwards, so that the last step is not used up by the look itself.
                transition.course.step();
                idle = 0;
            } else {
                idle = idle.saturating_add(1);
            }
        }
        // A node that serves no key ends waits all the same.
        if transition.engine.backlog.is_closed() {
            transition.end_waits();
        }
        self.next_wakeup().seen_at(now.ms)
    }

    /// Ends at most `budget` notified requests whose time is over, and nothing else; returns when to call it again. For a server that may not
    /// decide about locks now: what these ends allow is left to [`tick`](Self::tick).
    pub fn end_waits<W: Keyspace>(&mut self, now: Now, budget: usize, keyspace: &mut W) -> Wakeup {
        Transition::turn(self, keyspace, now, budget).end_waits();
        Wakeup::from(self.next_timeout()).seen_at(now.ms)
    }

    /// When to call [`tick`](Self::tick).
    pub fn next_wakeup(&self) -> Wakeup {
        let wait = self.next_timeout();
        if let Some(until) = self.backlog.closed.end() {
            return Wakeup::At(wait.map_or(until, |wait| wait.min(until)));
        }
        let idle = self.backlog.endings.is_empty() && self.backlog.queues.is_empty();
        if !(idle && self.unverified_sessions.is_empty()) || self.notes.any_ended() || self.waiting.has_retired() {
            return Wakeup::Now;
        }
        let retry = self.backlog.put_off.next();
        [self.deadlines.next(), retry, wait, self.vacant_places.next()].into_iter().flatten().min().into()
    }

    /// When the time of the next notified request is over.
    fn next_timeout(&self) -> Option<UnixMs> {
        self.waiting.first_end().map(|(end, _)| end)
    }

    /// The connection that a hold of `lock` ends with; none if the session is from before the last demotion.
    pub(super) fn session(&self, lock: &Lock, hold: HoldRef<'_>) -> Option<ClientId> {
        hold.session.filter(|_| lock.era() == self.era)
    }

    /// Whether a hold of `lock` has ended because of a connection.
    pub(super) fn is_revoked(&self, lock: &Lock, hold: HoldRef<'_>) -> bool {
        self.session(lock, hold).is_some_and(|client| self.notes.has_ended(client))
            || lock.deadline_id().is_some_and(|entry| self.notes.is_revoked((entry, hold.fence)))
    }

    /// Whether `lock` has holds that a visit would remove.
    pub(super) fn has_over(&self, lock: &Lock, now: UnixMs) -> bool {
        lock.earliest().is_some_and(|earliest| earliest.reached(now))
            || lock.deadline_id().is_some_and(|entry| self.notes.has_over(entry))
    }

    /// Records that a hold has ended because of a connection.
    pub(super) fn revoke(&mut self, hold: HoldId, why: EndReason) {
        if self.notes.revoke(hold, why) {
            self.end_later(hold.0);
        }
    }

    /// Makes `tick` remove the revoked holds at `entry`.
    pub(super) fn end_later(&mut self, entry: DeadlineId) {
        self.backlog.endings.push_back(entry);
    }

    /// Makes `tick` serve `queue`.
    pub(super) fn schedule_queue(&mut self, queue: QueueId, cause: HandoverCause) {
        if self.waiting.enlist(queue, cause) {
            self.backlog.queues.push_back(queue);
        }
    }
}

impl<W: Keyspace> Transition<'_, W> {
    /// Ends notified requests whose time is over.
    fn end_waits(&mut self) {
        while self.course.budget > 0 && self.work_on(Kind::Wait) {
            self.course.step();
        }
    }

    /// Does one unit of this kind of work; `false` if there is none.
    fn work_on(&mut self, kind: Kind) -> bool {
        match kind {
            Kind::Session => {
                let Some(hold) = self.engine.notes.take_ended() else { return false };
                self.engine.revoke(hold, EndReason::Disconnected);
            }
            Kind::Ending => {
                let Some(entry) = self.engine.backlog.endings.pop_front() else { return false };
                self.end_revoked_at(entry);
            }
            Kind::Queue => {
                let Some(queue) = self.engine.backlog.queues.pop_front() else { return false };
                self.engine.waiting.delist(queue);
                self.course.cause = HandoverCause::Other;
                self.course.work.push(queue);
                self.commit();
            }
            Kind::Lease => {
                let Some(entry) = self.engine.deadlines.due(self.course.now.ms) else { return false };
                self.expire(entry);
            }
            Kind::Wait => {
                let now = self.course.now.ms;
                let Some((_, waiter)) = self.engine.waiting.first_end().filter(|(end, _)| end.reached(now)) else {
                    return false;
                };
                // It leaves each of its queues, and the requests behind it may fit now.
                self.course.steps(self.engine.waiting.waiter(waiter).map_or(0, |waiter| waiter.scope.queues().len()));
                self.course.progress();
                for queue in self.answer_and_remove(waiter, WaitResult::TimedOut) {
                    self.engine.schedule_queue(queue, HandoverCause::Other);
                }
            }
            Kind::Place => return self.engine.vacant_places.expire(self.course.now.ms),
            Kind::Retired => {
                let most = self.course.budget.max(1);
                let Some(headed) = self.engine.waiting.unlink_retired(most) else { return false };
                self.course.steps(most);
                self.course.progress();
                for queue in headed {
                    self.engine.schedule_queue(queue, HandoverCause::Other);
                }
            }
        }
        true
    }

    /// Makes `tick` serve `queue` after a pause.
    pub(super) fn put_off(&mut self, queue: QueueId) {
        self.refused();
        if self.engine.waiting.enlist(queue, self.course.cause) {
            self.engine.backlog.put_off(self.course.now, Retry::Queue(queue));
        }
    }

    /// Removes the revoked holds of the lock at `entry` and hands over.
    fn end_revoked_at(&mut self, entry: DeadlineId) {
        if self.engine.deadlines.contains(entry) {
            self.course.cause = HandoverCause::Disconnect;
            if !self.refresh(entry) {
                self.refused();
                self.engine.backlog.put_off(self.course.now, Retry::Ending(entry));
            } else if self.engine.notes.has_revoked(entry) {
                self.engine.end_later(entry);
            }
        } else if self.engine.is_searching {
            // If the lock is found under another key, its revoked holds are revoked there.
            self.engine.backlog.put_off(self.course.now, Retry::Ending(entry));
        } else {
            self.engine.notes.forget(entry);
        }
    }

    /// Removes the expired holds at `entry` and hands over.
    fn expire(&mut self, entry: DeadlineId) {
        self.course.cause = HandoverCause::Expiry;
        if self.refresh(entry) {
            // The lock may have more holds that are over.
            self.engine.deadlines.rest(entry, self.course.now.ms);
        } else {
            self.refused();
            // The entry is due again when the backlog says so.
            self.engine.deadlines.reschedule(entry, UnixMs::MAX);
            self.engine.backlog.put_off(self.course.now, Retry::Lease(entry));
        }
    }

    /// This node does not serve a key. If it serves no key at all, trying the others is useless.
    fn refused(&mut self) {
        if self.keyspace.serves_nothing() {
            self.engine.backlog.closed = Pause::begin(self.course.now.ms, RETRY);
        }
    }

    /// Settles the key of `entry`; `false` if the lock is there and this node does not serve it.
    fn refresh(&mut self, entry: DeadlineId) -> bool {
        let Some(key) = self.engine.deadlines.key(entry).map(KeyRef::to_buf) else { return true };
        let at = key.as_key();
        // The value may have gone without a notice to the engine, for example with a migrated slot. Then the key may have another value
        // with an entry of its own.
        let gone = !matches!(self.keyspace.find(at), Found::Lock(lock) if lock.deadline_id() == Some(entry));
        if gone {
            self.engine.vanished(at, Some(entry));
        }
        if !self.keyspace.owns_slot(at) {
            return gone;
        }
        if let Some(queue) = self.engine.waiting.at(at) {
            self.course.work.push(queue);
        } else if let Some(visit) = self.open(at) {
            let closed = visit.close();
            self.finish(at, closed);
        }
        self.commit();
        true
    }
}
