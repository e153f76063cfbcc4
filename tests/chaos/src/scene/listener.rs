//! A primary and its replica with another module on the primary, which answers events about some locks and sales with commands of its own
//! while clients fight for them. The right holder is not known then; but the server lives, every request is answered, nothing that is
//! exclusive has two holders, everything ends, and file and replica have what the primary has. The usual clients have other keys.

use std::process::Command;
use std::time::Duration;

use harness::{ANY, Client, OK, Reply, Server, patiently};

use super::{Nemesis, Scene, ready};
use crate::work::{Crew, Trade};

/// Whose events are answered: those of keys with names that end so.
const TAIL: &str = "-wild";

/// What the other module does at an event of ours; `@` is the key of the event. At its own events, a server does not survive all of it.
const ANSWERS: [&str; 14] = [
    "FLUSHALL",
    "DEL @",
    "RENAME @ o-wild",
    "SWAPDB 0 1",
    "MOVE @ 1",
    "SET @ text",
    "EXPIRE @ -1",
    "PEXPIRE @ 5",
    "FLUSHDB",
    "LOCK.ACQUIRE @ TOKEN z PX 20",
    "LOCK.RELEASE @ t1",
    "LOCK.MACQUIRE 2 @ o-wild TOKEN z PX 20",
    "STOCK.DECR_ONCE @ z HOLD 20",
    "STOCK.ADJUST @ 1",
];

/// The clients' requests; `&` is the number of a group of keys.
const REQUESTS: [&str; 10] = [
    "LOCK.ACQUIRE k&-wild TOKEN % PX 30 WAIT 60",
    "LOCK.ACQUIRE k&-wild TOKEN % PX 30 WAIT 60",
    "LOCK.ACQUIRE k&-wild TOKEN % PX 30 WAIT 60 SHARED",
    "LOCK.ACQUIRE l&-wild TOKEN % PX 30 SESSION",
    "LOCK.MACQUIRE 2 k&-wild l&-wild TOKEN % PX 30 WAIT 60",
    "LOCK.RELEASE k&-wild %",
    "LOCK.MRELEASE % 2 k&-wild l&-wild",
    "STOCK.CREATE {&}s-wild 100 STREAM {&}events-wild",
    "STOCK.DECR_ONCE {&}s-wild % HOLD 20",
    "STOCK.CANCEL {&}s-wild %",
];

/// How many clients there are, how many requests each answer of the other module is tried on, and how often it answers meanwhile.
const CLIENTS: usize = 6;
const TRIES: usize = 180;
const ANSWERED: usize = 30;

/// After so many requests it is other keys: what has gone wrong with the old ones is not put right by the next request.
const GROUP: usize = 9;

struct Listener {
    servers: [Server; 2],
    turn: usize,
}

/// Sets it up, if there is a C compiler.
pub fn listener() -> Result<Box<dyn Scene>, String> {
    Command::new("cc").arg("--version").output().map_err(|error| format!("no C compiler: {error}"))?;
    let server = Server::builder().aof("everysec").config(&harness::listener::line()).start();
    let replica = Server::builder().replica_of(&server).start();
    replica.wait_in_sync(&server);
    ready(Listener { servers: [server, replica], turn: 0 })
}

impl Scene for Listener {
    fn servers(&mut self) -> &mut [Server] {
        &mut self.servers
    }

    /// Everything is flushed, now and then.
    fn keeps_sales(&self) -> bool {
        false
    }

    fn crew(&self) -> Crew {
        &[(Trade::Pulse, 1)]
    }

    fn strike(&mut self, nemesis: &mut Nemesis<'_>) {
        let from = nemesis.now();
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| self.servers[0].client()).collect();
        for _ in 0..6 {
            self.turn += 1;
            let answer = ANSWERS[self.turn % ANSWERS.len()];
            // An answer makes events of its own, so not at each of them.
            for _ in 0..ANSWERED {
                let nth = nemesis.random.u16(1..200);
                self.servers[0].expect(format!("LISTENER.ON {TAIL} MODULE {nth} {answer}"), OK);
            }
            let unanswered = fight(&mut clients, nemesis);
            nemesis.measured(format!("requests without a reply while {answer}"), unanswered, 0);
            let seen = self.servers[0].cmd(format!("LISTENER.SEEN {TAIL}"));
            // A command that it runs is carried out, or refused for what the key is.
            let failed = |line: &&Reply| line.text().contains("could not carry this out");
            let failed = seen.items().iter().filter(failed).count() as u64;
            nemesis.measured(format!("times that the other module could not {answer}"), failed, 0);
            self.servers[0].expect("LISTENER.FORGET", ANY);
            self.everything_ends(nemesis, answer);
        }
        drop(clients);
        nemesis.did("another module meddled", from);
        self.replica_has_the_same(nemesis);
        if self.turn.is_multiple_of(18) {
            let refused = self.servers[0].cmd("DEBUG RELOAD").is_error();
            nemesis.measured("files that do not load", u64::from(refused), 0);
        }
    }
}

/// Random requests; how many had no reply.
fn fight(clients: &mut [Client], nemesis: &mut Nemesis<'_>) -> u64 {
    let mut owed = vec![0_u64; clients.len()];
    for n in 0..TRIES {
        let request = REQUESTS[nemesis.random.usize(..REQUESTS.len())].replace('&', &(n / GROUP).to_string());
        let request = request.replace('%', &format!("t{}", nemesis.random.u8(..5)));
        clients[n % CLIENTS].send(request);
        owed[n % CLIENTS] += 1;
        if nemesis.random.u8(..10) == 0 {
            nemesis.rest(0, 10);
        }
    }
    // Each waits for 60 ms at most, one after the other.
    let patience = Duration::from_secs(10);
    clients
        .iter_mut()
        .zip(owed)
        .map(|(client, owed)| (0..owed).filter(|_| client.hear(patience).is_err()).count() as u64)
        .sum()
}

impl Listener {
    /// All leases were short.
    fn everything_ends(&self, nemesis: &mut Nemesis<'_>, answer: &str) {
        let [server, _] = &self.servers;
        for key in (0..TRIES / GROUP).map(|group| format!("k{group}")) {
            if let info @ (Reply::Array(_) | Reply::Map(_)) = server.cmd(format!("LOCK.INFO {key}{TAIL}")) {
                let (mode, holders) = (info.field("mode").text(), info.field("holders").items().len() as u64);
                let most = if mode == "exclusive" { 1 } else { 100 };
                nemesis.measured("holders of a lock that is exclusive", holders, most);
            }
        }
        let counts =
            || ["locks_held", "lock_waiters"].map(|name| server.info_int("lockstock", &format!("lockstock_{name}")));
        let over = patiently(|| (counts() == [0, 0]).then_some(()));
        let what = format!("locks that are held for ever, or requests that wait so, after {answer}");
        nemesis.measured(what, u64::from(over.is_none()), 0);
        if over.is_none() {
            server.expect("FLUSHALL", OK);
        }
        let blocked = server.info_int("clients", "blocked_clients");
        nemesis.measured("clients that are parked for nothing", blocked.unsigned_abs(), 0);
    }

    fn replica_has_the_same(&self, nemesis: &mut Nemesis<'_>) {
        let [server, replica] = &self.servers;
        replica.wait_in_sync(server);
        // Holds of a sale may still lapse.
        let same = patiently(|| (server.digest() == replica.digest()).then_some(()));
        nemesis.measured("replicas that have something else", u64::from(same.is_none()), 0);
    }
}
