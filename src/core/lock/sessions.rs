//! Which holds end with which connection.

use std::collections::{BTreeMap, BTreeSet};

use super::terms::ClientId;
use crate::core::deadline_index::DeadlineId;
use crate::core::fence::Fence;

/// A hold that is tied to a connection: the entry of its lock and its fence.
pub(super) type Tied = (DeadlineId, Fence);

/// The holds that are tied to connections, by connection and by lock. Every operation on one hold is O(log n).
#[derive(Debug, Default)]
pub(super) struct Sessions {
    by_client: BTreeMap<ClientId, BTreeSet<Tied>>,
    by_home: BTreeMap<DeadlineId, BTreeMap<Fence, ClientId>>,
    /// Connections that have ended but still have holds tied to them. There may be a million such holds, too many for one call.
    ended: BTreeSet<ClientId>,
}

impl Sessions {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_client.is_empty() && self.by_home.is_empty() && self.ended.is_empty()
    }

    /// Whether `client` has holds tied to it.
    pub(super) fn has(&self, client: ClientId) -> bool {
        self.by_client.contains_key(&client)
    }

    /// All connections with holds tied to them.
    pub(super) fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.by_client.keys().copied()
    }

    /// Whether this hold is tied to `client`.
    pub(super) fn is_tied(&self, client: ClientId, tied: Tied) -> bool {
        self.by_client.get(&client).is_some_and(|all| all.contains(&tied))
    }

    /// Ties a hold to `client`.
    pub(super) fn tie(&mut self, client: ClientId, (entry, fence): Tied) {
        self.by_client.entry(client).or_default().insert((entry, fence));
        self.by_home.entry(entry).or_default().insert(fence, client);
    }

    /// Unties a hold from `client`.
    pub(super) fn untie(&mut self, client: ClientId, (entry, fence): Tied) {
        self.untie_home(entry, fence);
        self.untie_client(client, (entry, fence));
    }

    /// Unties all holds of one lock.
    pub(super) fn forget(&mut self, entry: DeadlineId) {
        for (fence, client) in self.by_home.remove(&entry).into_iter().flatten() {
            self.untie_client(client, (entry, fence));
        }
    }

    /// Records that a connection has ended. O(log n), however many holds are tied to it.
    pub(super) fn end(&mut self, client: ClientId) {
        if self.has(client) {
            self.ended.insert(client);
        }
    }

    /// Whether any ended connection still has holds tied to it.
    pub(super) fn any_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Whether `client` has ended and still has holds tied to it.
    pub(super) fn has_ended(&self, client: ClientId) -> bool {
        self.ended.contains(&client)
    }

    /// Unties one hold of an ended connection and returns it.
    pub(super) fn take_ended(&mut self) -> Option<Tied> {
        while let Some(client) = self.ended.first().copied() {
            let next = self.by_client.get(&client).and_then(|tied| tied.first().copied());
            if let Some((entry, fence)) = next {
                self.untie(client, (entry, fence));
                return next;
            }
            self.ended.remove(&client);
        }
        None
    }

    /// Unties the holds at `entry` that belong to ended connections, and returns their fences.
    pub(super) fn take_ended_at(&mut self, entry: DeadlineId) -> Vec<Fence> {
        let here = self.by_home.get(&entry).into_iter().flatten();
        let over: Vec<_> =
            here.filter(|(_, client)| self.has_ended(**client)).map(|(fence, client)| (*fence, *client)).collect();
        for (fence, client) in &over {
            self.untie(*client, (entry, *fence));
        }
        over.into_iter().map(|(fence, _)| fence).collect()
    }

    fn untie_home(&mut self, entry: DeadlineId, fence: Fence) {
        if let Some(tied) = self.by_home.get_mut(&entry) {
            tied.remove(&fence);
            if tied.is_empty() {
                self.by_home.remove(&entry);
            }
        }
    }

    fn untie_client(&mut self, client: ClientId, tied: Tied) {
        if let Some(all) = self.by_client.get_mut(&client) {
            all.remove(&tied);
            if all.is_empty() {
                self.by_client.remove(&client);
            }
        }
    }
}
