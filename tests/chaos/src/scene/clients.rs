//! A server that is left in peace, and clients that are not: processes that are stopped (SIGSTOP) for longer than a lease, and
//! killed (SIGKILL), while they hold a lock and while they wait for one.

use std::collections::BTreeMap;
use std::slice::from_mut;

use harness::Server;
use rustix::process::Signal;

use super::{Nemesis, Scene, ready};
use crate::history::{Fault, KILLED, STOPPED, Time};
use crate::work::Doing::{self, Holds, HoldsWithSession, Waits};

/// How many clients are processes.
const PROCESSES: usize = 8;

/// What the clients do that are stopped each time. A hold with a session outlasts the stop, for its lease is longer.
const STOPS: [[Doing; 3]; 2] = [[Holds, HoldsWithSession, Waits], [Waits, Waits, Waits]];

/// What the clients do that are killed meanwhile.
const KILLS: [[Doing; 2]; 2] = [[HoldsWithSession, Waits], [HoldsWithSession, Holds]];

struct Clients {
    server: Server,
    turn: usize,
}

/// Sets it up.
pub fn clients() -> Result<Box<dyn Scene>, String> {
    ready(Clients { server: Server::start(), turn: 0 })
}

impl Scene for Clients {
    fn servers(&mut self) -> &mut [Server] {
        from_mut(&mut self.server)
    }

    fn processes(&self) -> usize {
        PROCESSES
    }

    fn strike(&mut self, nemesis: &mut Nemesis<'_>) {
        let turn = self.turn % STOPS.len();
        self.turn += 1;
        // The clients that were stopped, and when.
        let mut stopped: BTreeMap<usize, Time> = BTreeMap::new();
        for doing in STOPS[turn] {
            stop(nemesis, doing, &mut stopped);
        }
        for doing in KILLS[turn] {
            nemesis.rest(0, 300);
            kill(nemesis, doing, &stopped);
        }
        nemesis.rest(1_200, 1_500);
        for (client, from) in stopped {
            nemesis.rest(0, 500);
            nemesis.processes.signal(client, Signal::CONT);
            hit(nemesis, STOPPED, from, client);
        }
    }
}

/// Stops a client that does this.
fn stop(nemesis: &mut Nemesis<'_>, doing: Doing, stopped: &mut BTreeMap<usize, Time>) {
    let Some(client) = nemesis.processes.find(doing, stopped, &mut nemesis.random) else { return };
    let from = nemesis.now();
    if nemesis.processes.signal(client, Signal::STOP) {
        stopped.insert(client, from);
    }
}

/// Kills a client that does this.
pub fn kill(nemesis: &mut Nemesis<'_>, doing: Doing, stopped: &BTreeMap<usize, Time>) {
    let Some(client) = nemesis.processes.find(doing, stopped, &mut nemesis.random) else { return };
    let from = nemesis.now();
    if nemesis.processes.signal(client, Signal::KILL) {
        nemesis.processes.wait_for_end(client);
        hit(nemesis, KILLED, from, client);
    }
}

fn hit(nemesis: &mut Nemesis<'_>, kind: &'static str, from: Time, client: usize) {
    let to = nemesis.now();
    nemesis.faults.all.push(Fault { kind: kind.into(), from, to, client: Some(client) });
}
