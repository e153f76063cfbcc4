//! The words of the lock engine and its side of the bargain with the server.

use std::num::NonZeroU64;

use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::slab::Id;
use crate::core::time::Millis;

/// A parked request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(pub(super) Id);

impl WaiterId {
    /// The first of all in their order.
    pub(super) const FIRST: Self = Self(Id::FIRST);
    /// The last of all in their order.
    pub(super) const LAST: Self = Self(Id::LAST);
}

/// A connection, by the number the server gave it. Never used again for another one while the server lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(NonZeroU64);

/// How the holds of a lock share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// One hold.
    Exclusive,
    /// Any number of holds.
    Shared,
    /// A counting semaphore: each hold is a permit and names how many there may be.
    Limit,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// The lock alone.
    Exclusive,
    /// The lock together with other readers.
    Shared,
    /// A permit, if fewer than this many (1 to 2^53 - 1) are held.
    Limit(u64),
}

/// A request for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The owner.
    pub token: Ident,
    /// The mode. `acquire_many` takes every lock exclusively, whatever this says.
    pub mode: Wanted,
    /// How long the hold lasts from the grant on; positive.
    pub lease: Millis,
    /// How long to wait: `None` not at all, zero without limit. The engine only shows it; the server times it.
    pub wait: Option<Millis>,
    /// Whether the hold ends with the connection that asks.
    pub session: bool,
}

/// What a granted request gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The owner.
    pub token: Ident,
    /// The number of the hold, or of all holds that one request got.
    pub fence: Fence,
    /// How long the lease lasts from now on.
    pub lease: Millis,
}

/// What came of a request at once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Acquired {
    /// The token holds the lock.
    Granted(Grant),
    /// It does not, and nobody waits.
    Refused,
    /// It does not, and its client is blocked and waits under this id. The answer comes through [`Keyspace::answer`], unless the waiter
    /// leaves before.
    Parked(WaiterId),
}

/// What a waiter is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It holds the lock now.
    Granted(Grant),
    /// The same token asked again and the later request has taken over the place.
    Refused,
    /// It can have no answer any more.
    Failed(LockError),
}

/// Why a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// Its owner released it.
    Released,
    /// Its lease was over.
    Expired,
    /// The connection it was tied to closed.
    Disconnected,
    /// The connection it was granted to closed before it could be told.
    Undelivered,
}

/// Why a request cannot be answered. Nothing was changed, except that the place was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockError {
    /// The key holds something else.
    WrongType,
    /// The token holds the lock in a mode that cannot be changed into the wanted one.
    OtherMode,
    /// Another holder already waits to upgrade; waiting too, they would wait for each other.
    Deadlock,
    /// No fence is left.
    FencesUsedUp,
    /// The end of the lease does not fit a 64-bit time.
    LeaseTooLong,
    /// A fault of our own came between the waiter and its answer.
    Fault,
}

impl ClientId {
    /// The connection that the server calls `number`; `None` for 0, which no connection has.
    #[must_use]
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// The server's number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl Wanted {
    /// The mode a lock is in when it is held this way.
    #[must_use]
    pub fn mode(self) -> Mode {
        match self {
            Self::Exclusive => Mode::Exclusive,
            Self::Shared => Mode::Shared,
            Self::Limit(_) => Mode::Limit,
        }
    }

    /// How many permits there may be; 0 unless permits are wanted.
    #[must_use]
    pub fn limit(self) -> u64 {
        match self {
            Self::Limit(permits) => permits,
            Self::Exclusive | Self::Shared => 0,
        }
    }
}
