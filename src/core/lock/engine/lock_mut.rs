//! A lock while it is changed, and the outcome.

use crate::core::deadline_index::DeadlineId;
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::lock::keyspace::Keyspace;
use crate::core::lock::recipient::Recipient;
use crate::core::lock::replaced::Before;
use crate::core::lock::terms::{EndReason, Mode, WaitResult, WaiterId};
use crate::core::lock::value::{Hold, Lock};

/// What to report to the keyspace when the lock is no longer borrowed from it.
#[derive(Debug)]
pub(super) enum Outcome {
    Held(Mode, Hold),
    Ended(Ident, EndReason),
    Answered(WaiterId, Recipient, WaitResult),
}

/// A lock, borrowed from the keyspace for a change. A vacant one stands for an empty key.
pub(super) struct LockMut<'a> {
    pub(super) at: KeyRef<'a>,
    pub(super) lock: &'a mut Lock,
    pub(super) outcomes: &'a mut Vec<Outcome>,
}

/// The outcome of a visit to a lock.
pub(super) struct Visited<R> {
    pub(super) result: R,
    /// The key now has a lock that nobody holds. The same transition must grant it to a waiter or delete it.
    pub(super) emptied: Option<DeadlineId>,
}

/// A hold that was set, and the token's earlier hold of the same lock.
#[must_use]
pub(super) struct Changed {
    pub(super) entry: DeadlineId,
    pub(super) before: Option<Before>,
}

impl Outcome {
    pub(super) fn tell<W: Keyspace>(self, at: KeyRef<'_>, keyspace: &mut W) {
        match self {
            Self::Held(mode, hold) => keyspace.held(at, mode, hold),
            Self::Ended(token, why) => keyspace.ended(at, token, why),
            Self::Answered(waiter, recipient, answer) => recipient.tell(waiter, answer, keyspace),
        }
    }
}
