//! Who keeps a place in line, and how it hears of the outcome.

use super::keyspace::Keyspace;
use super::terms::{Answer, ClientId, WaiterId};

/// Who keeps a place in line, and how it hears of the outcome.
#[derive(Debug)]
pub(super) enum Presence {
    /// A client that is blocked meanwhile; the outcome is its reply.
    Parked(ClientId),
}

#[expect(clippy::unnecessary_wraps, reason = "not everybody who waits will be a blocked client")]
impl Presence {
    /// The connection that the request ends with.
    pub(super) fn client(&self) -> Option<ClientId> {
        match self {
            Self::Parked(client) => Some(*client),
        }
    }

    /// The client that is blocked. Its reply may get lost with its connection.
    pub(super) fn parked(&self) -> Option<ClientId> {
        match self {
            Self::Parked(client) => Some(*client),
        }
    }

    /// Tells the outcome of the request `waiter`, which has left the line.
    pub(super) fn tell<W: Keyspace>(self, waiter: WaiterId, answer: Answer, keyspace: &mut W) {
        match self {
            Self::Parked(_) => keyspace.answer(waiter, answer),
        }
    }
}
