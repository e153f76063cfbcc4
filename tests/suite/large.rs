//! Sales of a million orders: what they weigh, and that nobody waits for them. Minutes long, so only on demand: `make test-large`.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{ANY, Client, OK, Server, eventually};
use crate::shop::books;

const MILLION: usize = 1_000_000;

/// Sends `count` commands, some hundred at a time.
#[track_caller]
fn fill(client: &mut Client, count: usize, command: impl Fn(usize) -> String) {
    for start in (0..count).step_by(500) {
        let replies = client.pipeline((start..count.min(start + 500)).map(&command));
        assert!(replies.iter().all(|reply| !reply.is_error()), "{:?}", replies[0]);
    }
}

/// Bytes for each of a million that `command` makes under the key `key`: what the key says of itself, and what the server took.
#[track_caller]
fn weigh(server: &Server, key: &str, command: impl Fn(usize) -> String) -> (f64, f64) {
    let mut client = server.client();
    let used = || server.info_int("memory", "used_memory");
    let before = used();
    fill(&mut client, MILLION, command);
    // The client's own buffers are the server's memory, too.
    drop(client);
    eventually("the filling client is gone", || server.info_int("clients", "connected_clients") == 1);
    let says = server.cmd(format!("MEMORY USAGE {key} SAMPLES 0")).int();
    #[expect(clippy::cast_precision_loss, reason = "figures for a person")]
    let each = |bytes: i64| bytes as f64 / MILLION as f64;
    let weight = (each(says), each(used() - before));
    println!("{key}: {:.1} bytes each by MEMORY USAGE, {:.1} by used_memory", weight.0, weight.1);
    weight
}

fn uuid(number: usize) -> String {
    // Scattered as random ones are, and the same in every run.
    let mut random = fastrand::Rng::with_seed(u64::try_from(number).expect("a small number"));
    let (high, low) = (random.u64(..), random.u64(..));
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0xfff,
        low & 0xffff_ffff_ffff
    )
}

#[test]
#[ignore = "large: make test-large"]
fn an_order_weighs_no_more_than_a_member_of_a_set() {
    let server = Server::start();
    let integer = |number: usize| (1_000_000_000 + number).to_string();
    server.expect(format!("STOCK.CREATE sale-int {MILLION}"), OK);
    server.expect(format!("STOCK.CREATE sale-uuid {MILLION}"), OK);
    server.expect(format!("STOCK.CREATE sale-all {MILLION}"), OK);
    let set_int = weigh(&server, "set-int", |n| format!("SADD set-int {}", integer(n)));
    let sale_int = weigh(&server, "sale-int", |n| format!("STOCK.DECR_ONCE sale-int {}", integer(n)));
    let set_uuid = weigh(&server, "set-uuid", |n| format!("SADD set-uuid {}", uuid(n)));
    let sale_uuid = weigh(&server, "sale-uuid", |n| format!("STOCK.DECR_ONCE sale-uuid {}", uuid(n)));
    let sale_all = weigh(&server, "sale-all", |n| {
        format!("STOCK.DECR_ONCE sale-all {} BUYER {} REF {} HOLD 36000000", integer(n), 50_000_000 + n, 7_000_000 + n)
    });
    assert!(sale_int.0 <= set_int.0 && sale_int.1 <= set_int.1);
    assert!(sale_uuid.0 <= set_uuid.0 && sale_uuid.1 <= set_uuid.1);
    assert!(sale_all.0 <= 70.0 && sale_all.1 <= 70.0);
}

/// Pings the server until `stop`, and returns the longest it took to answer.
fn longest_ping(server: &Server, stop: &AtomicBool) -> Duration {
    let mut client = server.client();
    let mut longest = Duration::ZERO;
    while !stop.load(Relaxed) {
        let begun = Instant::now();
        client.cmd("PING");
        longest = longest.max(begun.elapsed());
    }
    longest
}

/// Does `work` while somebody else talks to the server; returns how long it took, and how long the other one waited at most.
fn disturb<R>(server: &Server, what: &str, work: impl FnOnce() -> R) -> (R, Duration) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let bystander = scope.spawn(|| longest_ping(server, &stop));
        let begun = Instant::now();
        let result = work();
        let took = begun.elapsed();
        stop.store(true, Relaxed);
        let waited = bystander.join().expect("the bystander");
        println!("{what}: {took:.1?}; a bystander waited {waited:.1?} at most");
        (result, waited)
    })
}

/// The longest command since the last time, in microseconds, by the server's own count.
#[track_caller]
fn slowest(client: &mut Client) -> i64 {
    let log = client.expect("SLOWLOG GET -1", ANY);
    let slowest = log.items().iter().map(|entry| entry.at(2).int()).max().unwrap_or(0);
    client.expect("SLOWLOG RESET", OK);
    slowest
}

