//! The life of a hold: it ends on the millisecond, with or without traffic, once, and on the primary only.

use harness::shop::{Replay, books, events, orders};
use harness::{ANY, Client, INT, OK, Reply, Server, Tap, Words, eventually, unix_ms};

use crate::support::line::Line;

/// The deadline of the hold of `id`.
#[track_caller]
fn hold(client: &mut Client, sale: &str, id: &str, ms: i64) -> i64 {
    client.expect(format!("STOCK.DECR_ONCE {sale} {id} HOLD {ms}"), ("OK", 1, INT, INT, "")).at(3).int()
}

/// The server's clock in milliseconds.
#[track_caller]
fn clock(client: &mut Client) -> i64 {
    let time = client.cmd("TIME");
    let number = |index: usize| time.at(index).text().parse::<i64>().expect("a number");
    number(0) * 1_000 + number(1) / 1_000
}

#[test]
fn units_are_sellable_again_on_the_millisecond_of_the_deadline() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1", OK);
    for round in 0..20 {
        let deadline = hold(&mut client, "sale", &format!("holder-{round}"), 15);
        let buyer = format!("STOCK.DECR_ONCE sale buyer-{round}");
        loop {
            // The clock before and after shows on which side of the deadline the server looked at its own.
            let replies = client.pipeline(["TIME", &buyer, "TIME"]);
            let [before, after] = [0, 2].map(|index: usize| {
                let part = |at| replies[index].at(at).text().parse::<i64>().expect("a number");
                part(0) * 1_000 + part(1) / 1_000
            });
            let status = replies[1].at(0).text();
            if status == "OK" {
                assert!(after >= deadline, "sold at {after}, before the deadline {deadline}");
                break;
            }
            assert_eq!(status, "SOLDOUT");
            assert!(before < deadline, "not sold at {before}, after the deadline {deadline}");
        }
        client.expect(format!("STOCK.CANCEL sale buyer-{round}"), ("OK", 0, 1, -1, ""));
    }
}

#[test]
fn the_event_of_a_lapse_is_there_at_once_without_traffic() {
    let server = Server::start();
    let mut client = server.client();
    // A busy machine makes some of them late, and a fault all.
    let late = [0, 1, 2, 3, 4].map(|round| {
        let (sale, stream) = (format!("sale-{round}"), format!("events-{round}"));
        client.expect(format!("STOCK.CREATE {sale} 5 STREAM {stream}"), OK);
        let deadline = hold(&mut client, &sale, "ann", 40);
        let taken = client.cmd(["XRANGE", &stream, "-", "+", "COUNT", "1"]).at(0).at(0).text();
        // Only a parked reader, no other traffic: it is the timer that appends.
        let read = client.cmd(format!("XREAD BLOCK 0 STREAMS {stream} {taken}"));
        let entry = read.at(0).at(1).at(0);
        assert_eq!(entry.at(1).field("seq").text(), "2");
        assert_eq!(entry.at(1).field("event").text(), "expire");
        let appended = entry.at(0).text().split('-').next().and_then(|ms| ms.parse::<i64>().ok());
        appended.expect("an entry's time") - deadline
    });
    assert!(late.iter().all(|late| *late >= 0) && late.iter().any(|late| *late < 100), "{late:?} ms late");
}

#[test]
fn many_holds_that_end_together_lapse_each_once() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 5000 STREAM events", OK);
    let calls: Vec<String> =
        (0..3_000).map(|n| format!("STOCK.DECR_ONCE sale id-{n} BUYER b-{} HOLD 300", n % 7)).collect();
    client.pipeline(&calls);
    eventually("all holds lapse", || client.cmd("XLEN events").int() == 6_000);
    let events = events(&mut client, "events");
    assert_eq!(events.iter().filter(|event| event.event == "expire").count(), 3_000);
    Replay::of(5_000, &events).agrees_with(&mut client, "sale");
    assert_eq!(books(&mut client, "sale").remaining, 5_000);
    client.expect("STOCK.INFO sale", ANY).field("expired").is(3_000);
}

