//! Grants whose reply may not have been sent yet.
//!
//! A blocked client is granted a lock first and receives the reply later. If its connection ends in between, nobody knows of the hold. Then
//! the hold is taken back, unless its token has renewed it meanwhile from another connection.

use std::collections::{BTreeSet, VecDeque};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::sent::{Front, PROMPT_AGAIN, PROMPT_AT_ONCE, Reply, Unsent};
use super::terms::{ClientId, WaiterId};
use super::vacant_places::Place;
use crate::core::deadline_index::DeadlineId;
use crate::core::fence::Fence;
use crate::core::time::{Millis, UnixMs};

/// The unacknowledged grants.
#[derive(Debug, Default)]
pub(super) struct UnackedGrants {
    grants: FxHashMap<WaiterId, UnackedGrant>,
    /// The waiter whose grant has this fence.
    fences: FxHashMap<Fence, WaiterId>,
    /// The unacknowledged grants of each connection.
    clients: BTreeSet<(ClientId, WaiterId)>,
    /// When to look first whether a grant has been sent. They are added in nearly this order, and most are settled before.
    first_looks: VecDeque<(UnixMs, WaiterId)>,
    /// When to look again.
    more_looks: BTreeSet<(UnixMs, WaiterId)>,
    /// When the full number of prompt looks is available again.
    rested: Option<UnixMs>,
}

/// An unacknowledged grant.
#[derive(Debug)]
pub(super) struct UnackedGrant {
    pub(super) client: ClientId,
    pub(super) fence: Fence,
    /// The locks where its holds still exist, in order.
    pub(super) entries: SmallVec<[DeadlineId; 1]>,
    /// The place that its waiter had in line, if it is to be kept.
    place: Option<Place>,
    /// What is known of the reply.
    reply: Reply,
    /// Whether the reply has been written.
    is_written: bool,
    /// How many looks at its connection did not find the reply sent.
    tries: u32,
}

impl UnackedGrants {
    pub(super) fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    #[cfg(test)]
    pub(super) fn is_blank(&self) -> bool {
        let looks = self.first_looks.is_empty() && self.more_looks.is_empty();
        self.is_empty() && self.fences.is_empty() && self.clients.is_empty() && looks
    }

    /// Tracks a grant of the locks at `entries` until it is delivered; the first look is due at `look`.
    pub(super) fn track(
        &mut self,
        waiter: WaiterId,
        client: ClientId,
        fence: Fence,
        entries: impl IntoIterator<Item = DeadlineId>,
        look: UnixMs,
    ) {
        let mut entries: SmallVec<[DeadlineId; 1]> = entries.into_iter().collect();
        entries.sort_unstable();
        let reply = Reply { front: Front::Unknown, seen: None, went_on: false };
        self.grants
            .insert(waiter, UnackedGrant { client, fence, entries, place: None, reply, is_written: false, tries: 0 });
        match self.first_looks.back() {
            Some((last, _)) if look < *last => drop(self.more_looks.insert((look, waiter))),
            _ => self.first_looks.push_back((look, waiter)),
        }
        self.fences.insert(fence, waiter);
        self.clients.insert((client, waiter));
    }

    /// The grant is delivered, or nobody waits for it any more. Returns it with the locks where its holds still exist.
    pub(super) fn settle(&mut self, waiter: WaiterId) -> Option<UnackedGrant> {
        let grant = self.grants.remove(&waiter)?;
        self.fences.remove(&grant.fence);
        self.clients.remove(&(grant.client, waiter));
        self.pass_settled();
        Some(grant)
    }

    /// Drops the looks at the front that belong to settled grants.
    fn pass_settled(&mut self) {
        while let Some((_, waiter)) = self.first_looks.front()
            && !self.grants.contains_key(waiter)
        {
            self.first_looks.pop_front();
        }
        while let Some((_, waiter)) = self.more_looks.first()
            && !self.grants.contains_key(waiter)
        {
            self.more_looks.pop_first();
        }
    }

