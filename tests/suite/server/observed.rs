//! What those hear who only look on: the counters of `INFO lockstock` and the keyspace notifications, as docs/commands.md has them.

use std::collections::BTreeMap;

use harness::{ANY, NULL, OK, Server, eventually, unix_ms};

use crate::support::line::Line;

#[test]
fn each_answer_about_an_order_is_counted_by_its_status() {
    let server = Server::start();
    let mut client = server.client();
    for call in ["sale 3 LIMIT 2", "other 1", "late 1 END 1", &format!("early 1 START {}", unix_ms() + 600_000)] {
        client.expect(format!("STOCK.CREATE {call}"), OK);
    }
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    let mut count = |status: &str| *counts.entry(status.to_lowercase()).or_default() += 1;
    client.expect("STOCK.DECR_ONCE other brief HOLD 1", ANY);
    count("OK");
    eventually("the hold has lapsed", || server.info_int("lockstock", "lockstock_stock_lapses") == 1);
    for (call, status) in [
        ("STOCK.DECR_ONCE other brief", "EXPIRED"),
        ("STOCK.DECR_ONCE sale a HOLD 600000", "OK"),
        ("STOCK.DECR_ONCE sale a", "DUPLICATE"),
        ("STOCK.CONFIRM sale a", "OK"),
        ("STOCK.DECR_ONCE sale b QTY 3", "LIMIT"),
        ("STOCK.DECR_ONCE early a", "NOTSTARTED"),
        ("STOCK.DECR_ONCE late a", "ENDED"),
        ("STOCK.DECR_ONCE sale b", "OK"),
        ("STOCK.DECR_ONCE sale c QTY 2", "INSUFFICIENT"),
        ("STOCK.DECR_ONCE sale c", "OK"),
        ("STOCK.DECR_ONCE sale d", "SOLDOUT"),
        ("STOCK.DECR_ONCE sale d WAITLIST", "QUEUED"),
        ("STOCK.CANCEL sale a", "OK"),
        ("STOCK.DECR_ONCE sale a", "CANCELLED"),
        ("STOCK.CONFIRM sale nobody", "NOORDER"),
        ("STOCK.CONFIRM none a", "NOSTOCK"),
    ] {
        assert_eq!(client.cmd(call).at(0).text(), status, "{call}");
        count(status);
    }
    // Of a request to several sales, the answer of each.
    let cart = client.cmd("STOCK.MDECR_ONCE cart 2 other 1 sale 1");
    for (leg, status) in ["SKIPPED", "SOLDOUT"].into_iter().enumerate() {
        assert_eq!(cart.at(leg + 1).at(0).text(), status);
        count(status);
    }
    let info = server.info("lockstock");
    let mut told: BTreeMap<String, i64> = info
        .iter()
        .filter_map(|(field, value)| Some((field.strip_prefix("lockstock_stock_")?.into(), value.parse().ok()?)))
        .collect();
    assert_eq!(told.remove("lapses"), Some(1));
    assert_eq!(told, counts);
}

#[test]
fn the_time_waited_is_that_of_all_who_no_longer_wait() {
    let server = Server::start();
    let (mut line, mut client) = (Line::at(&server), server.client());
    client.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    let granted = line.join("LOCK.ACQUIRE lock TOKEN next WAIT 0");
    let _waits_on = line.join("LOCK.ACQUIRE lock TOKEN last WAIT 0");
    assert_eq!(line.count("lock_wait_ms"), 0, "they wait still");
    client.expect("LOCK.ACQUIRE lock TOKEN short WAIT 40", NULL);
    let after_one = line.count("lock_wait_ms");
    assert!(after_one >= 40, "{after_one}");
    client.expect("LOCK.RELEASE lock holder", 1);
    // The next has waited for longer than the one whose time was over.
    eventually("the other is counted", || line.count("lock_wait_ms") >= 2 * after_one);
    assert_eq!((line.count("lock_waits"), line.count("lock_waiters")), (3, 1));
    drop(granted);
}

#[test]
fn listeners_hear_how_each_hold_begins_and_ends() {
    let server = Server::start();
    let (mut listener, mut client, mut session) = (server.client(), server.client(), server.client());
    client.expect("CONFIG SET notify-keyspace-events Ed", OK);
    listener.expect("PSUBSCRIBE __keyevent@0__:lock.*", ANY);
    let mut hears = |event: &str| {
        let channel = format!("__keyevent@0__:lock.{event}");
        listener.read().is(("pmessage", "__keyevent@0__:lock.*", channel, "job"));
    };
    client.expect("LOCK.ACQUIRE job TOKEN ann", ANY);
    hears("held");
    client.expect("LOCK.RELEASE job ann", 1);
    hears("released");
    client.expect("LOCK.ACQUIRE job TOKEN ann PX 1", ANY);
    hears("held");
    hears("lapsed");
    session.expect("LOCK.ACQUIRE job TOKEN bob SESSION", ANY);
    hears("held");
    session.close();
    hears("disconnected");
}
