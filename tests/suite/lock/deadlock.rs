//! Tokens that would wait for each other: the last request is refused.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use harness::{ANY, Cluster, INT, NULL, OK, Server, err, items};

use crate::support::line::Line;

#[test]
fn of_two_workers_with_two_locks_one_hears_of_the_deadlock_and_the_other_goes_on() {
    let server = Server::start();
    let (mut line, mut ann, mut bob) = (Line::at(&server), server.client(), server.client());
    ann.expect("LOCK.ACQUIRE a TOKEN ann", ANY);
    bob.expect("LOCK.ACQUIRE b TOKEN bob", ANY);
    line.enter(&mut ann, "LOCK.ACQUIRE b TOKEN ann WAIT 0");
    let error = "DEADLOCK the token and others would wait for each other at 'a', 'b'";
    bob.expect("LOCK.ACQUIRE a TOKEN bob WAIT 0", err(error));
    // A request that does not wait, or is in no circle, is not refused for it.
    bob.expect("LOCK.ACQUIRE a TOKEN bob", NULL);
    bob.expect("MULTI", OK);
    bob.expect("LOCK.ACQUIRE a TOKEN bob WAIT 0", ANY);
    bob.expect("EXEC", items([NULL]));
    let mut eve = line.join("LOCK.ACQUIRE a TOKEN eve WAIT 0");
    // Nothing else has changed: both have what they had, and ann is in line.
    assert_eq!((line.holders("a"), line.holders("b")), (vec!["ann".into()], vec!["bob".into()]));
    assert_eq!((line.waiters("a"), line.waiters("b")), (vec!["eve".into()], vec!["ann".into()]));
    assert_eq!((line.count("lock_deadlocks"), line.count("lock_waits")), (1, 2));

    bob.expect("LOCK.RELEASE b bob", 1);
    ann.read().is(("ann", INT, 30_000));
    ann.expect("LOCK.MRELEASE ann 2 a b", 2);
    eve.read().is(("eve", INT, 30_000));
}

#[test]
fn every_kind_of_request_takes_part() {
    let server = Server::start();
    let mut line = Line::at(&server);
    for (taken, waits, closes, circle) in [
        (
            &["r TOKEN x SHARED", "r TOKEN y SHARED", "w TOKEN z"][..],
            "LOCK.ACQUIRE w TOKEN x",
            "LOCK.ACQUIRE r TOKEN z",
            "'r', 'w'",
        ),
        (&["p TOKEN x LIMIT 1", "w TOKEN z"], "LOCK.ACQUIRE w TOKEN x", "LOCK.ACQUIRE p TOKEN z LIMIT 1", "'p', 'w'"),
        (&["a TOKEN x", "b TOKEN z"], "LOCK.MACQUIRE 2 c b TOKEN x", "LOCK.MACQUIRE 3 e d a TOKEN z", "'a', 'b'"),
        (
            &["r TOKEN x SHARED", "r TOKEN z SHARED", "w TOKEN z"],
            "LOCK.ACQUIRE w TOKEN x",
            "LOCK.ACQUIRE r TOKEN z",
            "'r', 'w'",
        ),
        (&["r TOKEN x SHARED", "r TOKEN z SHARED"], "LOCK.ACQUIRE r TOKEN x", "LOCK.ACQUIRE r TOKEN z", "'r'"),
    ] {
        let mut client = server.client();
        for hold in taken {
            client.expect(format!("LOCK.ACQUIRE {hold}"), ANY);
        }
        let waiter = line.join(format!("{waits} WAIT 60000"));
        let error = format!("DEADLOCK the token and others would wait for each other at {circle}");
        client.expect(format!("{closes} WAIT 60000"), err(&error));
        client.expect("FLUSHALL", OK);
        waiter.close();
        line.until("lock_waiters", 0);
        client.expect("FLUSHALL", OK);
    }
}

#[test]
fn who_waits_by_notify_takes_part() {
    let server = Server::start();
    let (mut line, mut client) = (Line::at(&server), server.client());
    client.expect("LOCK.ACQUIRE a TOKEN ann", ANY);
    client.expect("LOCK.ACQUIRE b TOKEN bob", ANY);
    client.expect("LOCK.ACQUIRE b TOKEN ann WAIT 0 NOTIFY outcome", 1);
    let error = "DEADLOCK the token and others would wait for each other at 'a', 'b'";
    client.expect("LOCK.ACQUIRE a TOKEN bob WAIT 0 NOTIFY outcome", err(error));
    client.expect("LOCK.MACQUIRE 2 c a TOKEN bob WAIT 0", err(error));
    client.expect("LOCK.RELEASE b ann", 0);
    client.expect("LOCK.ACQUIRE a TOKEN bob WAIT 0 NOTIFY outcome", 1);
    assert_eq!((line.count("lock_deadlocks"), line.count("lock_waiters")), (2, 1));
}

