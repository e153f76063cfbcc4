//! What a token held before a grant that is on its way.
//!
//! A grant to a waiter may replace an earlier hold of the same token: an upgrade replaces its shared hold, a request for many keys
//! replaces what it held of them already. The owner knows of the earlier hold and may never hear of the grant. So the earlier hold is
//! kept here until the grant is known to have arrived, and comes back as it was if the grant is taken back.

use std::collections::BTreeMap;

use super::terms::Mode;
use super::value::Hold;
use crate::core::deadline_index::DeadlineId;
use crate::core::fence::Fence;

/// An earlier hold, and the mode that the lock had then.
#[derive(Clone, Debug)]
pub(super) struct Before {
    pub(super) mode: Mode,
    pub(super) hold: Hold,
    /// Whether the connection that it was tied to has ended.
    pub(super) over: bool,
}

/// The earlier holds, by the lock and by the fence of the grant that replaced them. Its memory is that of the grants on their way.
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

    /// The connection has ended that the hold `fence` is tied to, which was replaced by a grant that is on its way.
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
