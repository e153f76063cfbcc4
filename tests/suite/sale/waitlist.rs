//! The waitlist: an order that comes too late waits in line, and gets the units that come back, whatever brings them back and whatever happens to
//! the server.

mod told;

use std::time::{Duration, Instant};

use harness::shop::{Replay, books, events, orders};
use harness::{ANY, Client, INT, NULL, OK, Reply, Server, err, eventually, unix_ms};

const HOUR: i64 = 3_600_000;

/// The order as `STOCK.ORDER` shows it: names and values in turn.
#[track_caller]
fn order(client: &mut Client, id: &str) -> String {
    let order = client.cmd(["STOCK.ORDER", "sale", id]);
    let text = |cell: &Reply| if let Reply::Int(number) = cell { number.to_string() } else { cell.text() };
    order.items().iter().map(text).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn number(client: &mut Client, name: &str) -> i64 {
    client.cmd("STOCK.INFO sale").field(name).int()
}

/// The ids of the waiting orders, the next first.
#[track_caller]
fn line(client: &mut Client) -> Vec<String> {
    let page = client.cmd("STOCK.ORDERS sale 0 COUNT 1000 STATE waiting");
    let ids = page.at(1).items().iter().map(|row| row.at(0).text());
    let mut line: Vec<(i64, String)> =
        ids.map(|id| (client.cmd(["STOCK.ORDER", "sale", &id]).field("place").int(), id)).collect();
    line.sort();
    assert!(line.iter().map(|(place, _)| *place).eq(1..=i64::try_from(line.len()).expect("few")), "{line:?}");
    line.into_iter().map(|(_, id)| id).collect()
}

/// Every entry of the stream as names and values in turn, the oldest first, with deadlines in the future as `D`.
#[track_caller]
fn told(client: &mut Client) -> Vec<String> {
    let deadline = |event: &harness::shop::Event| match event.deadline {
        None => String::new(),
        Some(-1) => " -1".into(),
        Some(_) => " D".into(),
    };
    let events = events(client, "events");
    let line = |e: &harness::shop::Event| {
        format!("{} {} {} {} {} {}{}", e.seq, e.event, e.id, e.units, e.buyer, e.reference, deadline(e))
    };
    events.iter().map(line).collect()
}

#[test]
fn who_comes_too_late_joins_the_line_and_stays_where_it_is() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 3 STREAM events DEADLINES", OK);
    client.expect("STOCK.DECR_ONCE sale a QTY 2 WAITLIST", ("OK", 2, 1, -1, ""));
    client.expect("STOCK.DECR_ONCE sale b QTY 2 BUYER ann HOLD 3600000 REF r WAITLIST", ("QUEUED", 0, 1, -1, "r"));
    client.expect("STOCK.DECR_ONCE sale c waitlist", ("QUEUED", 0, 1, -1, ""));
    for again in ["WAITLIST", "", "QTY 3 REF other HOLD 1", "BUYER ann"] {
        client.expect(format!("STOCK.DECR_ONCE sale b {again}"), ("QUEUED", 0, 1, -1, "r"));
    }
    client.expect("STOCK.DECR_ONCE sale b BUYER bob WAITLIST", err("ERR the order of this id has another BUYER"));
    client.expect("STOCK.DECR_ONCE sale d", ("SOLDOUT", 0, 1, -1, ""));
    client.expect("STOCK.DECR_ONCE sale d QTY 4 WAITLIST", ("INSUFFICIENT", 0, 1, -1, ""));
    client.expect("STOCK.DECR_ONCE sale d WAITLIST WAITLIST", err("ERR syntax error"));
    client.expect("STOCK.CONFIRM sale b", ("QUEUED", 0, 1, -1, "r"));
    client.expect("STOCK.EXTEND sale b PX 5", ("QUEUED", 0, 1, -1, "r"));
    assert_eq!(order(&mut client, "b"), "state waiting units 0 buyer ann ref r deadline -1 place 1");
    assert_eq!(order(&mut client, "c"), "state waiting units 0 buyer c ref  deadline -1 place 2");
    assert_eq!(order(&mut client, "a"), "state sold units 2 buyer a ref  deadline -1");
    client.expect("STOCK.BUYER sale ann", (2, 0));
    assert_eq!(["waiting", "orders", "buyers", "soldout"].map(|name| number(&mut client, name)), [2, 3, 1, 2]);
    // It joins in this step, and its hold begins when it is served.
    client.expect("STOCK.CANCEL sale a", ("OK", 0, 0, -1, ""));
    let deadline = client.cmd("STOCK.ORDER sale b").field("deadline").int();
    assert!((unix_ms() + HOUR - 60_000..=unix_ms() + HOUR).contains(&deadline));
    client.expect("STOCK.DECR_ONCE sale b WAITLIST", ("DUPLICATE", 2, 0, deadline, "r"));
    assert_eq!(order(&mut client, "c"), "state sold units 1 buyer c ref  deadline -1");
    assert_eq!(
        told(&mut client),
        [
            "1 ok a 2 a  -1",
            "2 wait b 2 ann r -1",
            "3 wait c 1 c  -1",
            "4 cancel a 2 a  -1",
            "5 ok b 2 ann r D",
            "6 ok c 1 c  -1"
        ]
    );
    Replay::of(3, &events(&mut client, "events")).agrees_with(&mut client, "sale");
    let answered = ["queued", "soldout", "insufficient", "ok"]
        .map(|status| server.info_int("lockstock", &format!("lockstock_stock_{status}")));
    assert_eq!(answered, [8, 1, 1, 2]);
}

