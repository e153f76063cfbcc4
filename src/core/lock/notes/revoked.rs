//! Notes on revoked holds.

use super::{HoldId, HoldNotes, all};
use crate::core::deadline_index::DeadlineId;
use crate::core::fence::Fence;
use crate::core::lock::terms::{ClientId, EndReason};

/// How many ended connections, or sessions of a lock, a visit looks at.
const LOOKS: usize = 32;

impl HoldNotes {
    /// Whether any hold is revoked, or any ended connection still has sessions.
    pub(in crate::core::lock) fn any_revoked(&self) -> bool {
        !self.revoked.is_empty() || self.any_ended()
    }

    /// The first revoked hold of the lock at `entry`.
    pub(super) fn revoked_at(&self, entry: DeadlineId) -> Option<HoldId> {
        self.revoked.range(all(entry)).next().map(|(hold, _)| *hold)
    }

    /// Whether the lock at `entry` has revoked holds.
    pub(in crate::core::lock) fn has_revoked(&self, entry: DeadlineId) -> bool {
        self.revoked_at(entry).is_some()
    }

    /// Whether the lock at `entry` has holds that a visit would remove.
    pub(in crate::core::lock) fn has_over(&self, entry: DeadlineId) -> bool {
        self.any_revoked() && (self.has_revoked(entry) || self.ended_at(entry).is_some())
    }

    /// A hold of the lock at `entry` with the session of an ended connection. Where many connections have ended and the lock has many sessions,
    /// it looks at the first of them; [`take_ended`](Self::take_ended) finds the others.
    fn ended_at(&self, entry: DeadlineId) -> Option<HoldId> {
        if self.ended.len() <= LOOKS {
            let (first, last) = all(entry).into_inner();
            let session = |client: &ClientId| self.by_client.range((*client, first)..=(*client, last)).next();
            self.ended.iter().find_map(session).map(|(_, hold)| *hold)
        } else {
            let mut sessions = self.sessions.range(all(entry)).take(LOOKS);
            sessions.find(|(_, client)| self.has_ended(**client)).map(|(hold, _)| *hold)
        }
    }

    /// Every lock with revoked holds, once for each of them.
    pub(in crate::core::lock) fn revoked(&self) -> impl Iterator<Item = DeadlineId> {
        self.revoked.keys().map(|(entry, _)| *entry)
    }

    /// Records that a hold has ended because of a connection; `true` if it is the first one of its lock.
    pub(in crate::core::lock) fn revoke(&mut self, hold: HoldId, why: EndReason) -> bool {
        let is_first = !self.has_revoked(hold.0);
        let revocation = self.revoked.entry(hold).or_default();
        match why {
            EndReason::Undelivered => revocation.is_undelivered = true,
            EndReason::Disconnected | EndReason::Released | EndReason::Expired => revocation.is_disconnected = true,
        }
        is_first
    }

    /// Whether this hold is revoked.
    pub(in crate::core::lock) fn is_revoked(&self, hold: HoldId) -> bool {
        self.revoked.contains_key(&hold)
    }

    /// Whether its session is that of an ended connection.
    fn has_lost_session(&self, hold: HoldId) -> bool {
        self.sessions.get(&hold).is_some_and(|client| self.has_ended(*client))
    }

    /// Whether the connection of its session has ended.
    pub(in crate::core::lock) fn is_disconnected(&self, hold: HoldId) -> bool {
        self.has_lost_session(hold) || self.revoked.get(&hold).is_some_and(|revocation| revocation.is_disconnected)
    }

    /// Takes one revoked hold of the lock at `entry` off the list, so that the caller ends it.
    pub(in crate::core::lock) fn take_revoked_at(&mut self, entry: DeadlineId) -> Option<(Fence, EndReason)> {
        let hold = self.ended_at(entry).or_else(|| self.revoked_at(entry))?;
        Some((hold.1, self.take_revoked(hold)?))
    }

    /// Takes this hold off the list, if it is revoked, so that the caller ends it. An undelivered grant is taken back, whatever its session.
    pub(in crate::core::lock) fn take_revoked(&mut self, hold: HoldId) -> Option<EndReason> {
        if self.has_lost_session(hold) {
            self.untie(hold);
            self.revoke(hold, EndReason::Disconnected);
        }
        let revocation = self.revoked.remove(&hold)?;
        Some(if revocation.is_undelivered { EndReason::Undelivered } else { EndReason::Disconnected })
    }

    /// Keeps a grant that was never delivered, because its token has asked again from another connection. A session still ends with its
    /// connection.
    pub(in crate::core::lock) fn pardon(&mut self, hold: HoldId) {
        let Some(revocation) = self.revoked.get_mut(&hold).filter(|revocation| revocation.is_undelivered) else {
            return;
        };
        revocation.is_undelivered = false;
        if !revocation.is_disconnected {
            self.revoked.remove(&hold);
        }
        self.take_before(hold);
    }
}
