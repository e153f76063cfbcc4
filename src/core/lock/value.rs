//! The lock as a value: what lives in the keyspace under a key.

use std::collections::{BTreeMap, BTreeSet};

use super::terms::{ClientId, Mode};
use crate::core::deadline_index::DeadlineId;
use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::time::UnixMs;
use crate::core::unlinked::{Unlinked, UnlinkedWatch};

/// One token's share of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The owner.
    pub token: Ident,
    /// The fence of its grant.
    pub fence: Fence,
    /// When it expires.
    pub deadline: UnixMs,
    /// The number of permits that its owner allows in total, 1 to [`MAX_PERMITS`](crate::core::limits::MAX_PERMITS); 0 unless the mode is
    /// [`Mode::Limit`].
    pub limit: u64,
    /// The connection it ends with. Not saved: no connection survives a restart.
    pub session: Option<ClientId>,
}

/// A lock: its mode and its holds.
///
/// In the keyspace it always has a hold. A lock with a single hold, the usual case, is this struct alone. With many holds, a hold is found
/// by token, by fence and by deadline in O(log n).
#[derive(Debug)]
pub struct Lock {
    holds: Holds,
    deadline_id: Option<DeadlineId>,
    /// Set while it is unknown which key the value has, or whether it still exists.
    unlinked: Option<Unlinked>,
    mode: Mode,
    /// The era of its sessions. Sessions of an earlier era have ended.
    era: u32,
}

#[derive(Debug)]
enum Holds {
    None,
    One(Hold),
    Many(Box<Crowd>),
}

/// Two holds or more.
#[derive(Debug, Default)]
struct Crowd {
    holds: BTreeMap<Fence, Hold>,
    tokens: BTreeMap<Ident, Fence>,
    deadlines: BTreeSet<(UnixMs, Fence)>,
}

impl PartialEq for Lock {
    /// Locks are equal if their modes and holds are equal, sessions included. Their keys do not matter.
    fn eq(&self, other: &Self) -> bool {
        self.mode == other.mode && self.holds().eq(other.holds())
    }
}

impl Eq for Lock {}

impl Lock {
    /// A lock without holds, as it is during a hand-over.
    pub(super) fn vacant() -> Self {
        Self { holds: Holds::None, deadline_id: None, unlinked: None, mode: Mode::Exclusive, era: 0 }
    }

    /// How the lock is held.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Its entry in the deadline index; `None` until the engine has registered it.
    #[must_use]
    pub fn deadline_id(&self) -> Option<DeadlineId> {
        self.deadline_id
    }

    pub(super) fn set_deadline_id(&mut self, entry: Option<DeadlineId>) {
        self.deadline_id = entry;
    }

    /// Gives up its entry in the deadline index, because the value has left its key. The engine closes the returned entry.
    pub fn take_deadline_id(&mut self) -> Option<DeadlineId> {
        self.deadline_id.take()
    }

    /// The value has lost its key, and it is unknown whether it will be destroyed or get another key; the watch finds out. The engine
    /// closes the returned entry. The value remembers the entry, so that data filed under it can follow.
    pub fn mark_unlinked(&mut self) -> (Option<DeadlineId>, UnlinkedWatch) {
        let watch = self.unlinked.get_or_insert_default().watch();
        (self.deadline_id, watch)
    }

    /// Whether it was marked unlinked and has not been found since.
    #[must_use]
    pub fn is_unlinked(&self) -> bool {
        self.unlinked.is_some()
    }

    /// Clears the unlinked mark; returns whether it was set.
    pub(super) fn mark_found(&mut self) -> bool {
        self.unlinked.take().is_some()
    }

    /// The era of its sessions.
    pub(super) fn era(&self) -> u32 {
        self.era
    }

    /// Ends the sessions of an earlier era. O(n) in its holds, once per era.
    pub(super) fn enter(&mut self, era: u32) {
        if self.era == era {
            return;
        }
        self.era = era;
        match &mut self.holds {
            Holds::None => {}
            Holds::One(hold) => hold.session = None,
            Holds::Many(crowd) => crowd.holds.values_mut().for_each(|hold| hold.session = None),
        }
    }

