//! Facts about holds beyond their values: notes, by lock and fence.
//!
//! - A hold with a *session* ends with its connection.
//! - A grant to a blocked client is *unacknowledged* until the server has handed its reply to the connection. If the connection ends before
//!   the reply is handed over, the grant is taken back, unless its token has renewed it from another connection. Where two waiting requests
//!   of the token were granted the same hold, the second only renews it, and it is taken back when neither is delivered.
//! - Such a grant may have *replaced* an earlier hold of its token: an upgrade replaces its shared hold, and a request for many keys replaces
//!   its holds of some of them. The owner knows the earlier hold, so it is restored if the grant is taken back.
//! - A connection may end at a time when nothing may be written. Then its holds are *revoked*: from then on they do not count,
//!   like a lease after its deadline. The next visit to the lock removes them, at the latest in `tick`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::hold::Hold;
use super::terms::{ClientId, Mode, WaiterId};
use super::vacant_places::Place;
use crate::core::deadline_index::DeadlineId;
use crate::core::fence::Fence;

mod replaced;
mod revoked;

/// A hold: the entry of its lock in the deadline index, and its fence.
pub(super) type HoldId = (DeadlineId, Fence);

/// All holds of the lock at `entry`.
fn all(entry: DeadlineId) -> RangeInclusive<HoldId> {
    (entry, Fence(0))..=(entry, Fence(u64::MAX))
}

/// Moves what `notes` has of the lock at `from` to the lock at `to`.
fn move_all<T>(notes: &mut BTreeMap<HoldId, T>, from: DeadlineId, to: DeadlineId) {
    let moved: Vec<_> = notes.extract_if(all(from), |_, _| true).collect();
    notes.extend(moved.into_iter().map(|((_, fence), note)| ((to, fence), note)));
}

/// All notes. Every operation on one hold is O(log n).
#[derive(Debug, Default)]
pub(super) struct HoldNotes {
    /// The connection that each hold with a session ends with.
    sessions: BTreeMap<HoldId, ClientId>,
    /// The holds that grants replaced.
    before: BTreeMap<HoldId, Before>,
    /// The grants that have replaced holds: the reverse of `before`.
    replaced_by: BTreeMap<HoldId, Fence>,
    /// The reverse of `sessions`.
    by_client: BTreeSet<(ClientId, HoldId)>,
    /// The unacknowledged grants; most of them last no longer than a turn of the server's event loop. Each has an entry.
    grants: FxHashMap<WaiterId, UnackedGrant>,
    /// The waiters in `grants`, by connection.
    granted_to: BTreeSet<(ClientId, WaiterId)>,
    /// The reverse of their entries. Several requests of one token may be granted the same hold.
    unacked: BTreeSet<(HoldId, WaiterId)>,
    /// Connections that have ended but still have sessions. There may be a million such holds, too many for one call.
    ended: BTreeSet<ClientId>,
    /// The revoked holds.
    revoked: BTreeMap<HoldId, Revocation>,
}

/// Why a hold is revoked: one of these, or both.
#[derive(Debug, Default)]
struct Revocation {
    /// The connection that it was granted to ended before it got the reply.
    is_undelivered: bool,
    /// The connection of its session has ended.
    is_disconnected: bool,
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

/// A hold that was replaced, and the mode of the lock at that time.
#[derive(Clone, Debug)]
pub(super) struct Before {
    pub(super) mode: Mode,
    pub(super) hold: Hold,
}

impl HoldNotes {
    /// The lock at `entry` is no longer in its key. Its value knows its sessions; the rest follows it to its next key.
    pub(super) fn unlink(&mut self, entry: DeadlineId) {
        for hold in self.sessions.range(all(entry)).map(|(hold, _)| *hold).collect::<Vec<_>>() {
            self.untie(hold);
        }
    }

    /// The lock at `from` is at `to` now. Returns the connections of the sessions that its replaced holds have.
    pub(super) fn follow(&mut self, from: DeadlineId, to: DeadlineId) -> Vec<ClientId> {
        move_all(&mut self.revoked, from, to);
        move_all(&mut self.before, from, to);
        move_all(&mut self.replaced_by, from, to);
        let (first, last) = (((from, Fence(0)), WaiterId::FIRST), ((from, Fence(u64::MAX)), WaiterId::LAST));
        for (hold, waiter) in self.unacked.range(first..=last).copied().collect::<Vec<_>>() {
            self.unacked.remove(&(hold, waiter));
            self.unacked.insert(((to, hold.1), waiter));
            if let Some(grant) = self.grants.get_mut(&waiter) {
                grant.entries.retain(|entry| *entry != from);
                grant.entries.push(to);
                grant.entries.sort_unstable();
            }
        }
        let replaced = self.before.range(all(to)).map(|(_, before)| &before.hold);
        let sessions: Vec<_> = replaced.filter_map(|hold| Some((hold.session?, (to, hold.fence)))).collect();
        for (client, hold) in &sessions {
            self.tie(*client, *hold);
        }
        sessions.into_iter().map(|(client, _)| client).collect()
    }

