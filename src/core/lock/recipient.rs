//! Who keeps a place in line, and how it hears of the outcome.

use super::keyspace::Keyspace;
use super::terms::{ClientId, Notice, Wait, WaitResult, WaiterId};

/// Who keeps a place in line, and how it hears of the outcome.
#[derive(Debug)]
pub(super) enum Recipient {
    /// A client that is blocked meanwhile; the outcome is its reply.
    Parked(ClientId),
    /// A client that goes on meanwhile; the outcome is published.
    Notified(Box<Notice>),
}

impl Recipient {
    /// The connection that the request ends with.
    pub(super) fn client(&self) -> Option<ClientId> {
        match self {
            Self::Parked(client) => Some(*client),
            Self::Notified(notice) => notice.client,
        }
    }

    /// The client that is blocked. Its reply may get lost with its connection; what is published counts as delivered.
    pub(super) fn parked(&self) -> Option<ClientId> {
        match self {
            Self::Parked(client) => Some(*client),
            Self::Notified(_) => None,
        }
    }

    /// Where the outcome is published.
    pub(super) fn into_notice(self) -> Option<Notice> {
        match self {
            Self::Parked(_) => None,
            Self::Notified(notice) => Some(*notice),
        }
    }

    pub(super) fn is_notified(&self) -> bool {
        matches!(self, Self::Notified(_))
    }

    /// Tells the outcome of the request `waiter`, which has left the line.
    pub(super) fn tell<W: Keyspace>(self, waiter: WaiterId, answer: WaitResult, keyspace: &mut W) {
        match self {
            Self::Parked(_) => keyspace.answer(waiter, answer),
            Self::Notified(notice) => keyspace.publish(notice, answer),
        }
    }

    /// Tells that a later request of the same token, which waits as `by` says, has replaced the request `waiter`. Nobody is told if it is the
    /// same request once more.
    pub(super) fn tell_replaced<W: Keyspace>(self, waiter: WaiterId, by: Wait<'_>, keyspace: &mut W) {
        if !self.is_repeated(by) {
            self.tell(waiter, WaitResult::Replaced, keyspace);
        }
    }

    /// Whether a later request of the same token is the same once more: from the same connection and with the same channel.
    pub(super) fn is_repeated(&self, by: Wait<'_>) -> bool {
        let (Self::Notified(earlier), Wait::Notified(later)) = (self, by) else { return false };
        (earlier.client, &earlier.channel) == (later.client, &later.channel)
    }
}