    /// How many holds there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.holds {
            Holds::None => 0,
            Holds::One(_) => 1,
            Holds::Many(crowd) => crowd.holds.len(),
        }
    }

    /// Whether nobody holds it. Never true in the keyspace.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self.holds, Holds::None)
    }

    /// Its holds in fence order.
    pub fn holds(&self) -> impl Iterator<Item = &Hold> {
        let (one, many) = match &self.holds {
            Holds::None => (None, None),
            Holds::One(hold) => (Some(hold), None),
            Holds::Many(crowd) => (None, Some(crowd.holds.values())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// The hold of `token`.
    #[must_use]
    pub fn hold(&self, token: &Ident) -> Option<&Hold> {
        match &self.holds {
            Holds::None => None,
            Holds::One(hold) => Some(hold).filter(|hold| hold.token == *token),
            Holds::Many(crowd) => crowd.holds.get(crowd.tokens.get(token)?),
        }
    }

    /// The hold with this fence.
    #[must_use]
    pub fn hold_of(&self, fence: Fence) -> Option<&Hold> {
        match &self.holds {
            Holds::None => None,
            Holds::One(hold) => Some(hold).filter(|hold| hold.fence == fence),
            Holds::Many(crowd) => crowd.holds.get(&fence),
        }
    }

    /// The only hold, if there is exactly one.
    #[must_use]
    pub fn sole_hold(&self) -> Option<&Hold> {
        if let Holds::One(hold) = &self.holds { Some(hold) } else { None }
    }

    /// When its first lease expires.
    #[must_use]
    pub fn earliest(&self) -> Option<UnixMs> {
        match &self.holds {
            Holds::None => None,
            Holds::One(hold) => Some(hold.deadline),
            Holds::Many(crowd) => crowd.deadlines.first().map(|(deadline, _)| *deadline),
        }
    }

    /// The largest limit of its holds; 0 unless the mode is [`Mode::Limit`]. O(n).
    #[must_use]
    pub fn largest_limit(&self) -> u64 {
        self.holds().map(|hold| hold.limit).max().unwrap_or(0)
    }

    /// Heap bytes that it owns, estimated without asking the allocator.
    #[must_use]
    pub fn memory(&self) -> usize {
        match &self.holds {
            Holds::None => 0,
            Holds::One(hold) => hold.token.heap_size(),
            Holds::Many(crowd) => {
                // Three B-trees. Filled in order, their nodes are little more than half full.
                let each = size_of::<(Fence, Hold, Ident, Fence, UnixMs, Fence)>().saturating_mul(2);
                let tokens = crowd.holds.values().map(|hold| hold.token.heap_size().saturating_mul(2)).sum::<usize>();
                size_of::<Crowd>().saturating_add(each.saturating_mul(crowd.holds.len())).saturating_add(tokens)
            }
        }
    }

    /// The cost of freeing it: about the number of allocations.
    #[must_use]
    pub fn effort(&self) -> usize {
        match &self.holds {
            Holds::None | Holds::One(_) => 1,
            Holds::Many(crowd) => crowd.holds.len(),
        }
    }

    /// Sets the hold of its token and the mode of the lock; returns the token's earlier hold.
    ///
    /// The caller has checked that the other holds allow it. No other hold has the same fence.
    pub(super) fn set(&mut self, mode: Mode, hold: Hold) -> Option<Hold> {
        self.mode = mode;
        match &mut self.holds {
            Holds::None => {
                self.holds = Holds::One(hold);
                None
            }
            Holds::One(old) if old.token == hold.token => Some(std::mem::replace(old, hold)),
            Holds::One(_) => {
                let mut crowd = Box::<Crowd>::default();
                if let Holds::One(first) = std::mem::replace(&mut self.holds, Holds::None) {
                    crowd.add(first);
                }
                crowd.add(hold);
                self.holds = Holds::Many(crowd);
                None
            }
            Holds::Many(crowd) => {
                let old = crowd.tokens.get(&hold.token).copied().and_then(|fence| crowd.take(fence));
                crowd.add(hold);
                old
            }
        }
    }

    /// Removes the hold with this fence.
    pub(super) fn take(&mut self, fence: Fence) -> Option<Hold> {
        match &mut self.holds {
            Holds::One(hold) if hold.fence == fence => match std::mem::replace(&mut self.holds, Holds::None) {
                Holds::One(hold) => Some(hold),
                Holds::None | Holds::Many(_) => None,
            },
            Holds::None | Holds::One(_) => None,
            Holds::Many(crowd) => {
                let taken = crowd.take(fence);
                if crowd.holds.len() < 2 {
                    self.holds = crowd.holds.pop_first().map_or(Holds::None, |(_, last)| Holds::One(last));
                }
                taken
            }
        }
    }

    /// Removes the hold with the earliest deadline, if it has expired at `now`.
    pub(super) fn take_expired(&mut self, now: UnixMs) -> Option<Hold> {
        let fence = match &self.holds {
            Holds::None => return None,
            Holds::One(hold) => Some(hold.fence).filter(|_| hold.deadline.reached(now)),
            Holds::Many(crowd) => {
                crowd.deadlines.first().filter(|(deadline, _)| deadline.reached(now)).map(|(_, fence)| *fence)
            }
        };
        self.take(fence?)
    }
}

impl Crowd {
    fn add(&mut self, hold: Hold) {
        self.tokens.insert(hold.token.clone(), hold.fence);
        self.deadlines.insert((hold.deadline, hold.fence));
        self.holds.insert(hold.fence, hold);
    }

    fn take(&mut self, fence: Fence) -> Option<Hold> {
        let hold = self.holds.remove(&fence)?;
        self.tokens.remove(&hold.token);
        self.deadlines.remove(&(hold.deadline, fence));
        Some(hold)
    }
}