#[test]
fn a_permit_that_may_come_back_is_waited_for() {
    let server = Server::start();
    let (mut line, mut client) = (Line::at(&server), server.client());
    client.expect("LOCK.ACQUIRE pool TOKEN x LIMIT 2", ANY);
    client.expect("LOCK.ACQUIRE pool TOKEN y LIMIT 2", ANY);
    client.expect("LOCK.ACQUIRE door TOKEN z", ANY);
    let _x = line.join("LOCK.ACQUIRE door TOKEN x WAIT 0");
    let mut z = line.join("LOCK.ACQUIRE pool TOKEN z LIMIT 2 WAIT 0");
    client.expect("LOCK.ACQUIRE door TOKEN y LIMIT 1 WAIT 0", err("DEADLOCK"));
    client.expect("LOCK.RELEASE pool y", 1);
    z.read().is(("z", INT, 30_000));
}

#[test]
fn names_of_any_kind_and_of_other_databases_fit_on_a_line() {
    let server = Server::start();
    let (mut line, mut one, mut other) = (Line::at(&server), server.client(), server.client());
    one.expect([b"LOCK.ACQUIRE", &b"a\r\n%s\0"[..], b"TOKEN", b"x"], ANY);
    other.expect("SELECT 3", OK);
    other.expect("LOCK.ACQUIRE b TOKEN y", ANY);
    one.expect("SELECT 3", OK);
    line.enter(&mut one, "LOCK.ACQUIRE b TOKEN x WAIT 0");
    other.expect("SELECT 0", OK);
    let error = "DEADLOCK the token and others would wait for each other at 'a\\r\\n%s\\x00' (db 0), 'b' (db 3)";
    other.expect([b"LOCK.ACQUIRE", &b"a\r\n%s\0"[..], b"TOKEN", b"y", b"WAIT", b"0"], err(error));
}

#[test]
fn a_client_waits_in_its_own_database_whoever_waits_in_others() {
    let server = Server::start();
    let (mut line, mut other) = (Line::at(&server), server.client());
    other.expect("SELECT 3", OK);
    other.expect("LOCK.ACQUIRE far TOKEN y PX 600000", ANY);
    for ends in ["granted", "timeout", "unblocked", "closed"] {
        let mut client = server.client();
        client.expect("LOCK.ACQUIRE near TOKEN x PX 600000", ANY);
        let mut between = server.client();
        between.expect("SELECT 3", OK);
        line.enter(&mut between, "LOCK.ACQUIRE far TOKEN x WAIT 0");
        // The search goes on to the other database, finds no circle there, and comes back.
        let wait = if ends == "timeout" { 20 } else { 60_000 };
        let mut waiter = line.join(format!("LOCK.ACQUIRE near TOKEN z WAIT {wait}"));
        match ends {
            "granted" => {
                client.expect("LOCK.RELEASE near x", 1);
                waiter.read().is(("z", INT, 30_000));
                waiter.expect("LOCK.RELEASE near z", 1);
            }
            "timeout" => drop(waiter.read().is(NULL)),
            "unblocked" => {
                let id = client.cmd("LOCK.INFO near").field("waiters").at(0).field("client").int();
                client.expect(format!("CLIENT UNBLOCK {id}"), 1);
                waiter.read().is(NULL);
            }
            _ => waiter.close(),
        }
        line.until("lock_waiters", 1);
        between.close();
        line.until("lock_waiters", 0);
        client.expect("DEL near", ANY);
    }
    // What the waiter did is seen in the database where it did it.
    other.expect("DBSIZE", 1);
}

