//! The line: where a request stands, how it joins, and which places are kept for a while after a connection has ended.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Engine;
use super::deadlock::Circle;
use super::transition::Transition;
use crate::core::key::{KeyBuf, KeyRef};
use crate::core::lock::keyspace::Keyspace;
use crate::core::lock::stats::count;
use crate::core::lock::terms::{Acquired, Request, Wait, WaitResult, WaiterId};
use crate::core::lock::tickets::Ticket;
use crate::core::lock::vacant_places::{Asked, Place};
use crate::core::lock::waiter::{Joined, QueueId, Scope, Waiter};
use crate::core::time::UnixMs;

/// Where a request will stand.
#[derive(Clone, Copy, Debug)]
struct Position {
    ticket: Ticket,
    /// The waiting request of the same token for the same keys, which it replaces.
    earlier: Option<WaiterId>,
}

impl Request {
    /// This request, for `keys`.
    pub(super) fn for_keys<'a>(&'a self, keys: &'a [KeyRef<'a>]) -> Asked<'a> {
        Asked { token: &self.token, keys, mode: self.mode.mode() }
    }
}

impl Engine {
    /// The waiting request of the same token for the same keys.
    pub(super) fn same_request(&self, asked: Asked<'_>) -> Option<WaiterId> {
        let queues = asked.keys.iter().map(|at| self.waiting.at(*at)).collect::<Option<_>>()?;
        self.waiting.waiting_request(asked.token, &Scope::of(queues))
    }

    /// The ticket of the `earlier` waiting request of the same token for the same keys, or that of a place that is kept for it.
    fn known_ticket(&self, now: UnixMs, asked: Asked<'_>, earlier: Option<WaiterId>) -> Option<Ticket> {
        let earlier = earlier.and_then(|earlier| self.waiting.waiter(earlier));
        earlier.map_or_else(|| self.vacant_places.ticket(now, asked), |earlier| Some(earlier.ticket))
    }

    /// The ticket that the request has before it joins the line: a repeated request keeps its position in front of later ones. One that does not
    /// wait is behind all others.
    pub(super) fn ticket_of(&self, now: UnixMs, asked: Asked<'_>, wait: &Wait) -> Ticket {
        let known = if *wait == Wait::No { None } else { self.known_ticket(now, asked, self.same_request(asked)) };
        known.unwrap_or(Ticket::LAST)
    }

    /// Whether no waiter is in front of this position in `queue`.
    pub(super) fn is_first(&self, queue: QueueId, ticket: Ticket) -> bool {
        self.waiting.queue(queue).is_none_or(|queue| !queue.before(ticket, false).any(|id| self.waiting.waits(id)))
    }

    /// The place of a waiter, if places are kept at all.
    pub(super) fn place_of(&self, id: WaiterId) -> Option<Place> {
        let waiter = self.waiting.waiter(id).filter(|_| self.settings.place_grace.0 > 0)?;
        let queues = waiter.scope.queues().iter().filter_map(|queue| self.waiting.queue(*queue));
        let mut keys: SmallVec<[Arc<KeyBuf>; 1]> = queues.map(|queue| queue.key.clone()).collect();
        keys.sort_unstable_by(|one, other| one.as_key().cmp(&other.as_key()));
        let (token, mode) = (waiter.request.token.clone(), waiter.request.mode.mode());
        Some(Place { token, keys, mode, ticket: waiter.ticket })
    }

    /// A waiter leaves with its connection. Its place is kept for its token, as long as the setting says; also if the waiter was granted
    /// a lock and its reply was not handed over.
    pub(super) fn vacate(&mut self, now: UnixMs, id: WaiterId) {
        let place = self.place_of(id).or_else(|| self.notes.take_place(id));
        self.left(now, id);
        if let Some(place) = place {
            self.vacant_places.keep(place, now.plus(self.settings.place_grace).unwrap_or(UnixMs::MAX));
        }
    }
}

