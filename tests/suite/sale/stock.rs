//! What the commands on an order answer: every status with every cell, in the order in which things are checked.

use harness::shop::books;
use harness::{ANY, Client, INT, NULL, OK, Server, Want, err, eventually};

/// The server's clock in milliseconds.
#[track_caller]
fn now(client: &mut Client) -> i64 {
    let time = client.cmd("TIME");
    time.at(0).text().parse::<i64>().expect("seconds") * 1_000
        + time.at(1).text().parse::<i64>().expect("microseconds") / 1_000
}

/// Holds `units` for `id` and waits until that has lapsed.
#[track_caller]
fn lapse(client: &mut Client, sale: &str, id: &str, units: i64) {
    client.expect(format!("STOCK.DECR_ONCE {sale} {id} QTY {units} HOLD 1 REF late"), ("OK", units, INT, INT, "late"));
    eventually("the hold lapses", || client.cmd(["STOCK.ORDER", sale, id]).field("state").text() == "expired");
}

#[test]
fn units_are_taken_once_and_the_answer_says_what_is_left() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 10", OK);
    client.expect("STOCK.DECR_ONCE sale ann", ("OK", 1, 9, -1, ""));
    client.expect("STOCK.DECR_ONCE sale bob QTY 4 REF order-7", ("OK", 4, 5, -1, "order-7"));
    client.expect("STOCK.DECR_ONCE sale ann", ("DUPLICATE", 1, 5, -1, ""));
    // The earlier order stands, whatever is asked for now.
    client.expect("STOCK.DECR_ONCE sale bob QTY 1 REF other HOLD 1000", ("DUPLICATE", 4, 5, -1, "order-7"));
    client.expect("STOCK.DECR_ONCE sale eve QTY 6", ("INSUFFICIENT", 0, 5, -1, ""));
    client.expect("STOCK.DECR_ONCE sale eve QTY 5", ("OK", 5, 0, -1, ""));
    client.expect("STOCK.DECR_ONCE sale dan", ("SOLDOUT", 0, 0, -1, ""));
    client.expect("STOCK.DECR_ONCE sale dan QTY 9", ("SOLDOUT", 0, 0, -1, ""));
    // A winner who asks again after that hears that it has won.
    client.expect("STOCK.DECR_ONCE sale ann", ("DUPLICATE", 1, 0, -1, ""));
    assert_eq!(books(&mut client, "sale").sold, 10);
}

#[test]
fn a_hold_is_a_reservation_until_its_deadline() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 10", OK);
    let before = now(&mut client);
    let held = client.expect("STOCK.DECR_ONCE sale ann QTY 3 HOLD 60000 REF cart", ("OK", 3, 7, INT, "cart"));
    let deadline = held.at(3).int();
    assert!((before + 60_000..=now(&mut client) + 60_000).contains(&deadline), "{deadline}");
    client.expect("STOCK.DECR_ONCE sale ann QTY 3 HOLD 99000", ("DUPLICATE", 3, 7, deadline, "cart"));
    client.expect(
        "STOCK.ORDER sale ann",
        vec![
            Want::from("state"),
            "held".into(),
            "units".into(),
            3.into(),
            "buyer".into(),
            "ann".into(),
            "ref".into(),
            "cart".into(),
            "deadline".into(),
            deadline.into(),
        ],
    );
    let longer = client.expect("STOCK.EXTEND sale ann PX 120000", ("OK", 3, 7, INT, "cart")).at(3).int();
    assert!(longer > deadline + 59_000, "{longer}");
    // It may come sooner, too.
    let sooner = client.expect("STOCK.EXTEND sale ann PX 30000", ("OK", 3, 7, INT, "cart")).at(3).int();
    assert!(sooner < deadline, "{sooner}");
    assert_eq!(books(&mut client, "sale").held, 3);
    client.expect("STOCK.CONFIRM sale ann", ("OK", 3, 7, -1, "cart"));
    client.expect("STOCK.CONFIRM sale ann", ("DUPLICATE", 3, 7, -1, "cart"));
    client.expect("STOCK.EXTEND sale ann PX 1000", ("DUPLICATE", 3, 7, -1, "cart"));
    client.expect("STOCK.DECR_ONCE sale ann HOLD 1000", ("DUPLICATE", 3, 7, -1, "cart"));
    assert_eq!(books(&mut client, "sale").sold, 3);
    client.expect("STOCK.CANCEL sale ann", ("OK", 0, 10, -1, "cart"));
    client.expect("STOCK.CANCEL sale ann", ("DUPLICATE", 0, 10, -1, "cart"));
    client.expect("STOCK.CONFIRM sale ann", ("CANCELLED", 0, 10, -1, "cart"));
    client.expect("STOCK.EXTEND sale ann PX 1000", ("CANCELLED", 0, 10, -1, "cart"));
    client.expect("STOCK.DECR_ONCE sale ann", ("CANCELLED", 0, 10, -1, "cart"));
    assert_eq!(books(&mut client, "sale").remaining, 10);
}