/// When the last event of a stream was appended, by the server's clock.
#[track_caller]
fn last(client: &mut Client, stream: &str) -> i64 {
    let id = client.cmd(["XREVRANGE", stream, "+", "-", "COUNT", "1"]).at(0).at(0).text();
    id.split('-').next().and_then(|time| time.parse().ok()).expect("a time")
}

/// A busy machine makes some of them late, and a fault all.
#[test]
fn the_line_is_served_soon_after_a_lapse_or_a_start() {
    let server = Server::start();
    let mut client = server.client();
    let late = [0, 1, 2, 3, 4].map(|round| {
        let (sale, stream) = (format!("sale-{round}"), format!("events-{round}"));
        client.expect(format!("STOCK.CREATE {sale} 1 STREAM {stream}"), OK);
        client.expect(format!("STOCK.DECR_ONCE {sale} a HOLD 3600000"), ("OK", 1, 0, INT, ""));
        client.expect(format!("STOCK.DECR_ONCE {sale} b WAITLIST"), ("QUEUED", 0, 0, -1, ""));
        let over = client.expect(format!("STOCK.EXTEND {sale} a PX 50"), ("OK", 1, 0, INT, "")).at(3).int();
        eventually("it is served", || client.cmd(["XLEN", &stream]).int() == 4);
        let after_lapse = last(&mut client, &stream) - over;

        client.expect(format!("STOCK.DECR_ONCE {sale} c WAITLIST"), ("QUEUED", 0, 0, -1, ""));
        client.expect(format!("STOCK.ALTER {sale} START {}", unix_ms() + HOUR), OK);
        client.expect(format!("STOCK.CANCEL {sale} b"), ("OK", 0, 1, -1, ""));
        let start = unix_ms() + 50;
        client.expect(format!("STOCK.ALTER {sale} START {start}"), OK);
        eventually("it is served", || client.cmd(["XLEN", &stream]).int() == 7);
        [after_lapse, last(&mut client, &stream) - start]
    });
    for what in [0, 1] {
        assert!(late.iter().any(|late| (0..50).contains(&late[what])), "{late:?}");
    }
}

#[test]
fn a_lapse_serves_the_line_without_traffic() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 4 STREAM events", OK);
    client.expect("STOCK.DECR_ONCE sale a QTY 4 HOLD 3600000", ("OK", 4, 0, INT, ""));
    for (id, units, hold) in [("b", 1, "HOLD 3600000"), ("c", 2, ""), ("d", 2, ""), ("e", 1, "")] {
        client.expect(format!("STOCK.DECR_ONCE sale {id} QTY {units} {hold} WAITLIST"), ("QUEUED", 0, 0, -1, ""));
    }
    let over = client.expect("STOCK.EXTEND sale a PX 50", ("OK", 4, 0, INT, "")).at(3).int();
    eventually("the line is served", || client.cmd("XLEN events").int() == 8);
    assert!(last(&mut client, "events") >= over);
    assert_eq!(told(&mut client)[5..], ["6 expire a 4 a ", "7 ok b 1 b ", "8 ok c 2 c "]);
    // One is left, and it is for the next in line, not for the order that needs no more than that.
    assert_eq!((line(&mut client), number(&mut client, "remaining")), (vec!["d".into(), "e".into()], 1));
    client.expect("STOCK.DECR_ONCE sale f", ("SOLDOUT", 0, 1, -1, ""));
    client.expect("STOCK.CONFIRM sale a", ("EXPIRED", 0, 1, -1, ""));
    client.expect("STOCK.CANCEL sale d", ("OK", 0, 0, -1, ""));
    assert_eq!(order(&mut client, "e"), "state sold units 1 buyer e ref  deadline -1");
    client.expect("STOCK.CANCEL sale d", ("DUPLICATE", 0, 0, -1, ""));
    client.expect("STOCK.CONFIRM sale a", ("EXPIRED", 0, 0, -1, ""));
    Replay::of(4, &events(&mut client, "events")).agrees_with(&mut client, "sale");
}

