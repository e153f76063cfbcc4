//! Locks and sales that were renamed and that nobody touches, among a million other keys.
//!
//! On Redis the module listens from the moment in which a value loses its name (from Redis 8.4 on it stops when all are found). Valkey is
//! walked through, which is cheap there.

use std::time::{Duration, Instant};

use harness::{ANY, Client, OK, Server, err, eventually};

use crate::support::line::Line;
use crate::support::load::busy;

const KEYS: usize = 1_000_000;

/// How late what was heard of may be.
const HEARD: Duration = Duration::from_millis(900);

/// The part of one core that a walk may take. The module works for a fifth of the time; on a slow machine each wake-up adds more to that.
const LOAD: f64 = 0.3;

/// How many times as much as a client's own SCAN of all keys a walk may cost the server.
const WALK: f64 = 2.0;

/// A server with so many other keys.
fn crowded() -> (Server, Client) {
    let server = Server::start();
    let mut client = server.client();
    client.expect(format!("DEBUG POPULATE {KEYS} key 8"), OK);
    (server, client)
}

/// Waits until `done`; returns how long that took and which part of a core the server used meanwhile.
#[track_caller]
fn watch(client: &mut Client, what: &str, mut done: impl FnMut() -> bool) -> (Duration, f64) {
    let (begun, before) = (Instant::now(), busy(&client.cmd("INFO cpu")));
    eventually(what, || {
        // Asking more often would be what costs.
        std::thread::park_timeout(Duration::from_millis(50));
        done()
    });
    let took = begun.elapsed();
    (took, busy(&client.cmd("INFO cpu")).saturating_sub(before).as_secs_f64() / took.as_secs_f64())
}

/// What a client costs the server that scans all keys for locks, as the walk does.
fn scanned(client: &mut Client) -> Duration {
    let before = busy(&client.cmd("INFO cpu"));
    let mut cursor = String::from("0");
    loop {
        let page = client.cmd(["SCAN", &cursor, "COUNT", "100", "TYPE", "lockstk-l"]);
        cursor = page.at(0).text();
        if cursor == "0" {
            break;
        }
    }
    busy(&client.cmd("INFO cpu")).saturating_sub(before)
}

/// Has a lock and the hold of a sale fall due in the step in which they are renamed or moved.
#[track_caller]
fn rename(client: &mut Client, round: usize) {
    client.pipeline(["MULTI", "LOCK.ACQUIRE lock TOKEN t PX 1", "RENAME lock moved", "EXEC"]);
    client.pipeline(["MULTI", "LOCK.ACQUIRE lock TOKEN t PX 1", "MOVE lock 5", "EXEC"]);
    let (from, to) = [("sale", "sale-2"), ("sale-2", "sale")][round % 2];
    let hold = format!("STOCK.DECR_ONCE {from} id-{round} HOLD 1");
    client.pipeline(["MULTI", &hold, &format!("RENAME {from} {to}"), "EXEC"]);
}

#[test]
fn what_was_renamed_ends_in_time_among_a_million_keys() {
    let (server, mut client) = crowded();
    let mut line = Line::at(&server);
    client.expect("STOCK.CREATE sale 5", OK);
    let scan = scanned(&mut client);
    for round in 0..3 {
        rename(&mut client, round);
        let ends = i64::try_from(round).expect("few") + 1;
        let (took, load) = watch(&mut client, "all have ended", || {
            (line.count("lock_lapses"), line.count("stock_lapses")) == (2 * ends, ends)
        });
        let spent = took.mul_f64(load);
        println!(
            "found among {KEYS} keys within {took:.2?}, {load:.2} of a core: {spent:.2?}, a SCAN costs {scan:.2?}"
        );
        assert!(load < LOAD, "{load}");
        if server.is_valkey() {
            assert!(spent < scan.mul_f64(WALK), "{spent:?} beside {scan:?}");
        } else {
            assert!(took < HEARD, "{took:?}");
        }
    }
    // When all are found, it is over.
    let (_, load) = watch(&mut client, "a while", {
        let begun = Instant::now();
        move || begun.elapsed() > Duration::from_secs(1)
    });
    assert!(load < 0.1, "{load}");
}

