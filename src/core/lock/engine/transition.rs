//! One transition of the engine, while it runs.

use crate::core::lock::terms::WaiterId;
use std::collections::BTreeSet;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::core::key::{KeyBuf, KeyRef};
use crate::core::lock::keyspace::Keyspace;
use crate::core::lock::stats::HandoverCause;
use crate::core::lock::waiter::QueueId;
use crate::core::time::{Now, UnixMs};

/// The time, the limits and the remaining work of one transition.
#[derive(Debug)]
pub(super) struct Transition<'k> {
    pub(super) now: Now,
    /// The keys that the command names, in order; none for the timer's work. The server has checked that this node serves them.
    named: SmallVec<[KeyRef<'k>; 1]>,
    /// The remaining number of steps.
    pub(super) budget: usize,
    /// Why locks become available for waiters, unless holds of the lock itself have ended.
    pub(super) cause: HandoverCause,
    /// Why the last visited lock had holds that were over; `None` if it had none.
    pub(super) over: Option<HandoverCause>,
    /// Whether no hold may expire here: a replica gets expirations from its primary.
    pub(super) passive: bool,
    /// The queues to look at.
    pub(super) work: Work,
    /// Keys whose locks may be vacant. A waiter may still take them over in this transition.
    pub(super) emptied: Vec<Arc<KeyBuf>>,
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

impl<'k> Transition<'k> {
    pub(super) fn command(now: Now, named: &[KeyRef<'k>], steps: usize) -> Self {
        Self {
            now,
            named: SmallVec::from_slice(named),
            budget: steps,
            cause: HandoverCause::Other,
            over: None,
            passive: false,
            work: Work::default(),
            emptied: Vec::new(),
            blocked_multi: BTreeSet::new(),
        }
    }

    pub(super) fn by_timer(now: Now, steps: usize) -> Self {
        Self::command(now, &[], steps)
    }

    /// A transition that applies an effect; nothing expires in it.
    pub(super) fn passive() -> Self {
        Self { passive: true, ..Self::command(Now { ms: UnixMs(0), us: 0 }, &[], usize::MAX) }
    }

    /// Whether the lock at `at` may be granted here. A key that the command does not name may have moved to another node by itself, while
    /// its slot moves key by key.
    pub(super) fn may_grant<W: Keyspace>(&self, at: KeyRef<'_>, keyspace: &mut W) -> bool {
        self.named.binary_search(&at).is_ok() || keyspace.owns_slot(at)
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
