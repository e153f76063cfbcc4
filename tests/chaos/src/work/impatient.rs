//! Clients that give up reading: they cancel their wait, or ask again with their token, over a new connection, with the old one kept or
//! ended.

use std::time::Duration;

use harness::Reply;

use super::Worker;
use super::several::{Peer, acquire};
use crate::history::Mode::Exclusive;
use crate::history::{LockAnswer, LockCall, Outcome, Time, millis};
use crate::route::PATIENCE;

/// How long a lease is, and how long a request waits, in milliseconds.
const LEASE: u64 = 300;
const WAIT: u64 = 6_000;

/// A place is kept for a second. When the client itself is later than this, nothing is asked of its place.
const IN_TIME: Time = millis(600);

/// The lock that all of them want.
const KEYS: [&str; 2] = ["wanted-0", "wanted-1"];

/// Tokens that hold or wait, in the order of the line.
struct Line {
    holders: Vec<String>,
    waiters: Vec<String>,
}

impl Worker<'_> {
    /// Asks, reads for less time than it waits, and then cancels or asks again.
    pub(super) fn impatient(&mut self) {
        // The run's end, or the server's, ends it early.
        let _ = self.reads_too_short();
    }

    /// One of the locks that these clients want.
    pub(super) fn wanted(&mut self) -> &'static str {
        KEYS[self.random.usize(..KEYS.len())]
    }

    fn reads_too_short(&mut self) -> Option<()> {
        let (key, token) = (self.wanted(), format!("{}-{}", self.number, self.count));
        let (mut admin, mut first) = (self.peer()?, self.peer()?);
        self.asks(&mut first, &[key], acquire(&token, Exclusive, LEASE, WAIT));
        let patience = self.random.u64(5..400);
        match self.hears(&mut first, patience) {
            Some(outcome) => self.uses(&mut first, key, token, &outcome),
            None if self.chance(40) => self.cancels(&mut admin, &mut first, key, &token),
            None => self.asks_again(&mut admin, first, key, token),
        }
    }

    /// Releases from another connection. After that its token neither holds nor waits, and the first request is answered.
    fn cancels(&mut self, admin: &mut Peer, first: &mut Peer, key: &'static str, token: &str) -> Option<()> {
        self.has(admin, &[key], LockCall::Release { token: token.to_owned() })?;
        let line = line_of(admin, key)?;
        let left = line.holders.iter().chain(&line.waiters).filter(|other| *other == token).count();
        self.measured("holds and places left by a cancel", u64::try_from(left).unwrap_or(u64::MAX), 0);
        if self.hears(first, PATIENCE / 1_000).is_none() {
            self.gives_up(first);
        }
        Some(())
    }

    /// Asks again over another connection. A request behind the first one is behind the second one.
    fn asks_again(&mut self, admin: &mut Peer, mut first: Peer, key: &'static str, token: String) -> Option<()> {
        let before = line_of(admin, key)?;
        let (from, keeps) = (self.route.clock.now(), self.chance(50));
        let mut second = self.peer()?;
        if keeps {
            self.asks(&mut second, &[key], acquire(&token, Exclusive, LEASE, WAIT));
            // Its place was taken over, or it was granted just before that.
            if self.hears(&mut first, PATIENCE / 1_000).is_none() {
                self.gives_up(&mut first);
            }
        } else {
            let cut = self.any_cut();
            self.cut(first, cut, admin);
            self.rest(0, 300);
            self.asks(&mut second, &[key], acquire(&token, Exclusive, LEASE, WAIT));
        }
        let after = line_of(admin, key)?;
        if self.route.clock.now() < from + IN_TIME {
            self.measured("places lost by asking again", overtaken(&token, &before.waiters, &after.waiters), 0);
        }
        let outcome = self.hears(&mut second, WAIT + 500);
        let Some(outcome) = outcome else {
            self.gives_up(&mut second);
            return None;
        };
        self.uses(&mut second, key, token, &outcome)
    }

    /// Gives back what was granted, a little later.
    fn uses(&mut self, peer: &mut Peer, key: &'static str, token: String, outcome: &Outcome<LockAnswer>) -> Option<()> {
        if matches!(outcome, Outcome::Done(LockAnswer::Granted(_))) {
            self.rest(0, 30);
            self.has(peer, &[key], LockCall::Release { token })?;
        }
        Some(())
    }
}

fn line_of(admin: &mut Peer, key: &str) -> Option<Line> {
    let info = admin.client.ask_within(["LOCK.INFO", key], Duration::from_micros(PATIENCE)).ok()?;
    let tokens = |rows: &Reply| rows.items().iter().map(|row| row.field("token").text()).collect();
    match info {
        Reply::Error(_) => None,
        Reply::Nil(_) => Some(Line { holders: vec![], waiters: vec![] }),
        info => Some(Line { holders: tokens(&info.field("holders")), waiters: tokens(&info.field("waiters")) }),
    }
}

/// How many tokens stood behind `token` before and stand in front of it now.
fn overtaken(token: &str, before: &[String], after: &[String]) -> u64 {
    let place = |line: &[String]| line.iter().position(|other| other == token);
    let (Some(was), Some(is)) = (place(before), place(after)) else { return 0 };
    let overtaken = after[..is].iter().filter(|other| before[was..].contains(other)).count();
    u64::try_from(overtaken).unwrap_or(u64::MAX)
}