#[test]
fn a_restock_serves_and_a_withdrawal_leaves_the_line_its_units() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 4 STREAM events", OK);
    client.expect("STOCK.DECR_ONCE sale a QTY 3", ("OK", 3, 1, -1, ""));
    client.expect("STOCK.DECR_ONCE sale b QTY 4 WAITLIST", ("QUEUED", 0, 1, -1, ""));
    client.expect("STOCK.DECR_ONCE sale c QTY 2 WAITLIST", ("QUEUED", 0, 1, -1, ""));
    client.expect("STOCK.ADJUST sale -1", err("ERR the total must be at least 4, for an order on the waitlist"));
    client.expect("STOCK.ADJUST sale 2", 3);
    client.expect("STOCK.ADJUST sale -2", 1);
    client.expect("STOCK.ADJUST sale 6", 1);
    assert_eq!((line(&mut client), number(&mut client, "waiting")), (vec![], 0));
    client.expect("STOCK.ADJUST sale -1", 0);
    assert_eq!(
        told(&mut client)[3..],
        ["4 adjust  2  ", "5 adjust  -2  ", "6 adjust  6  ", "7 ok b 4 b ", "8 ok c 2 c ", "9 adjust  -1  "]
    );
}

/// A line that takes several steps to serve keeps its units, and what it leaves can be withdrawn before the last of them.
#[test]
fn what_a_long_line_leaves_can_be_withdrawn_at_once() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 2000 STREAM events", OK);
    client.expect("STOCK.DECR_ONCE sale all QTY 2000", ("OK", 2_000, 0, -1, ""));
    client.pipeline((0..1_500).map(|n| format!("STOCK.DECR_ONCE sale w-{n} WAITLIST")));
    // In one step, so that the timer serves none of them in between.
    let replies = client.pipeline([
        "MULTI",
        "STOCK.CANCEL sale all",
        "STOCK.ADJUST sale -1901",
        "STOCK.ADJUST sale -501",
        "STOCK.ADJUST sale -300",
        "STOCK.ADJUST sale -201",
        "STOCK.ADJUST sale -200",
        "STOCK.ADJUST sale -1",
        "EXEC",
    ]);
    let replies = replies.last().expect("the replies of the step");
    replies.at(0).clone().is(("OK", 0, 1_900, -1, ""));
    let least = |units: u64| err(&format!("ERR delta must be at least -{units}, for no more units remain unsold"));
    replies.at(1).clone().is(least(500));
    replies.at(2).clone().is(least(500));
    // What is for the line is shown as remaining until the line has it.
    replies.at(3).clone().is(1_500);
    replies.at(4).clone().is(least(200));
    replies.at(5).clone().is(1_200);
    replies.at(6).clone().is(err("ERR delta must be at least 0, for no units remain unsold"));
    eventually("all are served", || number(&mut client, "waiting") == 0);
    assert_eq!(["total", "remaining", "sold"].map(|name| number(&mut client, name)), [1_500, 0, 1_500]);
    Replay::of(2_000, &events(&mut client, "events")).agrees_with(&mut client, "sale");
}

