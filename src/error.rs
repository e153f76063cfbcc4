//! The errors of commands, with the exact text for the client. The server words two itself: what a stream refuses (`server/stream.rs`), and
//! a fault of our own (`server/panics.rs`).

use std::collections::BTreeSet;
use std::fmt;

use crate::core::key::KeyBuf;
use crate::core::limits::{LONGEST_SPAN, MAX_UNITS};
use crate::core::lock::LockError;
use crate::core::sale::{AdjustError, EmptyWindow, KeepError, TakeError};
use crate::server::args::{ArgError, Range};
use crate::server::panics::FAULT;

/// Bad requests and server states. Business results (sold out, busy, too late) are data, never errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// An argument that cannot be read.
    Argument(ArgError),
    /// The key holds a value of another type.
    WrongType,
    /// A holder requested a mode that its hold cannot be changed to.
    OtherMode,
    /// The request would close a circle of tokens that wait for each other, over these keys.
    Deadlock(Vec<KeyBuf>),
    /// No fence is left below 2^53.
    FencesUsedUp,
    /// The payload of an internal command is damaged, or does not fit the key's value.
    Payload,
    /// An effect from a client that is not allowed to send effects.
    Effects,
    /// A fence that the clock cannot have reached.
    FenceAhead,
    /// The maximum number of requests is waiting.
    TooManyWait,
    /// A session without a connection to end with.
    NoConnection,
    /// A request to be notified about a key or a token that is no text.
    NoText,
    /// A channel that the caller may not publish on.
    NoChannel,
    /// The token of a guard does not hold the lock, or not with the fence that the guard names.
    NotHeld,
    /// A command that is not run for a guard, whoever asks.
    Unguarded,
    /// A guarded command that the caller may not run on these keys and channels.
    NoGuarded,
    /// A waiting request that a release of its token has ended.
    Cancelled,
    /// A waiting request that a later one of its token has replaced.
    Replaced,
    /// A waiting request on a server that is not a primary any more.
    Demoted,
    /// A waiting request for keys that another cluster node serves.
    Moved {
        /// Their slot.
        slot: u16,
        /// The host and port of that node.
        address: String,
    },
    /// A waiting request for keys of a slot that no cluster node serves.
    Unowned,
    /// An unknown order state.
    State,
    /// A sale's stream without a name.
    NoStreamKey,
    /// A sale that is to be its own stream.
    SameKey,
    /// A sale that is named twice in one request.
    NamedTwice,
    /// The key of a new sale is not empty.
    BusyKey,
    /// There is no such sale, and the command has no status for that.
    NoStock,
    /// A sale cannot be adjusted so.
    Adjust(AdjustError),
    /// A window of a sale that ends before it begins.
    Window(EmptyWindow),
    /// An order cannot be taken, for a reason that no status tells.
    Take(TakeError),
    /// A sale of which some orders are still to be loaded.
    NotWhole {
        /// How many are there.
        orders: u64,
        /// How many there will be.
        expected: u64,
    },
    /// An order cannot be confirmed with so many units.
    Keep(KeepError),
    /// Another module changed or removed a sale during a command on it.
    SaleChanged,
    /// The sale's stream refuses the event; the server's own text.
    Stream(String),
    /// The sale and its stream are being migrated to another cluster node.
    OnTheMove,
    /// A module panic or another internal error.
    Internal,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument(ArgError::Syntax) => f.write_str("ERR syntax error"),
            Self::Argument(ArgError::Near(word)) => {
                f.write_str("ERR syntax error near ")?;
                write_name(f, word)
            }
            Self::Argument(ArgError::NoValue(option)) => {
                f.write_str("ERR syntax error: no value after ")?;
                write_name(f, option)
            }
            Self::Argument(ArgError::Needs { option, other }) => {
                write!(f, "ERR syntax error: {option} needs {other}")
            }
            Self::Argument(ArgError::TooFew { name, count, there, each }) => {
                let (what, follow) = match (each, there) {
                    (1, 1) => ("key", "follows"),
                    (1, _) => ("keys", "follow"),
                    (_, 1) => ("key with its number", "follows"),
                    _ => ("keys with their numbers", "follow"),
                };
                write!(f, "ERR {name} is {count}, but only {there} {what} {follow}")
            }
            Self::Argument(ArgError::Integer { name, range: Range { min, max } }) => {
                write!(f, "ERR {name} must be an integer from {min} to {max}")
            }
            Self::Argument(ArgError::Length { name, max }) => {
                write!(f, "ERR {name} must be a string of 1 to {max} bytes")
            }
            Self::OtherMode => f.write_str("ERR the token holds this lock in another mode"),
            Self::Deadlock(keys) => {
                f.write_str("DEADLOCK the token and others would wait for each other at ")?;
                write_keys(f, keys)
            }
            Self::FencesUsedUp => f.write_str("ERR no fence is left below 2^53"),
            Self::Payload => f.write_str("ERR the effect is damaged or does not fit what the key holds"),
            Self::Effects => f.write_str(
                "NOPERM effects are accepted from the primary, from files and from slots that move here only, see \
                 lockstock.accept-effects",
            ),
            Self::FenceAhead => f.write_str("ERR the fence is more than an hour ahead of the server's clock"),
            Self::TooManyWait => f.write_str("ERR too many requests wait already, see lockstock.max-waiters"),
            Self::NoConnection => {
                f.write_str("ERR SESSION needs a connection to end with, and scripts and modules have none")
            }
            Self::NoText => f.write_str("ERR NOTIFY needs keys and a token in valid UTF-8"),
            Self::NoChannel => f.write_str("NOPERM No permissions to access a channel"),
            Self::NotHeld => f.write_str("NOTHELD the token does not hold the lock, so the command did not run"),
            Self::Unguarded => f.write_str(
                "ERR LOCK.GUARD runs neither SELECT nor another LOCK.GUARD, no script or function, and nothing that these may not run",
            ),
            Self::NoGuarded => {
                f.write_str("NOPERM this user has no permissions to run the guarded command on its keys and channels")
            }
            Self::Cancelled => f.write_str("CANCELLED the token has released the lock"),
            Self::Replaced => f.write_str("REPLACED a later request of the token has taken the place"),
            Self::Moved { slot, address } => write!(f, "MOVED {slot} {address}"),
            Self::Unowned => f.write_str("CLUSTERDOWN Hash slot not served"),
            Self::Demoted => f.write_str("UNBLOCKED this server is not a primary any more"),
            Self::State => f.write_str("ERR STATE must be held, sold, cancelled, expired or waiting"),
            Self::Argument(ArgError::YesOrNo { name }) => write!(f, "ERR {name} must be yes or no"),
            Self::NoStreamKey => f.write_str("ERR STREAM must name a key"),
            Self::SameKey => f.write_str("ERR STREAM must be another key than the sale's"),
            Self::NamedTwice => f.write_str("ERR a sale is named twice"),
            Self::BusyKey => f.write_str("BUSYKEY Target key name already exists"),
            Self::NoStock => f.write_str("NOSTOCK there is no such sale"),
            Self::Adjust(error) => write_adjust(f, *error),
            Self::Window(EmptyWindow { start, end }) => {
                write!(f, "ERR START must be before END, and {} is not before {}", start.0, end.0)
            }
            Self::Take(TakeError::OtherBuyer) => {
                f.write_str("ERR the order of this id has another BUYER; two callers have chosen the same id")
            }
            Self::Take(TakeError::Full { orders }) => {
                write!(f, "ERR the sale remembers {orders} orders, and no more fit in")
            }
            Self::Keep(KeepError { units }) => {
                write!(f, "ERR KEEP must be at most {units}, for the order holds or held no more")
            }
            Self::NotWhole { orders, expected } => {
                write!(f, "ERR the sale is being loaded: {orders} of its {expected} orders are there")
            }
            Self::SaleChanged => {
                f.write_str("ERR another module changed the sale when it heard of the event, so nothing was done")
            }
            Self::Stream(refusal) => {
                let (code, rest) = refusal.split_once(' ').unwrap_or(("ERR", refusal));
                write!(f, "{code} the sale's stream does not take the event, so nothing was done: {rest}")
            }
            // Cluster clients retry by themselves after this code.
            Self::OnTheMove => f.write_str("TRYAGAIN the sale and its stream are on their way to another node"),
            Self::Internal => f.write_str(FAULT),
            Self::WrongType => f.write_str("WRONGTYPE Operation against a key holding the wrong kind of value"),
        }
    }
}

