//! The lock as a value in the keyspace, under a key.

use std::collections::{BTreeMap, BTreeSet};

use super::hold::{Claim, Hold, HoldRef};
use super::terms::{ClientId, Mode};
use crate::core::deadline_index::DeadlineId;
use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::time::UnixMs;
use crate::core::unlinked::{Unlinked, UnlinkedWatch};

/// A lock: its mode and its holds.
///
/// In the keyspace it always has a hold. A lock with a single exclusive hold without a session, the usual case, is these 64 bytes alone. With
/// many holds, a hold is found by token, by fence and by deadline in O(log n).
#[derive(Debug)]
pub struct Lock {
    holds: Holds,
    deadline_id: Option<DeadlineId>,
    /// Set while it is unknown which key the value has, or whether it still exists.
    unlinked: Option<Unlinked>,
}

#[derive(Debug)]
enum Holds {
    None,
    One(Sole),
    Many(Box<Crowd>),
}

/// The only hold of a lock.
#[derive(Debug)]
struct Sole {
    token: Ident,
    fence: Fence,
    deadline: UnixMs,
    /// `None` if it is exclusive and without a session.
    more: Option<Box<More>>,
}

#[derive(Debug)]
struct More {
    mode: Mode,
    limit: u64,
    session: Option<ClientId>,
    era: u32,
}

/// Two holds or more.
#[derive(Debug)]
struct Crowd {
    mode: Mode,
    /// The era of the sessions. Sessions of an earlier era have ended.
    era: u32,
    holds: BTreeMap<Fence, Hold>,
    tokens: BTreeMap<Ident, Fence>,
    deadlines: BTreeSet<(UnixMs, Fence)>,
}

impl PartialEq for Lock {
    /// Locks are equal if their modes and holds are equal, sessions included. Their keys do not matter.
    fn eq(&self, other: &Self) -> bool {
        self.mode() == other.mode() && self.holds().eq(other.holds())
    }
}

impl Eq for Lock {}

impl Lock {
    /// A lock without holds, as it is during a hand-over.
    pub(super) fn vacant() -> Self {
        Self { holds: Holds::None, deadline_id: None, unlinked: None }
    }

    /// How the lock is held.
    pub fn mode(&self) -> Mode {
        match &self.holds {
            Holds::None => Mode::Exclusive,
            Holds::One(sole) => sole.mode(),
            Holds::Many(crowd) => crowd.mode,
        }
    }

    /// Its entry in the deadline index; `None` until the engine has registered it.
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
    pub fn is_unlinked(&self) -> bool {
        self.unlinked.is_some()
    }

    /// It has been found; returns whether it was marked unlinked.
    pub(super) fn mark_found(&mut self) -> bool {
        self.unlinked.take().is_some()
    }

    /// The era of its sessions; 0 if it has none.
    pub(super) fn era(&self) -> u32 {
        match &self.holds {
            Holds::None => 0,
            Holds::One(sole) => sole.era(),
            Holds::Many(crowd) => crowd.era,
        }
    }

    /// Ends the sessions of an earlier era. O(n) in its holds, once per era.
    pub(super) fn enter(&mut self, era: u32) {
        match &mut self.holds {
            Holds::One(Sole { more: Some(more), .. }) if more.era != era => {
                more.era = era;
                more.session = None;
            }
            Holds::Many(crowd) if crowd.era != era => {
                crowd.era = era;
                crowd.holds.values_mut().for_each(|hold| hold.session = None);
            }
            Holds::None | Holds::One(_) | Holds::Many(_) => {}
        }
    }

    /// A session was set, and all sessions are of this era.
    pub(super) fn stamp(&mut self, now: u32) {
        match &mut self.holds {
            Holds::One(Sole { more: Some(more), .. }) => more.era = now,
            Holds::Many(crowd) => crowd.era = now,
            Holds::None | Holds::One(_) => {}
        }
    }

    /// How many holds there are.
    pub fn len(&self) -> usize {
        match &self.holds {
            Holds::None => 0,
            Holds::One(_) => 1,
            Holds::Many(crowd) => crowd.holds.len(),
        }
    }

    /// Whether it has no hold. Never true in the keyspace.
    pub fn is_empty(&self) -> bool {
        matches!(self.holds, Holds::None)
    }

