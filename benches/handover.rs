//! What a hand-over costs: `cargo bench --bench handover`, or `make bench`.
//!
//! Clients stand in a ring. Whoever has the lock gives it back and goes to the end of the line in one write, and the next
//! one has it when its reply has come; so one thread can play any number of contenders, and lock and list are driven alike. The
//! server's processor time is read from the kernel. Several rounds of each, alternating; the median counts.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a benchmark may stop at the first surprise"
)]
#![allow(dead_code, unused_imports, reason = "the harness of the tests has more than is needed here")]

#[path = "../tests/suite/harness/mod.rs"]
mod harness;

use std::fs;
use std::time::Instant;

use harness::{Client, Server};

/// Hand-overs in one round.
const TURNS: usize = 20_000;
/// Rounds of each measurement.
const ROUNDS: usize = 3;

/// A way to pass something from one client to the next.
struct Way {
    name: &'static str,
    /// What the client with this number sends to have it, and to give it on and have it again.
    take: fn(usize) -> String,
    pass: fn(usize) -> String,
}

const LOCK: Way = Way {
    name: "LOCK.ACQUIRE WAIT / RELEASE",
    take: |n| format!("LOCK.ACQUIRE lock TOKEN t{n} WAIT 0\r\n"),
    pass: |n| format!("LOCK.RELEASE lock t{n}\r\nLOCK.ACQUIRE lock TOKEN t{n} WAIT 0\r\n"),
};

const LIST: Way = Way {
    name: "BLPOP / LPUSH",
    take: |_| "BLPOP list 0\r\n".into(),
    pass: |_| "LPUSH list x\r\nBLPOP list 0\r\n".into(),
};

/// What one hand-over took, in microseconds.
struct Cost {
    latency: f64,
    server: f64,
}

fn main() {
    let server = Server::builder().config("maxclients 20000").start();
    let name = if server.is_valkey() { "valkey" } else { "redis" };
    println!("{name} {:?}, {TURNS} hand-overs, median of {ROUNDS}", server.version());
    println!("{:<28} {:>10} {:>14} {:>16}", "way", "contenders", "µs/hand-over", "server CPU µs");
    for contenders in [2, 25, 200, 5_000] {
        for way in [LOCK, LIST] {
            // A list costs what its waiters cost, which on some servers is their square.
            let turns = if way.name == LIST.name && contenders > 200 { TURNS / 100 } else { TURNS };
            let mut ring = Ring::of(&server, &way, contenders);
            let mut costs: Vec<Cost> = (0..ROUNDS).map(|_| ring.go(&server, &way, turns)).collect();
            let median = |costs: &mut Vec<Cost>, of: fn(&Cost) -> f64| {
                costs.sort_by(|a, b| of(a).total_cmp(&of(b)));
                of(&costs[ROUNDS / 2])
            };
            let (latency, cpu) = (median(&mut costs, |cost| cost.latency), median(&mut costs, |cost| cost.server));
            println!("{:<28} {contenders:>10} {latency:>14.1} {cpu:>16.2}", way.name);
        }
    }
}

struct Ring {
    clients: Vec<Client>,
    at: usize,
}

impl Ring {
    fn of(server: &Server, way: &Way, contenders: usize) -> Self {
        server.expect("FLUSHALL", harness::OK);
        let mut first = server.client();
        if way.name == LIST.name {
            first.expect("LPUSH list x", 1);
        }
        first.send_raw((way.take)(0).as_bytes());
        first.read();
        let mut clients = vec![first];
        for n in 1..contenders {
            let mut client = server.client();
            client.send_raw((way.take)(n).as_bytes());
            clients.push(client);
        }
        harness::eventually("all are parked", || {
            server.info_int("clients", "blocked_clients") == i64::try_from(contenders).expect("a few") - 1
        });
        Self { clients, at: 0 }
    }

    fn go(&mut self, server: &Server, way: &Way, turns: usize) -> Cost {
        let (begun, used) = (Instant::now(), used(server));
        for _ in 0..turns {
            let holder = &mut self.clients[self.at];
            holder.send_raw((way.pass)(self.at).as_bytes());
            self.at = (self.at + 1) % self.clients.len();
            self.clients[self.at].read_raw();
            let before = self.at.checked_sub(1).unwrap_or(self.clients.len() - 1);
            // The answer to giving it back.
            self.clients[before].read_raw();
        }
        let per_turn = |micros: f64| micros / f64::from(u32::try_from(turns).expect("a few"));
        Cost {
            latency: per_turn(begun.elapsed().as_secs_f64() * 1e6),
            server: per_turn((crate::used(server) - used) * 1e-3),
        }
    }
}

/// Nanoseconds that the server's main thread has been running.
fn used(server: &Server) -> f64 {
    let text = fs::read_to_string(format!("/proc/{}/schedstat", server.pid())).expect("Linux keeps count");
    text.split_whitespace().next().and_then(|count| count.parse().ok()).expect("a number")
}
