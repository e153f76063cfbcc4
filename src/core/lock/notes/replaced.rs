//! Notes on replaced holds.

use super::{Before, HoldId, HoldNotes};
use crate::core::deadline_index::DeadlineId;
use crate::core::fence::Fence;

impl HoldNotes {
    /// The earlier hold that the grant `hold` replaced.
    pub(in crate::core::lock) fn before(&self, hold: HoldId) -> Option<&Before> {
        self.before.get(&hold)
    }

    /// The fence of the grant that replaced `hold`.
    pub(in crate::core::lock) fn replaced_by(&self, hold: HoldId) -> Option<Fence> {
        self.replaced_by.get(&hold).copied()
    }

    /// Keeps `before`, which the grant `hold` replaced, until the grant is known to be delivered.
    pub(in crate::core::lock) fn keep_before(&mut self, hold: HoldId, before: Option<Before>) {
        let Some(before) = before else { return };
        let replaced = (hold.0, before.hold.fence);
        self.replaced_by.insert(replaced, hold.1);
        // The earlier hold still ends with its connection.
        if let Some(client) = before.hold.session {
            self.tie(client, replaced);
        }
        self.before.insert(hold, before);
    }

    /// Takes out the earlier hold that the grant `hold` replaced.
    pub(in crate::core::lock) fn take_before(&mut self, hold: HoldId) -> Option<Before> {
        let before = self.before.remove(&hold)?;
        let replaced = (hold.0, before.hold.fence);
        self.replaced_by.remove(&replaced);
        self.untie(replaced);
        Some(before)
    }

    /// `hold` has ended: if it was replaced, it is not restored.
    pub(in crate::core::lock) fn end_before(&mut self, hold: HoldId) {
        if let Some(by) = self.replaced_by(hold) {
            self.take_before((hold.0, by));
        }
    }

    /// Whether the connection that `before`, in the lock at `entry`, ends with is still open.
    pub(in crate::core::lock) fn is_alive(&self, entry: DeadlineId, before: &Before) -> bool {
        let session = self.sessions.get(&(entry, before.hold.fence));
        before.hold.session.is_none_or(|client| session == Some(&client) && !self.has_ended(client))
    }
}
