//! The history: every request with its times and its outcome, and every fault.
//!
//! All times are of this machine's monotonic clock, which no fault touches, so they can be compared between clients, also those
//! that are processes of their own.

mod sales;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use harness::{Nothing, unix_ms};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

pub use sales::{
    AboutCart, AboutOrder, AboutRestock, CartAnswer, CartCall, CartOp, Five, RestockOp, SaleAnswer, SaleCall, SaleOp,
    Seen,
};

/// Microseconds since the run began.
pub type Time = u64;

/// Milliseconds as a [`Time`].
pub const fn millis(ms: u64) -> Time {
    ms * 1_000
}

/// The clock of a run.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Clock {
    /// By the machine's clock.
    began: Time,
    unix_ms: i64,
}

impl Clock {
    /// Begins to count.
    pub fn start() -> Self {
        Self { began: monotonic(), unix_ms: unix_ms() }
    }

    /// The time now.
    pub fn now(self) -> Time {
        monotonic() - self.began
    }

    /// When the run began, by the wall clock.
    pub fn began_unix_ms(self) -> i64 {
        self.unix_ms
    }

    /// How long it is until `time`.
    pub fn until(self, time: Time) -> Duration {
        Duration::from_micros(time.saturating_sub(self.now()))
    }
}

/// The time that all processes of this machine agree on.
fn monotonic() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    let part = |number| Time::try_from(number).expect("after the start of the machine");
    part(now.tv_sec) * 1_000_000 + part(now.tv_nsec) / 1_000
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome<A> {
    /// The server carried it out.
    Done(A),
    /// The server refused it, or could not be reached: nothing was done.
    Refused(String),
    /// No reply came: it was carried out or not, or will be.
    Unknown(Nothing),
    /// The connection ended before the server can have handed the reply to it: whatever was granted is taken back.
    Unwritten,
}

/// One request of one client.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Op<C, A> {
    /// The client that asked.
    pub client: usize,
    /// Over which connection; numbers are not used again, and none is 0.
    pub line: u64,
    /// The port of the server that was asked.
    pub server: u16,
    /// Whether another server was asked first and sent the client here.
    pub redirected: bool,
    /// When it was sent.
    pub invoked: Time,
    /// When its outcome was known.
    pub returned: Time,
    /// What was asked.
    pub call: C,
    /// Its outcome.
    pub outcome: Outcome<A>,
}

impl<C, A> Op<C, A> {
    /// A request as it is when nothing is ever heard of it.
    pub fn sent(client: usize, server: u16, at: Time, call: C) -> Self {
        let outcome = Outcome::Unknown(Nothing::Closed);
        Self { client, line: 0, server, redirected: false, invoked: at, returned: at, call, outcome }
    }

    /// What the server answered, if it carried the request out.
    pub fn answer(&self) -> Option<&A> {
        match &self.outcome {
            Outcome::Done(answer) => Some(answer),
            _ => None,
        }
    }

    /// Whether it may have been carried out, for all the client knows.
    pub fn is_unknown(&self) -> bool {
        matches!(self.outcome, Outcome::Unknown(_))
    }
}

impl<C: fmt::Debug, A: fmt::Debug> fmt::Debug for Op<C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (invoked, returned) = (seconds(self.invoked), seconds(self.returned));
        write!(f, "{invoked}–{returned} client {} at {}: {:?} → ", self.client, self.server, self.call)?;
        match &self.outcome {
            Outcome::Done(answer) => write!(f, "{answer:?}"),
            Outcome::Refused(text) => write!(f, "refused: {text}"),
            Outcome::Unknown(nothing) => write!(f, "unknown ({nothing:?})"),
            Outcome::Unwritten => write!(f, "a reply that was never written"),
        }
    }
}

/// A time as it is shown.
pub fn seconds(time: Time) -> String {
    format!("{}.{:06}", time / 1_000_000, time % 1_000_000)
}

/// How a hold shares its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// With nobody.
    Exclusive,
    /// With other shared holds.
    Shared,
    /// With up to n − 1 other permits.
    Limit(usize),
}

/// A request about locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockCall {
    /// `LOCK.ACQUIRE`, or `LOCK.MACQUIRE` for several keys.
    Acquire { token: String, mode: Mode, lease: Time, wait: Option<Time>, session: bool },
    /// `LOCK.EXTEND`.
    Extend { token: String, lease: Time },
    /// `LOCK.RELEASE`, `LOCK.MRELEASE`.
    Release { token: String },
    /// `LOCK.INFO`.
    Look,
}

