//! One transition on its way.

use crate::core::lock::terms::WaiterId;
use std::collections::BTreeSet;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::core::key::KeyBuf;
use crate::core::lock::queue::QueueId;
use crate::core::lock::stats::HandoverCause;
use crate::core::time::{Now, UnixMs};

/// What a transition is about, what it may do, and what it has yet to look at.
#[derive(Debug)]
pub(super) struct Transition {
    pub(super) now: Now,
    /// Whether no command asked for it.
    pub(super) outside: bool,
    /// How much more may be done at once.
    pub(super) budget: usize,
    /// What makes room for waiters, unless holds of the lock itself are over.
    pub(super) cause: HandoverCause,
    /// Why holds ended that were over when the lock was visited last.
    pub(super) over: Option<HandoverCause>,
    /// Whether nothing may end by itself: a replica is told what does.
    pub(super) passive: bool,
    /// The queues to look at.
    pub(super) work: Work,
    /// Places whose locks may be vacant. Somebody may still take them over in this turn.
    pub(super) vacated: Vec<Arc<KeyBuf>>,
    /// Requests for many keys that were looked at and did not fit. Nothing has begun or ended since, so they need not be looked at
    /// again in every one of their queues, which would cost the square of their keys.
    pub(super) blocked_multi: BTreeSet<WaiterId>,
}

/// Queues to look at, in the order in which they came up. Nearly always one or two.
#[derive(Debug, Default)]
pub(super) struct Work {
    queues: SmallVec<[QueueId; 4]>,
    /// How many of them have been looked at.
    done: usize,
}

impl Work {
    pub(super) fn push(&mut self, queue: QueueId) {
        self.queues.push(queue);
    }

    pub(super) fn extend(&mut self, queues: impl IntoIterator<Item = QueueId>) {
        self.queues.extend(queues);
    }

    pub(super) fn next(&mut self) -> Option<QueueId> {
        let next = self.queues.get(self.done).copied();
        match next {
            Some(_) => self.done = self.done.saturating_add(1),
            None => *self = Self::default(),
        }
        next
    }
}

impl Transition {
    pub(super) fn command(now: Now, steps: usize) -> Self {
        Self {
            now,
            outside: false,
            budget: steps,
            cause: HandoverCause::Other,
            over: None,
            passive: false,
            work: Work::default(),
            vacated: Vec::new(),
            blocked_multi: BTreeSet::new(),
        }
    }

    pub(super) fn outside(now: Now, steps: usize) -> Self {
        Self { outside: true, ..Self::command(now, steps) }
    }

    /// The application of an effect, in which nothing ends by itself.
    pub(super) fn passive() -> Self {
        Self { passive: true, ..Self::command(Now { ms: UnixMs(0), us: 0 }, usize::MAX) }
    }

    /// What makes room for a waiter at the lock visited last.
    pub(super) fn cause(&self) -> HandoverCause {
        self.over.unwrap_or(self.cause)
    }

    /// Something has begun or ended that may make room for somebody.
    pub(super) fn progress(&mut self) {
        self.blocked_multi.clear();
    }

    pub(super) fn step(&mut self) {
        self.budget = self.budget.saturating_sub(1);
    }
}