#[test]
fn nobody_is_served_outside_the_window() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1 STREAM events", OK);
    client.expect("STOCK.DECR_ONCE sale a", ("OK", 1, 0, -1, ""));
    for id in ["b", "c", "d"] {
        client.expect(format!("STOCK.DECR_ONCE sale {id} WAITLIST"), ("QUEUED", 0, 0, -1, ""));
    }
    client.expect("STOCK.ALTER sale END 5", OK);
    client.expect("STOCK.ADJUST sale 1", 1);
    client.expect("STOCK.CANCEL sale b", ("OK", 0, 1, -1, ""));
    client.expect("STOCK.DECR_ONCE sale e WAITLIST", ("ENDED", 0, 1, -1, ""));
    client.expect("STOCK.DECR_ONCE sale c", ("QUEUED", 0, 1, -1, ""));
    let start = unix_ms() + HOUR;
    client.expect(format!("STOCK.ALTER sale START {start} END 0"), OK);
    assert_eq!((line(&mut client), number(&mut client, "remaining")), (vec!["c".into(), "d".into()], 1));
    client.expect("STOCK.DECR_ONCE sale e WAITLIST", ("NOTSTARTED", 0, 1, start, ""));
    let start = unix_ms() + 50;
    client.expect(format!("STOCK.ALTER sale START {start}"), OK);
    eventually("START comes", || client.cmd("XLEN events").int() == 7);
    assert!(last(&mut client, "events") >= start);
    client.expect("STOCK.ALTER sale END 6 START 0", OK);
    client.expect("STOCK.ADJUST sale 1", 1);
    client.expect("STOCK.ALTER sale END 0", OK);
    assert_eq!(told(&mut client)[5..], ["6 cancel b 1 b ", "7 ok c 1 c ", "8 adjust  1  ", "9 ok d 1 d "]);
}

/// Each server knows the line as the first does: from effects, from files, and from payloads.
#[test]
fn the_line_is_data() {
    let primary = Server::builder().aof("always").start();
    let replica = Server::builder().replica_of(&primary).start();
    let mut client = primary.client();
    client.expect("STOCK.CREATE sale 2 REBUY STREAM events DEADLINES", OK);
    client.expect("STOCK.DECR_ONCE sale a QTY 2 HOLD 3600000", ("OK", 2, 0, INT, ""));
    for n in 0..1_000 {
        let hold = ["", "HOLD 3600000"][n % 2];
        client.expect(
            format!("STOCK.DECR_ONCE sale id-{n} BUYER b-{} {hold} WAITLIST", n % 700),
            ("QUEUED", 0, 0, -1, ""),
        );
    }
    for n in (0..1_000).step_by(7) {
        client.expect(format!("STOCK.CANCEL sale id-{n}"), ("OK", 0, 0, -1, ""));
    }
    // Behind all of the others now.
    client.expect("STOCK.DECR_ONCE sale id-0 WAITLIST", ("QUEUED", 0, 0, -1, ""));
    assert_eq!(client.cmd("STOCK.ORDER sale id-0").field("place").int(), number(&mut client, "waiting"));
    replica.wait_in_sync(&primary);
    let digest = |server: &Server| server.expect("DEBUG DIGEST-VALUE sale", ANY);
    let before = digest(&primary);
    assert_eq!(digest(&replica), before);
    let dump = client.cmd("DUMP sale").bytes();
    client.expect([&b"RESTORE"[..], b"copy", b"0", &dump], OK);
    assert_eq!(client.cmd("DEBUG DIGEST-VALUE copy"), before);
    client.expect("DEL copy", 1);
    client.expect("DEBUG RELOAD", OK);
    assert_eq!(digest(&primary), before);
    client.expect("DEBUG LOADAOF", OK);
    assert_eq!(digest(&primary), before);
    client.expect("BGREWRITEAOF", ANY);
    eventually("the file is written", || {
        primary.info_int("persistence", "aof_rewrite_in_progress") == 0
            && primary.info_int("persistence", "aof_rewrite_scheduled") == 0
    });
    client.expect("DEBUG LOADAOF", OK);
    assert_eq!(digest(&primary), before);
    let first = line(&mut client)[..2].to_vec();
    client.expect("STOCK.CANCEL sale a", ("OK", 0, 0, -1, ""));
    for id in &first {
        assert_eq!(client.cmd(["STOCK.ORDER", "sale", id]).field("units").int(), 1);
    }
    replica.wait_in_sync(&primary);
    assert_eq!(digest(&replica), digest(&primary));
    Replay::of(2, &events(&mut client, "events")).agrees_with(&mut client, "sale");
}