impl LockCall {
    /// Whose hold it is about.
    pub fn token(&self) -> Option<&str> {
        match self {
            Self::Acquire { token, .. } | Self::Extend { token, .. } | Self::Release { token } => Some(token),
            Self::Look => None,
        }
    }
}

/// The outcome of a request about locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockAnswer {
    /// Granted, with this fence.
    Granted(i64),
    /// Not granted.
    Null,
    /// So many keys were released, or extended.
    Count(usize),
    /// The holders (token, fence) and the waiters (tokens, in line).
    Seen { holders: Vec<(String, i64)>, waiters: Vec<String> },
}

/// A request about the locks `keys`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboutLocks {
    /// Which.
    pub keys: Vec<String>,
    /// What.
    pub call: LockCall,
}

/// A request about locks with its outcome.
pub type LockOp = Op<AboutLocks, LockAnswer>;

/// A holder wrote into the register that its lock guards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The lock.
    pub key: String,
    /// The holder.
    pub token: String,
    /// The fence that came with the hold.
    pub fence: i64,
    /// When.
    pub at: Time,
    /// Whether the register took it: it refuses a fence that is smaller than one it has seen.
    pub accepted: bool,
}

/// Something that was done to the servers, to the clients' connections or to clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Its name in the table.
    pub kind: Cow<'static, str>,
    /// When it began.
    pub from: Time,
    /// When everything was whole again.
    pub to: Time,
    /// The only client that may notice; `None` if all may.
    pub client: Option<usize>,
}

/// What it is called in the table that a client was killed (SIGKILL), and that one was stopped for a while (SIGSTOP).
pub const KILLED: &str = "client killed";
pub const STOPPED: &str = "client stopped";

/// What a server acknowledged and may have forgotten, by the rules of its persistence or replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Which server.
    pub server: u16,
    /// A change acknowledged before this time is safe.
    pub since: Time,
    /// The moment of the loss: before it, nothing is missing.
    pub at: Time,
    /// A request after this time is safe again.
    pub until: Time,
    /// Whether what `WAIT` counted on a replica is safe as well.
    pub spares_replicated: bool,
}

impl Loss {
    /// Whether what came of `op` may be lost.
    pub fn takes<C, A>(&self, op: &Op<C, A>) -> bool {
        op.server == self.server && op.returned >= self.since && op.invoked <= self.until
    }

    /// Whether `op` may have been answered by a server whose word did not count any more, because another had taken its place.
    pub fn voids<C, A>(&self, op: &Op<C, A>) -> bool {
        self.takes(op) && op.returned >= self.at
    }
}

/// The servers' wall clock was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Not before this time.
    pub from: Time,
    /// Not after this time.
    pub to: Time,
    /// By how much; back if negative.
    pub by_ms: i64,
}

/// Something that was measured and has a bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    /// What, with its unit.
    pub what: String,
    /// When.
    pub at: Time,
    /// How much it was.
    pub value: u64,
    /// How much it may be.
    pub most: u64,
}

/// A server that died although the run had not killed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Which.
    pub server: u16,
    /// How, and what its log says of it.
    pub log: String,
}

/// All that was done to the servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Everything, for the table, and for when answers may be late.
    pub all: Vec<Fault>,
    /// The changes that may be missing.
    pub losses: Vec<Loss>,
    /// The change of the clock.
    pub steps: Vec<Step>,
}

/// A whole run.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub locks: Vec<LockOp>,
    pub writes: Vec<Write>,
    pub orders: Vec<SaleOp>,
    pub restocks: Vec<RestockOp>,
    /// Each is among the orders, too, once for each sale.
    pub carts: Vec<CartOp>,
    pub faults: Faults,
    pub measures: Vec<Measure>,
    /// The value that holders of a lock write: the fence of each write, in the order in which the server has them at the end.
    pub journal: Vec<i64>,
    /// How many of their writes the server stopped.
    pub stopped: usize,
    /// When a client heard of the server that asks it for nothing else.
    pub beats: Vec<Time>,
    pub crashes: Vec<Crash>,
    /// When the run began, by the wall clock that the servers have too.
    pub began_unix_ms: i64,
}
