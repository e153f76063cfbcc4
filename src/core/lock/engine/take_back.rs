//! Taking grants back: the hold ends, or the token's earlier hold is restored unchanged.

use super::Engine;
use super::visit::{Changed, Visit};
use crate::core::deadline_index::DeadlineId;
use crate::core::fence::Fence;
use crate::core::lock::replaced::Before;
use crate::core::lock::stats::count;
use crate::core::lock::terms::{EndReason, Mode};
use crate::core::lock::value::{HoldRef, Lock};

impl Engine {
    /// Keeps `before`, which the grant `fence` replaced, until the grant is known to be delivered.
    pub(super) fn keep_replaced(&mut self, entry: DeadlineId, fence: Fence, before: Option<Before>) {
        let Some(before) = before else { return };
        // The earlier hold still ends with its connection.
        if let Some(client) = before.hold.session.filter(|_| !before.over) {
            self.sessions.tie(client, (entry, before.hold.fence));
        }
        self.replaced.keep(entry, fence, before);
    }

    /// The token is told of a changed hold at once, so it also knows every earlier grant of that lock.
    pub(super) fn heard_of(&mut self, changed: Changed) {
        if let Changed { entry, before: Some(before) } = changed {
            self.unacked.confirm(before.hold.fence, entry);
            self.drop_replaced(entry, before.hold.fence);
        }
    }

    /// The grant `fence` is final: the hold that it replaced is gone for good.
    pub(super) fn drop_replaced(&mut self, entry: DeadlineId, fence: Fence) {
        if let Some(before) = self.replaced.take(entry, fence) {
            self.untie_replaced(entry, &before);
        }
    }

    /// A lock with the hold `fence` has moved from one entry to another. Moves the data of this hold, down to the oldest hold that may be
    /// restored.
    pub(super) fn follow_grants(&mut self, mut fence: Fence, from: DeadlineId, to: DeadlineId, doubtful: bool) {
        loop {
            self.unacked.follow(fence, from, to);
            let Some(before) = self.replaced.take(from, fence) else { return };
            let earlier = before.hold.fence;
            if let Some(client) = before.hold.session.filter(|_| doubtful) {
                self.unverified_sessions.insert(client);
            }
            self.keep_replaced(to, fence, Some(before));
            fence = earlier;
        }
    }

    /// The effective hold behind `hold`: itself, the hold that it replaced if it is going to be taken back, or none if it has ended.
    pub(super) fn standing_hold<'a>(&'a self, lock: &'a Lock, hold: HoldRef<'a>) -> Option<(Mode, HoldRef<'a>)> {
        let (mut mode, mut hold) = (lock.mode(), hold);
        while self.is_revoked(lock, hold) {
            let entry = lock.deadline_id()?;
            let before = self.replaced.get(entry, hold.fence).filter(|before| self.is_tied(entry, before))?;
            (mode, hold) = (before.mode, before.hold.as_ref());
        }
        Some((mode, hold))
    }

    /// Whether the connection that `before` is tied to is still open.
    fn is_tied(&self, entry: DeadlineId, before: &Before) -> bool {
        let tied =
            |client| self.sessions.is_tied(client, (entry, before.hold.fence)) && !self.sessions.has_ended(client);
        !before.over && before.hold.session.is_none_or(tied)
    }

    fn untie_replaced(&mut self, entry: DeadlineId, before: &Before) {
        if let Some(client) = before.hold.session {
            self.sessions.untie(client, (entry, before.hold.fence));
        }
    }
}

impl Visit<'_> {
    /// Takes the grant `fence` back. The token's earlier hold is restored, unless it has ended meanwhile.
    pub(super) fn take_back(&mut self, fence: Fence) {
        let Some(entry) = self.lock.deadline_id() else { return };
        let alive = self.engine.replaced.get(entry, fence).is_some_and(|before| self.engine.is_tied(entry, before));
        let before = self.engine.replaced.take(entry, fence);
        if let Some(before) = &before {
            self.engine.untie_replaced(entry, before);
        }
        if self.lock.hold_of(fence).is_none() {
            // A later unacknowledged grant has replaced this one. That grant now replaces what was there before both.
            if let Some(later) = self.engine.replaced.replaced_by(entry, fence) {
                self.engine.drop_replaced(entry, later);
                self.engine.keep_replaced(entry, later, before.filter(|_| alive));
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
            self.engine.unacked.confirm(before.hold.fence, entry);
            self.engine.drop_replaced(entry, before.hold.fence);
            self.end_hold(fence, if expired { EndReason::Expired } else { EndReason::Disconnected });
        } else {
            let token = before.hold.token.clone();
            let _ = self.set_hold(before.mode, before.hold);
            self.look_at_own(&token);
        }
    }
}