#[test]
fn a_hold_is_cancelled_once() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 5", OK);
    client.expect("STOCK.DECR_ONCE sale ann QTY 2 HOLD 60000", ("OK", 2, 3, INT, ""));
    client.expect("STOCK.CANCEL sale ann", ("OK", 0, 5, -1, ""));
    // A give-back that is delivered again gives nothing back.
    client.expect("STOCK.CANCEL sale ann", ("DUPLICATE", 0, 5, -1, ""));
    client.expect("STOCK.INFO sale", ANY).field("cancelled").is(1);
}

#[test]
fn a_lapsed_hold_is_told_from_a_cancelled_one() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 5", OK);
    lapse(&mut client, "sale", "ann", 2);
    client.expect("STOCK.DECR_ONCE sale ann", ("EXPIRED", 0, 5, -1, "late"));
    client.expect("STOCK.CANCEL sale ann", ("EXPIRED", 0, 5, -1, "late"));
    client.expect("STOCK.EXTEND sale ann PX 1000", ("EXPIRED", 0, 5, -1, "late"));
    // A payment that came late is honoured: the units are still there.
    client.expect("STOCK.CONFIRM sale ann", ("OK", 2, 3, -1, "late"));
    client.expect("STOCK.CONFIRM sale ann", ("DUPLICATE", 2, 3, -1, "late"));
    // And is not where they are gone.
    lapse(&mut client, "sale", "bob", 2);
    client.expect("STOCK.DECR_ONCE sale eve QTY 2", ("OK", 2, 1, -1, ""));
    client.expect("STOCK.CONFIRM sale bob", ("EXPIRED", 0, 1, -1, "late"));
    assert_eq!(books(&mut client, "sale").sold, 4);
}

#[test]
fn rebuy_sells_again_to_who_lapsed_or_cancelled() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 5 REBUY LIMIT 2", OK);
    lapse(&mut client, "sale", "ann", 2);
    client.expect("STOCK.DECR_ONCE sale ann QTY 1 REF anew", ("OK", 1, 4, -1, "anew"));
    client.expect("STOCK.CANCEL sale ann", ("OK", 0, 5, -1, "anew"));
    client.expect("STOCK.DECR_ONCE sale ann QTY 2 HOLD 60000", ("OK", 2, 3, INT, ""));
    client.expect("STOCK.DECR_ONCE sale ann", ("DUPLICATE", 2, 3, INT, ""));
    client.expect("STOCK.INFO sale", ANY).field("orders").is(1);
    // An expired hold is worth nothing to a buyer that has bought its limit meanwhile.
    client.expect("STOCK.DECR_ONCE sale o1 BUYER bob QTY 2 HOLD 1", ("OK", 2, 1, INT, ""));
    eventually("the hold lapses", || client.cmd("STOCK.BUYER sale bob").at(0).int() == 0);
    client.expect("STOCK.DECR_ONCE sale o2 BUYER bob QTY 1", ("OK", 1, 2, -1, ""));
    client.expect("STOCK.CONFIRM sale o1", ("LIMIT", 0, 2, -1, ""));
    // Turned off, once means once again.
    client.expect("STOCK.ALTER sale REBUY no", OK);
    client.expect("STOCK.DECR_ONCE sale o1 BUYER bob", ("EXPIRED", 0, 2, -1, ""));
}

