//! Clients that are processes of their own, as this program sees them: it starts them, keeps their notes, and stops or kills
//! them for real.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead as _, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use harness::spawn;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::Trade;
use super::notes::{Note, Notes, Record as _};
use crate::history::{Clock, LockAnswer, LockCall, Time};
use crate::route::Route;

/// The argument that makes this program a client.
const ARGUMENT: &str = "--client";

/// The number of the first; smaller ones are threads.
const FIRST: usize = 100;

/// What a client is told at its beginning.
#[derive(Serialize, Deserialize)]
pub(super) struct Job {
    pub number: usize,
    pub clock: Clock,
    pub server: SocketAddr,
    pub seed: u64,
    pub trade: Trade,
}

/// What a client is at, as far as it has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Neither of these.
    Else,
    Waits,
    Holds,
    /// It holds a lock for as long as its connection lasts.
    HoldsWithSession,
    /// It waits for the answer about a cart.
    Shops,
}

/// All that are there.
#[derive(Default)]
pub struct Processes {
    all: Mutex<All>,
    changed: Condvar,
}

#[derive(Default)]
struct All {
    begun: usize,
    /// Until they are reaped, so that no signal goes to a process that only has the same id.
    there: BTreeMap<usize, (Pid, Doing)>,
}

impl Processes {
    /// Starts a client, and keeps its notes until it ends.
    pub(super) fn employ(&self, route: &Route, trade: Trade, seed: u64, notes: &mut Notes<'_>) {
        let mut command = Command::new(env::current_exe().expect("this program"));
        command.arg(ARGUMENT).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = spawn(command).expect("this program once more");
        let mut ear = child.stdin.take().expect("a pipe");
        let number = self.register(&child);
        tell(&mut ear, &Job { number, clock: route.clock, server: route.leader(), seed, trade });
        for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
            let note: Note = serde_json::from_str(&line.expect("a line")).expect("a note");
            let asks = matches!(note, Note::Asks(_) | Note::AsksCart(_));
            self.watch(number, &note);
            notes.note(note);
            if !asks {
                tell(&mut ear, &route.stopped());
            }
        }
        self.bury(number, &mut child);
        notes.end(route.clock.now());
    }

    fn register(&self, child: &Child) -> usize {
        let mut all = self.all();
        let number = FIRST + all.begun;
        all.begun += 1;
        all.there.insert(number, (Pid::from_child(child), Doing::Else));
        number
    }

    fn watch(&self, number: usize, note: &Note) {
        let doing = match note {
            Note::Asks(op) => match op.call.call {
                LockCall::Acquire { wait: Some(_), .. } => Doing::Waits,
                LockCall::Release { .. } => Doing::Else,
                _ => return,
            },
            Note::Locks(op) => match (&op.call.call, op.answer()) {
                (LockCall::Acquire { session: true, .. }, Some(LockAnswer::Granted(_))) => Doing::HoldsWithSession,
                (LockCall::Acquire { .. }, Some(LockAnswer::Granted(_))) => Doing::Holds,
                (LockCall::Extend { .. }, Some(LockAnswer::Count(1))) => return,
                _ => Doing::Else,
            },
            Note::AsksCart(_) => Doing::Shops,
            Note::Cart(_) => Doing::Else,
            _ => return,
        };
        if let Some((_, now)) = self.all().there.get_mut(&number) {
            *now = doing;
        }
        self.changed.notify_all();
    }

    /// Reaps it and strikes it off the list in one step.
    fn bury(&self, number: usize, child: &mut Child) {
        let mut all = self.all();
        let status = child.wait().expect("a child can be waited for");
        all.there.remove(&number);
        drop(all);
        self.changed.notify_all();
        let killed = status.signal() == Some(Signal::KILL.as_raw());
        assert!(killed || status.success(), "client {number} ended with {status}");
    }

    /// Waits until a client does this that is not stopped. `None` if it takes too long.
    pub fn find(&self, what: Doing, stopped: &BTreeMap<usize, Time>, random: &mut fastrand::Rng) -> Option<usize> {
        let doing = |all: &All| -> Vec<usize> {
            let there = all.there.iter().filter(|(number, (_, doing))| *doing == what && !stopped.contains_key(number));
            there.map(|(number, _)| *number).collect()
        };
        let patience = Duration::from_secs(1);
        let waited = self.changed.wait_timeout_while(self.all(), patience, |all| doing(all).is_empty());
        random.choice(doing(&waited.expect("no thread panicked").0))
    }

    /// Sends it a signal; whether it is there.
    pub fn signal(&self, number: usize, signal: Signal) -> bool {
        let all = self.all();
        let process = all.there.get(&number);
        process.is_some_and(|(process, _)| kill_process(*process, signal).is_ok())
    }

    /// Waits until it is gone, with its connections.
    pub fn wait_for_end(&self, number: usize) {
        drop(self.changed.wait_while(self.all(), |all| all.there.contains_key(&number)));
    }

    /// Lets all of them go on that are stopped.
    pub fn wake(&self) {
        for (process, _) in self.all().there.values() {
            // It may have ended.
            let _ = kill_process(*process, Signal::CONT);
        }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().expect("no thread panicked")
    }
}

/// Tells a client something; it may be gone.
fn tell(ear: &mut impl Write, what: &impl Serialize) {
    let mut line = serde_json::to_vec(what).expect("plain data");
    line.push(b'\n');
    let _ = ear.write_all(&line);
}
