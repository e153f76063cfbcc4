//! A lock while it is changed, and what came of that.

use crate::core::deadline_index::DeadlineId;
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::lock::keyspace::Keyspace;
use crate::core::lock::replaced::Before;
use crate::core::lock::terms::{Answer, ClientId, EndReason, Mode, WaiterId};
use crate::core::lock::value::{Hold, Lock};

/// What the keyspace must be told once the lock is no longer borrowed from it.
#[derive(Debug)]
pub(super) enum Outcome {
    Held(Mode, Hold),
    Ended(Ident, EndReason),
    Answered(WaiterId, Answer),
    LookFirst(WaiterId, ClientId),
}

/// A lock, borrowed from the keyspace for as long as it is changed. A vacant one stands for a key that holds nothing.
pub(super) struct LockMut<'a> {
    pub(super) at: KeyRef<'a>,
    pub(super) lock: &'a mut Lock,
    pub(super) outcomes: &'a mut Vec<Outcome>,
}

/// What came of a visit to a lock.
pub(super) struct Visit<R> {
    pub(super) result: R,
    /// The key now keeps a lock that nobody holds. It must be granted to somebody or discarded in the same transition.
    pub(super) vacant: Option<DeadlineId>,
}

/// A hold that was set, and what its token held there before.
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
            Self::Answered(waiter, answer) => keyspace.answer(waiter, answer),
            Self::LookFirst(waiter, client) => keyspace.look_first(waiter, client),
        }
    }
}