#[test]
fn many_sales_with_many_holds_that_are_due_keep_no_other_sale_waiting() {
    const SALES: usize = 40;
    const HOLDS: usize = 500;
    let server = Server::start();
    let (mut client, mut line) = (server.client(), Line::at(&server));
    let end = unix_ms() + 4_000;
    for sale in 0..SALES {
        client.expect(format!("STOCK.CREATE sale-{sale} {HOLDS}"), OK);
        let hold = end - unix_ms();
        let calls: Vec<String> =
            (0..HOLDS).map(|n| format!("STOCK.DECR_ONCE sale-{sale} id-{n} HOLD {hold}")).collect();
        client.pipeline(&calls);
    }
    // The last of all deadlines is that of the only hold of another sale.
    client.expect("STOCK.CREATE last 1", OK);
    let left = end - unix_ms() + 100;
    client.expect(format!("STOCK.DECR_ONCE last ann HOLD {left}"), ("OK", 1, 0, INT, ""));
    client.expect("STOCK.DECR_ONCE last ben WAITLIST", ("QUEUED", 0, 0, -1, ""));
    assert_eq!(line.count("stock_lapses"), 0, "all were made in time");
    let sleep = left + 100;
    client.cmd(format!("DEBUG SLEEP {}.{:03}", sleep / 1_000, sleep % 1_000));
    eventually("ben is served", || client.cmd("STOCK.ORDER last ben").field("state").text() == "sold");
    let lapses = line.count("stock_lapses");
    let all = i64::try_from(SALES * HOLDS).expect("a number");
    assert!(lapses < all / 2, "{lapses} holds of {all} came first");
    line.until("stock_lapses", all + 1);
}

#[test]
fn a_replica_ends_nothing_and_goes_on_when_promoted() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    replica.wait_in_sync(&primary);
    let (mut client, mut other) = (primary.client(), replica.client());
    client.expect("STOCK.CREATE sale 5 STREAM events", OK);
    // The primary stops for longer than the first hold lasts, so that nobody ends it.
    client.pipeline([
        "STOCK.DECR_ONCE sale bob HOLD 60000",
        "STOCK.DECR_ONCE sale ann HOLD 100",
        "CLIENT PAUSE 60000 WRITE",
    ]);
    replica.wait_in_sync(&primary);
    assert_eq!(orders(&mut other, "sale").len(), 2);
    eventually("the deadline passes", || books(&mut other, "sale").remaining == 4);
    assert_eq!(other.cmd("XLEN events").int(), 2, "a replica appends nothing");
    assert_eq!(other.cmd("STOCK.ORDER sale ann").field("state").text(), "expired");
    replica.promote();
    eventually("the new primary ends the hold", || other.cmd("XLEN events").int() == 3);
    other.expect("STOCK.DECR_ONCE sale eve QTY 3", ("OK", 3, 1, -1, ""));
    other.expect("STOCK.CONFIRM sale bob", ("OK", 1, 1, -1, ""));
    let events = events(&mut other, "events");
    Replay::of(5, &events).agrees_with(&mut other, "sale");
    assert_eq!(events[2].event, "expire");
}

#[test]
fn a_pause_puts_lapses_off_and_they_are_made_up_for() {
    let primary = Server::builder().aof("always").start();
    let mut tap = Tap::attach(&primary);
    let mut client = primary.client();
    client.expect("STOCK.CREATE sale 5 STREAM events", OK);
    let replies = client.pipeline(["STOCK.DECR_ONCE sale ann HOLD 30", "CLIENT PAUSE 20000 WRITE"]);
    let deadline = replies[0].at(3).int();
    eventually("the deadline passes", || clock(&mut client) > deadline + 50);
    assert_eq!(books(&mut client, "sale").remaining, 5, "reads know");
    assert_eq!(client.cmd("XLEN events").int(), 1);
    client.expect("CLIENT UNPAUSE", OK);
    eventually("it is made up for", || client.cmd("XLEN events").int() == 2);
    let seen = tap.drain();
    assert_eq!(seen.iter().filter(|words| is_lapse(words)).count(), 1, "{seen:?}");
}

fn is_lapse(words: &Words) -> bool {
    words.0.get(2).is_some_and(|word| word == b"LAPSED")
}

#[test]
fn holds_that_ended_while_the_server_was_down_lapse_right_after_the_start() {
    let mut server = Server::builder().aof("always").start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 5 STREAM events", OK);
    client.expect("STOCK.CREATE other 5", OK);
    hold(&mut client, "other", "ann", 2_500);
    hold(&mut client, "sale", "bob", 600_000);
    let deadline = hold(&mut client, "sale", "ann", 2_500);
    server.kill9();
    eventually("the deadline passes", || unix_ms() > deadline);
    server.start_again();
    // Without a command on the sale.
    eventually("both lapse", || server.info_int("lockstock", "lockstock_stock_lapses") == 2);
    let mut client = server.client();
    assert_eq!(books(&mut client, "sale").held, 1);
    assert_eq!(books(&mut client, "other").held, 0);
    let events = events(&mut client, "events");
    Replay::of(5, &events).agrees_with(&mut client, "sale");
}