#[test]
fn what_is_renamed_during_a_walk_does_not_wait_for_one_of_its_own() {
    const LOCKS: usize = 40;
    let (server, mut client) = crowded();
    let mut line = Line::at(&server);
    for number in 0..LOCKS {
        client.expect(format!("LOCK.ACQUIRE lock-{number} TOKEN t PX 3600000"), ANY);
    }
    let mut admin = server.client();
    for number in 0..LOCKS {
        let before = line.count("locks_held");
        admin.expect(format!("RENAME lock-{number} moved-{number}"), OK);
        if !server.is_valkey() {
            let begun = Instant::now();
            eventually("it is found", || line.count("locks_held") >= before);
            assert!(begun.elapsed() < HEARD, "{number}: {:?}", begun.elapsed());
        }
    }
    let (took, load) = watch(&mut client, "all are found", || line.count("locks_held") == 40);
    println!("found {took:.2?} after the last, {load:.2} of a core");
    assert!(load < LOAD, "{load}");
}

#[test]
fn a_server_hears_of_renames_only_while_that_is_of_use() {
    let server = Server::start();
    let mut client = server.client();
    let told = || server.log().lines().filter(|line| line.contains("listens to keyspace events")).count();
    // What lockstock itself deletes has no new name.
    client.expect("LOCK.ACQUIRE lock TOKEN t PX 3600000", ANY);
    client.expect("LOCK.RELEASE lock t", 1);
    client.expect("LOCK.ACQUIRE lock TOKEN t PX 1", ANY);
    Line::at(&server).until("lock_lapses", 1);
    assert_eq!(told(), 0);
    // However another command deletes the lock, the module does not search for a lock that is gone.
    for words in ["DEL lock", "UNLINK lock", "SET lock text", "PEXPIRE lock 1"] {
        client.expect("LOCK.ACQUIRE lock TOKEN t PX 3600000", ANY);
        client.expect(words, ANY);
        eventually("it is gone", || server.info_int("lockstock", "lockstock_locks_held") == 0);
        client.cmd("DEL lock");
    }
    for round in 0..2 {
        client.expect(format!("LOCK.ACQUIRE lock TOKEN t-{round} PX 3600000"), ANY);
        client.expect(format!("RENAME lock moved-{round}"), OK);
        eventually("it is found", || server.info_int("lockstock", "lockstock_locks_held") == round + 1);
    }
    // The operator is told of what lasts, once.
    let lasts = !server.is_valkey() && server.version() < [8, 4, 0];
    assert_eq!(told(), usize::from(lasts));
}

#[test]
fn databases_that_nobody_uses_are_left_alone() {
    // One that is selected is made then, on servers that can have several of them in a cluster.
    if Server::start().cmd("CONFIG GET cluster-databases").items().is_empty() {
        return;
    }
    let server = Server::builder().cluster().config("cluster-databases 2000").start();
    let mut client = server.client();
    client.expect("CLUSTER ADDSLOTSRANGE 0 16383", OK);
    client.expect("SELECT 1999", OK);
    eventually("the cluster is up", || !client.cmd("LOCK.ACQUIRE lock TOKEN t PX 2000").is_error());
    let before = server.info_int("memory", "used_memory");
    client.expect("RENAME lock {lock}moved", OK);
    Line::at(&server).until("lock_lapses", 1);
    assert_eq!(client.cmd("EXISTS {lock}moved").int(), 0);
    let more = server.info_int("memory", "used_memory") - before;
    assert!(more < 10_000_000, "{more} bytes");
}

#[test]
fn a_renamed_lock_is_found_on_a_server_without_scan() {
    let server = Server::builder().config("rename-command SCAN \"\"").start();
    let mut client = server.client();
    client.expect("SCAN 0", err("ERR unknown command"));
    client.expect("DEBUG POPULATE 10000 key 8", OK);
    let mut line = Line::at(&server);
    client.expect("STOCK.CREATE sale 5", OK);
    for round in 0..3 {
        rename(&mut client, round);
        let ends = i64::try_from(round).expect("few") + 1;
        eventually("all have ended", || (line.count("lock_lapses"), line.count("stock_lapses")) == (2 * ends, ends));
    }
}

#[test]
fn a_renamed_lock_is_found_among_thousands_of_databases() {
    const DATABASES: usize = 5_000;
    let server = Server::builder().config(&format!("databases {DATABASES}")).start();
    let mut client = server.client();
    client.pipeline((0..DATABASES).flat_map(|db| [format!("SELECT {db}"), "SET key text".into()]));
    client.expect("LOCK.ACQUIRE lock TOKEN t PX 3600000", ANY);
    let mut line = Line::at(&server);
    line.until("locks_held", 1);
    client.expect("RENAME lock moved", OK);
    let begun = Instant::now();
    eventually("it is found", || line.count("locks_held") == 1);
    let took = begun.elapsed();
    println!("found among {DATABASES} databases within {took:.2?}");
    assert!(took < Duration::from_secs(3), "{took:?}");
}
