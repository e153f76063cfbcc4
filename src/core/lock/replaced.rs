//! What a token held before an unacknowledged grant.
//!
//! A grant to a waiter may replace an earlier hold of the same token: an upgrade replaces its shared hold, and a request for many keys
//! replaces its holds of some of them. The owner knows the earlier hold but may never receive the grant. So the earlier hold is kept here
//! until the grant is known to be delivered. If the grant is taken back, the earlier hold is restored unchanged.

use std::collections::BTreeMap;

use super::terms::Mode;
use super::value::Hold;
use crate::core::deadline_index::DeadlineId;
use crate::core::fence::Fence;

/// An earlier hold, and the mode of the lock at that time.
#[derive(Clone, Debug)]
pub(super) struct Before {
    pub(super) mode: Mode,
    pub(super) hold: Hold,
    /// Whether the connection that it was tied to has ended.
    pub(super) over: bool,
}

/// The earlier holds, by lock and by the fence of the grant that replaced them. It needs memory only for unacknowledged grants.
#[derive(Debug, Default)]
pub(super) struct Replaced {
    holds: BTreeMap<(DeadlineId, Fence), Before>,
    /// The fence of the grant that replaced the hold with this fence.
    by: BTreeMap<(DeadlineId, Fence), Fence>,
}

impl Replaced {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.holds.is_empty() && self.by.is_empty()
    }

    /// What the grant `fence` replaced.
    pub(super) fn get(&self, entry: DeadlineId, fence: Fence) -> Option<&Before> {
        self.holds.get(&(entry, fence))
    }

    pub(super) fn keep(&mut self, entry: DeadlineId, fence: Fence, before: Before) {
        self.by.insert((entry, before.hold.fence), fence);
        self.holds.insert((entry, fence), before);
    }

    pub(super) fn take(&mut self, entry: DeadlineId, fence: Fence) -> Option<Before> {
        let before = self.holds.remove(&(entry, fence))?;
        self.by.remove(&(entry, before.hold.fence));
        Some(before)
    }

    /// The hold `fence` was replaced by an unacknowledged grant, and the connection that it is tied to has ended.
    pub(super) fn end(&mut self, entry: DeadlineId, fence: Fence) {
        let by = self.by.get(&(entry, fence));
        if let Some(before) = by.and_then(|by| self.holds.get_mut(&(entry, *by))) {
            before.over = true;
        }
    }

    /// The fence of the grant that replaced the hold `fence`.
    pub(super) fn replaced_by(&self, entry: DeadlineId, fence: Fence) -> Option<Fence> {
        self.by.get(&(entry, fence)).copied()
    }

    /// Forgets what was replaced in a lock that is gone.
    pub(super) fn forget(&mut self, entry: DeadlineId) {
        let first = (entry, Fence(0));
        while let Some((entry, fence)) =
            self.holds.range(first..).next().map(|(key, _)| *key).filter(|(other, _)| *other == entry)
        {
            self.take(entry, fence);
        }
    }
}
