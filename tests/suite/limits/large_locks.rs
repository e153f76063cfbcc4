//! Locks in numbers that only abuse brings: what they cost clients that do not use them. On demand: `make test-large`.

use std::time::{Duration, Instant};

use harness::{ANY, Client, INT, NULL, OK, Reply, Server, err, eventually, unix_ms};

use crate::support::line::Line;
use crate::support::load::{MILLION, busy, cost, disturb, fill};

const HOLDERS: usize = 100_000;

/// Gives `lock` so many shared holds, whose leases all end at `end`.
#[track_caller]
fn crowd(client: &mut Client, lock: &str, end: i64) {
    fill(client, HOLDERS, |n| format!("LOCK.ACQUIRE {lock} TOKEN t-{n} SHARED PX {}", (end - unix_ms()).max(1)));
}

fn held(server: &Server) -> i64 {
    server.info_int("lockstock", "lockstock_locks_held")
}

#[test]
#[ignore = "large: make test-large"]
fn a_hundred_thousand_leases_that_end_at_once_stop_nobody() {
    let server = Server::start();
    let mut client = server.client();
    crowd(&mut client, "lock", unix_ms() + 6_000);
    let mut next = server.client();
    next.send("LOCK.ACQUIRE lock TOKEN next WAIT 0 EX 3600");
    let took = disturb(&server, "100000 leases of one lock", || {
        let lapses = || server.info_int("lockstock", "lockstock_lock_lapses");
        eventually("the first leases end", || lapses() > 0);
        let begun = Instant::now();
        next.read().is(("next", INT, 3_600_000));
        begun.elapsed()
    });
    println!("from the first to the hand-over: {took:.1?}");

    // A command that comes before the timer ends some of them. While it knows of others, it takes the lock for held.
    let end = unix_ms() + 6_000;
    crowd(&mut client, "met", end);
    client.expect("CONFIG RESETSTAT", OK);
    let left = (end - unix_ms()).max(0) + 100;
    let sleep = format!("DEBUG SLEEP {}.{:03}", left / 1_000, left % 1_000);
    let mut replies = client.pipeline([sleep.as_str(), "LOCK.ACQUIRE met TOKEN next"]);
    replies.remove(1).is(NULL);
    let micros = cost(&server, "lock.acquire");
    client.expect("LOCK.ACQUIRE met TOKEN next WAIT 0", ("next", INT, 30_000));
    assert!(micros < 20_000, "{micros} µs");
}

#[test]
#[ignore = "large: make test-large"]
fn a_lock_with_a_hundred_thousand_holders_is_shown_and_released() {
    let server = Server::start();
    let mut client = server.client();
    crowd(&mut client, "lock", unix_ms() + 3_600_000);
    client.expect("CONFIG RESETSTAT", OK);
    let url = format!("redis://127.0.0.1:{}", server.port());
    let mut reader = redis::Client::open(url).and_then(|url| url.get_connection()).expect("a connection");
    let shown: Vec<redis::Value> = redis::cmd("LOCK.INFO").arg("lock").query(&mut reader).expect("the lock");
    assert!(matches!(&shown[5], redis::Value::Array(holders) if holders.len() == HOLDERS));
    assert!(cost(&server, "lock.info") < 1_000_000);
    client.expect("INFO lockstock", ANY);
    assert!(cost(&server, "info") < 20_000);
    disturb(&server, "releasing 100000 holds", || {
        fill(&mut client, HOLDERS, |n| format!("LOCK.RELEASE lock t-{n}"));
    });
    client.expect("EXISTS lock", 0);
    cost(&server, "lock.release");
}

#[test]
#[ignore = "large: make test-large"]
fn a_million_locks_of_one_connection_end_with_it() {
    let server = Server::start();
    let mut hoarder = server.client();
    let before = server.info_int("memory", "used_memory");
    fill(&mut hoarder, MILLION, |n| format!("LOCK.ACQUIRE lock-{n} TOKEN t SESSION EX 3600"));
    let bytes = server.info_int("memory", "used_memory") - before;
    println!("a lock with a session: {} bytes", bytes / i64::try_from(MILLION).expect("a million"));
    assert_eq!(held(&server), i64::try_from(MILLION).expect("a million"));
    disturb(&server, "the end of a million sessions", || {
        hoarder.close();
        // This may take longer than `eventually` waits.
        let begun = Instant::now();
        while held(&server) > 0 {
            assert!(begun.elapsed() < Duration::from_mins(2), "they do not end");
            server.expect("LOCK.ACQUIRE other TOKEN t", ANY);
            server.expect("LOCK.RELEASE other t", 1);
        }
    });
    server.expect("DBSIZE", Reply::Int(0));
}