#[test]
fn a_replica_serves_nobody_until_it_is_promoted() {
    let mut primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let mut client = primary.client();
    client.expect("STOCK.CREATE sale 1 STREAM events", OK);
    replica.wait_in_sync(&primary);
    // The primary is gone long before the hold is due, on a busy machine, too.
    client.expect("STOCK.DECR_ONCE sale a HOLD 3000", ("OK", 1, 0, INT, ""));
    client.expect("STOCK.DECR_ONCE sale b WAITLIST", ("QUEUED", 0, 0, -1, ""));
    let start = unix_ms() + 3_000;
    client.expect("STOCK.CREATE later 1", OK);
    client.expect("STOCK.DECR_ONCE later x", ("OK", 1, 0, -1, ""));
    client.expect("STOCK.DECR_ONCE later y WAITLIST", ("QUEUED", 0, 0, -1, ""));
    client.expect(format!("STOCK.ALTER later START {start}"), OK);
    client.expect("STOCK.CANCEL later x", ("OK", 0, 1, -1, ""));
    replica.wait_in_sync(&primary);
    primary.kill9();
    let mut client = replica.client();
    eventually("the hold is due", || order(&mut client, "a").starts_with("state expired"));
    eventually("START has come", || unix_ms() > start + 20);
    assert_eq!((line(&mut client), number(&mut client, "seq")), (vec!["b".into()], 2));
    assert_eq!(client.cmd("STOCK.INFO later").field("waiting").int(), 1);
    replica.promote();
    eventually("it serves", || {
        number(&mut client, "seq") == 4 && client.cmd("STOCK.INFO later").field("waiting").int() == 0
    });
    assert_eq!(told(&mut client)[2..], ["3 expire a 1 a ", "4 ok b 1 b "]);
}

#[test]
fn while_writes_are_paused_nobody_is_served() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1", OK);
    client.expect("STOCK.DECR_ONCE sale a HOLD 60000", ("OK", 1, 0, INT, ""));
    client.expect("STOCK.DECR_ONCE sale b WAITLIST", ("QUEUED", 0, 0, -1, ""));
    // In one step, so that the hold ends under the pause.
    client.pipeline(["MULTI", "STOCK.EXTEND sale a PX 50", "CLIENT PAUSE 60000 WRITE", "EXEC"]);
    let over = unix_ms() + 100;
    eventually("the hold is over", || unix_ms() > over);
    assert_eq!(line(&mut client), ["b"]);
    client.expect("CLIENT UNPAUSE", OK);
    eventually("it is made up for", || number(&mut client, "waiting") == 0);
    assert_eq!(books(&mut client, "sale").sold, 1);
}

/// Sales take turns: a short line and a hold do not wait for the end of a long line.
#[test]
fn a_long_line_holds_up_no_other_sale() {
    const WAITING: usize = 20_000;
    let server = Server::start();
    let mut client = server.client();
    client.expect(format!("STOCK.CREATE sale {WAITING} STREAM events"), OK);
    client.expect(format!("STOCK.DECR_ONCE sale all QTY {WAITING}"), ANY);
    client.pipeline((0..WAITING).map(|n| format!("STOCK.DECR_ONCE sale w-{n} WAITLIST")));
    client.expect("STOCK.CREATE short 1", OK);
    client.expect("STOCK.DECR_ONCE short ann HOLD 50", ("OK", 1, 0, INT, ""));
    client.expect("STOCK.DECR_ONCE short bob WAITLIST", ("QUEUED", 0, 0, -1, ""));
    client.expect("STOCK.CANCEL sale all", ANY);
    let mut waiting = 0;
    eventually("the other sale's hold lapses and its line is served", || {
        waiting = number(&mut client, "waiting");
        client.cmd("STOCK.ORDER short bob").field("state").text() == "sold"
    });
    assert!(waiting > 10_000, "most of the long line had been served before: {waiting}");
    eventually("the long line is served, too", || number(&mut client, "waiting") == 0);
}

