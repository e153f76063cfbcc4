//! Holds that have ended because of a connection, but are not removed yet.
//!
//! A connection may end at a time when nothing may be written. Its holds are recorded here. From then on they do not count for anybody,
//! like a lease after its deadline; the next visit to the lock removes them, at the latest in `tick`.

use std::collections::BTreeMap;

use super::terms::EndReason;
use crate::core::deadline_index::DeadlineId;
use crate::core::fence::Fence;

/// The holds to remove, by lock.
#[derive(Debug, Default)]
pub(super) struct RevokedHolds {
    holds: BTreeMap<(DeadlineId, Fence), Over>,
}

/// Why a hold is revoked: for one of these reasons, or for both.
#[derive(Clone, Copy, Debug, Default)]
struct Over {
    /// The connection that it was granted to ended before it got the reply.
    undelivered: bool,
    /// The connection that it was tied to ended.
    disconnected: bool,
}

impl Over {
    /// An undelivered grant is taken back, whatever connection it was tied to.
    fn why(self) -> EndReason {
        if self.undelivered { EndReason::Undelivered } else { EndReason::Disconnected }
    }
}

impl RevokedHolds {
    pub(super) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    /// The revoked holds of the lock at `entry`.
    fn of(&self, entry: DeadlineId) -> impl Iterator<Item = Fence> {
        self.holds.range((entry, Fence(0))..=(entry, Fence(u64::MAX))).map(|((_, fence), _)| *fence)
    }

    /// Whether the lock at `entry` has revoked holds.
    pub(super) fn at(&self, entry: DeadlineId) -> bool {
        self.of(entry).next().is_some()
    }

    /// Records that a hold is revoked; `true` if it is the first one of its lock.
    pub(super) fn add(&mut self, entry: DeadlineId, fence: Fence, why: EndReason) -> bool {
        let first = !self.at(entry);
        let over = self.holds.entry((entry, fence)).or_default();
        match why {
            EndReason::Undelivered => over.undelivered = true,
            EndReason::Disconnected | EndReason::Released | EndReason::Expired => over.disconnected = true,
        }
        first
    }

    /// Whether a hold is revoked.
    pub(super) fn contains(&self, entry: Option<DeadlineId>, fence: Fence) -> bool {
        !self.holds.is_empty() && entry.is_some_and(|entry| self.holds.contains_key(&(entry, fence)))
    }

    /// Takes one revoked hold of the lock off the list, so that the caller ends it.
    pub(super) fn take(&mut self, entry: DeadlineId) -> Option<(Fence, EndReason)> {
        let fence = self.of(entry).next()?;
        Some((fence, self.take_one(entry, fence)?))
    }

    /// Takes this hold off the list, if it is listed, so that the caller ends it.
    pub(super) fn take_one(&mut self, entry: DeadlineId, fence: Fence) -> Option<EndReason> {
        self.holds.remove(&(entry, fence)).map(Over::why)
    }

    /// Keeps a grant that was never delivered, because its token has asked again from another connection. A session still ends with its
    /// connection, whoever asks. Returns whether there was such a grant.
    pub(super) fn pardon(&mut self, entry: DeadlineId, fence: Fence) -> bool {
        let Some(over) = self.holds.get_mut(&(entry, fence)).filter(|over| over.undelivered) else { return false };
        over.undelivered = false;
        if !over.disconnected {
            self.holds.remove(&(entry, fence));
        }
        true
    }

    /// Moves the records of a lock to its new entry; `true` if there were any.
    pub(super) fn follow(&mut self, from: DeadlineId, to: DeadlineId) -> bool {
        let fences: Vec<Fence> = self.of(from).collect();
        for fence in &fences {
            if let Some(over) = self.holds.remove(&(from, *fence)) {
                self.holds.insert((to, *fence), over);
            }
        }
        !fences.is_empty()
    }

    /// Every lock with revoked holds, once for each of them.
    pub(super) fn entries(&self) -> impl Iterator<Item = DeadlineId> {
        self.holds.keys().map(|(entry, _)| *entry)
    }

    /// Forgets the holds of a lock that is gone.
    pub(super) fn forget(&mut self, entry: DeadlineId) {
        while self.take(entry).is_some() {}
    }
}
