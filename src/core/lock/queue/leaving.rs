//! Leaving the queues: at once, or step by step.

use std::hash::BuildHasher;

use super::{Queue, Waiting, with_queues};
use crate::core::lock::terms::{Wait, WaiterId};
use crate::core::lock::tickets::Ticket;
use crate::core::lock::waiter::{Departed, Headed, QueueId, Retired, Waiter};
use crate::core::time::{Millis, UnixMs};

impl Waiting {
    /// Removes a request from all its queues; a queue that becomes empty is closed.
    pub(in crate::core::lock) fn leave(&mut self, now: UnixMs, id: WaiterId) -> Option<Departed> {
        let (waiter, mut headed) = self.strike(now, id)?;
        for &queue in waiter.scope.queues() {
            self.close_if_empty(queue);
        }
        headed.retain(|queue| self.queue(*queue).is_some());
        Some(Departed { waiter, headed })
    }

    /// Ends a request, but leaves the work on its queues to [`unlink_retired`](Self::unlink_retired). Until then it stands there and does not
    /// count.
    pub(in crate::core::lock) fn retire(&mut self, now: UnixMs, id: WaiterId) -> Option<Wait> {
        let (of_token, waiter) = self.forget(now, id)?;
        self.retired.insert(id, Retired { of_token, ticket: waiter.ticket, scope: waiter.scope, unlinked: 0 });
        Some(waiter.request.wait)
    }

    /// Whether a request has retired and is not unlinked yet.
    pub(in crate::core::lock) fn has_retired(&self) -> bool {
        !self.retired.is_empty()
    }

    /// Takes the first retired request out of at most `most` of its queues; returns those that have a new head. `None` if nothing has retired.
    pub(in crate::core::lock) fn unlink_retired(&mut self, most: usize) -> Option<Headed> {
        let (id, mut retired) = self.retired.pop_first()?;
        let queues = retired.scope.clone();
        let mut headed = Headed::new();
        for &queue in queues.queues().iter().skip(retired.unlinked).take(most) {
            // Until the first in line is a request that waits, another one that has retired is still to be taken out in front of it.
            let was_first = self.unlink(id, retired.of_token, retired.ticket, queue);
            if was_first && self.queue(queue).and_then(|queue| queue.line().next()).is_some_and(|id| self.waits(id)) {
                headed.push(queue);
            }
            self.close_if_empty(queue);
        }
        retired.unlinked = retired.unlinked.saturating_add(most);
        if retired.unlinked < queues.queues().len() {
            self.retired.insert(id, retired);
        }
        headed.retain(|queue| self.queue(*queue).is_some());
        Some(headed)
    }

    /// Removes a request from everything, but leaves its queues open. Also returns the queues where it was the head.
    pub(super) fn strike(&mut self, now: UnixMs, id: WaiterId) -> Option<(Waiter, Headed)> {
        let (of_token, waiter) = self.forget(now, id)?;
        let mut headed = Headed::new();
        for &queue in waiter.scope.queues() {
            let was_first = self.unlink(id, of_token, waiter.ticket, queue);
            let is_behind = |head| self.waiter(head).is_some_and(|head| head.ticket > waiter.ticket);
            if was_first || (self.has_retired() && self.head(queue).is_some_and(is_behind)) {
                headed.push(queue);
            }
        }
        Some((waiter, headed))
    }

    /// Takes a request that is forgotten out of one of its queues; whether it was the first there.
    fn unlink(&mut self, id: WaiterId, of_token: u64, ticket: Ticket, queue: QueueId) -> bool {
        let Some(Queue { tickets, many, .. }) = self.queues.get_mut(queue.0) else { return false };
        if many.remove(&ticket).is_some() {
            self.by_place.0.remove(&(with_queues(of_token, &[queue]), id));
        }
        tickets.remove(ticket)
    }

    /// Removes a request from everything but its queues. Returns it with the hash of its token.
    fn forget(&mut self, now: UnixMs, id: WaiterId) -> Option<(u64, Waiter)> {
        let (of_token, waiter) = self.waiters.remove(id.0)?;
        self.waited = Millis(self.waited.0.saturating_add(waiter.waited(now).0));
        self.by_request.0.remove(&(with_queues(of_token, waiter.scope.queues()), id));
        if let Some(obstacle) = waiter.obstacle {
            self.by_obstacle.0.remove(&(with_queues(of_token, &[obstacle]), id));
        }
        self.by_token.0.remove(&(of_token, id));
        if let Some(client) = waiter.request.client {
            self.by_client.remove(&(client, id));
        }
        if let Some(ending) = waiter.ending(id) {
            self.by_end.remove(&ending);
        }
        self.notified = self.notified.saturating_sub(usize::from(waiter.request.wait.is_notified()));
        Some((of_token, waiter))
    }

    fn close_if_empty(&mut self, queue: QueueId) {
        if self.queue(queue).is_some_and(|queue| queue.len() == 0)
            && let Some(closed) = self.queues.remove(queue.0)
        {
            self.by_key.remove(&(self.hasher.hash_one(closed.key.as_key()), queue));
        }
    }
}
