//! The counters of the engine.

/// Counts since the server started. A replica decides nothing and counts nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Grants that have a fence of their own. A renewal does not count; a request for many keys counts once.
    pub grants: u64,
    /// Requests that had to wait.
    pub waits: u64,
    /// Requests that were refused because they would have closed a circle of waiting tokens.
    pub deadlocks: u64,
    /// Waiters that timed out.
    pub timeouts: u64,
    /// Waiters that were granted because a hold was released.
    pub handover_release: u64,
    /// Waiters that were granted because a lease expired.
    pub handover_expiry: u64,
    /// Waiters that were granted because a connection ended.
    pub handover_disconnect: u64,
    /// Holds whose lease expired.
    pub expirations: u64,
    /// Commands that ran because a token held a lock.
    pub guards: u64,
    /// Commands that did not run because a token did not hold a lock.
    pub guards_refused: u64,
    /// The longest queue so far.
    pub longest_queue: u64,
}

/// Why a lock became available for a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandoverCause {
    Release,
    Expiry,
    Disconnect,
    /// Anything else, such as a deleted key or a waiter at the head that gave up.
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
