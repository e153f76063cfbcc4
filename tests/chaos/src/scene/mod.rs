//! The servers, and what is done to them.

mod alone;
mod carts;
mod clients;
mod clock;
mod cluster;
mod crowds;
mod disk;
mod edge;
mod expiring;
mod janitor;
mod leave;
mod liar;
mod listener;
mod network;
mod pair;
mod partition;
mod renames;
mod sentinel;
mod shared;
mod unread;

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

pub use liar::BROKEN;

use crate::history::{Crash, Fault, Faults, Loss, Measure, Step, Time};
use crate::route::Route;
use crate::work::{self, Crew, Processes, Trade};
use harness::{Client, PATIENCE, Reply, Server, eventually, eventually_some};

/// Servers with something that can be done to them.
pub trait Scene {
    /// Those that the clients talk to; the first is in charge when they come.
    fn servers(&mut self) -> &mut [Server];

    /// How many replicas there are for `WAIT` to count.
    fn replicas(&self) -> usize {
        0
    }

    /// What the clients do that are threads.
    fn crew(&self) -> Crew {
        work::USUAL
    }

    /// Whether the sales are still there at the end.
    fn keeps_sales(&self) -> bool {
        true
    }

    /// How many clients are processes of their own, for the scene to stop and kill. They know only the server in charge.
    fn processes(&self) -> usize {
        0
    }

    /// What those do.
    fn trade(&self) -> Trade {
        Trade::Mutex
    }

    /// How many sales there are for carts.
    fn shelves(&self) -> usize {
        0
    }

    /// The sales are there, and the clients are about to come.
    fn open(&mut self, _nemesis: &mut Nemesis<'_>) {}

    /// One fault, from its beginning to its end.
    fn strike(&mut self, nemesis: &mut Nemesis<'_>);

    /// Keeps the files that the servers wrote, to be looked at.
    fn keep(&mut self) {
        self.servers().iter_mut().for_each(Server::keep);
    }
}

/// Sets a scene up, or says why this machine cannot.
type Set = fn() -> Result<Box<dyn Scene>, String>;

/// A scene that can be asked for by its name.
pub struct Plan {
    pub name: &'static str,
    pub about: &'static str,
    pub set: Set,
}

/// All scenes, in the order in which they are played.
pub const PLANS: &[Plan] = &[
    plan("kill-always", "kill -9 and restart, AOF always: nothing may be lost", alone::kill_always),
    plan("power-everysec", "power cut, AOF everysec: the last second may be lost", alone::power_everysec),
    plan("kill-rdb", "kill -9 and restart, RDB only: what came after the last save may be lost", alone::kill_rdb),
    plan("nuisance", "a server frozen, paused, out of memory; clients cut off: nothing may be lost", alone::nuisance),
    plan("clients-stopped", "client processes are stopped for longer than a lease, or killed", clients::clients),
    plan(
        "carts",
        "processes buy from several sales at once; they and the server are killed: nothing of a cart is left over",
        carts::carts,
    ),
    plan("unread", "replies left unread, grants to connections that end, unblocked, subscribed", unread::unread),
    plan("shared", "clients that give up reading, ask again, cancel, share a connection", shared::shared),
    plan(
        "crowds",
        "sessions end, requests are granted, holds lapse by the thousand: nobody else waits",
        crowds::crowds,
    ),
    plan("expiring", "locks and sales whose keys expire just at their deadlines, in a cluster", expiring::expiring),
    plan("renames", "locks and sales are renamed among very many keys, and imported", renames::renames),
    plan("listener", "another module meddles with the keys of every transition", listener::listener),
    plan("leave", "a slot with very many locks leaves as a whole, or nearly", leave::leave),
    plan("disk-full", "the disk of the append-only file is full: nothing may be lost", disk::disk),
    plan("clock", "the wall clock is set, ahead and back", clock::clock),
    plan("promote", "a primary dies, or does not know that it is replaced", pair::promote),
    plan("min-replicas", "the same, with min-replicas-to-write 1", pair::min_replicas),
    plan("failover", "the FAILOVER command: nothing may be lost", pair::failover),
    plan("sentinel", "three Sentinels replace a primary that is killed or frozen", sentinel::sentinel),
    plan("cluster-moves", "slots move and replicas take over in good order: nothing may be lost", cluster::moves),
    plan("half-moved", "a slot moves slowly, while clients want several of its locks", cluster::halves),
    plan("cluster-deaths", "primaries of a cluster die while a slot moves now and then", cluster::deaths),
    plan("partition", "the network cuts a primary off from everybody but its clients", partition::partition),
    plan("partition-min", "the same, with min-replicas-to-write 1", partition::partition_min),
];

/// A scene that every machine can play.
#[expect(clippy::unnecessary_wraps, reason = "others cannot be played everywhere")]
fn ready(scene: impl Scene + 'static) -> Result<Box<dyn Scene>, String> {
    Ok(Box::new(scene))
}

const fn plan(name: &'static str, about: &'static str, set: Set) -> Plan {
    Plan { name, about, set }
}

/// The one that does it, and notes what it did.
pub struct Nemesis<'a> {
    pub route: &'a Route,
    pub processes: &'a Processes,
    pub random: fastrand::Rng,
    pub faults: Faults,
    pub measures: Vec<Measure>,
}

impl Nemesis<'_> {
    /// The time now.
    pub fn now(&self) -> Time {
        self.route.clock.now()
    }