#[test]
#[ignore = "large: make test-large"]
fn a_million_orders_are_exported_while_others_are_served() {
    let server = Server::builder().config("slowlog-log-slower-than 1000").start();
    let mut client = server.client();
    client.expect(format!("STOCK.CREATE sale {MILLION}"), OK);
    fill(&mut client, MILLION, |n| format!("STOCK.DECR_ONCE sale {} BUYER b-{n} REF r-{n} HOLD 36000000", uuid(n)));
    client.expect("SLOWLOG RESET", OK);
    let (rows, _) = disturb(&server, "export", || {
        let (mut rows, mut cursor) = (0, "0".to_owned());
        loop {
            let page = client.cmd(["STOCK.ORDERS", "sale", &cursor, "COUNT", "1000"]);
            rows += page.at(1).items().len();
            cursor = page.at(0).text();
            if cursor == "0" {
                return rows;
            }
        }
    });
    assert_eq!(rows, MILLION);
    let page = slowest(&mut client);
    println!("slowest page: {page} µs");
    let (pages, _) = disturb(&server, "export of what there is none of", || {
        let (mut pages, mut cursor) = (0, "0".to_owned());
        loop {
            let page = client.cmd(["STOCK.ORDERS", "sale", &cursor, "COUNT", "1000", "STATE", "cancelled"]);
            pages += 1;
            cursor = page.at(0).text();
            if cursor == "0" {
                return pages;
            }
        }
    });
    let empty = slowest(&mut client);
    println!("{pages} empty pages, the slowest {empty} µs");
    assert!(page < 10_000 && empty < 10_000, "{page} µs, {empty} µs");
    client.expect("STOCK.INFO sale", ANY);
    client.expect("MEMORY USAGE sale", ANY);
    let others = slowest(&mut client);
    let (_, waited) = disturb(&server, "UNLINK", || {
        client.expect("UNLINK sale", 1);
        eventually("it is freed", || server.info_int("lockstock", "lockstock_sales") == 0);
    });
    println!("INFO and MEMORY USAGE: below {others} µs, UNLINK: {} µs", slowest(&mut client));
    assert!(others < 5_000 && waited < Duration::from_millis(50), "{others} µs, {waited:?}");
}

#[test]
#[ignore = "large: make test-large"]
fn a_hundred_thousand_holds_that_end_at_once_stop_nobody() {
    const HOLDS: usize = 100_000;

    let server = Server::builder().aof("everysec").config("slowlog-log-slower-than 1000").start();
    let mut client = server.client();
    for stream in ["", "STREAM events"] {
        client.expect("FLUSHALL", OK);
        client.expect(format!("STOCK.CREATE sale {HOLDS} {stream}"), OK);
        fill(&mut client, HOLDS, |n| format!("STOCK.DECR_ONCE sale id-{n} HOLD 36000000"));
        // All of them end in one transaction, and so at the same instant, soon.
        fill(&mut client, 1, |_| "PING".into());
        let mut calls = vec!["MULTI".to_owned()];
        calls.extend((0..HOLDS).map(|n| format!("STOCK.EXTEND sale id-{n} PX 1500")));
        calls.push("EXEC".into());
        client.pipeline(calls);
        client.expect("SLOWLOG RESET", OK);
        let lapsed = || server.info_int("lockstock", "lockstock_stock_lapses");
        let before = lapsed();
        eventually("the first hold lapses", || lapsed() > before);
        let what = format!("lapses {stream}");
        let (_, waited) = disturb(&server, &what, || {
            eventually("all holds lapse", || lapsed() == before + i64::try_from(HOLDS).expect("few"));
        });
        assert_eq!(books(&mut client, "sale").remaining, i64::try_from(HOLDS).expect("few"));
        assert!(waited < Duration::from_millis(50), "{waited:?}");
    }
}

#[test]
#[ignore = "large: make test-large"]
fn an_order_that_needs_many_due_holds_is_served() {
    const HOLDS: usize = 100_000;

    let server = Server::builder().config("slowlog-log-slower-than 1000").start();
    let mut client = server.client();
    client.expect(format!("STOCK.CREATE sale {HOLDS} STREAM events"), OK);
    fill(&mut client, HOLDS, |n| format!("STOCK.DECR_ONCE sale id-{n} HOLD 36000000"));
    let mut calls = vec!["MULTI".to_owned()];
    calls.extend((0..HOLDS).map(|n| format!("STOCK.EXTEND sale id-{n} PX 1")));
    calls.extend(["DEBUG SLEEP 0.01".into(), format!("STOCK.DECR_ONCE sale all QTY {HOLDS}"), "EXEC".into()]);
    let last = client.pipeline(calls).pop().expect("an answer");
    last.at(HOLDS + 1).clone().is(("OK", i64::try_from(HOLDS).expect("few"), 0, -1, ""));
    let log = client.cmd("SLOWLOG GET -1");
    let took = log.items().iter().find(|entry| entry.at(3).at(0).text() == "STOCK.DECR_ONCE");
    println!("one order that ends {HOLDS} holds: {:?} µs", took.map(|entry| entry.at(2).int()));
}