#[test]
fn a_lapse_is_sent_with_its_event_and_before_what_needs_it() {
    let server = Server::builder().aof("always").start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1 STREAM events", OK);
    let mut tap = Tap::attach(&server);
    // In a transaction nothing runs in between: the command itself lets the hold lapse.
    let hold = "STOCK.DECR_ONCE sale ann HOLD 50";
    let replies = client.pipeline([hold, "MULTI", "DEBUG SLEEP 0.06", "STOCK.DECR_ONCE sale bob", "EXEC"]);
    replies[4].clone().is((OK, ("OK", 1, 0, -1, "")));
    let names: Vec<String> = tap
        .drain()
        .iter()
        .map(|words| match words.name().as_str() {
            "STOCK.APPLY" => String::from_utf8_lossy(&words.0[2]).into_owned(),
            "XADD" => format!("XADD {}", String::from_utf8_lossy(&words.0[6])),
            name => name.to_owned(),
        })
        .collect();
    let hold = ["MULTI", "XADD ok", "TAKEN", "EXEC"];
    assert_eq!(names, [&hold[..], &["MULTI", "XADD expire", "LAPSED", "XADD ok", "TAKEN", "EXEC"]].concat());
}

#[test]
fn a_sale_that_is_renamed_moved_or_restored_keeps_its_deadlines() {
    let server = Server::start();
    let mut client = server.client();
    for (sale, stream) in [("a", "events-a"), ("b", "events-b"), ("c", "events-c")] {
        client.expect(format!("STOCK.CREATE {sale} 5 STREAM {stream}"), OK);
        hold(&mut client, sale, "ann", 1_000);
    }
    let dump = client.cmd("DUMP c").bytes();
    client.expect("RENAME a renamed", OK);
    client.expect("MOVE b 1", 1);
    client.expect("DEL c", 1);
    client.expect([b"RESTORE", &b"restored"[..], b"0", &dump], OK);
    // A reader is no traffic on the sale itself.
    eventually("all three lapse", || server.info_int("lockstock", "lockstock_stock_lapses") == 3);
    for stream in ["events-a", "events-c"] {
        assert_eq!(events(&mut client, stream).last().map(|event| event.event.clone()), Some("expire".into()));
    }
    client.expect("SELECT 1", OK);
    assert_eq!(books(&mut client, "b").remaining, 5);
    assert_eq!(events(&mut client, "events-b").len(), 1, "a stream lies in its sale's database");
}

#[test]
fn databases_that_are_swapped_keep_their_deadlines() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 5", OK);
    hold(&mut client, "sale", "ann", 60);
    client.expect("SWAPDB 0 3", OK);
    eventually("the hold lapses", || server.info_int("lockstock", "lockstock_stock_lapses") == 1);
    client.expect("SELECT 3", OK);
    client.expect("STOCK.ORDER sale ann", ANY).field("state").is("expired");
}

#[test]
fn a_sale_that_is_gone_ends_nothing() {
    let server = Server::start();
    let mut client = server.client();
    for end in ["DEL sale", "UNLINK sale", "FLUSHALL", "FLUSHALL ASYNC", "SET sale x", "PEXPIRE sale 1"] {
        client.expect("STOCK.CREATE sale 5 STREAM events", OK);
        let deadline = hold(&mut client, "sale", "ann", 400);
        client.expect(end, ANY);
        client.expect("DEL events", ANY);
        eventually("the deadline passes", || clock(&mut client) > deadline + 10);
        assert_eq!(client.cmd("EXISTS events").int(), 0, "{end}");
        client.expect("DEL sale", ANY);
    }
    assert_eq!(server.info_int("lockstock", "lockstock_stock_lapses"), 0);
    // Its successor of the same name starts afresh.
    client.expect("STOCK.CREATE sale 5 STREAM events", OK);
    hold(&mut client, "sale", "ann", 10);
    eventually("the hold lapses", || client.cmd("XLEN events").int() == 2);
}

#[test]
fn extending_again_and_again_puts_the_end_off_and_no_more() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 5 STREAM events", OK);
    let [order, extend] = ["STOCK.DECR_ONCE sale ann HOLD 100", "STOCK.EXTEND sale ann PX"];
    let extend = [150, 200, 600_000].map(|ms| format!("{extend} {ms}"));
    // In one step, so that no deadline passes in between.
    let replies = client.pipeline(["MULTI", order, &extend[0], &extend[1], &extend[2], "EXEC"]);
    let replies = replies[5].items();
    let deadline = |reply: &Reply| reply.clone().is(("OK", 1, 4, INT, "")).at(3).int();
    assert!(replies.windows(2).all(|pair| deadline(&pair[0]) < deadline(&pair[1])), "{replies:?}");
    eventually("the earlier deadlines pass", || clock(&mut client) > deadline(&replies[2]) + 50);
    assert_eq!(books(&mut client, "sale").held, 1);
    client.expect("STOCK.EXTEND sale ann PX 1", ("OK", 1, 4, INT, ""));
    eventually("the hold lapses", || client.cmd("XLEN events").int() == 2);
    client.expect("STOCK.EXTEND sale ann PX 1000", ("EXPIRED", 0, 5, -1, ""));
}