/// Writes why a total cannot be adjusted.
fn write_adjust(f: &mut fmt::Formatter<'_>, error: AdjustError) -> fmt::Result {
    match error {
        AdjustError::TooFew { remaining: 0 } => f.write_str("ERR delta must be at least 0, for no units remain unsold"),
        AdjustError::TooFew { remaining } => {
            write!(f, "ERR delta must be at least -{remaining}, for no more units remain unsold")
        }
        AdjustError::TooMany { total } => {
            let most = MAX_UNITS.saturating_sub(total);
            write!(f, "ERR delta must be at most {most}, for a total is at most {MAX_UNITS}")
        }
        AdjustError::Wanted { units } => {
            write!(f, "ERR the total must be at least {units}, for an order on the waitlist waits for as many")
        }
        AdjustError::Full { adjustments } => {
            write!(f, "ERR the sale remembers {adjustments} adjustments, and no more fit in")
        }
    }
}

/// How many keys an error names, and how many bytes of each.
const NAMED: (usize, usize) = (16, 128);

/// Writes names of keys in quotes, with the number of their database where that is not the same for all.
fn write_keys(f: &mut fmt::Formatter<'_>, keys: &[KeyBuf]) -> fmt::Result {
    let dbs: BTreeSet<i32> = keys.iter().map(|key| key.as_key().db).collect();
    for (number, key) in keys.iter().map(KeyBuf::as_key).enumerate().take(NAMED.0) {
        f.write_str(if number > 0 { ", " } else { "" })?;
        write_name(f, key.key)?;
        if dbs.len() > 1 {
            write!(f, " (db {})", key.db)?;
        }
    }
    match keys.len().saturating_sub(NAMED.0) {
        0 => Ok(()),
        more => write!(f, " and {more} more"),
    }
}