    /// Whether a grant at `now` may have a prompt look; counts it if so.
    pub(super) fn may_be_prompt(&mut self, now: UnixMs) -> bool {
        let longest = Millis(PROMPT_AGAIN.0.saturating_mul(PROMPT_AT_ONCE));
        // If the clock was set back, the earlier count is dropped.
        let rested = self.rested.filter(|rested| rested.left(now) <= longest).map_or(now, |rested| rested.max(now));
        let rested = rested.plus(PROMPT_AGAIN).unwrap_or(UnixMs::MAX);
        let may = rested.left(now) <= longest;
        if may {
            self.rested = Some(rested);
        }
        may
    }

    /// Its waiter had this place in line.
    pub(super) fn keep_place(&mut self, waiter: WaiterId, place: Option<Place>) {
        self.change(waiter, |grant| grant.place = place);
    }

    /// The place that its waiter had in line.
    pub(super) fn take_place(&mut self, waiter: WaiterId) -> Option<Place> {
        self.grants.get_mut(&waiter)?.place.take()
    }

    /// The reply with the grant of `waiter` is about to be written behind `front`.
    pub(super) fn goes_behind(&mut self, waiter: WaiterId, front: Front) {
        self.change(waiter, |grant| grant.reply.front = front);
    }

    /// The reply has been written.
    pub(super) fn written(&mut self, waiter: WaiterId) {
        self.change(waiter, |grant| grant.is_written = true);
    }

    /// What is known of the reply, once it has been written.
    pub(super) fn reply(&self, waiter: WaiterId) -> Option<Reply> {
        self.grants.get(&waiter).filter(|grant| grant.is_written).map(|grant| grant.reply)
    }

    /// Records what is unsent now.
    pub(super) fn see(&mut self, waiter: WaiterId, unsent: Unsent) {
        self.change(waiter, |grant| grant.reply.seen = Some(unsent));
    }

    /// The client of `waiter` has asked for another lock.
    pub(super) fn goes_on(&mut self, waiter: WaiterId) {
        self.change(waiter, |grant| grant.reply.went_on = true);
    }

    fn change(&mut self, waiter: WaiterId, change: impl FnOnce(&mut UnackedGrant)) {
        if let Some(grant) = self.grants.get_mut(&waiter) {
            change(grant);
        }
    }

    /// When the next look is due.
    pub(super) fn next_look(&self) -> Option<UnixMs> {
        let (first, again) = (self.first_looks.front(), self.more_looks.first());
        first.into_iter().chain(again).map(|(due, _)| *due).min()
    }

    /// A grant that should be looked at now.
    pub(super) fn take_look(&mut self, now: UnixMs) -> Option<(WaiterId, ClientId)> {
        let is_due = |(due, _): &&(UnixMs, WaiterId)| due.reached(now);
        let waiter = if self.more_looks.first().as_ref().is_some_and(is_due) {
            self.more_looks.pop_first()?.1
        } else {
            self.first_looks.front().filter(is_due)?;
            self.first_looks.pop_front()?.1
        };
        // The front must always be an unsettled grant.
        self.pass_settled();
        self.grants.get(&waiter).map(|grant| (waiter, grant.client))
    }

    /// Schedules another look at the grant of `waiter` at `due`.
    pub(super) fn look_again(&mut self, waiter: WaiterId, due: UnixMs) {
        if self.grants.contains_key(&waiter) {
            self.more_looks.insert((due, waiter));
        }
    }

    /// The pause before the next look after one that did not find the reply sent: doubled each time, within these bounds.
    pub(super) fn pause(&mut self, waiter: WaiterId, shortest: Millis, longest: Millis) -> Millis {
        let Some(grant) = self.grants.get_mut(&waiter) else { return longest };
        grant.tries = grant.tries.saturating_add(1);
        let factor = 1_i64.checked_shl(grant.tries.min(32)).unwrap_or(i64::MAX);
        Millis(shortest.0.saturating_mul(factor).min(longest.0))
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