/// More are served by one command than one step takes: the others in turns of the timer, in order, and nobody else in between.
#[test]
fn a_long_line_is_served_in_order_and_nobody_comes_in_between() {
    const WAITING: usize = 3_000;
    let server = Server::start();
    let mut client = server.client();
    client.expect(format!("STOCK.CREATE sale {WAITING} STREAM events DEADLINES"), OK);
    client.expect(format!("STOCK.DECR_ONCE sale all QTY {WAITING}"), ANY);
    let joins: Vec<String> = (0..WAITING).map(|n| format!("STOCK.DECR_ONCE sale w-{n} WAITLIST")).collect();
    client.pipeline(&joins);
    let mut calls = vec!["STOCK.CANCEL sale all".to_owned()];
    calls.extend((0..50).map(|n| format!("STOCK.DECR_ONCE sale thief-{n}")));
    let replies = client.pipeline(&calls);
    replies[0].clone().is(("OK", 0, 2_900, -1, ""));
    for reply in &replies[1..] {
        assert_eq!(reply.at(0).text(), "SOLDOUT");
    }
    eventually("all are served", || number(&mut client, "waiting") == 0);
    let told = events(&mut client, "events");
    let served: Vec<_> = told.iter().filter(|e| e.event == "ok").skip(1).map(|e| e.id.clone()).collect();
    assert!(served.iter().eq((0..WAITING).map(|n| format!("w-{n}")).collect::<Vec<_>>().iter()));
    Replay::of(i64::try_from(WAITING).expect("few"), &told).agrees_with(&mut client, "sale");
    // And many lapses at once.
    client.expect("STOCK.CREATE lapses 2000 STREAM lapsed", OK);
    let soon = Instant::now() + Duration::from_millis(400);
    let holds: Vec<String> = (0..2_000)
        .map(|n| {
            format!(
                "STOCK.DECR_ONCE lapses h-{n} HOLD {}",
                soon.saturating_duration_since(Instant::now()).as_millis().max(1)
            )
        })
        .collect();
    client.pipeline(&holds);
    let joins: Vec<String> =
        (0..2_000).map(|n| format!("STOCK.DECR_ONCE lapses w-{n} HOLD 3600000 WAITLIST")).collect();
    client.pipeline(&joins);
    eventually("all lapse and all are served", || {
        client.cmd("STOCK.INFO lapses").field("held").int() == 2_000
            && client.cmd("STOCK.INFO lapses").field("waiting").int() == 0
            && orders(&mut client, "lapses").values().filter(|order| order.state == "held").count() == 2_000
    });
    let told = events(&mut client, "lapsed");
    Replay::of(2_000, &told).agrees_with(&mut client, "lapses");
}

#[test]
fn a_line_of_a_sale_without_one_costs_nothing() {
    let server = Server::start();
    let mut client = server.client();
    for key in ["plain", "sale"] {
        client.expect(["STOCK.CREATE", key, "1"], OK);
        client.expect(["STOCK.DECR_ONCE", key, "a"], ANY);
    }
    let weigh = |client: &mut Client| ["plain", "sale"].map(|key| client.cmd(["MEMORY", "USAGE", key]).int());
    let [plain, sale] = weigh(&mut client);
    client.expect("STOCK.DECR_ONCE sale b WAITLIST", ANY);
    let [same, more] = weigh(&mut client);
    assert!(plain == same && more > sale);
    client.expect("STOCK.ORDER plain b", NULL);
    assert_eq!(client.cmd("STOCK.INFO plain").field("waiting").int(), 0);
}

#[test]
fn what_a_buyer_waits_for_counts_though_it_is_more_than_64_bits() {
    const MOST: i64 = (1 << 53) - 1;
    const ORDERS: usize = 2_049;
    let mut server = Server::builder().aof("no").start();
    let mut client = server.client();
    client.expect(format!("STOCK.CREATE sale {MOST}"), OK);
    client.expect(format!("STOCK.DECR_ONCE sale all QTY {MOST}"), ("OK", MOST, 0, -1, ""));
    let joined =
        client.pipeline((0..ORDERS).map(|n| format!("STOCK.DECR_ONCE sale o-{n} QTY {MOST} BUYER ann WAITLIST")));
    assert!(joined.iter().all(|reply| reply.at(0).text() == "QUEUED"), "{:?}", joined[0]);
    client.expect(format!("STOCK.ALTER sale LIMIT {MOST}"), OK);
    for _ in 0..2 {
        client.expect("STOCK.DECR_ONCE sale more BUYER ann WAITLIST", ("LIMIT", 0, 0, -1, ""));
        // And after the sale was written and read.
        server.restart();
        client = server.client();
    }
    // With the orders that are gone their units are, too.
    client.pipeline((0..ORDERS).map(|n| format!("STOCK.CANCEL sale o-{n}")));
    client.expect("STOCK.DECR_ONCE sale more BUYER ann WAITLIST", ("QUEUED", 0, 0, -1, ""));
    client.expect("STOCK.CANCEL sale all", ("OK", 0, MOST - 1, -1, ""));
    client.expect("STOCK.BUYER sale ann", (1, MOST));
}
