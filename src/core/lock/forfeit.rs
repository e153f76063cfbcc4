//! Holds that are over because of a connection, until somebody comes by and ends them.
//!
//! A connection may end where nothing may be written. What it leaves behind is noted here, and is over from then on for
//! everybody, just as a lease is at its deadline; the next visit to the lock, at the latest by `tick`, makes it so.

use std::collections::BTreeMap;

use super::terms::End;
use crate::core::agenda::HomeId;
use crate::core::fence::Fence;

/// The holds to end, by lock.
#[derive(Debug, Default)]
pub(super) struct Forfeits {
    holds: BTreeMap<HomeId, BTreeMap<Fence, End>>,
}

impl Forfeits {
    pub(super) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    /// Notes that a hold is over; `true` if it is the first one of its lock.
    pub(super) fn add(&mut self, home: HomeId, fence: Fence, why: End) -> bool {
        let first = !self.holds.contains_key(&home);
        self.holds.entry(home).or_default().insert(fence, why);
        first
    }

    /// Whether a hold is over.
    pub(super) fn contains(&self, home: Option<HomeId>, fence: Fence) -> bool {
        !self.holds.is_empty() && home.and_then(|home| self.holds.get(&home)).is_some_and(|it| it.contains_key(&fence))
    }

    /// Takes a hold off the list, to end it.
    pub(super) fn take(&mut self, home: HomeId) -> Option<(Fence, End)> {
        let holds = self.holds.get_mut(&home)?;
        let next = holds.pop_first();
        if holds.is_empty() {
            self.holds.remove(&home);
        }
        next
    }

    /// Lets a grant stand that never reached the connection it was made to: its token has asked again from elsewhere. A
    /// session, on the other hand, ended with its connection, whoever asks.
    pub(super) fn spare(&mut self, home: HomeId, fence: Fence) {
        if let Some(holds) = self.holds.get_mut(&home)
            && holds.get(&fence) == Some(&End::Undelivered)
        {
            holds.remove(&fence);
            if holds.is_empty() {
                self.holds.remove(&home);
            }
        }
    }

    /// Follows a lock to its new home; `true` if there was anything to follow it.
    pub(super) fn follow(&mut self, from: HomeId, to: HomeId) -> bool {
        let holds = self.holds.remove(&from);
        holds.is_some_and(|holds| self.holds.insert(to, holds).is_none())
    }

    /// Every lock with holds that are over.
    pub(super) fn homes(&self) -> impl Iterator<Item = HomeId> {
        self.holds.keys().copied()
    }

    /// Forgets the holds of a lock that is gone.
    pub(super) fn forget(&mut self, home: HomeId) {
        self.holds.remove(&home);
    }

    /// Whether holds of the lock at `home` are over.
    pub(super) fn at(&self, home: HomeId) -> bool {
        self.holds.contains_key(&home)
    }
}
