//! Sales of a million orders: what they weigh, and that nobody waits for them. Minutes long, so only on demand: `make test-large`.

use std::time::{Duration, Instant};

use harness::shop::{Replay, books, events};
use harness::{ANY, OK, Server, Words, eventually};

use crate::support::load::{MILLION, busy, cost, disturb, fill};

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

/// Has the server log every command that takes longer than a millisecond, of which there should be few.
#[track_caller]
fn watch(server: &Server) {
    server.expect("CONFIG SET slowlog-log-slower-than 1000 slowlog-max-len 100000", OK);
    server.expect("SLOWLOG RESET", OK);
}

/// Shows the longest that a command on sales took since [`watch`] or the last look. What the machine does with its cores meanwhile counts, too: a
/// command of microseconds is interrupted for milliseconds. So this is a figure for a person.
#[track_caller]
fn longest(server: &Server, what: &str) {
    let log = server.cmd("SLOWLOG GET -1");
    server.expect("SLOWLOG RESET", OK);
    let entries = log.items().iter().map(|entry| (entry.at(2).int(), entry.at(3).at(0).text()));
    let slow: Vec<_> = entries.filter(|(_, command)| command.starts_with("STOCK.")).collect();
    let (took, command) = slow.iter().max().cloned().unwrap_or_default();
    println!("{what}: {} commands took 1 ms or more, the longest {took} µs {command}", slow.len());
}

#[test]
#[ignore = "large: make test-large"]
fn a_million_orders_are_exported_while_others_are_served() {
    let server = Server::start();
    let mut client = server.client();
    client.expect(format!("STOCK.CREATE sale {MILLION}"), OK);
    watch(&server);
    fill(&mut client, MILLION, |n| format!("STOCK.DECR_ONCE sale {} BUYER b-{n} REF r-{n} HOLD 36000000", uuid(n)));
    longest(&server, "a million orders");
    cost(&server, "stock.decr_once");
    let mut reader = server.client();
    let mut pages = |state: &str| {
        let (mut rows, mut cursor) = (0, "0".to_owned());
        loop {
            reader.send(format!("STOCK.ORDERS sale {cursor} COUNT 1000 {state}"));
            reader.send("ECHO the-end");
            // Taken apart no further than needed: the server is to be measured, not the reader.
            let page = reader.read_through(b"$7\r\nthe-end\r\n");
            rows += page.windows(4).filter(|window| window == b"*6\r\n").count();
            cursor = String::from_utf8_lossy(page.split(|byte| *byte == b'\n').nth(2).expect("a cursor")).trim().into();
            if cursor == "0" {
                return rows;
            }
        }
    };
    assert_eq!(disturb(&server, "export", || pages("")), MILLION);
    longest(&server, "export");
    let full = cost(&server, "stock.orders");
    assert_eq!(disturb(&server, "export of what there is none of", || pages("STATE cancelled")), 0);
    let empty = cost(&server, "stock.orders");
    assert!(full < 5_000 && empty < 5_000, "{full} µs, {empty} µs");
    longest(&server, "export of nothing");
    client.expect("STOCK.INFO sale", ANY);
    assert!(cost(&server, "stock.info") < 2_000);
    client.expect("MEMORY USAGE sale", ANY);
    assert!(cost(&server, "memory|usage") < 5_000);
    disturb(&server, "UNLINK", || {
        client.expect("UNLINK sale", 1);
        eventually("it is freed", || server.info_int("lockstock", "lockstock_sales") == 0);
    });
    assert!(cost(&server, "unlink") < 2_000);
}

