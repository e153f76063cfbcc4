//! The timer's work on locks, besides expiring leases.

use std::collections::VecDeque;

use crate::core::deadline_index::{DeadlineId, DeadlineIndex};
use crate::core::lock::waiter::QueueId;
use crate::core::pause::Pause;
use crate::core::retry::Retries;
use crate::core::time::{Millis, Now};

/// When to try a key again that this node does not serve. The server redirects the key's waiters within a second; the retry is for the case
/// that the slot comes back.
pub(super) const RETRY: Millis = Millis(100);

/// The work that is left for `tick`.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// Locks with revoked holds.
    pub(super) endings: VecDeque<DeadlineId>,
    /// Queues whose head may fit now.
    pub(super) queues: VecDeque<QueueId>,
    /// Work that failed because this node does not serve the key.
    pub(super) put_off: Retries<Retry>,
    /// Nothing is tried before its end, because this node serves no key at all.
    pub(super) closed: Pause,
    /// The kind of work that is next: a place in [`Kind::ALL`].
    pub(super) next: usize,
}

/// The kinds of work. They alternate, one unit each, so that no kind waits for another to finish.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Find holds of connections that have ended.
    Session,
    /// End revoked holds.
    Ending,
    /// Serve queues.
    Queue,
    /// Expire leases.
    Lease,
    /// End the waits of notified requests.
    Wait,
    /// End kept places whose time is over.
    Place,
    /// Take retired requests out of their queues.
    Retired,
}

impl Kind {
    pub(super) const ALL: [Self; 7] =
        [Self::Session, Self::Ending, Self::Queue, Self::Lease, Self::Wait, Self::Place, Self::Retired];
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Retry {
    Ending(DeadlineId),
    Queue(QueueId),
    Lease(DeadlineId),
}

impl Backlog {
    /// Whether this node serves no key.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.end().is_some()
    }

    pub(super) fn put_off(&mut self, now: Now, what: Retry) {
        self.put_off.put_off(now.ms, RETRY, what);
    }

    /// Resumes retries that are due.
    pub(super) fn take_up(&mut self, now: Now, deadlines: &mut DeadlineIndex) {
        self.closed.look(now.ms);
        deadlines.look(now.ms);
        while let Some(work) = self.put_off.take_due(now.ms) {
            match work {
                Retry::Ending(entry) => self.endings.push_back(entry),
                Retry::Queue(queue) => self.queues.push_back(queue),
                Retry::Lease(entry) => deadlines.reschedule(entry, now.ms),
            }
        }
    }
}

#[cfg(test)]
impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.endings.is_empty() && self.queues.is_empty() && self.put_off.is_empty()
    }
}
