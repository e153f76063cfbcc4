//! All lock state outside of the keys. Each public method of the engine is one atomic transition.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::notes::HoldNotes;
use super::queue::Waiting;
use super::stats::{Stats, count};
use super::terms::{ClientId, Dismissed, LockError};
use super::vacant_places::VacantPlaces;
use crate::core::deadline_index::DeadlineIndex;
use crate::core::fence::{Fence, FenceClock};
use crate::core::key::KeyBuf;
use crate::core::time::{Millis, Now};

mod adopt;
mod backlog;
mod cancel;
mod clients;
mod commands;
mod course;
mod deadlock;
mod delivery;
mod extend;
mod guards;
mod key_changes;
mod key_states;
mod line;
mod multi;
mod reconcile;
mod replica;
mod serve;
mod take_all;
mod tick;
mod transition;
mod view;
mod visit;

pub use multi::in_order;
pub use view::{HolderView, LockView, WaiterView};

use backlog::Backlog;
use visit::Outcome;

/// All lock state outside of the keys.
#[derive(Debug, Default)]
pub struct Engine {
    /// Every fence that it has issued or observed is below its next one.
    pub(super) fences: FenceClock,
    /// One entry for each lock that is registered, with its key. It is due when the first lease of the lock is over, or earlier.
    pub(super) deadlines: DeadlineIndex,
    /// The requests that wait; each stands in the queue of each of its keys.
    pub(super) waiting: Waiting,
    /// Every hold of a registered lock with a session of this era has a note, and so has every grant that may be taken back.
    pub(super) notes: HoldNotes,
    /// How often this server has been demoted. No session survives a demotion, so those of an earlier era count for nothing.
    pub(super) era: u32,
    /// Places in line of requests that wait no more; none is that of a waiting request.
    pub(super) vacant_places: VacantPlaces,
    /// Connections that may have ended unnoticed; see [`take_unverified_sessions`](Self::take_unverified_sessions).
    pub(super) unverified_sessions: BTreeSet<ClientId>,
    /// Notified requests that have ended without a decision about their locks, first in line first. They wait no more.
    dismissed: VecDeque<Dismissed>,
    /// The work that `tick` has to do: every queue that is listed and every lock with a revoked hold is in it.
    backlog: Backlog,
    /// Counts since the server started. They decide nothing.
    pub(super) stats: Stats,
    /// Another bound than [`BOUND`]. Tests have one.
    pub(super) bound: Option<usize>,
    /// Whether locks that have lost their keys are searched for. One of them may still exist, though its entry in the deadline index is closed.
    pub is_searching: bool,
    /// The operator's settings. They may be others in each call.
    pub settings: Settings,
    /// Empty between visits, and kept only to reuse its memory.
    outcomes: Vec<Outcome>,
}

/// The operator's settings for locks.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Whether a request is refused that would close a circle of waiting tokens.
    pub detects_deadlocks: bool,
    /// How many requests may wait.
    pub most_waiting: usize,
    /// How long the place of a waiter is kept whose connection has ended; zero: not at all.
    pub place_grace: Millis,
}

impl Default for Settings {
    fn default() -> Self {
        Self { detects_deadlocks: true, most_waiting: usize::MAX, place_grace: Millis(0) }
    }
}

/// How much work a command does for other clients, in steps; see [`Engine::tick`]. It takes a few milliseconds at most.
const BOUND: usize = 500;

impl Engine {
    /// The counts.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The number of registered locks.
    pub fn locks(&self) -> usize {
        self.deadlines.len()
    }

    /// The number of waiters.
    pub fn waiters(&self) -> usize {
        self.waiting.len()
    }

    /// The next `most` keys that requests wait for. Calls come to every such key in turn, and then begin again.
    pub fn next_waited_for(&mut self, most: usize) -> Vec<Arc<KeyBuf>> {
        self.waiting.next_keys(most)
    }

    /// How long the requests that do not wait any more were waiting, added up: the granted ones, and those that ended otherwise.
    pub fn waited(&self) -> Millis {
        self.waiting.waited()
    }

    /// How many of the waiting requests are notified instead of blocked.
    pub fn notified(&self) -> usize {
        self.waiting.notified()
    }

    /// The number of places in line that are kept for tokens whose connections have ended.
    pub fn vacant_places(&self) -> usize {
        self.vacant_places.len()
    }

    /// The highest fence issued or seen, for the RDB file; 0 if there was none.
    pub fn last_fence(&self) -> u64 {
        self.fences.last()
    }

    /// A fence for a new hold, or for all new holds of one request.
    pub(super) fn issue(&mut self, now: Now) -> Result<Fence, LockError> {
        let fence = self.fences.issue(now.us).ok_or(LockError::FencesUsedUp)?;
        count(&mut self.stats.grants);
        Ok(fence)
    }

    /// Observes a fence that another server issued.
    pub fn observe_fence(&mut self, fence: Fence) {
        self.fences.observe(fence);
    }
}

#[cfg(test)]
impl Engine {
    /// Whether everything is empty except the fences and the counts.
    pub(super) fn is_blank(&self) -> bool {
        self.deadlines.is_empty()
            && self.waiting.is_blank()
            && self.notes.is_empty()
            && self.vacant_places.is_empty()
            && self.unverified_sessions.is_empty()
            && self.dismissed.is_empty()
            && self.backlog.is_empty()
            && self.outcomes.is_empty()
    }
}