#[test]
fn a_buyers_limit_counts_over_all_its_orders() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 100 LIMIT 4", OK);
    client.expect("STOCK.DECR_ONCE sale o1 BUYER ann QTY 3", ("OK", 3, 97, -1, ""));
    client.expect("STOCK.DECR_ONCE sale o2 BUYER ann QTY 2", ("LIMIT", 0, 97, -1, ""));
    client.expect("STOCK.DECR_ONCE sale o2 BUYER ann QTY 1 HOLD 60000", ("OK", 1, 96, INT, ""));
    client.expect("STOCK.DECR_ONCE sale o3 BUYER ann", ("LIMIT", 0, 96, -1, ""));
    client.expect("STOCK.BUYER sale ann", (4, 4));
    client.expect("STOCK.BUYER sale nobody", (0, 4));
    // An id without BUYER is its own buyer, also when another buyer's order has that id.
    client.expect("STOCK.DECR_ONCE sale bob QTY 5", ("LIMIT", 0, 96, -1, ""));
    client.expect("STOCK.DECR_ONCE sale bob QTY 4", ("OK", 4, 92, -1, ""));
    client.expect("STOCK.DECR_ONCE sale o4 BUYER bob", ("LIMIT", 0, 92, -1, ""));
    client.expect("STOCK.CANCEL sale o1", ("OK", 0, 95, -1, ""));
    client.expect("STOCK.DECR_ONCE sale o5 BUYER ann QTY 3", ("OK", 3, 92, -1, ""));
    client.expect("STOCK.ALTER sale LIMIT 5", OK);
    client.expect("STOCK.DECR_ONCE sale o6 BUYER ann", ("OK", 1, 91, -1, ""));
    // What was bought stands above a lower limit.
    client.expect("STOCK.ALTER sale LIMIT 2", OK);
    client.expect("STOCK.BUYER sale ann", (5, 2));
    client.expect("STOCK.DECR_ONCE sale o7 BUYER ann", ("LIMIT", 0, 91, -1, ""));
    client.expect("STOCK.ALTER sale LIMIT 0", OK);
    client.expect("STOCK.DECR_ONCE sale o7 BUYER ann QTY 50", ("OK", 50, 41, -1, ""));
    client.expect("STOCK.INFO sale", ANY).field("limited").is(5);
}

#[test]
fn outside_the_window_nothing_is_taken_but_all_else_works() {
    let server = Server::start();
    let mut client = server.client();
    let now = now(&mut client);
    let (past, soon) = (now - 1_000, now + 600_000);
    let before = past - 1_000;
    client.expect(format!("STOCK.CREATE sale 5 START {soon}"), OK);
    // When it starts is said, so that clients come back then.
    client.expect("STOCK.DECR_ONCE sale ann", ("NOTSTARTED", 0, 5, soon, ""));
    client.expect(format!("STOCK.ALTER sale START {before} END {soon}"), OK);
    client.expect("STOCK.DECR_ONCE sale ann HOLD 60000", ("OK", 1, 4, INT, ""));
    client.expect("STOCK.DECR_ONCE sale bob HOLD 60000", ("OK", 1, 3, INT, ""));
    client.expect(format!("STOCK.ALTER sale END {past}"), OK);
    client.expect("STOCK.DECR_ONCE sale eve", ("ENDED", 0, 3, -1, ""));
    client.expect("STOCK.DECR_ONCE sale ann", ("DUPLICATE", 1, 3, INT, ""));
    client.expect("STOCK.EXTEND sale ann PX 90000", ("OK", 1, 3, INT, ""));
    client.expect("STOCK.CONFIRM sale ann", ("OK", 1, 3, -1, ""));
    client.expect("STOCK.CANCEL sale bob", ("OK", 0, 4, -1, ""));
    client.expect("STOCK.ADJUST sale 3", 7);
    client.expect("STOCK.ALTER sale END 0 START 0", OK);
    client.expect("STOCK.DECR_ONCE sale eve", ("OK", 1, 6, -1, ""));
}

