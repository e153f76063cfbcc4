//! A cluster of one node, with keys whose own time to live ends just when their leases and holds do, on a machine on which time passes
//! between any two looks at the clock.

use std::slice::from_mut;

use harness::clock::with_own_clock;
use harness::{OK, Server, eventually, unix_ms};
use tempfile::TempDir;

use super::{Nemesis, Scene, ready};
use crate::work::{Crew, Trade};

/// How many sales, and as many locks, expire at one time.
const SALES: usize = 1_500;

/// By how many microseconds two looks at the clock differ at most.
const TREMBLE: u32 = 2_000;

struct Expiring {
    server: Server,
    _dir: TempDir,
    turn: usize,
}

/// Sets it up, if there is a C compiler.
pub fn expiring() -> Result<Box<dyn Scene>, String> {
    let dir = tempfile::tempdir().expect("a directory");
    let server = with_own_clock(Server::plain().cluster(), &dir, TREMBLE)?.start();
    server.expect("CLUSTER ADDSLOTSRANGE 0 16383", OK);
    eventually("the cluster is up", || server.cmd("CLUSTER INFO").text().contains("cluster_state:ok"));
    ready(Expiring { server, _dir: dir, turn: 0 })
}

impl Scene for Expiring {
    fn servers(&mut self) -> &mut [Server] {
        from_mut(&mut self.server)
    }

    fn crew(&self) -> Crew {
        &[(Trade::Pulse, 1)]
    }

    fn strike(&mut self, nemesis: &mut Nemesis<'_>) {
        self.turn += 1;
        let mut client = self.server.client();
        let (turn, from, spread) = (self.turn, nemesis.now(), nemesis.random.i64(0..2));
        let mut last = 0;
        for n in 0..SALES {
            let (sale, lock) = (format!("{{ttl-{turn}-{n}}}sale"), format!("ttl-{turn}-lock-{n}"));
            let stream = if n.is_multiple_of(2) { format!("STREAM {sale}:events") } else { String::new() };
            let order = |id| format!("STOCK.DECR_ONCE {sale} {id} HOLD 500");
            let told = client.pipeline([format!("STOCK.CREATE {sale} 10 {stream}"), order(1), order(2), order(3)]);
            let deadline = (1..=3).map(|id| told[id].at(3).int()).min().unwrap_or(0);
            last = deadline.max(last);
            client.pipeline([
                format!("PEXPIREAT {sale} {}", deadline + spread),
                format!("LOCK.ACQUIRE {lock} TOKEN t PX 500"),
                format!("PEXPIREAT {lock} {}", deadline + spread),
            ]);
        }
        eventually("their time is over", || unix_ms() > last + 100);
        nemesis.did("time to live at the deadline", from);
    }
}