#[test]
#[ignore = "large: make test-large"]
fn a_hundred_thousand_requests_of_one_connection_leave_with_it() {
    let server = Server::start();
    let (mut line, mut patient) = (Line::at(&server), server.client());
    server.expect("LOCK.ACQUIRE lock TOKEN holder EX 3600", ANY);
    fill(&mut patient, HOLDERS, |n| format!("LOCK.ACQUIRE lock TOKEN t-{n} WAIT 0 NOTIFY news"));
    // All of them leave in one go.
    let at_work = || busy(&server.cmd("INFO cpu"));
    let before = at_work();
    patient.close();
    line.until("lock_waiters", 0);
    let spent = at_work().saturating_sub(before);
    println!("the end of a hundred thousand requests: {spent:.1?} of the server's time");
    assert!(spent < Duration::from_secs(1), "{spent:?}");
    // Nobody comes back to their places.
    line.until("lock_vacant_places", 0);
    server.expect("LOCK.RELEASE lock holder", 1);
    server.expect("DBSIZE", 0);
}

#[test]
#[ignore = "large: make test-large"]
fn whoever_frees_one_of_a_thousand_keys_hardly_notices_who_waits_for_all() {
    let server = Server::start();
    let mut client = server.client();
    let keys: Vec<String> = (0..1_000).map(|number| format!("key-{number}")).collect();
    client.expect("LOCK.ACQUIRE key-999 TOKEN holder EX 3600", ANY);
    let mut patient = server.client();
    patient.send(format!("LOCK.MACQUIRE 1000 {} TOKEN all WAIT 0", keys.join(" ")));
    eventually("it waits", || server.info_int("lockstock", "lockstock_lock_waiters") == 1);
    fill(&mut client, 1_000, |_| "LOCK.ACQUIRE key-999 TOKEN holder EX 3600".into());
    client.expect("CONFIG RESETSTAT", OK);
    client.expect("LOCK.RELEASE key-999 holder", 1);
    assert!(cost(&server, "lock.release") < 20_000);
    patient.read().is(("all", INT, 30_000));
    client.expect(format!("LOCK.MRELEASE all 1000 {}", keys.join(" ")), 1_000);
    assert!(cost(&server, "lock.mrelease") < 20_000);
}

#[test]
#[ignore = "large: make test-large"]
fn a_million_places_in_line_are_taken_looked_at_and_left() {
    const REQUESTS: usize = 1_000;

    let server = Server::builder().module_args(&format!("max-waiters {REQUESTS}")).start();
    let mut client = server.client();
    let keys = (0..1_000).map(|number| format!("key-{number}")).collect::<Vec<_>>().join(" ");
    let mut line = Line::at(&server);
    client.expect("LOCK.ACQUIRE key-500 TOKEN holder EX 3600", ANY);
    let mut clients: Vec<Client> = (0..REQUESTS).map(|_| server.client()).collect();
    let (before, begun) = (server.info_int("memory", "used_memory"), Instant::now());
    disturb(&server, "a million places are taken", || {
        for (n, patient) in clients.iter_mut().enumerate() {
            line.enter(patient, format!("LOCK.MACQUIRE 1000 {keys} TOKEN t-{n} EX 3600 WAIT 0"));
        }
    });
    assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());
    let bytes = server.info_int("memory", "used_memory") - before;
    println!("a place in line: {} bytes", bytes / i64::try_from(MILLION).expect("a million"));

    let refusal = "ERR too many requests wait already, see lockstock.max-waiters";
    client.expect(format!("LOCK.MACQUIRE 1000 {keys} TOKEN late WAIT 0"), err(refusal));
    client.expect("LOCK.ACQUIRE key-0 TOKEN late WAIT 0", err(refusal));
    client.expect("CONFIG RESETSTAT", OK);
    assert_eq!(client.cmd("LOCK.INFO key-0").field("waiting").int(), i64::try_from(REQUESTS).expect("few"));
    assert!(cost(&server, "lock.info") < 20_000);
    client.expect("INFO lockstock", ANY);
    assert!(cost(&server, "info") < 20_000);

    // The first is granted a thousand locks, and with each that it gives back all the others move up.
    client.expect("LOCK.RELEASE key-500 holder", 1);
    assert!(cost(&server, "lock.release") < 100_000);
    clients.remove(0).read().is(("t-0", INT, 3_600_000));
    client.expect(format!("LOCK.MRELEASE t-0 1000 {keys}"), 1_000);
    assert!(cost(&server, "lock.mrelease") < 100_000);
    clients.remove(0).read().is(("t-1", INT, 3_600_000));

    // One after the other they hang up, the first in line before those behind; then all that are left at once.
    let at_once = clients.split_off(clients.len() / 2);
    disturb(&server, "half a million places are left one by one", || {
        for patient in clients {
            let left = line.count("lock_waiters") - 1;
            patient.reset();
            line.until("lock_waiters", left);
        }
    });
    let begun = Instant::now();
    at_once.into_iter().for_each(Client::reset);
    line.until("lock_waiters", 0);
    client.expect("LOCK.ACQUIRE other TOKEN t", ANY);
    client.expect("LOCK.RELEASE other t", 1);
    println!("the other half, at once: {:.1?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    client.expect(format!("LOCK.MRELEASE t-1 1000 {keys}"), 1_000);
    server.expect("DBSIZE", Reply::Int(0));
}
