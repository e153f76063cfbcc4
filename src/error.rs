//! The errors of commands, with the exact text for the client. The server words two itself: a refusal by a stream (`server/stream.rs`), and
//! a fault of the module (`server/panics.rs`).

use std::collections::BTreeSet;
use std::fmt;

use derive_more::{Display, From};

use crate::core::key::KeyBuf;
use crate::core::limits::{LONGEST_SPAN, MAX_ID, MAX_UNITS};
use crate::core::lock::LockError;
use crate::core::sale::{AdjustError, EmptyWindow, KeepError, TakeError};
use crate::server::args::{ArgError, Range};
use crate::server::panics::FAULT;

/// Bad requests and server states. Business results (sold out, busy, too late) are data, never errors.
#[derive(Clone, Debug, PartialEq, Eq, Display, From)]
pub enum Error {
    /// An argument that cannot be read.
    #[from]
    #[display("{}", argument(_0))]
    Argument(ArgError),
    /// The key holds a value of another type.
    #[display("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    /// A holder requested a mode that its hold cannot be changed to.
    #[display("ERR the token holds this lock in another mode")]
    OtherMode,
    /// The request would close a circle of tokens that wait for each other, over these keys.
    #[display("DEADLOCK the token and others would wait for each other at {}", named(_0))]
    Deadlock(Vec<KeyBuf>),
    /// The fences below 2^53 are used up.
    #[display("ERR no fence is left below 2^53")]
    FencesUsedUp,
    /// The payload of an internal command is damaged, or does not fit the key's value.
    #[display("ERR the effect is damaged or does not fit what the key holds")]
    Payload,
    /// An effect from a client that is not allowed to send effects.
    #[display(
        "NOPERM effects are accepted from the primary, from files and from slots that move here only, see \
         lockstock.accept-effects"
    )]
    Effects,
    /// A fence that the clock cannot have reached.
    #[display("ERR the fence is more than an hour ahead of the server's clock")]
    FenceAhead,
    /// The maximum number of requests is waiting.
    #[display("ERR too many requests wait already, see lockstock.max-waiters")]
    TooManyWait,
    /// A session without a connection to end with.
    #[display("ERR SESSION needs a connection to end with, and scripts and modules have none")]
    NoConnection,
    /// A request to be notified about a key or a token that is no text.
    #[display("ERR NOTIFY needs keys and a token in valid UTF-8")]
    NoText,
    /// A channel that the caller may not publish on.
    #[display("NOPERM No permissions to access a channel")]
    NoChannel,
    /// The token of a guard does not hold the lock, or not with the fence that the guard names.
    #[display("NOTHELD the token does not hold the lock, so the command did not run")]
    NotHeld,
    /// A command that `LOCK.GUARD` never runs.
    #[display(
        "ERR LOCK.GUARD runs neither SELECT nor another LOCK.GUARD, no script or function, nothing that these may not \
         run, no CLUSTER SETSLOT, and in a script no WAIT"
    )]
    Unguarded,
    /// A guarded command whose keys the server does not tell.
    #[display("ERR LOCK.GUARD cannot check the keys of this command in a cluster")]
    Unchecked,
    /// A guarded command that the caller may not run on these keys and channels.
    #[display("NOPERM this user has no permissions to run the guarded command on its keys and channels")]
    NoGuarded,
    /// A waiting request that a release of its token has ended.
    #[display("CANCELLED the token has released the lock")]
    Cancelled,
    /// A waiting request that a later one of its token has replaced.
    #[display("REPLACED a later request of the token has taken the place")]
    Replaced,
    /// A waiting request on a server that is not a primary any more.
    #[display("UNBLOCKED this server is not a primary any more")]
    Demoted,
    /// A waiting request for keys that another cluster node serves.
    #[display("MOVED {slot} {address}")]
    Moved {
        /// Their slot.
        slot: u16,
        /// The host and port of that node.
        address: String,
    },
    /// No cluster node serves the slot: of a request that waits for its keys, or of a sale that is due.
    #[display("CLUSTERDOWN Hash slot not served")]
    Unowned,
    /// An unknown order state.
    #[display("ERR STATE must be held, sold, cancelled, expired or waiting")]
    State,
    /// A sale's stream without a name.
    #[display("ERR STREAM must name a key")]
    NoStreamKey,
    /// A sale that is to be its own stream.
    #[display("ERR STREAM must be another key than the sale's")]
    SameKey,
    /// A sale that is named twice in one request.
    #[display("ERR a sale is named twice")]
    NamedTwice,
    /// The key of a new sale is not empty.
    #[display("BUSYKEY Target key name already exists")]
    BusyKey,
    /// There is no such sale, and the command has no status for that.
    #[display("NOSTOCK there is no such sale")]
    NoStock,
    /// An adjustment that the sale refuses.
    #[from]
    #[display("{}", adjustment(*_0))]
    Adjust(AdjustError),
    /// A window of a sale that ends before it begins.
    #[from]
    #[display("ERR START must be before END, and {} is not before {}", _0.start.0, _0.end.0)]
    Window(EmptyWindow),
    /// An order cannot be taken, for a reason that no status tells.
    #[from]
    #[display("{}", taking(*_0))]
    Take(TakeError),
    /// A sale whose orders are not all loaded yet.
    #[display("ERR the sale is being loaded: {orders} of its {expected} orders are there")]
    NotWhole {
        /// How many are there.
        orders: u64,
        /// How many there will be.
        expected: u64,
    },
    /// An order cannot be confirmed with so many units.
    #[from]
    #[display("ERR KEEP must be at most {}, for the order holds or held no more", _0.units)]
    Keep(KeepError),
    /// Another module changed or removed a sale during a command on it.
    #[display("ERR another module changed the sale when it heard of the event, so nothing was done")]
    SaleChanged,
    /// The sale's stream refuses the event; the server's own text.
    #[display("{}", stream_refusal(_0))]
    Stream(String),
    /// An earlier command of the transaction has migrated the lock.
    #[display("TRYAGAIN the lock has moved to another node in this transaction")]
    LockMoved,
    /// The sale and its stream are being migrated to another cluster node. Cluster clients retry by themselves after this code.
    #[display("TRYAGAIN the sale and its stream are on their way to another node")]
    OnTheMove,
    /// A module panic or another internal error.
    #[display("{FAULT}")]
    Internal,
}

