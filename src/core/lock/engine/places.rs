//! Positions in line: which one a request has, and which ones are kept for a while after a connection has ended.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Engine;
use crate::core::key::{KeyBuf, KeyRef};
use crate::core::lock::terms::{Mode, Request, WaiterId};
use crate::core::lock::tickets::Ticket;
use crate::core::lock::vacant_places::{Asked, Place};
use crate::core::lock::waiter::{QueueId, Scope};
use crate::core::time::UnixMs;

/// Where a request will stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub(super) ticket: Ticket,
    /// The waiting request of the same token for the same keys, which it replaces.
    pub(super) earlier: Option<WaiterId>,
}

impl Request {
    /// This request for `keys`, for `many` or for one.
    pub(super) fn for_keys<'a>(&'a self, keys: &'a [KeyRef<'a>], many: bool) -> Asked<'a> {
        let mode = if many { Mode::Exclusive } else { self.mode.mode() };
        Asked { token: &self.token, keys, many, mode }
    }
}

impl Engine {
    /// The waiting request of the same token for the same keys.
    pub(super) fn same_request(&self, asked: Asked<'_>) -> Option<WaiterId> {
        let mut queues: SmallVec<[QueueId; 1]> =
            asked.keys.iter().map(|at| self.waiting.at(*at)).collect::<Option<_>>()?;
        queues.sort_unstable();
        let scope = match queues.first() {
            Some(queue) if !asked.many => Scope::One(*queue),
            _ => Scope::Many(queues.as_slice().into()),
        };
        self.waiting.waiting_request(asked.token, &scope)
    }

    /// The ticket of the `earlier` waiting request of the same token for the same keys, or that of a place that is kept for it.
    pub(super) fn earlier_ticket(&self, now: UnixMs, asked: Asked<'_>, earlier: Option<WaiterId>) -> Option<Ticket> {
        let earlier = earlier.and_then(|earlier| self.waiting.waiter(earlier));
        earlier.map_or_else(|| self.vacant_places.ticket(now, asked), |earlier| Some(earlier.ticket))
    }

    /// Whether nobody is in front of this position in `queue`.
    pub(super) fn is_first(&self, queue: QueueId, ticket: Ticket) -> bool {
        self.waiting.queue(queue).is_none_or(|queue| !queue.before(ticket, false).any(|id| self.waiting.waits(id)))
    }

    /// The place of a waiter, if places are kept at all.
    pub(super) fn place_of(&self, id: WaiterId) -> Option<Place> {
        let waiter = self.waiting.waiter(id).filter(|_| self.place_grace.0 > 0)?;
        let queues = waiter.scope.queues().iter().filter_map(|queue| self.waiting.queue(*queue));
        let mut keys: SmallVec<[Arc<KeyBuf>; 1]> = queues.map(|queue| queue.key.clone()).collect();
        keys.sort_unstable();
        let many = matches!(waiter.scope, Scope::Many(_));
        let (token, mode) = (waiter.request.token.clone(), waiter.wanted().mode());
        Some(Place { token, keys, many, mode, ticket: waiter.ticket })
    }

    /// A waiter leaves with its connection. Its place is kept for its token, as long as the setting says; also if it was granted something of
    /// which it has not heard.
    pub(super) fn vacate(&mut self, now: UnixMs, id: WaiterId) {
        let place = self.place_of(id).or_else(|| self.unacked.take_place(id));
        self.left(now, id);
        if let Some(place) = place {
            self.vacant_places.keep(place, now.plus(self.place_grace).unwrap_or(UnixMs::MAX));
        }
    }
}
