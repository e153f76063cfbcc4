//! Keys that change without a request for their lock: DEL, RENAME, FLUSH, SWAPDB, load, moved slots and change of role.

use std::collections::{BTreeSet, VecDeque};

use super::Engine;
use crate::core::deadline_index::DeadlineId;
use crate::core::key::KeyRef;
use crate::core::lock::notes::HoldNotes;
use crate::core::lock::stats::HandoverCause;
use crate::core::lock::terms::{ClientId, Dismissed, WaiterId};
use crate::core::lock::vacant_places::VacantPlaces;
use crate::core::lock::value::Lock;
use crate::core::lock::waiter::QueueId;
use crate::core::slot::Slot;
use crate::core::time::UnixMs;

impl Engine {
    /// Registers a lock that was loaded, restored or renamed to `at`. Does nothing if it is registered.
    ///
    /// The engine registers every lock that it finds. An early call lets its leases expire on time and its sessions end with their
    /// connections. O(n log n) in its holds, or O(1) if it is registered.
    pub fn register(&mut self, at: KeyRef<'_>, lock: &mut Lock) {
        lock.enter(self.era);
        if self.is_registered(lock) {
            return;
        }
        let entry = self.deadlines.insert(at, lock.earliest().unwrap_or(UnixMs::MAX));
        let before = lock.deadline_id();
        lock.set_deadline_id(Some(entry));
        let mut sessions = before.map(|before| self.notes.follow(before, entry)).unwrap_or_default();
        for hold in lock.holds() {
            self.fences.observe(hold.fence);
            if let Some(client) = hold.session {
                self.notes.tie(client, (entry, hold.fence));
                sessions.push(client);
            }
        }
        if lock.mark_found() {
            self.unverified_sessions.extend(sessions);
        }
        if self.notes.has_revoked(entry) {
            self.end_later(entry);
        }
        self.look_later_at(at);
    }

    /// Whether the engine knows the key of the lock.
    pub(super) fn is_registered(&self, lock: &Lock) -> bool {
        lock.deadline_id().is_some_and(|entry| self.deadlines.contains(entry))
    }

    /// The lock at `at` has changed without a decision of this server: schedules its waiters for the next tick.
    pub(super) fn look_later_at(&mut self, at: KeyRef<'_>) {
        if let Some(queue) = self.waiting.at(at) {
            self.schedule_queue(queue, HandoverCause::Other);
        }
    }

    /// The connections of sessions in locks that came from another key. If such a connection ended while its lock was unlinked, the engine
    /// could not see that; the caller reports it again by [`client_gone`](Self::client_gone).
    #[must_use]
    pub fn take_unverified_sessions(&mut self) -> BTreeSet<ClientId> {
        std::mem::take(&mut self.unverified_sessions)
    }

    /// The lock with this `entry` is no longer at `at`: deleted, expired, overwritten, evicted or renamed. The next tick serves its
    /// waiters.
    pub fn vanished(&mut self, at: KeyRef<'_>, entry: Option<DeadlineId>) {
        if let Some(entry) = entry {
            self.deadlines.remove(entry);
            self.notes.unlink(entry);
        }
        self.look_later_at(at);
    }

    /// The lock with this entry has been destroyed without a notice that it left its key.
    pub fn destroyed(&mut self, entry: DeadlineId) {
        if let Some(key) = self.deadlines.key(entry).map(KeyRef::to_buf) {
            self.vanished(key.as_key(), Some(entry));
        }
    }

    /// This server is not a primary any more, and the new primary does not know our connections. Holds that were tied to them stay until
    /// their leases expire, even if this server is promoted again.
    pub fn demoted(&mut self, now: UnixMs) {
        // Each value ends its old sessions when the engine visits it next, under whatever key it is then.
        self.era = self.era.wrapping_add(1);
        self.notes = HoldNotes::default();
        self.vacant_places = VacantPlaces::default();
        self.unverified_sessions.clear();
        // The server answers blocked clients itself.
        for waiter in self.waiting.notified_ones() {
            if let Some(left) = self.waiting.leave(now, waiter) {
                self.dismissed.extend(left.waiter.request.wait.into_notice().map(Dismissed::Demoted));
            }
        }
    }

    /// The slot of the keys that a request waits for.
    pub fn slot_of(&self, waiter: WaiterId) -> Option<Slot> {
        let queue = self.waiting.waiter(waiter)?.scope.queues().first()?;
        self.waiting.queue(*queue).map(|queue| Slot::of(queue.key.as_key().key))
    }

    /// This cluster node serves no slot any more that `has_gone`. Ends the notified requests that wait for their keys; the server redirects
    /// blocked clients itself. O(n log n) in the notified requests.
    pub fn slots_moved(&mut self, now: UnixMs, mut has_gone: impl FnMut(Slot) -> bool) {
        for waiter in self.waiting.notified_ones() {
            let Some(slot) = self.slot_of(waiter).filter(|slot| has_gone(*slot)) else { continue };
            let Some(left) = self.waiting.leave(now, waiter) else { continue };
            for queue in left.headed {
                self.schedule_queue(queue, HandoverCause::Other);
            }
            let notice = left.waiter.request.wait.into_notice();
            self.dismissed.extend(notice.map(|notice| Dismissed::Moved(notice, slot)));
        }
    }

    /// Whether [`take_dismissed`](Self::take_dismissed) would return any.
    pub fn any_dismissed(&self) -> bool {
        !self.dismissed.is_empty()
    }

    /// Notified requests that have ended with a demotion or because their slots have moved, at most `most` of them; the caller publishes
    /// that.
    pub fn take_dismissed(&mut self, most: usize) -> Vec<Dismissed> {
        let taken = self.dismissed.drain(..most.min(self.dismissed.len())).collect();
        if self.dismissed.is_empty() {
            self.dismissed = VecDeque::new();
        }
        taken
    }

    /// All keys of the database `db`, or of all databases, are gone. O(n).
    pub fn flushed(&mut self, db: Option<i32>) {
        for entry in self.deadlines.flush(db) {
            self.notes.unlink(entry);
        }
        self.schedule_queues_of(db);
    }

    /// SWAPDB has swapped two databases. The holds move with the keys; the waiters stay with the key names. O(n).
    pub fn swapped(&mut self, one: i32, other: i32) {
        self.deadlines.swap(one, other);
        self.schedule_queues_of(Some(one));
        self.schedule_queues_of(Some(other));
    }

    fn schedule_queues_of(&mut self, db: Option<i32>) {
        for queue in self.waiting.in_db(db).collect::<Vec<QueueId>>() {
            self.schedule_queue(queue, HandoverCause::Other);
        }
    }
}