    /// Its holds in fence order.
    pub fn holds(&self) -> impl Iterator<Item = HoldRef<'_>> {
        let (one, many) = match &self.holds {
            Holds::None => (None, None),
            Holds::One(sole) => (Some(sole.as_ref()), None),
            Holds::Many(crowd) => (None, Some(crowd.holds.values())),
        };
        one.into_iter().chain(many.into_iter().flatten().map(Hold::as_ref))
    }

    /// The hold of `token`.
    pub fn hold(&self, token: &Ident) -> Option<HoldRef<'_>> {
        match &self.holds {
            Holds::None => None,
            Holds::One(sole) => (sole.token == *token).then(|| sole.as_ref()),
            Holds::Many(crowd) => crowd.holds.get(crowd.tokens.get(token)?).map(Hold::as_ref),
        }
    }

    /// The claimed hold.
    pub fn claimed(&self, claim: Claim<'_>) -> Option<HoldRef<'_>> {
        self.hold(claim.token).filter(|hold| claim.admits(hold.fence))
    }

    /// The hold with this fence.
    pub fn hold_of(&self, fence: Fence) -> Option<HoldRef<'_>> {
        match &self.holds {
            Holds::None => None,
            Holds::One(sole) => (sole.fence == fence).then(|| sole.as_ref()),
            Holds::Many(crowd) => crowd.holds.get(&fence).map(Hold::as_ref),
        }
    }

    /// The only hold, if there is exactly one.
    pub fn sole_hold(&self) -> Option<HoldRef<'_>> {
        if let Holds::One(sole) = &self.holds { Some(sole.as_ref()) } else { None }
    }

    /// Whether another token than this holds it exclusively at `now`, without a session, and its key is known.
    pub(super) fn is_held_against(&self, token: &Ident, now: UnixMs) -> bool {
        let held = |sole: &Sole| sole.more.is_none() && sole.token != *token && !sole.deadline.reached(now);
        !self.is_unlinked() && matches!(&self.holds, Holds::One(sole) if held(sole))
    }

    /// When its first lease expires.
    pub fn earliest(&self) -> Option<UnixMs> {
        self.first().map(|(deadline, _)| deadline)
    }

    /// The hold whose lease expires first: when it expires, and its fence.
    pub(super) fn first(&self) -> Option<(UnixMs, Fence)> {
        match &self.holds {
            Holds::None => None,
            Holds::One(sole) => Some((sole.deadline, sole.fence)),
            Holds::Many(crowd) => crowd.deadlines.first().copied(),
        }
    }

    /// Heap bytes that it owns, estimated without asking the allocator.
    pub fn memory(&self) -> usize {
        match &self.holds {
            Holds::None => 0,
            Holds::One(sole) => {
                sole.token.heap_size().saturating_add(sole.more.as_ref().map_or(0, |_| size_of::<More>()))
            }
            Holds::Many(crowd) => {
                // Three B-trees. Filled in order, their nodes are little more than half full.
                let each = size_of::<(Fence, Hold, Ident, Fence, UnixMs, Fence)>().saturating_mul(2);
                let tokens = crowd.holds.values().map(|hold| hold.token.heap_size().saturating_mul(2)).sum::<usize>();
                size_of::<Crowd>().saturating_add(each.saturating_mul(crowd.holds.len())).saturating_add(tokens)
            }
        }
    }

    /// The cost of freeing it: about the number of allocations.
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
        let era = self.era();
        if let Holds::Many(crowd) = &mut self.holds {
            crowd.mode = mode;
            let old = crowd.tokens.get(&hold.token).copied().and_then(|fence| crowd.take(fence));
            crowd.add(hold);
            return old;
        }
        match self.take_sole() {
            Some(other) if other.token != hold.token => {
                let mut crowd = Box::new(Crowd::new(mode, era));
                crowd.add(other);
                crowd.add(hold);
                self.holds = Holds::Many(crowd);
                None
            }
            old => {
                self.holds = Holds::One(Sole::new(mode, hold, era));
                old
            }
        }
    }

    /// Removes the only hold, if there is exactly one.
    fn take_sole(&mut self) -> Option<Hold> {
        match std::mem::replace(&mut self.holds, Holds::None) {
            Holds::One(sole) => Some(sole.into_hold()),
            others => {
                self.holds = others;
                None
            }
        }
    }

    /// Removes the hold with this fence.
    pub(super) fn take(&mut self, fence: Fence) -> Option<Hold> {
        match &mut self.holds {
            Holds::One(sole) if sole.fence == fence => self.take_sole(),
            Holds::None | Holds::One(_) => None,
            Holds::Many(crowd) => {
                let taken = crowd.take(fence);
                if crowd.holds.len() < 2 {
                    let (mode, era) = (crowd.mode, crowd.era);
                    let last = crowd.holds.pop_first();
                    self.holds = last.map_or(Holds::None, |(_, last)| Holds::One(Sole::new(mode, last, era)));
                }
                taken
            }
        }
    }
}

impl Sole {
    fn new(mode: Mode, hold: Hold, era: u32) -> Self {
        let Hold { token, fence, deadline, limit, session } = hold;
        let is_plain = mode == Mode::Exclusive && session.is_none();
        let more = (!is_plain).then(|| Box::new(More { mode, limit, session, era }));
        Self { token, fence, deadline, more }
    }

    fn mode(&self) -> Mode {
        self.more.as_ref().map_or(Mode::Exclusive, |more| more.mode)
    }

    fn era(&self) -> u32 {
        self.more.as_ref().map_or(0, |more| more.era)
    }

    fn as_ref(&self) -> HoldRef<'_> {
        let Self { token, fence, deadline, more } = self;
        let (limit, session) = more.as_ref().map_or((0, None), |more| (more.limit, more.session));
        HoldRef { token, fence: *fence, deadline: *deadline, limit, session }
    }

    fn into_hold(self) -> Hold {
        let Self { token, fence, deadline, more } = self;
        let (limit, session) = more.map_or((0, None), |more| (more.limit, more.session));
        Hold { token, fence, deadline, limit, session }
    }
}

impl Crowd {
    fn new(mode: Mode, era: u32) -> Self {
        Self { mode, era, holds: BTreeMap::new(), tokens: BTreeMap::new(), deadlines: BTreeSet::new() }
    }

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
