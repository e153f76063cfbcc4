//! What the timer has to do for locks, besides ending leases.

use std::collections::VecDeque;

use crate::core::deadline_index::DeadlineId;
use crate::core::lock::queue::QueueId;
use crate::core::retry::Retries;
use crate::core::time::{Millis, Now, UnixMs};

/// When to look again at a place that this node does not serve. The server redirects its waiters within a second; this
/// is for the case that the place comes back.
pub(super) const RETRY: Millis = Millis(100);

/// When [`Engine::tick`] wants to be called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// As soon as possible.
    Now,
    /// At this instant.
    At(UnixMs),
    /// Not before something else was called.
    Never,
}

/// Something for `tick` to do.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// Locks with holds that are over because of a connection.
    pub(super) endings: VecDeque<DeadlineId>,
    /// Queues in whose head there may be somebody who fits.
    pub(super) queues: VecDeque<QueueId>,
    /// What could not be done because this node does not serve the key, and when to try again.
    pub(super) put_off: VecDeque<(UnixMs, Retry)>,
    pub(super) retries: Retries,
    /// Until when nothing is tried, because this node serves no key at all.
    pub(super) closed: Option<UnixMs>,
    /// Whose turn it is.
    pub(super) next: Kind,
}

/// The kinds of work. They take turns, one unit of each, so that none waits for the end of another.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Kind {
    /// Holds of connections that have ended are found.
    #[default]
    Session,
    /// Holds that are over because of a connection end.
    Ending,
    /// Queues are looked at.
    Queue,
    /// Leases end.
    Lease,
}

impl Kind {
    pub(super) const COUNT: usize = 4;

    pub(super) fn next(self) -> Self {
        match self {
            Self::Session => Self::Ending,
            Self::Ending => Self::Queue,
            Self::Queue => Self::Lease,
            Self::Lease => Self::Session,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Retry {
    Ending(DeadlineId),
    Queue(QueueId),
}

impl Backlog {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.endings.is_empty() && self.queues.is_empty() && self.put_off.is_empty()
    }

    pub(super) fn put_off(&mut self, now: Now, what: Retry) {
        self.put_off.push_back((self.retries.next(now.ms, RETRY), what));
    }

    /// Takes up again what was put off until now, and what could not have been put off for so long: the clock has been set back since.
    pub(super) fn take_up(&mut self, now: Now) {
        let longest = now.ms.plus(Retries::longest(RETRY)).unwrap_or(UnixMs::MAX);
        let is_due = |due: UnixMs| due.reached(now.ms) || due > longest;
        self.closed.take_if(|until| is_due(*until));
        while let Some((due, what)) = self.put_off.front().copied()
            && is_due(due)
        {
            self.put_off.pop_front();
            match what {
                Retry::Ending(entry) => self.endings.push_back(entry),
                Retry::Queue(queue) => self.queues.push_back(queue),
            }
        }
    }
}