/// Writes a name or another word of the caller in quotes, cut short if it is long.
fn write_name(f: &mut fmt::Formatter<'_>, name: &[u8]) -> fmt::Result {
    let shown = name.get(..NAMED.1).unwrap_or(name);
    let cut = if shown.len() < name.len() { "…" } else { "" };
    write!(f, "'{}{cut}'", shown.escape_ascii())
}

impl Error {
    /// Words that no command has, where none is to blame.
    pub const SYNTAX: Self = Self::Argument(ArgError::Syntax);
}

impl From<ArgError> for Error {
    fn from(error: ArgError) -> Self {
        Self::Argument(error)
    }
}

impl From<LockError> for Error {
    fn from(error: LockError) -> Self {
        match error {
            LockError::WrongType => Self::WrongType,
            LockError::OtherMode => Self::OtherMode,
            LockError::FencesUsedUp => Self::FencesUsedUp,
            LockError::Fault => Self::Internal,
            LockError::LeaseTooLong => {
                ArgError::Integer { name: "the lease", range: Range::new(1..=LONGEST_SPAN.0) }.into()
            }
        }
    }
}

impl From<AdjustError> for Error {
    fn from(error: AdjustError) -> Self {
        Self::Adjust(error)
    }
}

impl From<EmptyWindow> for Error {
    fn from(window: EmptyWindow) -> Self {
        Self::Window(window)
    }
}

impl From<KeepError> for Error {
    fn from(error: KeepError) -> Self {
        Self::Keep(error)
    }
}

impl From<TakeError> for Error {
    fn from(error: TakeError) -> Self {
        Self::Take(error)
    }
}
