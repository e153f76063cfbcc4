//! Which holds end with which connection.

use std::collections::{BTreeMap, BTreeSet};

use super::terms::ClientId;
use crate::core::deadline_index::DeadlineId;
use crate::core::fence::Fence;

/// How many ended connections, or ties of a lock, a visit looks at.
const LOOKS: usize = 32;

/// A hold that is tied to a connection: the entry of its lock and its fence.
pub(super) type Tied = (DeadlineId, Fence);

/// The holds that are tied to connections, by connection and by lock. Every operation on one hold is O(log n).
#[derive(Debug, Default)]
pub(super) struct Sessions {
    by_client: BTreeSet<(ClientId, Tied)>,
    by_lock: BTreeMap<Tied, ClientId>,
    /// Connections that have ended but still have holds tied to them. There may be a million such holds, too many for one call.
    ended: BTreeSet<ClientId>,
}

impl Sessions {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_client.is_empty() && self.by_lock.is_empty() && self.ended.is_empty()
    }

    /// The holds that are tied to `client`.
    fn of(&self, client: ClientId) -> impl Iterator<Item = Tied> {
        let (first, last) = ((DeadlineId::FIRST, Fence(0)), (DeadlineId::LAST, Fence(u64::MAX)));
        self.by_client.range((client, first)..=(client, last)).map(|(_, tied)| *tied)
    }

    /// The first hold of the lock at `entry` that is tied to `client`.
    fn of_at(&self, client: ClientId, entry: DeadlineId) -> Option<Tied> {
        let here = (client, (entry, Fence(0)))..=(client, (entry, Fence(u64::MAX)));
        self.by_client.range(here).next().map(|(_, tied)| *tied)
    }

    /// The tied holds of the lock at `entry`, with their connections.
    fn at(&self, entry: DeadlineId) -> impl Iterator<Item = (Tied, ClientId)> {
        self.by_lock.range((entry, Fence(0))..=(entry, Fence(u64::MAX))).map(|(tied, client)| (*tied, *client))
    }

    /// Whether `client` has holds tied to it.
    pub(super) fn has(&self, client: ClientId) -> bool {
        self.of(client).next().is_some()
    }

    /// The connections with holds tied to them, each for every hold.
    pub(super) fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.by_lock.values().copied()
    }

    /// Whether this hold is tied to `client`.
    pub(super) fn is_tied(&self, client: ClientId, tied: Tied) -> bool {
        self.by_client.contains(&(client, tied))
    }

    /// Ties a hold to `client`.
    pub(super) fn tie(&mut self, client: ClientId, tied: Tied) {
        self.by_client.insert((client, tied));
        self.by_lock.insert(tied, client);
    }

    /// Unties a hold from `client`.
    pub(super) fn untie(&mut self, client: ClientId, tied: Tied) {
        self.by_client.remove(&(client, tied));
        self.by_lock.remove(&tied);
    }

    /// Unties all holds of one lock.
    pub(super) fn forget(&mut self, entry: DeadlineId) {
        for (tied, client) in self.at(entry).collect::<Vec<_>>() {
            self.untie(client, tied);
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
            let next = self.of(client).next();
            if let Some(tied) = next {
                self.untie(client, tied);
                return next;
            }
            self.ended.remove(&client);
        }
        None
    }

    /// A hold at `entry` of an ended connection. Where many connections have ended and many holds are tied there, it looks at the first of
    /// them; [`take_ended`](Self::take_ended) finds the others.
    pub(super) fn ended_at(&self, entry: DeadlineId) -> Option<(ClientId, Tied)> {
        if self.ended.len() <= LOOKS {
            self.ended.iter().find_map(|client| Some((*client, self.of_at(*client, entry)?)))
        } else {
            let mut ties = self.at(entry).take(LOOKS);
            ties.find(|(_, client)| self.has_ended(*client)).map(|(tied, client)| (client, tied))
        }
    }

    /// Unties [such a hold](Self::ended_at) and returns its fence.
    pub(super) fn take_ended_at(&mut self, entry: DeadlineId) -> Option<Fence> {
        let (client, tied) = self.ended_at(entry)?;
        self.untie(client, tied);
        Some(tied.1)
    }
}