    /// The lock at `entry` is gone.
    pub(super) fn forget(&mut self, entry: DeadlineId) {
        while self.take_revoked_at(entry).is_some() {}
        for hold in self.before.range(all(entry)).map(|(hold, _)| *hold).collect::<Vec<_>>() {
            self.take_before(hold);
        }
    }
}

/// Sessions.
impl HoldNotes {
    /// The holds whose sessions are those of `client`.
    fn sessions_of(&self, client: ClientId) -> impl Iterator<Item = HoldId> {
        let (first, last) = ((DeadlineId::FIRST, Fence(0)), (DeadlineId::LAST, Fence(u64::MAX)));
        self.by_client.range((client, first)..=(client, last)).map(|(_, hold)| *hold)
    }

    /// Whether anything ends with `client`.
    pub(super) fn knows(&self, client: ClientId) -> bool {
        self.sessions_of(client).next().is_some() || self.unacked_of(client).next().is_some()
    }

    /// The connections that anything ends with, each for everything.
    pub(super) fn clients(&self) -> impl Iterator<Item = ClientId> {
        let waiters = self.granted_to.iter().map(|(client, _)| *client);
        self.sessions.values().copied().chain(waiters)
    }

    /// From now on the hold ends with `client`.
    pub(super) fn tie(&mut self, client: ClientId, hold: HoldId) {
        self.by_client.insert((client, hold));
        self.sessions.insert(hold, client);
    }

    /// The hold does not end with a connection any more.
    pub(super) fn untie(&mut self, hold: HoldId) {
        if let Some(client) = self.sessions.remove(&hold) {
            self.by_client.remove(&(client, hold));
        }
    }

    /// Records that a connection has ended. O(log n), however many sessions it has.
    pub(super) fn end(&mut self, client: ClientId) {
        if self.sessions_of(client).next().is_some() {
            self.ended.insert(client);
        }
    }

    /// Whether any ended connection still has sessions.
    pub(super) fn any_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Whether `client` has ended and still has sessions.
    pub(super) fn has_ended(&self, client: ClientId) -> bool {
        self.ended.contains(&client)
    }

    /// Ends one session of an ended connection and returns its hold.
    pub(super) fn take_ended(&mut self) -> Option<HoldId> {
        while let Some(client) = self.ended.first().copied() {
            let session = self.sessions_of(client).next();
            if let Some(hold) = session {
                self.untie(hold);
                return session;
            }
            self.ended.remove(&client);
        }
        None
    }
}

/// Unacknowledged grants.
impl HoldNotes {
    /// The grant to `waiter` is unacknowledged until its reply is handed over.
    pub(super) fn track(&mut self, waiter: WaiterId, mut grant: UnackedGrant) {
        grant.entries.sort_unstable();
        self.unacked.extend(grant.entries.iter().map(|entry| ((*entry, grant.fence), waiter)));
        self.granted_to.insert((grant.client, waiter));
        self.grants.insert(waiter, grant);
    }

    /// The reply has been handed over, or never will be. Returns the grant with the locks where its holds still exist.
    pub(super) fn settle(&mut self, waiter: WaiterId) -> Option<UnackedGrant> {
        let grant = self.grants.remove(&waiter)?;
        self.granted_to.remove(&(grant.client, waiter));
        for entry in &grant.entries {
            self.unacked.remove(&((*entry, grant.fence), waiter));
        }
        Some(grant)
    }

    /// The waiters of the unacknowledged grants of this hold.
    fn waiters(&self, hold: HoldId) -> impl Iterator<Item = WaiterId> {
        self.unacked.range((hold, WaiterId::FIRST)..=(hold, WaiterId::LAST)).map(|(_, waiter)| *waiter)
    }

    /// Whether a grant of this hold is unacknowledged.
    pub(super) fn is_unacked(&self, hold: HoldId) -> bool {
        self.waiters(hold).next().is_some()
    }

    /// The place in line that the waiter of an unacknowledged grant had.
    pub(super) fn take_place(&mut self, waiter: WaiterId) -> Option<Place> {
        self.grants.get_mut(&waiter)?.place.take()
    }

    /// The waiters of all unacknowledged grants.
    pub(super) fn unacked(&self) -> impl Iterator<Item = WaiterId> {
        self.grants.keys().copied()
    }

    /// The waiters of the unacknowledged grants to `client`.
    pub(super) fn unacked_of(&self, client: ClientId) -> impl Iterator<Item = WaiterId> {
        let waiters = self.granted_to.range((client, WaiterId::FIRST)..=(client, WaiterId::LAST));
        waiters.map(|(_, waiter)| *waiter)
    }

    /// The token knows this hold, or the hold has ended: it is final, and the hold that it replaced is gone.
    pub(super) fn confirm(&mut self, hold: HoldId) {
        for waiter in self.waiters(hold).collect::<SmallVec<[_; 1]>>() {
            self.unacked.remove(&(hold, waiter));
            let Some(grant) = self.grants.get_mut(&waiter) else { continue };
            grant.entries.retain(|entry| *entry != hold.0);
            if grant.entries.is_empty() {
                self.settle(waiter);
            }
        }
        self.take_before(hold);
    }
}

#[cfg(test)]
impl HoldNotes {
    pub(super) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
            && self.before.is_empty()
            && self.replaced_by.is_empty()
            && self.by_client.is_empty()
            && self.grants.is_empty()
            && self.granted_to.is_empty()
            && self.unacked.is_empty()
            && self.ended.is_empty()
            && self.revoked.is_empty()
    }
}
