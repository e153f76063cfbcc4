//! The basic types of the lock engine.

use std::num::NonZeroU64;

use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::key::KeyBuf;
use crate::core::slab::Id;
use crate::core::slot::Slot;
use crate::core::time::Millis;

/// A waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(pub(super) Id);

impl WaiterId {
    /// The smallest id.
    pub(super) const FIRST: Self = Self(Id::FIRST);
    /// The largest id.
    pub(super) const LAST: Self = Self(Id::LAST);
}

/// A connection, by its number in the server. The server never uses a number again while it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(NonZeroU64);

/// How the holds of a lock share it. Files have these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// One hold.
    Exclusive = 0,
    /// Any number of holds.
    Shared = 1,
    /// A counting semaphore: each hold is a permit and states how many permits there may be.
    Limit = 2,
}

/// The mode that a request asks for.
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
    /// The mode; of a request for many keys, exclusive.
    pub mode: Wanted,
    /// How long the hold lasts from the grant on; positive.
    pub lease: Millis,
    /// How it waits if it cannot be granted at once.
    pub wait: Wait,
    /// The connection that the request ends with; `None` if a script or another module asks, which have none.
    pub client: Option<ClientId>,
    /// Whether the hold ends with that connection.
    pub session: bool,
}

/// How a request waits that cannot be granted at once. A limit of zero is none. The server times blocked clients out, the engine the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// Its client is blocked for at most this time. If the server cannot block it, the request does not wait.
    Parked(Millis),
    /// Its client goes on, and the outcome is published, after at most this time.
    Notified(Millis, Box<Notice>),
}

/// How the end of a hold's lease is to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// The lease from now on; positive.
    pub lease: Millis,
    /// Whether a hold whose lease ends later than that keeps its end.
    pub only_later: bool,
}

/// The channel on which the outcome of a `NOTIFY` request is published; its client is not blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The channel.
    pub channel: Box<[u8]>,
    /// The part that every message about the request has: its keys and its token. The engine only keeps it.
    pub about: Box<str>,
}

/// Why a notified request has ended without a decision about its lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dismissed {
    /// This server is not a primary any more.
    Demoted(Notice),
    /// Another cluster node serves the slot of its keys.
    Moved(Notice, Slot),
}

/// The grant of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The owner.
    pub token: Ident,
    /// The fence of the hold, or of all holds of one request.
    pub fence: Fence,
    /// The length of the lease from now on.
    pub lease: Millis,
}

/// The immediate result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Acquired {
    /// The token holds the lock.
    Granted(Grant),
    /// The token does not hold the lock, and its client does not wait.
    Refused,
    /// The token does not hold the lock, and cannot wait for it, because as many requests wait as may.
    Full,
    /// The token does not hold the lock, and if its client waited, its token and those that it waits for would wait for each other. The keys
    /// of the circle: first the one that it would wait for, last the one that it holds itself. Nothing was changed.
    Deadlock(Vec<KeyBuf>),
    /// The token does not hold the lock; its client is blocked and waits under this id. The answer comes through
    /// [`Keyspace::answer`](super::Keyspace::answer), unless the waiter leaves first.
    Parked(WaiterId),
    /// The token does not hold the lock, and waits under this id. The answer comes through
    /// [`Keyspace::publish`](super::Keyspace::publish), unless the waiter leaves first.
    Notified {
        /// The request.
        waiter: WaiterId,
        /// Its place in the longest of its queues; 1 is next.
        place: u64,
    },
}

/// The outcome for a waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitResult {
    /// It holds the lock now.
    Granted(Grant),
    /// Its time is over.
    TimedOut,
    /// A later request of the same token has replaced this one.
    Replaced,
    /// Its token has released the lock, so it does not wait any more.
    Cancelled,
    /// It cannot be answered any more.
    Failed(LockError),
}

/// Why a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// Its owner released it.
    Released,
    /// Its lease expired.
    Expired,
    /// The connection it was tied to closed.
    Disconnected,
    /// The connection that it was granted to closed before it got the reply.
    Undelivered,
}

/// Why a request cannot be granted. Nothing was changed, except that the key was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockError {
    /// The key holds a value of another type.
    WrongType,
    /// The token holds the lock in a mode that cannot become the requested one.
    OtherMode,
    /// No fence is left.
    FencesUsedUp,
    /// The end of the lease does not fit in a 64-bit time.
    LeaseTooLong,
    /// The lock has moved to another node since the server checked the key.
    Moved,
    /// A module panic lost this waiter's reply.
    Fault,
}

impl ClientId {
    /// The connection that the server calls `number`; `None` for 0, which no connection has.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// The server's number.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl Wanted {
    /// The mode a lock is in when it is held this way.
    pub fn mode(self) -> Mode {
        match self {
            Self::Exclusive => Mode::Exclusive,
            Self::Shared => Mode::Shared,
            Self::Limit(_) => Mode::Limit,
        }
    }

    /// The number of permits allowed; 0 unless permits are wanted.
    pub fn limit(self) -> u64 {
        match self {
            Self::Limit(permits) => permits,
            Self::Exclusive | Self::Shared => 0,
        }
    }
}
