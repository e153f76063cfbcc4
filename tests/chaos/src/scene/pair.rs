//! A primary and its replica, which takes over.

use harness::{ANY, Server, eventually};

use super::{Nemesis, Scene, freeze, in_sync, ready, thaw};
use crate::history::{Loss, Time};

/// A way to change places.
#[derive(Clone, Copy)]
enum Strike {
    /// The primary is killed, and the replica has everything but what was on the way.
    Kill,
    /// The primary has lost its replica for a moment when it is killed.
    KillAhead,
    /// The replica is promoted while the primary still serves.
    Usurp,
    /// `FAILOVER`: the primary hands over.
    HandOver,
    /// The replica is frozen for a moment.
    FreezeReplica,
}

/// Two servers, of which the first is in charge.
struct Pair {
    servers: [Server; 2],
    strikes: &'static [Strike],
    turn: usize,
}

const DEATHS: &[Strike] = &[Strike::KillAhead, Strike::Usurp, Strike::Kill, Strike::FreezeReplica];

/// Nothing keeps the primary from running ahead of its replica.
pub fn promote() -> Result<Box<dyn Scene>, String> {
    set(&[], DEATHS)
}

/// A primary without a replica stops.
pub fn min_replicas() -> Result<Box<dyn Scene>, String> {
    set(&["min-replicas-to-write 1", "min-replicas-max-lag 2"], DEATHS)
}

/// Only in good order.
pub fn failover() -> Result<Box<dyn Scene>, String> {
    set(&[], &[Strike::HandOver, Strike::FreezeReplica, Strike::HandOver])
}

fn set(config: &[&str], strikes: &'static [Strike]) -> Result<Box<dyn Scene>, String> {
    let builder = config.iter().fold(Server::builder().aof("everysec"), |builder, line| builder.config(line));
    let primary = builder.clone().start();
    let replica = builder.start();
    replica.follow(&primary);
    replica.wait_in_sync(&primary);
    ready(Pair { servers: [primary, replica], strikes, turn: 0 })
}

impl Scene for Pair {
    fn servers(&mut self) -> &mut [Server] {
        &mut self.servers
    }

    fn replicas(&self) -> usize {
        1
    }

    fn strike(&mut self, nemesis: &mut Nemesis<'_>) {
        let strike = self.strikes[self.turn % self.strikes.len()];
        self.turn += 1;
        let since = in_sync(nemesis, &self.servers[0], [&self.servers[1]]);
        match strike {
            Strike::Kill => {
                let at = nemesis.now();
                self.servers[0].kill9();
                self.replaced(nemesis, "primary killed", since, at);
            }
            Strike::KillAhead => {
                freeze(&self.servers[1]);
                self.servers[0].expect("CLIENT KILL TYPE replica", ANY);
                nemesis.rest(100, 400);
                let at = nemesis.now();
                self.servers[0].kill9();
                thaw(&self.servers[1]);
                self.replaced(nemesis, "primary killed ahead of its replica", since, at);
            }
            Strike::Usurp => self.usurp(nemesis, since),
            Strike::HandOver => self.hand_over(nemesis),
            Strike::FreezeReplica => {
                let from = nemesis.now();
                freeze(&self.servers[1]);
                nemesis.rest(300, 1_500);
                thaw(&self.servers[1]);
                nemesis.did("replica frozen", from);
            }
        }
    }
}

impl Pair {
    /// The replica takes the place of the primary, which was killed `at`.
    fn replaced(&mut self, nemesis: &mut Nemesis<'_>, kind: &'static str, since: Time, at: Time) {
        let (server, until) = (self.servers[0].port(), nemesis.now());
        nemesis.forgot(Loss { server, since, at, until, spares_replicated: true });
        self.servers[1].promote();
        self.servers.swap(0, 1);
        nemesis.route.lead_to(self.servers[0].address());
        self.servers[1].start_again();
        self.servers[1].follow(&self.servers[0]);
        self.settle(nemesis, kind, at);
    }

    /// For a moment there are two primaries, and the clients of the old one do not know.
    fn usurp(&mut self, nemesis: &mut Nemesis<'_>, since: Time) {
        let at = nemesis.now();
        self.servers[1].promote();
        self.servers.swap(0, 1);
        nemesis.rest(50, 300);
        nemesis.route.lead_to(self.servers[0].address());
        nemesis.rest(0, 300);
        self.servers[1].follow(&self.servers[0]);
        let (server, until) = (self.servers[1].port(), nemesis.now());
        nemesis.forgot(Loss { server, since, at, until, spares_replicated: true });
        self.settle(nemesis, "two primaries", at);
    }

    /// All is well again when the old primary has what the new one has.
    fn settle(&self, nemesis: &mut Nemesis<'_>, kind: &'static str, from: Time) {
        let [primary, replica] = &self.servers;
        replica.wait_in_sync(primary);
        nemesis.did(kind, from);
    }

    fn hand_over(&mut self, nemesis: &mut Nemesis<'_>) {
        let from = nemesis.now();
        let [primary, replica] = &self.servers;
        let to = replica.address();
        primary.wait_online();
        primary.expect(format!("FAILOVER TO {} {} TIMEOUT 5000", to.ip(), to.port()), ANY);
        eventually("the replica is in charge", || replica.info("replication")["role"] == "master");
        self.servers.swap(0, 1);
        nemesis.route.lead_to(self.servers[0].address());
        self.servers[1].wait_in_sync(&self.servers[0]);
        nemesis.did("FAILOVER", from);
    }
}
