//! The lock as a value: what lives in the keyspace under a key.

use std::collections::{BTreeMap, BTreeSet};

use super::terms::{ClientId, Mode};
use crate::core::deadline_index::DeadlineId;
use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::time::UnixMs;
use crate::core::unlinked::{Unlinked, UnlinkedWatch};

/// One token's place in a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The owner.
    pub token: Ident,
    /// The number it was given.
    pub fence: Fence,
    /// When it ends by itself.
    pub deadline: UnixMs,
    /// How many permits its owner wants there to be, 1 to [`MAX_PERMITS`](crate::core::limits::MAX_PERMITS); 0 unless the mode is [`Mode::Limit`].
    pub limit: u64,
    /// The connection it ends with. Not saved: no connection survives a restart.
    pub session: Option<ClientId>,
}

/// A lock: its mode and its holds.
///
/// In the keyspace it always has a hold. The usual one, with a single hold, is this struct and nothing else. With many, a
/// hold is found by token, by fence and by deadline in O(log n).
#[derive(Debug)]
pub struct Lock {
    holds: Holds,
    deadline_id: Option<DeadlineId>,
    /// Set while nobody knows where the value is, if it still is.
    unlinked: Option<Unlinked>,
    mode: Mode,
    /// The era that its sessions are of: those of an earlier one are over.
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
    /// Locks are equal when their modes and holds are, sessions included, wherever they live.
    fn eq(&self, other: &Self) -> bool {
        self.mode == other.mode && self.holds().eq(other.holds())
    }
}

impl Eq for Lock {}

impl Lock {
    /// A lock that nobody holds: what a lock is while it passes from one to the next.
    pub(super) fn vacant() -> Self {
        Self { holds: Holds::None, deadline_id: None, unlinked: None, mode: Mode::Exclusive, era: 0 }
    }

    /// How it is held.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Its entry in the deadline index; `None` while the engine has not met it.
    #[must_use]
    pub fn deadline_id(&self) -> Option<DeadlineId> {
        self.deadline_id
    }

    pub(super) fn set_deadline_id(&mut self, entry: Option<DeadlineId>) {
        self.deadline_id = entry;
    }

    /// Leaves its entry in the deadline index: the value is not where it was any more. Returns the entry for the engine to close.
    pub fn take_deadline_id(&mut self) -> Option<DeadlineId> {
        self.deadline_id.take()
    }

    /// Loses its name without knowing what comes next: its end, or another name. The watch tells. The entry that is
    /// returned is for the engine to close; the value remembers it, so that what hangs on it can follow.
    pub fn mark_unlinked(&mut self) -> (Option<DeadlineId>, UnlinkedWatch) {
        let watch = self.unlinked.get_or_insert_default().watch();
        (self.deadline_id, watch)
    }

    /// Whether it has gone astray and has not been welcomed since.
    #[must_use]
    pub fn is_unlinked(&self) -> bool {
        self.unlinked.is_some()
    }

    /// Ends its straying; whether it was astray.
    pub(super) fn mark_found(&mut self) -> bool {
        self.unlinked.take().is_some()
    }

    /// The era that its sessions are of.
    pub(super) fn era(&self) -> u32 {
        self.era
    }

    /// Ends the sessions of an earlier era. O(n) in its holds, once for each era.
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

    /// Whether nobody holds it. Never so in the keyspace.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self.holds, Holds::None)
    }

    /// Its holds in the order of their fences.
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

    /// The hold that was given `fence`.
    #[must_use]
    pub fn hold_of(&self, fence: Fence) -> Option<&Hold> {
        match &self.holds {
            Holds::None => None,
            Holds::One(hold) => Some(hold).filter(|hold| hold.fence == fence),
            Holds::Many(crowd) => crowd.holds.get(&fence),
        }
    }

    /// The only hold, if there is just one.
    #[must_use]
    pub fn sole_hold(&self) -> Option<&Hold> {
        if let Holds::One(hold) = &self.holds { Some(hold) } else { None }
    }

    /// When the first of its leases ends.
    #[must_use]
    pub fn earliest(&self) -> Option<UnixMs> {
        match &self.holds {
            Holds::None => None,
            Holds::One(hold) => Some(hold.deadline),
            Holds::Many(crowd) => crowd.deadlines.first().map(|(deadline, _)| *deadline),
        }
    }

    /// The most permits that one of its holds wants there to be; 0 unless the mode is [`Mode::Limit`]. O(n).
    #[must_use]
    pub fn largest_limit(&self) -> u64 {
        self.holds().map(|hold| hold.limit).max().unwrap_or(0)
    }

    /// Bytes it keeps outside of itself, as near as one can tell without asking the allocator.
    #[must_use]
    pub fn memory(&self) -> usize {
        match &self.holds {
            Holds::None => 0,
            Holds::One(hold) => hold.token.heap_size(),
            Holds::Many(crowd) => {
                // Three B-trees, whose nodes are little more than half full when they are filled in order.
                let each = size_of::<(Fence, Hold, Ident, Fence, UnixMs, Fence)>().saturating_mul(2);
                let tokens = crowd.holds.values().map(|hold| hold.token.heap_size().saturating_mul(2)).sum::<usize>();
                size_of::<Crowd>().saturating_add(each.saturating_mul(crowd.holds.len())).saturating_add(tokens)
            }
        }
    }

    /// How much work it is to free it: about the number of allocations.
    #[must_use]
    pub fn effort(&self) -> usize {
        match &self.holds {
            Holds::None | Holds::One(_) => 1,
            Holds::Many(crowd) => crowd.holds.len(),
        }
    }

    /// Makes `hold` the hold of its token and `mode` the mode of the lock; returns what the token held before.
    ///
    /// The caller has made sure that the other holds allow it. No other hold has the same fence.
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

    /// Ends the hold that was given `fence`.
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

    /// Ends the hold whose deadline came first, if it has come at `now`.
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
