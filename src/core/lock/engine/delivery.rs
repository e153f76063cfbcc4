//! When a grant is delivered, and how one is taken back that never was: its hold ends, or the token's earlier hold is restored unchanged.

use smallvec::SmallVec;

use super::Engine;
use super::visit::{Changed, Visit};
use crate::core::fence::Fence;
use crate::core::lock::hold::HoldRef;
use crate::core::lock::notes::UnackedGrant;
use crate::core::lock::stats::count;
use crate::core::lock::terms::{ClientId, EndReason, Mode, WaiterId};
use crate::core::lock::vacant_places::Place;
use crate::core::lock::value::Lock;

impl Engine {
    /// Notes a grant to the request `waiter`, which has left the line. It is unacknowledged if there is a `client` whose reply may get lost,
    /// unless it only renews a hold that its token knows.
    pub(super) fn note_grant(
        &mut self,
        waiter: WaiterId,
        client: Option<ClientId>,
        fence: Fence,
        place: Option<Place>,
        changes: impl IntoIterator<Item = Changed>,
    ) {
        let mut entries = SmallVec::new();
        for changed in changes {
            let hold = (changed.entry, fence);
            if client.is_none() {
                self.heard_of(changed);
            } else if changed.before.as_ref().is_none_or(|before| before.hold.fence != fence) {
                entries.push(hold.0);
                self.notes.keep_before(hold, changed.before);
            } else if self.notes.is_unacked(hold) {
                entries.push(hold.0);
            }
        }
        if let Some(client) = client.filter(|_| !entries.is_empty()) {
            self.notes.track(waiter, UnackedGrant { client, fence, entries, place });
        }
    }

    /// The server has handed the reply with a grant to the waiter's connection, so the grant is final.
    pub fn delivered(&mut self, waiter: WaiterId) {
        if let Some(grant) = self.notes.settle(waiter) {
            for entry in grant.entries {
                self.notes.confirm((entry, grant.fence));
            }
        }
    }

    /// The server will never hand over the reply with a grant. It is taken back, but for the holds that another reply may still tell of.
    pub(super) fn lost(&mut self, waiter: WaiterId) {
        if let Some(grant) = self.notes.settle(waiter) {
            for hold in grant.entries.into_iter().map(|entry| (entry, grant.fence)) {
                if !self.notes.is_unacked(hold) {
                    self.revoke(hold, EndReason::Undelivered);
                }
            }
        }
    }

    /// The token is told of a changed hold at once, so it also knows every earlier grant of that lock.
    pub(super) fn heard_of(&mut self, changed: Changed) {
        if let Changed { entry, before: Some(before) } = changed {
            self.notes.confirm((entry, before.hold.fence));
        }
    }

    /// The effective hold behind `hold`: itself, the hold that it replaced if it is going to be taken back, or none if it has ended.
    pub(super) fn standing_hold<'a>(&'a self, lock: &'a Lock, hold: HoldRef<'a>) -> Option<(Mode, HoldRef<'a>)> {
        let (mut mode, mut hold) = (lock.mode(), hold);
        while self.is_revoked(lock, hold) {
            let entry = lock.deadline_id()?;
            let before = self.notes.before((entry, hold.fence)).filter(|before| self.notes.is_alive(entry, before))?;
            (mode, hold) = (before.mode, before.hold.as_ref());
        }
        Some((mode, hold))
    }
}

impl Visit<'_> {
    /// Takes the grant `fence` back. The token's earlier hold is restored, unless it has ended since.
    pub(super) fn take_back(&mut self, fence: Fence) {
        let Some(entry) = self.lock.deadline_id() else { return };
        let notes = &mut self.engine.notes;
        let alive = notes.before((entry, fence)).is_some_and(|before| notes.is_alive(entry, before));
        let before = notes.take_before((entry, fence));
        if self.lock.hold_of(fence).is_none() {
            // A later unacknowledged grant has replaced this one. It inherits the older hold.
            if let Some(later) = notes.replaced_by((entry, fence)) {
                notes.take_before((entry, later));
                notes.keep_before((entry, later), before.filter(|_| alive));
            }
            return;
        }
        let Some(before) = before else { return self.end_hold(fence, EndReason::Undelivered) };
        let expired = before.hold.deadline.reached(self.course.now.ms);
        if expired || !alive {
            if expired {
                count(&mut self.engine.stats.expirations);
            }
            // The earlier grant may not have been heard of either, and may have replaced something itself.
            notes.confirm((entry, before.hold.fence));
            self.end_hold(fence, if expired { EndReason::Expired } else { EndReason::Disconnected });
        } else {
            let token = before.hold.token.clone();
            let _ = self.set_hold(before.mode, before.hold);
            self.look_at_own(&token);
        }
    }
}
