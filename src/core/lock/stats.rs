//! What the engine counts.

/// Counts since the server started. Replicas, which decide nothing, count nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Grants, each with a fence of its own. A renewal is none; a request for many keys is one.
    pub grants: u64,
    /// Requests that were parked.
    pub waits: u64,
    /// Waiters whose time was over.
    pub timeouts: u64,
    /// Waiters that were granted because a hold was released.
    pub handover_release: u64,
    /// Waiters that were granted because a lease was over.
    pub handover_expiry: u64,
    /// Waiters that were granted because a connection ended.
    pub handover_disconnect: u64,
    /// Holds whose lease was over.
    pub expirations: u64,
    /// The longest that a queue has been.
    pub longest_queue: u64,
}

/// What made room for a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandoverCause {
    Release,
    Expiry,
    Disconnect,
    /// Anything else: a key was deleted, a waiter in front gave up.
    Other,
}

impl Stats {
    pub(super) fn handed_over(&mut self, cause: HandoverCause) {
        match cause {
            HandoverCause::Release => count(&mut self.handover_release),
            HandoverCause::Expiry => count(&mut self.handover_expiry),
            HandoverCause::Disconnect => count(&mut self.handover_disconnect),
            HandoverCause::Other => {}
        }
    }
}

pub(super) fn count(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}
