//! A network that falls apart: a primary that its clients still reach, and nobody else does.

use harness::{OK, Server, eventually};

use super::network::{Link, Network, inside};
use super::sentinel::{Guarded, watch};
use super::{Nemesis, Scene, ready, replication};
use crate::history::Loss;

/// Three hosts with a server and a Sentinel each.
struct Parted {
    guarded: Guarded,
    turn: usize,
    /// Dropped after the servers on it.
    _network: Network,
}

/// Nothing stops the primary that is alone.
pub fn partition() -> Result<Box<dyn Scene>, String> {
    set(&[])
}

/// It stops by itself when it has not heard of a replica for a while.
pub fn partition_min() -> Result<Box<dyn Scene>, String> {
    set(&["min-replicas-to-write 1", "min-replicas-max-lag 1"])
}

fn set(config: &[&str]) -> Result<Box<dyn Scene>, String> {
    let network = Network::of(3)?;
    let builder = config.iter().fold(Server::builder().aof("everysec"), |builder, line| builder.config(line));
    let servers: Vec<Server> = (1..=3).map(|host| Network::place(host, builder.clone()).start()).collect();
    let primary = inside(1, &servers[0]);
    for replica in &servers[1..] {
        replica.expect(format!("REPLICAOF {primary}"), OK);
    }
    let sentinels = (1..=3).map(|host| watch(&primary, Network::place(host, Server::plain()))).collect();
    ready(Parted { guarded: Guarded::of(servers, sentinels), turn: 0, _network: network })
}

impl Scene for Parted {
    fn servers(&mut self) -> &mut [Server] {
        self.guarded.servers()
    }

    fn replicas(&self) -> usize {
        self.guarded.replicas()
    }

    fn keep(&mut self) {
        self.guarded.keep();
    }

    fn strike(&mut self, nemesis: &mut Nemesis<'_>) {
        self.turn += 1;
        if self.turn.is_multiple_of(3) {
            self.cut_off_clients(nemesis);
        } else {
            self.cut_off_primary(nemesis);
        }
    }
}

impl Parted {
    fn host(&self) -> u8 {
        u8::try_from(self.guarded.lead + 1).expect("three hosts")
    }

    /// For a moment no client reaches the primary.
    fn cut_off_clients(&self, nemesis: &mut Nemesis<'_>) {
        let (host, from) = (self.host(), nemesis.now());
        Network::cut(host, Link::Clients, true);
        nemesis.rest(200, 1_200);
        Network::cut(host, Link::Clients, false);
        // What was sent into the void is sent again a little later.
        eventually("the primary is there again", || !replication(&self.guarded.servers[self.guarded.lead]).is_empty());
        nemesis.rest(500, 1_000);
        nemesis.did("clients cut off from the primary", from);
    }

    /// The primary loses its replicas and the Sentinels, which replace it; its clients do not know.
    fn cut_off_primary(&mut self, nemesis: &mut Nemesis<'_>) {
        let since = self.guarded.in_sync(nemesis);
        let (old, host, at) = (self.guarded.lead, self.host(), nemesis.now());
        Network::cut(host, Link::Servers, true);
        self.guarded.lead = self.guarded.elected(old);
        nemesis.rest(100, 600);
        nemesis.route.lead_to(self.guarded.servers[self.guarded.lead].address());
        Network::cut(host, Link::Servers, false);
        self.guarded.demoted(old);
        let (server, until) = (self.guarded.servers[old].port(), nemesis.now());
        nemesis.forgot(Loss { server, since, at, until, spares_replicated: true });
        self.guarded.in_sync(nemesis);
        nemesis.did("primary cut off from the servers", at);
    }
}
