//! A request in line.

use std::slice;
use std::sync::Arc;

use smallvec::SmallVec;

use super::keyspace::Keyspace;
use super::terms::{ClientId, Notice, Request, Wait, WaitResult, WaiterId};
use super::tickets::Ticket;
use crate::core::slab::Id;
use crate::core::time::{Millis, UnixMs};

/// The queue of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct QueueId(pub(super) Id);

/// Where a request waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// For one key.
    One(QueueId),
    /// For all of these keys together, two or more, ordered and without duplicates.
    Many(Arc<[QueueId]>),
}

/// Queues, usually one, that have a new head.
pub(super) type Headed = SmallVec<[QueueId; 1]>;

/// A waiting request and its position.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) request: Request,
    pub(super) since: UnixMs,
    pub(super) scope: Scope,
    pub(super) ticket: Ticket,
    /// For a request for many keys: one key that it cannot have now. It is not checked again before that key is available.
    pub(super) obstacle: Option<QueueId>,
}

/// A waiter that left, and the queues that have a new head because of that.
#[derive(Debug)]
pub(super) struct Departed {
    pub(super) waiter: Waiter,
    pub(super) headed: Headed,
}

/// A request that waits no more, but still stands in its queues.
#[derive(Debug)]
pub(super) struct Retired {
    /// The hash of its token.
    pub(super) of_token: u64,
    pub(super) ticket: Ticket,
    pub(super) scope: Scope,
    /// How many of its queues it has been taken out of.
    pub(super) unlinked: usize,
}

/// A waiter that was queued.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) id: WaiterId,
    /// The length of its longest queue.
    pub(super) longest: usize,
    /// The earlier request.
    pub(super) replaced: Option<Waiter>,
    /// The queues where that was the head and this one is not.
    pub(super) headed: Headed,
}

impl Scope {
    /// Whichever command asks: a request for one key is of one kind.
    pub(super) fn of(mut queues: SmallVec<[QueueId; 1]>) -> Self {
        queues.sort_unstable();
        if let [queue] = queues.as_slice() { Self::One(*queue) } else { Self::Many(queues.as_slice().into()) }
    }

    pub(super) fn queues(&self) -> &[QueueId] {
        match self {
            Self::One(queue) => slice::from_ref(queue),
            Self::Many(queues) => queues,
        }
    }
}

impl Wait {
    pub(super) fn is_notified(&self) -> bool {
        matches!(self, Self::Notified(..))
    }

    /// Where the outcome is published.
    pub(super) fn into_notice(self) -> Option<Notice> {
        if let Self::Notified(_, notice) = self { Some(*notice) } else { None }
    }

    /// Tells the outcome of the request `waiter`, which has left the line.
    pub(super) fn tell<W: Keyspace>(self, waiter: WaiterId, answer: WaitResult, keyspace: &mut W) {
        match self {
            Self::No | Self::Parked(_) => keyspace.answer(waiter, answer),
            Self::Notified(_, notice) => keyspace.publish(notice, answer),
        }
    }
}

impl Request {
    /// Whether it is `earlier` once more: from the same connection and with the same channel. Then the outcome of the earlier one is not told.
    pub(super) fn repeats(&self, earlier: &Self) -> bool {
        let (Wait::Notified(_, new), Wait::Notified(_, old)) = (&self.wait, &earlier.wait) else { return false };
        (self.client, &new.channel) == (earlier.client, &old.channel)
    }
}

impl Waiter {
    /// The client that is blocked. A reply may get lost with its connection; a published grant counts as delivered.
    pub(super) fn parked(&self) -> Option<ClientId> {
        self.request.client.filter(|_| !self.request.wait.is_notified())
    }

    /// How long it has been waiting at `now`.
    pub(super) fn waited(&self, now: UnixMs) -> Millis {
        now.left(self.since)
    }

    /// When its time is over; `None` without limit.
    fn end(&self) -> Option<UnixMs> {
        let (Wait::Parked(limit) | Wait::Notified(limit, _)) = self.request.wait else { return None };
        (limit.0 > 0).then(|| self.since.plus(limit).unwrap_or(UnixMs::MAX))
    }

    /// The rest of its waiting time at `now`; `None` without limit.
    pub(super) fn patience(&self, now: UnixMs) -> Option<Millis> {
        self.end().map(|end| end.left(now))
    }

    /// Whether its time is over at `now`, and the server does not end its wait by itself.
    pub(super) fn is_timed_out(&self, now: UnixMs) -> bool {
        self.request.wait.is_notified() && self.end().is_some_and(|end| end.reached(now))
    }

    /// Its entry in the order of ends.
    pub(super) fn ending(&self, id: WaiterId) -> Option<(UnixMs, WaiterId)> {
        Some((self.end().filter(|_| self.request.wait.is_notified())?, id))
    }
}
