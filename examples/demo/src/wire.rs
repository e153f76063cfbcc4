//! What the demo and its worker processes say to each other: one JSON document per line, over the worker's pipes.
//!
//! A worker gets a [`Job`] on its standard input and tells its [`Event`]s on its standard output; in the middle of a
//! job it also takes [`Word`]s.

use std::fmt;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// Something a worker process is asked to do.
#[derive(Serialize, Deserialize)]
pub enum Job {
    /// Buy from a sale with `STOCK.DECR_ONCE`.
    Buy(Buy),
    /// Take orders one at a time, each guarded by one lock.
    Guard(Guard),
    /// Hold a lock while some work is done.
    Hold(Hold),
    /// Book journeys on a train.
    Ride(Ride),
}

/// Journeys on a train.
#[derive(Serialize, Deserialize)]
pub struct Ride {
    /// The train's name.
    pub train: String,
    /// How many stops it has.
    pub stops: usize,
    /// The passengers, in this order.
    pub trips: Vec<Trip>,
}

/// A passenger's journey.
#[derive(Clone, Serialize, Deserialize)]
pub struct Trip {
    /// The id of the order.
    pub id: String,
    /// The first stop.
    pub from: usize,
    /// The last one.
    pub to: usize,
    /// Whether it is cancelled a little later.
    pub stays_at_home: bool,
}

/// Requests to a sale.
#[derive(Serialize, Deserialize)]
pub struct Buy {
    /// The sale's key.
    pub sale: String,
    /// Whether a buyer who hears INSUFFICIENT asks again for what is left.
    pub settle: bool,
    /// One thread with a connection of its own for each lane; the requests of a lane go out one after another.
    pub lanes: Vec<Vec<Request>>,
}

/// One click.
#[derive(Clone, Serialize, Deserialize)]
pub struct Request {
    /// The id of the order.
    pub id: String,
    /// Units wanted.
    pub units: u64,
    /// Hang up after sending, as a client does whose network fails; then ask again.
    pub lose: bool,
}

/// Orders taken under a lock.
#[derive(Serialize, Deserialize)]
pub struct Guard {
    /// The lock's key; without one the same work is done unguarded.
    pub lock: Option<String>,
    /// Prefix of the plain keys that stand for the shop's database.
    pub shop: String,
    /// The people who order, in this order; a person may come twice.
    pub people: Vec<Person>,
}

/// A customer of [`Guard`].
#[derive(Clone, Serialize, Deserialize)]
pub struct Person {
    /// Their name.
    pub id: String,
    /// Whether their payment fails in the middle of the guarded work.
    pub declined: bool,
}

/// A lock to hold.
#[derive(Serialize, Deserialize)]
pub struct Hold {
    /// The lock's key.
    pub lock: String,
    /// The lease asked for, in milliseconds.
    pub lease: u64,
    /// How long to wait for the lock, in milliseconds.
    pub wait: u64,
    /// Whether the hold ends with the connection.
    pub session: bool,
    /// The work to do while holding it.
    pub work: Work,
}

/// What a holder does between its two writes to the resource.
#[derive(Serialize, Deserialize)]
pub enum Work {
    /// Works until it gets [`Word::Finish`].
    UntilTold,
    /// Works for `total` milliseconds and extends the lease every `beat` milliseconds meanwhile.
    Extending {
        /// Milliseconds of work.
        total: u64,
        /// Milliseconds between two extensions.
        beat: u64,
    },
}

/// What a worker is told in the middle of its job.
#[derive(Serialize, Deserialize)]
pub enum Word {
    /// All workers are ready: begin.
    Go,
    /// The resource took the write.
    Accepted,
    /// The resource refused the write: it has seen a higher fence.
    Refused,
    /// End of [`Work::UntilTold`].
    Finish,
}

/// What a worker has to tell.
#[derive(Serialize, Deserialize)]
pub enum Event {
    /// Connected, and waiting for [`Word::Go`]: the rush is the point.
    Ready,
    /// Answers since the last such event.
    Answers(Vec<Answer>),
    /// The lock is held.
    Granted {
        /// The number of the hold.
        fence: u64,
        /// When the command was sent, in unix microseconds.
        asked_at: u64,
        /// When its reply was read, in unix microseconds.
        at: u64,
    },
    /// A write to the resource; the worker waits for the verdict.
    Write {
        /// The fence it is made under.
        fence: u64,
    },
    /// The lock was given back, or what was left of it.
    Released(Released),
    /// The job is done.
    Done,
    /// The job cannot be done.
    Failed(String),
}

/// How a hold ended.
#[derive(Serialize, Deserialize)]
pub struct Released {
    /// When LOCK.RELEASE was sent, in unix microseconds.
    pub at: u64,
    /// Whether LOCK.RELEASE ended the hold (1) or there was none (0).
    pub ended: bool,
    /// How often the lease was extended while the work went on.
    pub extended: u32,
    /// Whether an extension after a refused write succeeded, if one was refused.
    pub revived: Option<bool>,
}

/// What one request came to.
#[derive(Clone, Serialize, Deserialize)]
pub struct Answer {
    /// The id of the request.
    pub id: String,
    /// Units it asked for.
    pub asked: u64,
    /// What it heard.
    pub outcome: Outcome,
    /// Units the id holds.
    pub units: u64,
    /// Units still for sale.
    pub remaining: u64,
    /// The fence it was decided under, where a lock guarded it.
    pub fence: Option<u64>,
}

/// The statuses of the contract, and what may happen to a request besides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Outcome {
    /// Done by this call.
    Ok,
    /// The earlier order stands.
    Duplicate,
    /// Fewer left than asked.
    Insufficient,
    /// Nothing left.
    Soldout,
    /// The buyer's limit.
    Limit,
    /// Before the window.
    NotStarted,
    /// After the window.
    Ended,
    /// The hold lapsed.
    Expired,
    /// The order was cancelled.
    Cancelled,
    /// In line for what comes back.
    Queued,
    /// No such order.
    NoOrder,
    /// No such sale.
    NoStock,
    /// The client hung up before it read the reply.
    Lost,
    /// The payment failed inside the guarded work.
    Declined,
    /// The lock was not granted in time.
    Busy,
}

impl Outcome {
    /// Reads the status word of a reply.
    pub fn from_status(word: &str) -> Result<Self> {
        let outcome = serde_json::from_value(word.into()).with_context(|| format!("unknown status {word:?}"))?;
        ensure!(!matches!(outcome, Self::Lost | Self::Declined | Self::Busy), "no server says {word:?}");
        Ok(outcome)
    }
}

/// As the server writes it; what no server says is in small letters.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "OK",
            Self::Duplicate => "DUPLICATE",
            Self::Insufficient => "INSUFFICIENT",
            Self::Soldout => "SOLDOUT",
            Self::Limit => "LIMIT",
            Self::NotStarted => "NOTSTARTED",
            Self::Ended => "ENDED",
            Self::Expired => "EXPIRED",
            Self::Cancelled => "CANCELLED",
            Self::Queued => "QUEUED",
            Self::NoOrder => "NOORDER",
            Self::NoStock => "NOSTOCK",
            Self::Lost => "reply lost",
            Self::Declined => "declined",
            Self::Busy => "busy",
        })
    }
}
