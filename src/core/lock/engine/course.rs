//! The course of a transition: its time, its work, and its findings.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use crate::core::lock::stats::HandoverCause;
use crate::core::lock::terms::WaiterId;
use crate::core::lock::waiter::QueueId;
use crate::core::time::Now;

/// The time of a transition, the work that it has done, and the work that is left.
#[derive(Debug)]
pub(super) struct Course {
    pub(super) now: Now,
    /// The remaining number of steps.
    pub(super) budget: usize,
    /// Why locks become available for waiters, unless holds of the lock itself have ended.
    pub(super) cause: HandoverCause,
    /// Why the last visited lock had holds that were over; `None` if it had none.
    pub(super) over: Option<HandoverCause>,
    /// Whether no hold may expire here: a replica gets expirations from its primary.
    pub(super) is_passive: bool,
    /// The queues to look at.
    pub(super) work: Work,
    /// Requests for many keys that were checked and did not fit. No hold has begun or ended since, so they are not checked again in each of
    /// their queues, which would cost the square of their number of keys.
    pub(super) blocked_multi: BTreeSet<WaiterId>,
}

/// Queues to serve, in the order in which they were added. Usually one or two.
#[derive(Debug, Default)]
pub(super) struct Work {
    queues: SmallVec<[QueueId; 4]>,
    /// How many of them have been served.
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
        if next.is_some() {
            self.done = self.done.saturating_add(1);
        } else {
            self.queues.clear();
            self.done = 0;
        }
        next
    }
}

impl Course {
    pub(super) fn new(now: Now, budget: usize) -> Self {
        let (work, blocked_multi) = Default::default();
        Self { now, budget, cause: HandoverCause::Other, over: None, is_passive: false, work, blocked_multi }
    }

    /// Why the last visited lock is available for a waiter.
    pub(super) fn cause(&self) -> HandoverCause {
        self.over.unwrap_or(self.cause)
    }

    /// A hold has begun or ended, so another request may fit now.
    pub(super) fn progress(&mut self) {
        self.blocked_multi.clear();
    }

    pub(super) fn step(&mut self) {
        self.steps(1);
    }

    pub(super) fn steps(&mut self, number: usize) {
        self.budget = self.budget.saturating_sub(number);
    }
}
