//! Grants whose reply has not been written yet.
//!
//! A parked client is granted a lock at one moment and hears of it at a later one. If its connection ends in between,
//! nobody knows of the hold, and it is taken back, unless its token has renewed it meanwhile from elsewhere.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::terms::ClientId;
use super::waiting::WaiterId;
use crate::core::agenda::HomeId;
use crate::core::fence::Fence;

/// The grants on their way to their clients.
#[derive(Debug, Default)]
pub(super) struct Undelivered {
    owed: HashMap<WaiterId, Owed>,
    /// Whose grant has this fence.
    fences: HashMap<Fence, WaiterId>,
    /// Which grants are on their way to this connection.
    clients: BTreeMap<ClientId, BTreeSet<WaiterId>>,
}

/// A grant on its way.
#[derive(Debug)]
pub(super) struct Owed {
    pub(super) client: ClientId,
    pub(super) fence: Fence,
    /// The locks it is a hold of.
    pub(super) homes: BTreeSet<HomeId>,
}

impl Undelivered {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.owed.is_empty() && self.fences.is_empty() && self.clients.is_empty()
    }

    /// Remembers a grant until it is delivered.
    pub(super) fn owe(&mut self, waiter: WaiterId, client: ClientId, fence: Fence, homes: BTreeSet<HomeId>) {
        self.owed.insert(waiter, Owed { client, fence, homes });
        self.fences.insert(fence, waiter);
        self.clients.entry(client).or_default().insert(waiter);
    }

    /// The grant is delivered, or nobody waits for it any more.
    pub(super) fn settle(&mut self, waiter: WaiterId) -> Option<Owed> {
        let owed = self.owed.remove(&waiter)?;
        self.fences.remove(&owed.fence);
        if let Some(waiters) = self.clients.get_mut(&owed.client) {
            waiters.remove(&waiter);
            if waiters.is_empty() {
                self.clients.remove(&owed.client);
            }
        }
        Some(owed)
    }

    /// The connection that the grant of `waiter` is on its way to.
    pub(super) fn client(&self, waiter: WaiterId) -> Option<ClientId> {
        self.owed.get(&waiter).map(|owed| owed.client)
    }

    /// Every grant on its way.
    pub(super) fn waiters(&self) -> impl Iterator<Item = WaiterId> {
        self.owed.keys().copied()
    }

    /// Every connection that a grant is on its way to.
    pub(super) fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.clients.keys().copied()
    }

    /// The grants on their way to `client`.
    pub(super) fn of(&self, client: ClientId) -> impl Iterator<Item = WaiterId> {
        self.clients.get(&client).into_iter().flatten().copied()
    }

    /// The hold `fence` of the lock at `home` is known to its owner: it will not be taken back.
    pub(super) fn prove(&mut self, fence: Fence, home: HomeId) {
        if let Some(waiter) = self.fences.get(&fence).copied()
            && let Some(owed) = self.owed.get_mut(&waiter)
        {
            owed.homes.remove(&home);
            if owed.homes.is_empty() {
                self.settle(waiter);
            }
        }
    }

    /// The lock with the hold `fence` has moved; if that hold is on its way, it is in the new place now.
    pub(super) fn follow(&mut self, fence: Fence, from: HomeId, to: HomeId) {
        if let Some(waiter) = self.fences.get(&fence)
            && let Some(owed) = self.owed.get_mut(waiter)
            && owed.homes.remove(&from)
        {
            owed.homes.insert(to);
        }
    }
}