/// Why an argument is refused.
fn argument(error: &ArgError) -> impl fmt::Display {
    fmt::from_fn(move |f| match error {
        ArgError::Syntax => f.write_str("ERR syntax error"),
        ArgError::Near(word) => write!(f, "ERR syntax error near {}", quoted(word)),
        ArgError::NoValue(option) => write!(f, "ERR syntax error: no value after {}", quoted(option)),
        ArgError::Needs { option, other } => write!(f, "ERR syntax error: {option} needs {other}"),
        ArgError::TooFew { name, count, there, each } => {
            let (what, follow) = match (each, there) {
                (1, 1) => ("key", "follows"),
                (1, _) => ("keys", "follow"),
                (_, 1) => ("key with its number", "follows"),
                _ => ("keys with their numbers", "follow"),
            };
            write!(f, "ERR {name} is {count}, but only {there} {what} {follow}")
        }
        ArgError::Integer { name, range: Range { min, max } } => {
            write!(f, "ERR {name} must be an integer from {min} to {max}")
        }
        ArgError::Length(name) => write!(f, "ERR {name} must be a string of 1 to {MAX_ID} bytes"),
        ArgError::YesOrNo(name) => write!(f, "ERR {name} must be yes or no"),
    })
}

/// Why a total cannot be adjusted.
fn adjustment(error: AdjustError) -> impl fmt::Display {
    fmt::from_fn(move |f| match error {
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
    })
}

/// Why an order cannot be taken.
fn taking(error: TakeError) -> impl fmt::Display {
    fmt::from_fn(move |f| match error {
        TakeError::OtherBuyer => {
            f.write_str("ERR the order of this id has another BUYER; two callers have chosen the same id")
        }
        TakeError::Full { orders } => write!(f, "ERR the sale remembers {orders} orders, and no more fit in"),
    })
}

/// Why a stream does not take an event: the server's own text, behind its error code.
fn stream_refusal(refusal: &str) -> impl fmt::Display {
    let (code, rest) = refusal.split_once(' ').unwrap_or(("ERR", refusal));
    fmt::from_fn(move |f| write!(f, "{code} the sale's stream does not take the event, so nothing was done: {rest}"))
}

/// How many keys an error names, and how many bytes of each.
const NAMED: (usize, usize) = (16, 128);

/// Names of keys in quotes, with the number of their database where that is not the same for all.
fn named(keys: &[KeyBuf]) -> impl fmt::Display {
    let dbs: BTreeSet<i32> = keys.iter().map(|key| key.as_key().db).collect();
    fmt::from_fn(move |f| {
        for (number, key) in keys.iter().map(KeyBuf::as_key).enumerate().take(NAMED.0) {
            write!(f, "{}{}", if number > 0 { ", " } else { "" }, quoted(key.key))?;
            if dbs.len() > 1 {
                write!(f, " (db {})", key.db)?;
            }
        }
        match keys.len().saturating_sub(NAMED.0) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    })
}

/// A name or another word of the caller in quotes, cut short if it is long.
fn quoted(name: &[u8]) -> impl fmt::Display {
    let shown = name.get(..NAMED.1).unwrap_or(name);
    let cut = if shown.len() < name.len() { "…" } else { "" };
    fmt::from_fn(move |f| write!(f, "'{}{cut}'", shown.escape_ascii()))
}

impl Error {
    /// Words that no command has, where none is to blame.
    pub const SYNTAX: Self = Self::Argument(ArgError::Syntax);
}

impl From<LockError> for Error {
    fn from(error: LockError) -> Self {
        match error {
            LockError::WrongType => Self::WrongType,
            LockError::OtherMode => Self::OtherMode,
            LockError::FencesUsedUp => Self::FencesUsedUp,
            LockError::Moved => Self::LockMoved,
            LockError::Fault => Self::Internal,
            LockError::LeaseTooLong => {
                ArgError::Integer { name: "the lease", range: Range::new(1..=LONGEST_SPAN.0) }.into()
            }
        }
    }
}