#[test]
fn without_detection_they_wait_until_a_time_limit_ends() {
    let server = Server::builder().module_args("detect-deadlocks no").start();
    let (mut line, mut ann, mut bob) = (Line::at(&server), server.client(), server.client());
    ann.expect("CONFIG GET lockstock.detect-deadlocks", ("lockstock.detect-deadlocks", "no"));
    ann.expect("LOCK.ACQUIRE a TOKEN ann", ANY);
    bob.expect("LOCK.ACQUIRE b TOKEN bob", ANY);
    line.enter(&mut ann, "LOCK.ACQUIRE b TOKEN ann WAIT 0");
    bob.expect("LOCK.ACQUIRE a TOKEN bob WAIT 10", NULL);
    bob.expect("CONFIG SET lockstock.detect-deadlocks yes", OK);
    bob.expect("LOCK.ACQUIRE a TOKEN bob WAIT 10", err("DEADLOCK"));
    // Two readers who both want to write is another rule, which has no setting.
    bob.expect("CONFIG SET lockstock.detect-deadlocks no", OK);
    for token in ["x", "y"] {
        bob.expect(format!("LOCK.ACQUIRE r TOKEN {token} SHARED"), ANY);
    }
    let _x = line.join("LOCK.ACQUIRE r TOKEN x WAIT 0");
    bob.expect("LOCK.ACQUIRE r TOKEN y WAIT 0", err("DEADLOCK"));
    assert_eq!(line.count("lock_deadlocks"), 2);
}

/// Workers that take three of a hundred locks each, one after the other and in any order, and give all back when they hear of a deadlock.
#[test]
fn a_thousand_tokens_with_a_hundred_locks_all_come_to_an_end() {
    const TOKENS: usize = 1_000;
    let server = Server::builder().config("maxclients 4000").start();
    let refused = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..TOKENS {
            let (server, refused) = (&server, &refused);
            let work = move || {
                let mut random = fastrand::Rng::with_seed(number as u64);
                let mut client = server.client();
                let mut locks = random.choose_multiple(0..100, 3);
                let mode = if random.u8(..4) == 0 { "SHARED" } else { "" };
                'again: loop {
                    for (taken, lock) in locks.iter().enumerate() {
                        // Neither the wait nor the lease ends by itself.
                        let ask = format!("LOCK.ACQUIRE l{lock} TOKEN t{number} {mode} PX 3600000 WAIT 0");
                        // On a busy machine a thousand threads take their time.
                        let reply = client.ask_within(ask, Duration::from_mins(2)).expect("a reply");
                        if reply.is_error() {
                            reply.is(err("DEADLOCK"));
                            refused.fetch_add(1, Ordering::Relaxed);
                            for held in &locks[..taken] {
                                client.expect(format!("LOCK.RELEASE l{held} t{number}"), 1);
                            }
                            random.shuffle(&mut locks);
                            continue 'again;
                        }
                        reply.is((format!("t{number}"), INT, 3_600_000));
                    }
                    break;
                }
                let [a, b, c] = [0, 1, 2].map(|at| format!("l{}", locks[at]));
                client.expect(format!("LOCK.MRELEASE t{number} 3 {a} {b} {c}"), 3);
            };
            thread::Builder::new().stack_size(256 * 1024).spawn_scoped(scope, work).unwrap();
        }
    });
    let refused = refused.into_inner();
    assert!(refused > 0, "nobody met");
    assert_eq!(server.info_int("lockstock", "lockstock_lock_deadlocks"), i64::try_from(refused).unwrap());
    server.expect("DBSIZE", 0);
}

#[test]
fn in_a_cluster_circles_over_one_slot_are_seen_and_those_over_two_nodes_are_not() {
    let cluster = Cluster::start(3);
    let keys: Vec<String> = (0..100).map(|number| format!("{{{number}}}")).collect();
    let first = cluster.owner(&keys[0]);
    let here = format!("{}b", keys[0]);
    let there = keys.iter().find(|key| cluster.owner(key) != first).expect("a key of another node");
    for (other, circle) in [(&here, true), (there, false)] {
        let (node, others) = (cluster.node(first), cluster.node(cluster.owner(other)));
        let mut ann = others.client();
        node.expect(format!("LOCK.ACQUIRE {} TOKEN ann", keys[0]), ANY);
        others.expect(format!("LOCK.ACQUIRE {other} TOKEN bob"), ANY);
        Line::at(others).enter(&mut ann, format!("LOCK.ACQUIRE {other} TOKEN ann WAIT 0"));
        let asks = format!("LOCK.ACQUIRE {} TOKEN bob WAIT 50", keys[0]);
        node.expect(asks, if circle { err("DEADLOCK") } else { NULL });
        others.expect(format!("LOCK.RELEASE {other} bob"), 1);
        ann.read().is(("ann", INT, 30_000));
        ann.expect(format!("LOCK.RELEASE {other} ann"), 1);
    }
}
