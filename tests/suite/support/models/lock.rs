//! Locks as one would write them on a napkin: lists of holds and of waiters, looked through from end to end.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// How a hold shares its lock, or wants to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Exclusive,
    Shared,
    Limit(i64),
}

/// One token's place in a lock.
#[derive(Clone, Debug)]
pub struct Hold {
    pub token: &'static str,
    pub fence: i64,
    /// The end of its lease, as exactly as the caller knows it.
    pub end: RangeInclusive<i64>,
    pub mode: Mode,
    /// The connection it ends with.
    pub session: Option<usize>,
}

/// A request for one lock that waits without limit, or nearly.
#[derive(Clone, Debug)]
pub struct Waiter {
    pub token: &'static str,
    pub mode: Mode,
    pub lease: i64,
    /// For how long; 0 without limit.
    pub wait: i64,
    pub session: bool,
    pub connection: usize,
    pub since: RangeInclusive<i64>,
}

/// A lock and its line.
#[derive(Clone, Debug, Default)]
pub struct Lock {
    pub holds: Vec<Hold>,
    pub line: Vec<Waiter>,
    /// Something else lives under its name.
    pub foreign: bool,
}

/// What a request for a lock hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It holds the lock: with the fence it had, or with a new one.
    Granted {
        fence: Option<i64>,
    },
    Refused,
    OtherMode,
    WrongType,
}

impl Mode {
    /// The word of `LOCK.INFO`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
            Self::Limit(_) => "limit",
        }
    }

    /// The number of permits; 0 without one.
    pub fn permits(self) -> i64 {
        if let Self::Limit(permits) = self { permits } else { 0 }
    }

    fn is_like(self, other: Self) -> bool {
        self.word() == other.word()
    }
}

impl Lock {
    pub fn hold(&self, token: &str) -> Option<&Hold> {
        self.holds.iter().find(|hold| hold.token == token)
    }

    /// Whether the holds leave room for another one in `mode`.
    fn has_room(&self, mode: Mode) -> bool {
        let held = i64::try_from(self.holds.len()).expect("few");
        match mode {
            Mode::Exclusive => held == 0,
            Mode::Shared => self.holds.iter().all(|hold| hold.mode == Mode::Shared),
            Mode::Limit(permits) => held < permits && self.holds.iter().all(|hold| hold.mode.is_like(mode)),
        }
    }

    /// What a request of `token` that does not wait comes to.
    pub fn ask(&self, token: &str, mode: Mode) -> Outcome {
        let others = self.holds.iter().filter(|hold| hold.token != token).count();
        match self.hold(token) {
            _ if self.foreign => Outcome::WrongType,
            None if self.line.is_empty() && self.has_room(mode) => Outcome::Granted { fence: None },
            None => Outcome::Refused,
            // Renewed, or made less of.
            Some(hold) if hold.mode.is_like(mode) => Outcome::Granted { fence: Some(hold.fence) },
            Some(hold) if (hold.mode, mode) == (Mode::Exclusive, Mode::Shared) => {
                Outcome::Granted { fence: Some(hold.fence) }
            }
            Some(hold) if (hold.mode, mode) == (Mode::Shared, Mode::Exclusive) => {
                if others == 0 {
                    Outcome::Granted { fence: None }
                } else {
                    Outcome::Refused
                }
            }
            Some(_) => Outcome::OtherMode,
        }
    }

    /// Makes `hold` its token's hold.
    pub fn set(&mut self, hold: Hold) {
        self.holds.retain(|other| other.token != hold.token);
        self.holds.push(hold);
    }

    /// The next one in line, if it is its turn: it has left the line then.
    pub fn next(&mut self) -> Option<Waiter> {
        let first = self.line.first()?;
        (self.foreign || self.has_room(first.mode)).then(|| self.line.remove(0))
    }

    /// Ends the holds that `over` says are over.
    pub fn end(&mut self, over: impl Fn(&Hold) -> bool) {
        self.holds.retain(|hold| !over(hold));
    }
}

/// What a request for several locks comes to that does not wait.
pub fn ask_all(locks: &BTreeMap<&'static str, Lock>, keys: &[&'static str], token: &str) -> Outcome {
    let locks: Vec<&Lock> = keys.iter().filter_map(|key| locks.get(key)).collect();
    let mine: Vec<Option<&Hold>> = locks.iter().map(|lock| lock.hold(token)).collect();
    if locks.iter().any(|lock| lock.foreign) {
        return Outcome::WrongType;
    }
    if mine.iter().flatten().any(|hold| hold.mode != Mode::Exclusive) {
        return Outcome::OtherMode;
    }
    let free = |lock: &Lock| lock.holds.is_empty() && lock.line.is_empty();
    if !locks.iter().zip(&mine).all(|(lock, mine)| mine.is_some() || free(lock)) {
        return Outcome::Refused;
    }
    let fence = mine[0].map(|hold| hold.fence);
    let one_grant = mine.iter().all(|hold| hold.is_some_and(|hold| Some(hold.fence) == fence));
    Outcome::Granted { fence: fence.filter(|_| one_grant) }
}