#[test]
fn it_is_checked_in_this_order_id_limit_window_stock() {
    let server = Server::start();
    let mut client = server.client();
    let past = now(&mut client) - 1_000;
    client.expect("STOCK.CREATE sale 2 LIMIT 2", OK);
    client.expect("STOCK.DECR_ONCE sale o1 BUYER ann QTY 2", ("OK", 2, 0, -1, ""));
    client.expect("STOCK.DECR_ONCE sale o2 BUYER ann", ("LIMIT", 0, 0, -1, ""));
    client.expect("STOCK.DECR_ONCE sale o2 BUYER bob", ("SOLDOUT", 0, 0, -1, ""));
    client.expect(format!("STOCK.ALTER sale END {past}"), OK);
    client.expect("STOCK.DECR_ONCE sale o1 BUYER ann", ("DUPLICATE", 2, 0, -1, ""));
    client.expect("STOCK.DECR_ONCE sale o2 BUYER ann", ("LIMIT", 0, 0, -1, ""));
    client.expect("STOCK.DECR_ONCE sale o2 BUYER bob", ("ENDED", 0, 0, -1, ""));
}

#[test]
fn what_is_not_there_is_no_empty_sale() {
    let server = Server::start();
    let mut client = server.client();
    for call in ["CONFIRM none id", "CANCEL none id", "EXTEND none id PX 1000", "DECR_ONCE none id"] {
        client.expect(format!("STOCK.{call}"), ("NOSTOCK", 0, 0, -1, ""));
    }
    client.expect("STOCK.ALTER none LIMIT 1", err("NOSTOCK "));
    client.expect("STOCK.ADJUST none 1", err("NOSTOCK "));
    client.expect("STOCK.BUYER none ann", NULL);
    client.expect("STOCK.ORDER none ann", NULL);
    client.expect("STOCK.INFO none", NULL);
    client.expect("STOCK.ORDERS none 0", ("0", ()));
    client.expect("STOCK.CREATE sale 5", OK);
    for call in ["CONFIRM sale id", "CANCEL sale id", "EXTEND sale id PX 1000"] {
        client.expect(format!("STOCK.{call}"), ("NOORDER", 0, 5, -1, ""));
    }
    client.expect("STOCK.ORDERS sale 0", ("0", ()));
    assert_eq!(client.cmd("KEYS *").items().len(), 1, "asking creates nothing");
}

#[test]
fn a_refused_order_is_not_remembered() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 0", OK);
    client.expect("STOCK.DECR_ONCE sale ann REF r", ("SOLDOUT", 0, 0, -1, ""));
    client.expect("STOCK.ORDER sale ann", NULL);
    client.expect("STOCK.ADJUST sale 1", 1);
    client.expect("STOCK.DECR_ONCE sale ann", ("OK", 1, 0, -1, ""));
}

#[test]
fn units_are_added_and_withdrawn_while_it_sells() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 5", OK);
    client.expect("STOCK.DECR_ONCE sale ann QTY 3 HOLD 60000", ("OK", 3, 2, INT, ""));
    client.expect("STOCK.ADJUST sale -3", err("ERR delta must be at least -2"));
    client.expect("STOCK.ADJUST sale -2", 0);
    client.expect("STOCK.DECR_ONCE sale bob", ("SOLDOUT", 0, 0, -1, ""));
    client.expect("STOCK.ADJUST sale 0", 0);
    client.expect("STOCK.ADJUST sale 4", 4);
    let books = books(&mut client, "sale");
    assert_eq!((books.total, books.remaining, books.held), (7, 4, 3));
}

