//! Blocked clients that leave, and connections that end.

use super::Engine;
use crate::core::lock::stats::{HandoverCause, count};
use crate::core::lock::terms::{ClientId, WaiterId};
use crate::core::time::UnixMs;

impl Engine {
    /// A blocked client timed out: counts it if it was still waiting, and removes it from its queues.
    pub fn timed_out(&mut self, now: UnixMs, waiter: WaiterId) {
        if self.waiting.waiter(waiter).is_some() {
            count(&mut self.stats.timeouts);
        }
        self.left(now, waiter);
    }

    /// A blocked client waits no more: it disconnected, or the server unblocked it with an error. If the request has been granted the lock
    /// and the reply has not been [`delivered`](Self::delivered), the next tick takes the grant back.
    pub fn left(&mut self, now: UnixMs, waiter: WaiterId) {
        if let Some(departed) = self.waiting.leave(now, waiter) {
            for queue in departed.headed {
                self.schedule_queue(queue, HandoverCause::Other);
            }
        } else {
            self.lost(waiter);
        }
    }

    /// Whether the engine has anything that ends with this connection.
    pub fn knows(&self, client: ClientId) -> bool {
        self.notes.knows(client) || self.waiting.of(client).next().is_some()
    }

    /// The waiters of this client whose grants have not been [`delivered`](Self::delivered).
    pub fn unacked_of(&self, client: ClientId) -> Vec<WaiterId> {
        self.notes.unacked_of(client).collect()
    }

    /// A connection has ended. Its waiters leave at once, and their places are kept for their tokens. Its session holds, and its grants whose
    /// reply was not handed over, are revoked; they are removed at the next tick or when a command visits them, because this may be called where
    /// nothing may be written. O(log n) for each of its waiters.
    pub fn client_gone(&mut self, now: UnixMs, client: ClientId) {
        for waiter in self.waiting.of(client).chain(self.notes.unacked_of(client)).collect::<Vec<_>>() {
            self.vacate(now, waiter);
        }
        self.notes.end(client);
    }
}
