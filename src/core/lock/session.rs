//! Which holds end with which connection.

use std::collections::{BTreeMap, BTreeSet};

use super::terms::ClientId;
use crate::core::agenda::HomeId;
use crate::core::fence::Fence;

/// A hold that is tied to a connection: the home of its lock and its fence.
pub(super) type Tied = (HomeId, Fence);

/// The holds that are tied to connections, by connection and by lock. Whatever concerns one hold is O(log n).
#[derive(Debug, Default)]
pub(super) struct Sessions {
    by_client: BTreeMap<ClientId, BTreeSet<Tied>>,
    by_home: BTreeMap<HomeId, BTreeMap<Fence, ClientId>>,
}

impl Sessions {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_client.is_empty() && self.by_home.is_empty()
    }

    /// Whether `client` has holds tied to it.
    pub(super) fn has(&self, client: ClientId) -> bool {
        self.by_client.contains_key(&client)
    }

    /// Everybody with holds tied to it.
    pub(super) fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.by_client.keys().copied()
    }

    /// Ties a hold to `client`.
    pub(super) fn tie(&mut self, client: ClientId, (home, fence): Tied) {
        self.by_client.entry(client).or_default().insert((home, fence));
        self.by_home.entry(home).or_default().insert(fence, client);
    }

    /// Unties it.
    pub(super) fn untie(&mut self, client: ClientId, (home, fence): Tied) {
        self.untie_home(home, fence);
        self.untie_client(client, (home, fence));
    }

    /// Unties all holds of one lock.
    pub(super) fn forget(&mut self, home: HomeId) {
        for (fence, client) in self.by_home.remove(&home).into_iter().flatten() {
            self.untie_client(client, (home, fence));
        }
    }

    /// Unties all holds of a connection and names them.
    pub(super) fn take(&mut self, client: ClientId) -> BTreeSet<Tied> {
        let all = self.by_client.remove(&client).unwrap_or_default();
        for (home, fence) in &all {
            self.untie_home(*home, *fence);
        }
        all
    }

    fn untie_home(&mut self, home: HomeId, fence: Fence) {
        if let Some(tied) = self.by_home.get_mut(&home) {
            tied.remove(&fence);
            if tied.is_empty() {
                self.by_home.remove(&home);
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
