//! Grants whose reply has not been written yet.
//!
//! A parked client is granted a lock at one moment and hears of it at a later one. If its connection ends in between,
//! nobody knows of the hold, and it is taken back, unless its token has renewed it meanwhile from elsewhere.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::terms::ClientId;
use super::waiting::WaiterId;
use crate::core::agenda::HomeId;
use crate::core::fence::Fence;

/// The grants on their way to their clients.
#[derive(Debug, Default)]
pub(super) struct Undelivered {
    owed: FxHashMap<WaiterId, Owed>,
    /// Whose grant has this fence.
    fences: FxHashMap<Fence, WaiterId>,
    /// Which grants are on their way to which connection.
    clients: BTreeSet<(ClientId, WaiterId)>,
    /// The locks that each grant is a hold of.
    homes: BTreeSet<(WaiterId, HomeId)>,
}

/// A grant on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owed {
    pub(super) client: ClientId,
    pub(super) fence: Fence,
}

impl Undelivered {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.owed.is_empty() && self.fences.is_empty() && self.clients.is_empty() && self.homes.is_empty()
    }

    /// Remembers a grant of the locks at `homes` until it is delivered.
    pub(super) fn owe(
        &mut self,
        waiter: WaiterId,
        client: ClientId,
        fence: Fence,
        homes: impl IntoIterator<Item = HomeId>,
    ) {
        self.owed.insert(waiter, Owed { client, fence });
        self.fences.insert(fence, waiter);
        self.clients.insert((client, waiter));
        self.homes.extend(homes.into_iter().map(|home| (waiter, home)));
    }

    /// The grant is delivered, or nobody waits for it any more. Returns it with the locks that it is still a hold of.
    pub(super) fn settle(&mut self, waiter: WaiterId) -> Option<(Owed, SmallVec<[HomeId; 1]>)> {
        let owed = self.owed.remove(&waiter)?;
        self.fences.remove(&owed.fence);
        self.clients.remove(&(owed.client, waiter));
        let mut homes = SmallVec::new();
        while let Some(home) = self.home(waiter) {
            self.homes.remove(&(waiter, home));
            homes.push(home);
        }
        Some((owed, homes))
    }

    /// A lock that the grant of `waiter` is a hold of.
    fn home(&self, waiter: WaiterId) -> Option<HomeId> {
        let all = (waiter, HomeId::FIRST)..=(waiter, HomeId::LAST);
        self.homes.range(all).next().map(|(_, home)| *home)
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
        self.clients.iter().map(|(client, _)| *client)
    }

    /// The grants on their way to `client`.
    pub(super) fn of(&self, client: ClientId) -> impl Iterator<Item = WaiterId> {
        self.clients.range((client, WaiterId::FIRST)..=(client, WaiterId::LAST)).map(|(_, waiter)| *waiter)
    }

    /// The hold `fence` of the lock at `home` is known to its owner: it will not be taken back.
    pub(super) fn prove(&mut self, fence: Fence, home: HomeId) {
        if let Some(waiter) = self.fences.get(&fence).copied() {
            self.homes.remove(&(waiter, home));
            if self.home(waiter).is_none() {
                self.settle(waiter);
            }
        }
    }

    /// The lock with the hold `fence` has moved; if that hold is on its way, it is in the new place now.
    pub(super) fn follow(&mut self, fence: Fence, from: HomeId, to: HomeId) {
        if let Some(waiter) = self.fences.get(&fence).copied()
            && self.homes.remove(&(waiter, from))
        {
            self.homes.insert((waiter, to));
        }
    }
}
