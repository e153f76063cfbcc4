//! A primary, two replicas, and three Sentinels who decide who is in charge.

use harness::{Builder, Reply, Server, eventually, eventually_some};

use super::{Nemesis, Scene, freeze, in_sync, ready, replication, thaw};
use crate::history::{Loss, Time};

/// What the Sentinels call the primary.
const NAME: &str = "lead";

pub struct Guarded {
    pub servers: Vec<Server>,
    sentinels: Vec<Server>,
    /// Which of the servers is in charge.
    pub lead: usize,
    turn: usize,
}

/// Sets it up.
pub fn sentinel() -> Result<Box<dyn Scene>, String> {
    let primary = Server::builder().aof("everysec").start();
    let mut servers = vec![primary];
    for _ in 0..2 {
        let replica = Server::builder().aof("everysec").start();
        replica.follow(&servers[0]);
        servers.push(replica);
    }
    let primary = servers[0].address();
    let primary = format!("{} {}", primary.ip(), primary.port());
    let sentinels = (0..3).map(|_| watch(&primary, Server::plain())).collect();
    ready(Guarded::of(servers, sentinels))
}

/// A Sentinel that watches the server at `primary` and loses patience after two seconds: a busy machine may stand still for one,
/// and then a second primary is replaced that nothing was done to.
pub fn watch(primary: &str, builder: Builder) -> Server {
    builder
        .sentinel()
        .config(&format!("sentinel monitor {NAME} {primary} 2"))
        .config(&format!("sentinel down-after-milliseconds {NAME} 2000"))
        .config(&format!("sentinel failover-timeout {NAME} 4000"))
        .start()
}

impl Scene for Guarded {
    fn servers(&mut self) -> &mut [Server] {
        &mut self.servers
    }

    fn replicas(&self) -> usize {
        2
    }

    fn keep(&mut self) {
        self.servers.iter_mut().chain(&mut self.sentinels).for_each(Server::keep);
    }

    fn strike(&mut self, nemesis: &mut Nemesis<'_>) {
        let since = self.in_sync(nemesis);
        let (old, at) = (self.lead, nemesis.now());
        self.turn += 1;
        let frozen = self.turn.is_multiple_of(2);
        if frozen {
            freeze(&self.servers[old]);
        } else {
            self.servers[old].kill9();
        }
        self.lead = self.elected(old);
        if frozen {
            thaw(&self.servers[old]);
        } else {
            self.servers[old].start_again();
        }
        // The clients learn of it a little later than the servers.
        nemesis.rest(0, 300);
        nemesis.route.lead_to(self.servers[self.lead].address());
        self.demoted(old);
        let (server, until) = (self.servers[old].port(), nemesis.now());
        nemesis.forgot(Loss { server, since, at, until, spares_replicated: true });
        self.in_sync(nemesis);
        nemesis.did(if frozen { "primary frozen, Sentinel" } else { "primary killed, Sentinel" }, at);
    }
}

impl Guarded {
    /// These servers, of which the first is in charge, once the Sentinels know all of them and each other.
    pub fn of(servers: Vec<Server>, sentinels: Vec<Server>) -> Self {
        eventually("the Sentinels know each other and the replicas", || {
            sentinels.iter().all(|sentinel| {
                let facts = sentinel.cmd(["SENTINEL", "MASTER", NAME]);
                facts.field("num-other-sentinels").text() == "2" && facts.field("num-slaves").text() == "2"
            })
        });
        Self { servers, sentinels, lead: 0, turn: 0 }
    }

    /// Waits until all replicas have everything; all changes acknowledged before the returned time are there.
    pub fn in_sync(&self, nemesis: &Nemesis<'_>) -> Time {
        let replicas = self.servers.iter().enumerate().filter(|(number, _)| *number != self.lead);
        in_sync(nemesis, &self.servers[self.lead], replicas.map(|(_, replica)| replica))
    }

    /// Waits until the Sentinels have made the old primary a replica.
    pub fn demoted(&self, old: usize) {
        eventually("the Sentinels make the old primary a replica", || {
            replication(&self.servers[old]).get("role").is_some_and(|role| role == "slave")
        });
    }

    /// Waits until the Sentinels have put another server in charge; a Sentinel is asked that is not on the old one's host.
    pub fn elected(&self, old: usize) -> usize {
        eventually_some("the Sentinels elect a primary", || {
            let reply =
                self.sentinels[(old + 1) % self.sentinels.len()].cmd(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]);
            let Reply::Array(address) = reply else { return None };
            let port = address[1].text();
            let number = self.servers.iter().position(|server| server.port().to_string() == port)?;
            (number != old).then_some(number)
        })
    }
}
