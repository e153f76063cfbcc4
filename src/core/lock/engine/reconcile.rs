//! After a module panic: a client may have left, or a lock may have moved, without a notice to the engine.

use std::collections::BTreeSet;

use super::Engine;
use crate::core::key::KeyRef;
use crate::core::lock::stats::HandoverCause;
use crate::core::lock::terms::{ClientId, WaiterId};
use crate::core::lock::value::Lock;
use crate::core::lock::waiter::QueueId;
use crate::core::time::UnixMs;

impl Engine {
    /// Compares all state that depends on connections with the server: which clients are `connected`, and which waiters `waits` reports as
    /// blocked. The next tick does the resulting work. O(n) in connections, waiters, queues and locks.
    ///
    /// If it is unknown whether a reply with a grant was written, the grant stands as long as its connection. A lock that is held for
    /// nothing until its lease expires is better than a lock that is taken from its holder.
    pub fn reconcile(&mut self, now: UnixMs, connected: impl Fn(ClientId) -> bool, waits: impl Fn(WaiterId) -> bool) {
        let clients: BTreeSet<ClientId> = self.notes.clients().chain(self.waiting.clients()).collect();
        for client in clients.into_iter().filter(|client| !connected(*client)) {
            self.client_gone(now, client);
        }
        for waiter in self.notes.unacked().filter(|waiter| !waits(*waiter)).collect::<Vec<_>>() {
            self.delivered(waiter);
        }
        for waiter in self.waiting.parked().filter(|waiter| !waits(*waiter)).collect::<Vec<_>>() {
            self.left(now, waiter);
        }
        // A lock may have gone, or may be left vacant in its key.
        for entry in self.notes.revoked().chain(self.deadlines.ids()).collect::<BTreeSet<_>>() {
            self.end_later(entry);
        }
        for queue in self.waiting.in_db(None).collect::<Vec<QueueId>>() {
            // Work that was scheduled for the queue may have been lost.
            self.waiting.take_dirty(queue);
            self.waiting.delist(queue);
            self.schedule_queue(queue, HandoverCause::Other);
        }
    }

    /// Whether `waiter`, whose client is blocked and has no answer, is in a queue. If the panic came between grant and answer, it is not;
    /// then the caller must tell the client, and the grant is taken back.
    pub fn is_queued(&mut self, now: UnixMs, waiter: WaiterId) -> bool {
        let stands = self.waiting.waiter(waiter).is_some();
        if !stands {
            self.left(now, waiter);
        }
        stands
    }

    /// Registers a lock again whose entry in the deadline index may belong to another key.
    pub fn reregister(&mut self, at: KeyRef<'_>, lock: &mut Lock) {
        if let Some(entry) = lock.deadline_id()
            && self.deadlines.key(entry).is_some_and(|known| known != at)
        {
            self.deadlines.remove(entry);
            self.notes.unlink(entry);
        }
        self.register(at, lock);
        if let Some(entry) = lock.deadline_id().filter(|_| lock.is_empty()) {
            self.end_later(entry);
        }
    }
}
