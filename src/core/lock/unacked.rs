//! Grants whose reply the server has not handed to the connection yet.
//!
//! A blocked client is unblocked with its grant, and the server asks for the reply a moment later. If the connection ends in between, the
//! grant is taken back, unless its token has renewed it meanwhile from another connection.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::terms::{ClientId, WaiterId};
use super::vacant_places::Place;
use crate::core::deadline_index::DeadlineId;
use crate::core::fence::Fence;

/// The unacknowledged grants; most of them last no longer than a turn of the server's event loop.
#[derive(Debug, Default)]
pub(super) struct UnackedGrants {
    grants: FxHashMap<WaiterId, UnackedGrant>,
    /// The waiter whose grant has this fence.
    fences: FxHashMap<Fence, WaiterId>,
    /// The unacknowledged grants of each connection.
    clients: BTreeSet<(ClientId, WaiterId)>,
}

/// An unacknowledged grant.
#[derive(Debug)]
pub(super) struct UnackedGrant {
    pub(super) client: ClientId,
    pub(super) fence: Fence,
    /// The locks where its holds still exist, in order.
    pub(super) entries: SmallVec<[DeadlineId; 1]>,
    /// The place that its waiter had in line, if it is to be kept.
    pub(super) place: Option<Place>,
}

impl UnackedGrants {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.grants.is_empty() && self.fences.is_empty() && self.clients.is_empty()
    }

    /// Tracks a grant until its reply is handed over.
    pub(super) fn track(&mut self, waiter: WaiterId, mut grant: UnackedGrant) {
        grant.entries.sort_unstable();
        self.fences.insert(grant.fence, waiter);
        self.clients.insert((grant.client, waiter));
        self.grants.insert(waiter, grant);
    }

    /// The reply has been handed over, or never will be. Returns the grant with the locks where its holds still exist.
    pub(super) fn settle(&mut self, waiter: WaiterId) -> Option<UnackedGrant> {
        let grant = self.grants.remove(&waiter)?;
        self.fences.remove(&grant.fence);
        self.clients.remove(&(grant.client, waiter));
        Some(grant)
    }

    /// The place that its waiter had in line.
    pub(super) fn take_place(&mut self, waiter: WaiterId) -> Option<Place> {
        self.grants.get_mut(&waiter)?.place.take()
    }

    /// The waiters of all unacknowledged grants.
    pub(super) fn waiters(&self) -> impl Iterator<Item = WaiterId> {
        self.grants.keys().copied()
    }

    /// The connections of all unacknowledged grants.
    pub(super) fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.clients.iter().map(|(client, _)| *client)
    }

    /// The unacknowledged grants of `client`.
    pub(super) fn of(&self, client: ClientId) -> impl Iterator<Item = WaiterId> {
        self.clients.range((client, WaiterId::FIRST)..=(client, WaiterId::LAST)).map(|(_, waiter)| *waiter)
    }

    /// The owner knows the hold `fence` of the lock at `entry`, or the hold has ended: it will not be taken back.
    pub(super) fn confirm(&mut self, fence: Fence, entry: DeadlineId) {
        if let Some(waiter) = self.fences.get(&fence).copied()
            && let Some(UnackedGrant { entries, .. }) = self.grants.get_mut(&waiter)
        {
            if let Ok(index) = entries.binary_search(&entry) {
                entries.remove(index);
            }
            if entries.is_empty() {
                self.settle(waiter);
            }
        }
    }

    /// The lock with the hold `fence` has moved; if that grant is unacknowledged, its entry is updated.
    pub(super) fn follow(&mut self, fence: Fence, from: DeadlineId, to: DeadlineId) {
        if let Some(waiter) = self.fences.get(&fence)
            && let Some(UnackedGrant { entries, .. }) = self.grants.get_mut(waiter)
            && let Ok(index) = entries.binary_search(&from)
        {
            entries.remove(index);
            if let Err(index) = entries.binary_search(&to) {
                entries.insert(index, to);
            }
        }
    }
}
