//! Writes that are paused: nothing is granted or ended meanwhile, and all of it is made up for right after.

use std::fs;
use std::time::Duration;

use harness::{ANY, Aof, Client, Cluster, INT, NULL, OK, Server, err, eventually};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::line::Line;

/// Long enough to see that a client is still waiting.
const MOMENT: Duration = Duration::from_millis(30);

/// Locks whose holds are about to end in every way that is no command, each with a waiter.
struct Scene {
    tied: Client,
    waiters: Vec<(&'static str, Client)>,
}

impl Scene {
    fn set(server: &Server, line: &mut Line<'_>) -> Self {
        let mut tied = server.client();
        tied.expect("LOCK.ACQUIRE by-lease TOKEN holder", ANY);
        tied.expect("LOCK.ACQUIRE by-end TOKEN holder SESSION", ANY);
        tied.expect("LOCK.MACQUIRE 2 by-end-1 by-end-2 TOKEN holder SESSION", ANY);
        tied.expect("LOCK.ACQUIRE by-expiry TOKEN holder", ANY);
        let waiters = ["by-lease", "by-end", "by-end-2", "by-expiry"]
            .map(|lock| (lock, line.join(format!("LOCK.ACQUIRE {lock} TOKEN waiter WAIT 0"))));
        Self { tied, waiters: waiters.into() }
    }

    /// Lets the leases end soon, but not before `pause` has begun.
    fn about_to_end(server: &Server, pause: &str) {
        let before = ["LOCK.EXTEND by-lease holder PX 100", "PEXPIRE by-expiry 100", "STOCK.EXTEND sale ann PX 100"];
        server.client().pipeline([before[0], before[1], before[2], pause]);
    }

    /// The session ends, and so do the leases; nobody gets anything of it.
    fn falls_due_in_vain(&mut self, server: &Server) {
        self.hang_up(server);
        eventually("the lease is over", || {
            let info = server.cmd("LOCK.INFO by-lease");
            info.field("mode").text() == "free"
        });
        for (_, waiter) in &mut self.waiters {
            assert_eq!(waiter.try_read(MOMENT), None);
        }
    }

    fn hang_up(&mut self, server: &Server) {
        std::mem::replace(&mut self.tied, server.client()).close();
    }

    fn is_made_up_for(&mut self) {
        for (_, waiter) in &mut self.waiters {
            waiter.read().is(("waiter", INT, 30_000));
        }
    }
}

#[test]
fn what_falls_due_under_a_pause_is_done_after_it() {
    let primary = Server::builder().aof("always").start();
    let replica = Server::builder().replica_of(&primary).start();
    replica.wait_in_sync(&primary);
    let mut line = Line::at(&primary);
    for _ in 0..2 {
        let mut scene = Scene::set(&primary, &mut line);
        Scene::about_to_end(&primary, "CLIENT PAUSE 60000 WRITE");
        let written = Aof::of(&primary).commands.len();
        scene.falls_due_in_vain(&primary);
        // A command that waits its turn, too.
        let mut late = primary.client();
        late.send("LOCK.ACQUIRE by-lease TOKEN late");
        assert_eq!(late.try_read(MOMENT), None);
        assert_eq!(Aof::of(&primary).commands.len(), written);
        primary.expect("CLIENT UNPAUSE", OK);
        scene.is_made_up_for();
        late.read().is(NULL);
        replica.wait_in_sync(&primary);
        for (lock, waiter) in &mut scene.waiters {
            assert_eq!(Line::at(&replica).holders(lock), ["waiter"]);
            waiter.expect(format!("LOCK.RELEASE {lock} waiter"), 1);
        }
    }
}

#[test]
fn a_primary_that_lacks_replicas_grants_and_sells_nothing_by_itself() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    replica.wait_in_sync(&primary);
    eventually("the replica counts", || primary.info_int("replication", "connected_slaves") == 1);
    primary.expect("STOCK.CREATE sale 1 REBUY", OK);
    for [fewer, enough] in
        [["min-replicas-to-write 2", "min-slaves-to-write 1"], ["min-slaves-to-write 2", "min-replicas-to-write 0"]]
    {
        let [fewer, enough] = [fewer, enough].map(|setting| format!("CONFIG SET {setting}"));
        let holders = decides_nothing_while_refusing(&primary, "NOREPLICAS", &fewer, &enough);
        replica.wait_in_sync(&primary);
        for lock in holders {
            assert_eq!(Line::at(&replica).holders(lock), ["waiter"]);
            primary.expect(format!("LOCK.RELEASE {lock} waiter"), 1);
        }
    }
}

#[test]
fn a_server_that_cannot_save_grants_and_sells_nothing_by_itself() {
    let server = Server::builder().config("save 3600 100000").config("stop-writes-on-bgsave-error no").start();
    server.expect("STOCK.CREATE sale 1 REBUY", OK);
    // The file of a save cannot take the place of a directory.
    fs::create_dir(server.dir().join("dump.rdb")).expect("a directory");
    server.cmd("BGSAVE");
    eventually("the save has failed", || server.info("persistence")["rdb_last_bgsave_status"] == "err");
    let [begin, end] = ["yes", "no"].map(|stops| format!("CONFIG SET stop-writes-on-bgsave-error {stops}"));
    decides_nothing_while_refusing(&server, "MISCONF", &begin, &end);
}

