//! A server with much to do at once: does it keep others waiting meanwhile? Sessions end by the ten thousand, requests for many locks are
//! granted together, a lock is deleted under its waiters, holds lapse that the stream refuses.

use std::slice::from_mut;

use harness::{ANY, Client, OK, Reply, Server, Words, eventually};

use super::edge::{Edge, at_rest, ping};
use super::{Nemesis, Scene, processor_time, ready};
use crate::work::{Crew, Trade};

/// How many sessions end with one connection, and with how many commands in one packet they begin.
const SESSIONS: usize = 60_000;
const PACKET: usize = 1_000;

/// How many requests are granted together, each for how many locks.
const REQUESTS: usize = 100;
const LOCKS: usize = 1_000;

/// How many wait for a lock that is deleted, and for how many microseconds of the server's time that may take.
const WAITERS: usize = 4_000;
const DELETION: u64 = 20_000;

/// How many holds lapse that the stream refuses.
const REFUSED: usize = 20_000;

struct Crowds {
    server: Server,
    turn: usize,
}

/// Sets it up.
pub fn crowds() -> Result<Box<dyn Scene>, String> {
    ready(Crowds { server: Server::builder().config("maxclients 10000").start(), turn: 0 })
}

impl Scene for Crowds {
    fn servers(&mut self) -> &mut [Server] {
        from_mut(&mut self.server)
    }

    fn crew(&self) -> Crew {
        &[(Trade::Pulse, 1)]
    }

    fn strike(&mut self, nemesis: &mut Nemesis<'_>) {
        let from = nemesis.now();
        self.turn += 1;
        match self.turn % 4 {
            1 => self.end_sessions(nemesis),
            2 => self.grant_together(nemesis),
            3 => self.delete_under_waiters(nemesis),
            _ => self.refuse_lapses(nemesis),
        }
        let kinds = [
            "lapses refused",
            "many sessions ended",
            "many requests granted at once",
            "lock deleted under its waiters",
        ];
        nemesis.did(kinds[self.turn % 4], from);
    }
}

/// Sends commands in packets, and reads all replies.
pub fn pour(client: &mut Client, commands: impl Iterator<Item = String>) -> Vec<Reply> {
    let commands: Vec<Words> = commands.map(Words::from).collect();
    commands.chunks(PACKET).flat_map(|packet| client.pipeline(packet)).collect()
}

impl Crowds {
    fn end_sessions(&mut self, nemesis: &mut Nemesis<'_>) {
        let (server, turn) = (&self.server, self.turn);
        let mut many = server.client();
        let take = |n| format!("LOCK.ACQUIRE session-{turn}-{n} TOKEN t PX 600000 SESSION");
        pour(&mut many, (0..SESSIONS).map(take));
        let edge = Edge::set(server, "edge", 150);
        many.close();
        edge.pass(server, nemesis, "sessions ending");
        eventually("all sessions are over", || {
            ping(server, nemesis, "sessions ending");
            server.info_int("lockstock", "lockstock_locks_held") <= 1
        });
    }

    fn grant_together(&mut self, nemesis: &mut Nemesis<'_>) {
        let server = &self.server;
        let mut holder = server.client();
        let first: Vec<String> = (0..REQUESTS).map(|n| format!("first-{n}")).collect();
        let all = format!("LOCK.MACQUIRE {REQUESTS} {} TOKEN holder PX 600000 SESSION", first.join(" "));
        holder.expect(all, ANY);
        let waiters = server.info_int("lockstock", "lockstock_lock_waits");
        let requests = (0..REQUESTS).map(|n| {
            let rest: Vec<String> = (1..LOCKS).map(|m| format!("rest-{n}-{m}")).collect();
            let mut client = server.client();
            client.send(format!(
                "LOCK.MACQUIRE {LOCKS} first-{n} {} TOKEN t{n} PX 600000 WAIT 0 SESSION",
                rest.join(" ")
            ));
            client
        });
        let requests: Vec<Client> = requests.collect();
        let all = waiters + i64::try_from(REQUESTS).expect("a few");
        eventually("all of them wait", || server.info_int("lockstock", "lockstock_lock_waits") == all);
        let edge = Edge::set(server, "edge", 100);
        holder.close();
        edge.pass(server, nemesis, "requests being granted");
        for mut client in requests {
            client.read();
            client.close();
        }
        eventually("all sessions are over", || server.info_int("lockstock", "lockstock_locks_held") <= 1);
    }

    fn delete_under_waiters(&mut self, nemesis: &mut Nemesis<'_>) {
        let server = &self.server;
        server.expect("LOCK.ACQUIRE crowd TOKEN holder PX 600000", ANY);
        let waits = server.info_int("lockstock", "lockstock_lock_waits");
        let mut waiters: Vec<Client> = (0..WAITERS).map(|_| server.client()).collect();
        for (n, client) in waiters.iter_mut().enumerate() {
            client.send(format!("LOCK.ACQUIRE crowd TOKEN t{n} PX 600000 WAIT 0"));
        }
        let all = waits + i64::try_from(WAITERS).expect("a few");
        eventually("all of them wait", || server.info_int("lockstock", "lockstock_lock_waits") == all);
        let mut admin = server.client();
        for next in waiters.iter_mut().take(3) {
            let before = processor_time(server);
            admin.expect("DEL crowd", 1);
            next.read();
            let took = processor_time(server).saturating_sub(before);
            nemesis.measured("µs of the server's time to delete a lock with a crowd of waiters", took, DELETION);
        }
        drop(waiters);
        admin.expect("DEL crowd", ANY);
        eventually("nobody waits", || server.info_int("lockstock", "lockstock_lock_waiters") == 0);
        admin.expect("DEL crowd", ANY);
    }

    fn refuse_lapses(&mut self, nemesis: &mut Nemesis<'_>) {
        let (server, turn) = (&self.server, self.turn);
        let mut client = server.client();
        client.expect(format!("STOCK.CREATE refused-{turn} 1000000 STREAM refusing-{turn}"), OK);
        pour(&mut client, (0..REFUSED).map(|n| format!("STOCK.DECR_ONCE refused-{turn} {n} HOLD 1500")));
        client.expect(format!("SET refusing-{turn} text"), OK);
        nemesis.rest(1_600, 1_600);
        at_rest(server, nemesis, "while a stream refuses", 25);
        let edge = Edge::set(server, "edge", 100);
        edge.pass(server, nemesis, "a stream refusing");
        client.expect(format!("DEL refusing-{turn} refused-{turn}"), 2);
    }
}