impl<W: Keyspace> Transition<'_, W> {
    /// Lets a request for `locks` wait that could not be granted, if it says that it waits. `obstacle` is the key that a request for many keys cannot have now. A
    /// request that is `in_front` goes to the head of the line, because its token already holds the lock.
    pub(super) fn wait(
        &mut self,
        locks: &[KeyRef<'_>],
        obstacle: Option<KeyRef<'_>>,
        request: &Request,
        in_front: bool,
    ) -> Acquired {
        if request.wait == Wait::No {
            return Acquired::Refused;
        }
        match self.position(request.for_keys(locks), request, in_front) {
            Ok(position) => self.join(locks, obstacle, request, position),
            Err(circle) => {
                count(&mut self.engine.stats.deadlocks);
                Acquired::Deadlock(circle)
            }
        }
    }

    /// The position that a request has if it waits: that of an earlier one of its token, unless that would close a circle, or the last;
    /// [`Ticket::FIRST`] if it is `in_front`.
    ///
    /// # Errors
    /// The keys of the circle that it would close wherever it waited: first the one that it would wait for, last the one that its token
    /// holds.
    fn position(&mut self, asked: Asked<'_>, request: &Request, in_front: bool) -> Result<Position, Vec<KeyBuf>> {
        let earlier = self.engine.same_request(asked);
        let ticket = match self.engine.known_ticket(self.course.now.ms, asked, earlier) {
            _ if in_front => Ticket::FIRST,
            known => known.unwrap_or(Ticket::LAST),
        };
        if !self.engine.settings.detects_deadlocks || !self.may_close_a_circle(asked.keys) {
            return Ok(Position { ticket, earlier });
        }
        match self.circle(asked, request.mode, earlier, ticket) {
            None => Ok(Position { ticket, earlier }),
            Some(Circle::Held(keys)) => Err(keys),
            // Another request has passed the place while it was vacant, and would wait behind it now.
            Some(Circle::Behind) => match self.circle(asked, request.mode, earlier, Ticket::LAST) {
                Some(Circle::Held(keys)) => Err(keys),
                Some(Circle::Behind) | None => Ok(Position { ticket: Ticket::LAST, earlier }),
            },
        }
    }

    /// Queues a request at this position, after its client was blocked if it is to be. An earlier request of the same token for the same keys is
    /// replaced. If the client cannot be blocked, nothing changes, not even for the earlier request.
    fn join(
        &mut self,
        locks: &[KeyRef<'_>],
        obstacle: Option<KeyRef<'_>>,
        request: &Request,
        Position { ticket, earlier }: Position,
    ) -> Acquired {
        let waiting = &mut self.engine.waiting;
        if waiting.len() >= self.engine.settings.most_waiting && earlier.is_none() {
            return Acquired::Full;
        }
        if let Wait::Parked(limit) = request.wait
            && !self.keyspace.block_client(limit)
        {
            return Acquired::Refused;
        }
        let scope = Scope::of(locks.iter().map(|at| waiting.open(*at)).collect());
        self.engine.vacant_places.take_up(request.for_keys(locks));
        let before = earlier.and_then(|earlier| waiting.waiter(earlier));
        // If the earlier request had no obstacle because it was at the head itself, its replacement has none either.
        let obstacle = before.and_then(|before| before.obstacle).or_else(|| waiting.at(obstacle?));
        let ticket = match ticket {
            Ticket::FIRST => waiting.front_ticket(),
            Ticket::LAST => waiting.next_ticket(),
            earlier => earlier,
        };
        let since = self.course.now.ms;
        let waiter = Waiter { request: request.clone(), since, scope, ticket, obstacle };
        let Joined { id, longest, replaced, headed } = waiting.join(waiter, earlier);
        let is_notified = request.wait.is_notified();
        if !is_notified {
            self.keyspace.client_blocked(id);
        }
        if let (Some(earlier), Some(replaced)) = (earlier, replaced.filter(|old| !request.repeats(&old.request))) {
            replaced.request.wait.tell(earlier, WaitResult::Replaced, self.keyspace);
        }
        if !headed.is_empty() {
            self.course.work.extend(headed);
            self.commit();
        }
        let stats = &mut self.engine.stats;
        count(&mut stats.waits);
        stats.longest_queue = stats.longest_queue.max(u64::try_from(longest).unwrap_or(u64::MAX));
        if is_notified {
            Acquired::Notified { waiter: id, place: self.engine.waiting.place(id) }
        } else {
            Acquired::Parked(id)
        }
    }
}
