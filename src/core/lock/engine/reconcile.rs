//! After a fault: somebody may have left, and a lock may have moved, without the engine having been told.

use std::collections::BTreeSet;

use super::Engine;
use crate::core::key::KeyRef;
use crate::core::lock::queue::QueueId;
use crate::core::lock::stats::HandoverCause;
use crate::core::lock::terms::{ClientId, WaiterId};
use crate::core::lock::value::Lock;

impl Engine {
    /// Compares everything that hangs on connections with what is so: who is `connected`, and whose client `waits` parked. What is
    /// found out is done at the next tick. O(n) in connections, waiters, queues and locks.
    ///
    /// A grant whose reply may have been written or not stands, while its connection does: better a lock that is held
    /// for nothing until its lease ends than one that is taken from its holder.
    pub fn reconcile(&mut self, connected: impl Fn(ClientId) -> bool, waits: impl Fn(WaiterId) -> bool) {
        let clients: BTreeSet<ClientId> =
            self.sessions.clients().chain(self.waiting.clients()).chain(self.unacked.clients()).collect();
        for client in clients.into_iter().filter(|client| !connected(*client)) {
            self.client_gone(client);
        }
        for waiter in self.unacked.waiters().filter(|waiter| !waits(*waiter)).collect::<Vec<_>>() {
            self.delivered(waiter);
        }
        for waiter in self.waiting.ids().filter(|waiter| !waits(*waiter)).collect::<Vec<_>>() {
            self.left(waiter);
        }
        // A lock may have gone, or have been left free in its key.
        for entry in self.revoked.entries().chain(self.deadlines.ids()).collect::<Vec<_>>() {
            self.end_later(entry);
        }
        for queue in self.waiting.in_db(None).collect::<Vec<QueueId>>() {
            // Whatever was on its way to it may have been lost.
            self.waiting.unmark(queue);
            self.waiting.delist(queue);
            self.schedule_queue(queue, HandoverCause::Other);
        }
    }

    /// Whether `waiter`, whose client is parked without an answer, stands in line. If not, because the fault came between that and its
    /// answer, it has to be told so, and what it was granted is taken back.
    pub fn is_queued(&mut self, waiter: WaiterId) -> bool {
        let stands = self.waiting.waiter(waiter).is_some();
        if !stands {
            self.left(waiter);
        }
        stands
    }

    /// Meets a lock again whose entry in the deadline index may be that of another place.
    pub fn register_again(&mut self, at: KeyRef<'_>, lock: &mut Lock) {
        if let Some(entry) = lock.deadline_id()
            && self.deadlines.key(entry).is_some_and(|known| known != at)
        {
            self.deadlines.remove(entry);
            self.sessions.forget(entry);
        }
        self.register(at, lock);
        if let Some(entry) = lock.deadline_id().filter(|_| lock.is_empty()) {
            self.end_later(entry);
        }
    }
}
