//! Clients whose tasks share one connection: nothing on it ever waits, and another connection hears the outcome of each request.

use std::collections::BTreeMap;
use std::time::Duration;

use harness::{Nothing, Reply};
use serde::Deserialize;

use super::Worker;
use super::notes::Note;
use super::several::{Cut, Peer, acquire};
use crate::history::Mode::{Exclusive, Shared};
use crate::history::{AboutLocks, LockAnswer, LockCall, LockOp, Outcome, millis};
use crate::route::PATIENCE;
use crate::wire;

/// How long a lease is, and how long a request waits, in milliseconds.
const LEASE: u64 = 400;
const WAIT: u64 = 3_000;

/// How many tasks ask at a time.
const TASKS: usize = 12;

/// A message about a request.
#[derive(Deserialize)]
struct Message {
    event: String,
    token: String,
    #[serde(default)]
    fence: i64,
    #[serde(default)]
    error: String,
}

/// The two connections, and the requests that nothing has been heard of, by token.
struct Tasks {
    shared: Peer,
    ear: Peer,
    channel: String,
    waiting: BTreeMap<String, LockOp>,
}

impl Worker<'_> {
    /// All tasks ask at once, over one connection.
    pub(super) fn notified(&mut self) {
        // The run's end, or the server's, ends it early.
        let _ = self.tasks();
    }

    fn tasks(&mut self) -> Option<()> {
        let channel = format!("told-{}-{}", self.number, self.count);
        let (shared, mut ear) = (self.peer()?, self.peer()?);
        let subscribed = ear.client.ask_within(["SUBSCRIBE", &channel], Duration::from_micros(PATIENCE));
        subscribed.ok()?;
        let mut tasks = Tasks { shared, ear, channel, waiting: BTreeMap::new() };
        for task in 0..TASKS {
            self.asks_to_be_told(&mut tasks, task)?;
        }
        let end = self.route.clock.now() + millis(WAIT) + PATIENCE;
        while !tasks.waiting.is_empty() && self.route.clock.now() < end {
            match self.random.u8(..100) {
                0..4 => self.cancels_one(&mut tasks)?,
                4 => return self.hangs_up(tasks),
                _ => self.hears_news(&mut tasks, 50)?,
            }
        }
        self.forgotten(&mut tasks, &Outcome::Unknown(Nothing::Silence));
        Some(())
    }

    /// One task asks, and is told at once whether it has the lock or its place in line.
    fn asks_to_be_told(&mut self, tasks: &mut Tasks, task: usize) -> Option<()> {
        let token = format!("{}-{}-{task}", self.number, self.count);
        let many = self.chance(20);
        let keys =
            if many { vec!["wanted-0".to_owned(), "wanted-1".to_owned()] } else { vec![self.wanted().to_owned()] };
        let mode = if !many && self.chance(20) { Shared } else { Exclusive };
        let call = acquire(&token, mode, LEASE, WAIT);
        let words = wire::lock_with_notice(&keys, &call, &tasks.channel);
        let mut op = LockOp::sent(0, self.route.leader().port(), self.route.clock.now(), AboutLocks { keys, call });
        // Each task is a client of its own for the judge.
        (op.client, op.line) = self.a_client_of(&tasks.shared);
        match tasks.shared.client.ask_within(words, Duration::from_micros(PATIENCE)) {
            Ok(Reply::Int(place)) => {
                self.measured("places before the first", u64::from(place < 1), 0);
                tasks.waiting.insert(token, op);
            }
            Ok(Reply::Error(text)) => self.ends(op, Outcome::Refused(text)),
            Ok(Reply::Nil(_)) => self.ends(op, Outcome::Done(LockAnswer::Null)),
            Ok(grant) => {
                self.ends(op.clone(), Outcome::Done(LockAnswer::Granted(grant.at(1).int())));
                self.gives_back(tasks, &op)?;
            }
            Err(nothing) => {
                self.ends(op, Outcome::Unknown(nothing));
                return None;
            }
        }
        Some(())
    }

    /// Reads what has come within so many milliseconds, one message at most.
    fn hears_news(&mut self, tasks: &mut Tasks, within: u64) -> Option<()> {
        match tasks.ear.client.hear(Duration::from_millis(within)) {
            Ok(news) => self.is_told(tasks, &news),
            Err(Nothing::Silence) => Some(()),
            Err(Nothing::Closed) => {
                self.forgotten(tasks, &Outcome::Unknown(Nothing::Closed));
                None
            }
        }
    }

    fn is_told(&mut self, tasks: &mut Tasks, news: &Reply) -> Option<()> {
        let Ok(message) = serde_json::from_str::<Message>(&news.at(2).text()) else {
            self.measured("messages that are no JSON", 1, 0);
            return Some(());
        };
        let op = tasks.waiting.remove(&message.token);
        self.measured("messages about what was over", u64::from(op.is_none()), 0);
        let op = op?;
        match message.event.as_str() {
            "granted" => {
                self.ends(op.clone(), Outcome::Done(LockAnswer::Granted(message.fence)));
                self.rest(0, 10);
                self.gives_back(tasks, &op)
            }
            "timeout" => {
                self.ends(op, Outcome::Done(LockAnswer::Null));
                Some(())
            }
            _ => {
                self.ends(op, Outcome::Refused(message.error));
                Some(())
            }
        }
    }

    fn gives_back(&mut self, tasks: &mut Tasks, op: &LockOp) -> Option<()> {
        let token = op.call.call.token()?.to_owned();
        let keys: Vec<&str> = op.call.keys.iter().map(String::as_str).collect();
        self.has(&mut tasks.shared, &keys, LockCall::Release { token })?;
        Some(())
    }

    /// Releases for a task that waits: it is told that it was cancelled, or has been told just before that it has the lock.
    fn cancels_one(&mut self, tasks: &mut Tasks) -> Option<()> {
        let Some((token, op)) = tasks.waiting.iter().next().map(|(token, op)| (token.clone(), op.clone())) else {
            return Some(());
        };
        self.gives_back(tasks, &op)?;
        let end = self.route.clock.now() + PATIENCE;
        while tasks.waiting.contains_key(&token) && self.route.clock.now() < end {
            self.hears_news(tasks, 50)?;
        }
        self.measured("cancelled requests that nothing was said of", u64::from(tasks.waiting.contains_key(&token)), 0);
        Some(())
    }

    /// The shared connection ends: what was granted before that has been told, and nothing else will be.
    fn hangs_up(&mut self, mut tasks: Tasks) -> Option<()> {
        let (mut admin, kind) = (self.peer()?, self.any_cut());
        let another = self.peer()?;
        self.cut(std::mem::replace(&mut tasks.shared, another), kind, &mut admin);
        if !matches!(kind, Cut::Killed) {
            // Until the server has noticed it.
            self.rest(20, 50);
        }
        tasks.ear.sends(&["PING over"]);
        loop {
            match tasks.ear.client.hear(Duration::from_micros(PATIENCE)) {
                Ok(pong) if pong.at(0).text() == "pong" => break,
                Ok(news) => self.is_told(&mut tasks, &news)?,
                Err(_) => break,
            }
        }
        self.forgotten(&mut tasks, &Outcome::Unwritten);
        Some(())
    }

    /// Nothing more will be heard of the requests that are left.
    fn forgotten(&mut self, tasks: &mut Tasks, outcome: &Outcome<LockAnswer>) {
        for op in std::mem::take(&mut tasks.waiting).into_values() {
            self.ends(op, outcome.clone());
        }
    }

    fn ends(&mut self, op: LockOp, outcome: Outcome<LockAnswer>) {
        let returned = self.route.clock.now();
        self.record.note(Note::Locks(LockOp { returned, outcome, ..op }));
    }
}