#[test]
fn no_node_of_a_cluster_that_lacks_replicas_grants_by_itself() {
    let cluster = Cluster::start(3);
    for at in 0..3 {
        let node = cluster.node(at);
        let lock =
            (0..10_000).map(|n| format!("lock-{n}")).find(|key| cluster.owner(key) == at).expect("a key of this node");
        let mut line = Line::at(node);
        node.expect(format!("LOCK.ACQUIRE {lock} TOKEN holder PX 3600000"), ANY);
        let mut waiter = line.join(format!("LOCK.ACQUIRE {lock} TOKEN waiter WAIT 0"));
        let extend = format!("LOCK.EXTEND {lock} holder PX 100");
        for reply in node.client().pipeline([extend.as_str(), "CONFIG SET min-replicas-to-write 1"]) {
            reply.is(ANY);
        }
        eventually("the lease is over", || node.cmd(["LOCK.INFO", &lock]).field("mode").text() == "free");
        assert_eq!(waiter.try_read(MOMENT), None, "node {at}");
        node.expect("CONFIG SET min-replicas-to-write 0", OK);
        waiter.read().is(("waiter", INT, 30_000));
    }
}

/// What falls due while the server refuses writes with `error`, which the command `begin` brings about, waits for the command `end`. Returns
/// the locks that are granted then.
fn decides_nothing_while_refusing(server: &Server, error: &str, begin: &str, end: &str) -> Vec<&'static str> {
    let (mut line, mut client) = (Line::at(server), server.client());
    let sold = line.count("stock_lapses");
    let mut scene = Scene::set(server, &mut line);
    client.expect("STOCK.DECR_ONCE sale ann HOLD 3600000", ("OK", 1, 0, INT, ""));
    client.expect("LOCK.ACQUIRE by-lease TOKEN brief WAIT 300 NOTIFY news", 2);
    let timeouts = line.count("lock_timeouts");
    Scene::about_to_end(server, begin);
    scene.falls_due_in_vain(server);
    line.until("lock_timeouts", timeouts + 1);
    client.expect("LOCK.ACQUIRE by-lease TOKEN late", err(error));
    assert_eq!(line.count("stock_lapses"), sold);
    client.expect(end, OK);
    scene.is_made_up_for();
    line.until("stock_lapses", sold + 1);
    scene.waiters.iter().map(|(lock, _)| *lock).collect()
}

#[test]
fn a_wait_may_end_under_a_pause_and_a_waiter_may_leave() {
    let server = Server::builder().aof("always").start();
    let mut line = Line::at(&server);
    let mut holder = server.client();
    holder.expect("LOCK.ACQUIRE lock TOKEN holder SESSION", ANY);
    let mut brief = line.join("LOCK.ACQUIRE lock TOKEN brief WAIT 50");
    let leaver = line.join("LOCK.ACQUIRE lock TOKEN leaver WAIT 0");
    let mut last = line.join("LOCK.ACQUIRE lock TOKEN last WAIT 0");
    server.expect("CLIENT PAUSE 60000 WRITE", OK);
    holder.close();
    leaver.reset();
    brief.read().is(NULL);
    line.until("lock_waiters", 1);
    assert_eq!(last.try_read(MOMENT), None);
    server.expect("CLIENT UNPAUSE", OK);
    last.read().is(("last", INT, 30_000));
    brief.expect("PING", ANY);
}

#[test]
fn who_asked_under_a_pause_waits_no_longer_than_it_said() {
    let server = Server::builder().start();
    let mut line = Line::at(&server);
    server.client().expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    server.expect("CLIENT PAUSE 60000 WRITE", OK);
    let mut waiters: Vec<_> = (0..250).map(|_| server.client()).collect();
    for (number, waiter) in waiters.iter_mut().enumerate() {
        waiter.send(format!("LOCK.ACQUIRE lock TOKEN waiter-{number} WAIT {}", 50 + number % 100));
    }
    eventually("all of them are held back", || server.info_int("clients", "blocked_clients") == 250);
    server.expect("CLIENT UNPAUSE", OK);
    for waiter in &mut waiters {
        waiter.read().is(NULL);
    }
    line.until("lock_waiters", 0);
    assert_eq!(line.count("lock_timeouts"), 250);
    for waiter in &mut waiters {
        waiter.expect("PING", ANY);
    }
}

#[test]
fn a_pause_of_everything_that_ends_by_itself() {
    let server = Server::builder().aof("always").start();
    let mut line = Line::at(&server);
    let mut scene = Scene::set(&server, &mut line);
    Scene::about_to_end(&server, "CLIENT PAUSE 2500 ALL");
    scene.hang_up(&server);
    for (_, waiter) in &mut scene.waiters {
        assert_eq!(waiter.try_read(MOMENT), None);
    }
    scene.is_made_up_for();
}

#[test]
fn a_failover_that_is_given_up_is_a_pause() {
    let primary = Server::builder().aof("always").start();
    let replica = Server::builder().replica_of(&primary).start();
    replica.wait_in_sync(&primary);
    let mut line = Line::at(&primary);
    let mut scene = Scene::set(&primary, &mut line);
    primary.wait_online();
    // The replica cannot catch up, so the failover lasts until it is given up.
    let frozen = Pid::from_raw(i32::try_from(replica.pid()).unwrap()).unwrap();
    kill_process(frozen, Signal::STOP).unwrap();
    primary.expect("SET something new", OK);
    Scene::about_to_end(&primary, &format!("FAILOVER TO 127.0.0.1 {}", replica.port()));
    eventually("writes are paused", || primary.cmd("INFO replication").text().contains("failover_state:waiting"));
    scene.falls_due_in_vain(&primary);
    primary.expect("FAILOVER ABORT", OK);
    scene.is_made_up_for();
    kill_process(frozen, Signal::CONT).unwrap();
    replica.wait_in_sync(&primary);
    for (lock, _) in &scene.waiters {
        assert_eq!(Line::at(&replica).holders(lock), ["waiter"]);
    }
}