#[test]
fn info_tells_all_of_a_sale() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 100 LIMIT 5 START 1000 END 9000000000000 REBUY STREAM events", OK);
    client.expect("STOCK.DECR_ONCE sale a QTY 2", ("OK", 2, 98, -1, ""));
    client.expect("STOCK.DECR_ONCE sale a QTY 2", ("DUPLICATE", 2, 98, -1, ""));
    client.expect("STOCK.DECR_ONCE sale b BUYER a QTY 3 HOLD 60000", ("OK", 3, 95, INT, ""));
    client.expect("STOCK.DECR_ONCE sale c QTY 6", ("LIMIT", 0, 95, -1, ""));
    client.expect("STOCK.DECR_ONCE sale d HOLD 60000", ("OK", 1, 94, INT, ""));
    client.expect("STOCK.CANCEL sale d", ("OK", 0, 95, -1, ""));
    client.expect("STOCK.CONFIRM sale b", ("OK", 3, 95, -1, ""));
    let words = |client: &mut Client| {
        let info = client.expect("STOCK.INFO sale", ANY);
        let fields = info.fields();
        fields.iter().map(|(name, value)| format!("{name}={value:?}")).collect::<Vec<_>>().join(" ")
    };
    let told = "buyers=1 cancelled=1 confirmed=1 duplicate=1 end=9000000000000 expired=0 held=0 limit=5 limited=1 ok=3 \
                orders=3 rebuy=\"yes\" remaining=95 seq=5 sold=5 soldout=0 start=1000 stream=\"events\" total=100 waiting=0";
    assert_eq!(words(&mut client), told);
    // A map in RESP3, with the same in it.
    client.hello3();
    assert_eq!(words(&mut client), told);
    assert!(matches!(client.cmd("STOCK.INFO sale"), harness::Reply::Map(_)));
    assert!(matches!(client.cmd("STOCK.ORDER sale a"), harness::Reply::Map(_)));
    client.expect("STOCK.BUYER sale a", (5, 5));
    client.expect("STOCK.DECR_ONCE sale a", ("DUPLICATE", 2, 95, -1, ""));
}

#[test]
fn what_a_server_counted_is_neither_saved_nor_replicated() {
    let mut primary = Server::builder().aof("always").start();
    let replica = Server::builder().replica_of(&primary).start();
    let mut client = primary.client();
    client.expect("STOCK.CREATE sale 5", OK);
    replica.wait_in_sync(&primary);
    client.expect("STOCK.DECR_ONCE sale ann HOLD 60000", ("OK", 1, 4, INT, ""));
    client.expect("STOCK.CONFIRM sale ann", ("OK", 1, 4, -1, ""));
    client.expect("STOCK.CANCEL sale ann", ("OK", 0, 5, -1, ""));
    client.expect("STOCK.INFO sale", ANY).field("ok").is(1);
    replica.wait_in_sync(&primary);
    let counted = |server: &Server| {
        let info = server.expect("STOCK.INFO sale", ANY);
        ["ok", "confirmed", "cancelled"].map(|name| info.field(name).int())
    };
    assert_eq!(counted(&replica), [0; 3]);
    assert_eq!(counted(&primary), [1; 3]);
    primary.kill9();
    primary.start_again();
    assert_eq!(counted(&primary), [0; 3]);
    primary.expect("STOCK.INFO sale", ANY).field("seq").is(3);
}

#[test]
fn the_server_counts_every_status() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 3 LIMIT 2", OK);
    client.pipeline([
        "STOCK.DECR_ONCE sale a QTY 2",
        "STOCK.DECR_ONCE sale a QTY 2",
        "STOCK.DECR_ONCE sale b QTY 3",
        "STOCK.DECR_ONCE sale b QTY 2",
        "STOCK.DECR_ONCE sale c HOLD 1",
        "STOCK.DECR_ONCE none c",
        "STOCK.CONFIRM sale none",
    ]);
    eventually("the hold lapses", || server.info_int("lockstock", "lockstock_stock_lapses") == 1);
    client.expect("STOCK.CANCEL sale c", ("EXPIRED", 0, 1, -1, ""));
    let count = |status: &str| server.info_int("lockstock", &format!("lockstock_stock_{status}"));
    let all = ["ok", "duplicate", "soldout", "insufficient", "limit", "expired", "noorder", "nostock", "cancelled"];
    assert_eq!(all.map(count), [2, 1, 0, 1, 1, 1, 1, 1, 0]);
    assert_eq!(server.info_int("lockstock", "lockstock_sales"), 1);
    assert_eq!(server.info_int("lockstock", "lockstock_orders"), 2);
    client.expect("FLUSHALL", OK);
    // Some servers free what is flushed on another thread.
    for count in ["lockstock_sales", "lockstock_orders"] {
        eventually("the sale is freed", || server.info_int("lockstock", count) == 0);
    }
}