#[test]
#[ignore = "large: make test-large"]
fn a_hundred_thousand_holds_that_end_at_once_stop_nobody() {
    const HOLDS: usize = 100_000;

    let server = Server::builder().aof("everysec").start();
    let mut client = server.client();
    let all = i64::try_from(HOLDS).expect("few");
    let lapsed = || server.info_int("lockstock", "lockstock_stock_lapses");
    for stream in ["", "STREAM events"] {
        client.expect("FLUSHALL", OK);
        client.expect(format!("STOCK.CREATE sale {HOLDS} {stream}"), OK);
        fill(&mut client, HOLDS, |n| format!("STOCK.DECR_ONCE sale id-{n} HOLD 36000000"));
        let before = lapsed();
        let script = "for n = 0, ARGV[1] - 1 do redis.call('STOCK.EXTEND', KEYS[1], 'id-' .. n, 'PX', 2000) end";
        client.expect(["EVAL", script, "1", "sale", &HOLDS.to_string()], harness::NULL);
        let what = format!("{HOLDS} lapses {stream}");
        let took = disturb(&server, &what, || {
            eventually("the first holds lapse", || lapsed() > before);
            let begun = Instant::now();
            eventually("all holds lapse", || lapsed() == before + all);
            begun.elapsed()
        });
        println!("from the first to the last: {took:.1?}");
        assert_eq!(books(&mut client, "sale").remaining, all);
    }
}

#[test]
#[ignore = "large: make test-large"]
fn an_order_that_needs_a_hundred_thousand_due_holds_takes_no_longer_than_others() {
    const HOLDS: i64 = 100_000;

    for create in ["", "STREAM events"] {
        let mut server = Server::builder().aof("everysec").start();
        let replica = Server::builder().replica_of(&server).start();
        replica.wait_in_sync(&server);
        let mut client = server.client();
        client.expect(format!("STOCK.CREATE sale {HOLDS} {create}"), OK);
        let count = usize::try_from(HOLDS).expect("few");
        fill(&mut client, count, |n| format!("STOCK.DECR_ONCE sale id-{n} HOLD 36000000"));
        // Nothing lapses until the order comes. A script may write, once it has begun, until it is done.
        let script = "for n = 1, ARGV[1] do redis.call('STOCK.EXTEND', KEYS[1], 'id-' .. (n - 1), 'PX', 1) end";
        watch(&server);
        let replies = client.pipeline([
            Words::from("MULTI"),
            ["EVAL", script, "1", "sale", &HOLDS.to_string()].into(),
            "DEBUG SLEEP 0.01".into(),
            "INFO cpu".into(),
            format!("STOCK.DECR_ONCE sale all QTY {HOLDS}").into(),
            "INFO cpu".into(),
            "STOCK.INFO sale".into(),
            "EXEC".into(),
        ]);
        replies[7].at(3).clone().is(("OK", HOLDS, 0, -1, ""));
        let info = replies[7].at(5);
        assert_eq!(["remaining", "held", "sold"].map(|name| info.field(name).int()), [0, 0, HOLDS]);
        // Others are served while the lapses follow.
        let lapsed = || server.info_int("lockstock", "lockstock_stock_lapses");
        disturb(&server, &format!("the lapses that follow {create}"), || {
            let mut late = server.client();
            eventually("all holds lapse", || {
                late.expect("STOCK.DECR_ONCE sale late", ("SOLDOUT", 0, 0, -1, ""));
                lapsed() == HOLDS
            });
        });
        let what = format!("an order for {HOLDS} due holds {create}");
        let took = busy(replies[7].at(4)).saturating_sub(busy(replies[7].at(2)));
        println!("{what}: {took:.1?}");
        assert!(took < Duration::from_millis(10), "{took:?}");
        longest(&server, &what);
        assert_eq!(books(&mut client, "sale").sold, HOLDS);
        if !create.is_empty() {
            Replay::of_all(HOLDS, &events(&mut client, "events")).agrees_with(&mut client, "sale");
        }
        let before = server.digest();
        replica.wait_in_sync(&server);
        assert_eq!(replica.digest(), before);
        server.kill9();
        server.start_again();
        assert_eq!(server.digest(), before);
    }
}