    /// Waits for between `least` and `most` milliseconds.
    pub fn rest(&mut self, least: u64, most: u64) {
        thread::sleep(Duration::from_millis(self.random.u64(least..=most)));
    }

    /// Notes a fault that is over.
    pub fn did(&mut self, kind: &'static str, from: Time) {
        let to = self.now();
        self.faults.all.push(Fault { kind: kind.into(), from, to, client: None });
    }

    /// Notes what may be missing from now on.
    pub fn forgot(&mut self, loss: Loss) {
        self.faults.losses.push(loss);
    }

    /// Notes something that has a bound.
    pub fn measured(&mut self, what: impl Into<String>, value: u64, most: u64) {
        let at = self.now();
        self.measures.push(Measure { what: what.into(), at, value, most });
    }

    /// Notes that a clock was set.
    pub fn set_clock(&mut self, step: Step) {
        self.faults.steps.push(step);
    }
}

/// Stops a server as it is, as when its host swaps.
pub fn freeze(server: &Server) {
    signal(server, Signal::STOP);
}

/// Lets a frozen server go on.
pub fn thaw(server: &Server) {
    signal(server, Signal::CONT);
}

fn signal(server: &Server, signal: Signal) {
    let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, signal).expect("a process of ours");
}

/// Asks a server that may cut the connection off meanwhile, as a server does when its role changes.
pub fn ask(server: &Server, words: &str) -> Option<Reply> {
    Client::try_reach(server.address(), PATIENCE).ok()?.ask(words)
}

/// A server's report about its replication.
pub fn replication(server: &Server) -> HashMap<String, String> {
    let text = ask(server, "INFO replication").map_or_else(String::new, |reply| reply.text());
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(field, value)| (field.to_owned(), value.to_owned())).collect()
}

/// Waits until the replicas have everything that the primary had; all changes acknowledged before the returned time are there.
pub fn in_sync<'s>(nemesis: &Nemesis<'_>, primary: &Server, replicas: impl IntoIterator<Item = &'s Server>) -> Time {
    let since = nemesis.now();
    let number = |info: &HashMap<String, String>, field: &str| info.get(field)?.parse::<i64>().ok();
    let goal = eventually_some("the primary tells its offset", || number(&replication(primary), "master_repl_offset"));
    let port = primary.port().to_string();
    for replica in replicas {
        eventually("the replica catches up with its primary", || {
            let info = replication(replica);
            let is = |field: &str, value: &str| info.get(field).is_some_and(|found| found == value);
            is("master_link_status", "up")
                && is("master_port", &port)
                && number(&info, "slave_repl_offset").is_some_and(|offset| offset >= goal)
        });
    }
    since
}

/// How many microseconds a server has had of a processor so far. What else the machine does is not in it.
pub fn processor_time(server: &Server) -> Time {
    scheduled(server, 0)
}

/// How many microseconds a server has had to wait for a processor so far, because others had them.
pub fn starved_time(server: &Server) -> Time {
    scheduled(server, 1)
}

fn scheduled(server: &Server, field: usize) -> Time {
    let text = std::fs::read_to_string(format!("/proc/{}/schedstat", server.pid()));
    let nanos = text.ok().and_then(|text| text.split_whitespace().nth(field)?.parse::<u64>().ok());
    nanos.unwrap_or(0) / 1_000
}

/// The servers that died and that the run had not killed.
pub fn crashes(scene: &mut dyn Scene) -> Vec<Crash> {
    let crashed = |server: &mut Server| server.crash().map(|log| Crash { server: server.port(), log });
    scene.servers().iter_mut().filter_map(crashed).collect()
}

/// The product and its version.
pub fn version(server: &Server) -> String {
    let [major, minor, patch] = server.version();
    format!("{} {major}.{minor}.{patch}", if server.is_valkey() { "valkey" } else { "redis" })
}
