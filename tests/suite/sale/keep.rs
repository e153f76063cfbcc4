//! KEEP: orders that are settled for less. What an order does not keep goes back in the same step, to the line first.

use harness::shop::{Replay, books, events};
use harness::{ANY, Client, INT, OK, Server, Stage, err, eventually, unix_ms};

/// The entries of the stream: event, id, units, and whether the order is held until a time to come.
#[track_caller]
fn told(client: &mut Client) -> Vec<String> {
    let held = |deadline: Option<i64>| if deadline.is_some_and(|deadline| deadline > 0) { " held" } else { "" };
    let line = |e: &harness::shop::Event| format!("{} {} {}{}", e.event, e.id, e.units, held(e.deadline));
    events(client, "events").iter().map(line).collect()
}

/// A sale of `total` that tells deadlines, with a hold of three units.
#[track_caller]
fn sale(client: &mut Client, total: i64) -> i64 {
    client.expect(format!("STOCK.CREATE sale {total} LIMIT 3 STREAM events DEADLINES"), OK);
    client.expect("STOCK.DECR_ONCE sale ann QTY 3 HOLD 3600000 REF r", ("OK", 3, total - 3, INT, "r")).at(3).int()
}

#[test]
fn a_hold_is_settled_for_what_was_used_and_says_so_again() {
    let server = Server::start();
    let mut client = server.client();
    let until = sale(&mut client, 5);
    client.expect(
        "STOCK.CONFIRM sale ann KEEP 4",
        err("ERR KEEP must be at most 3, for the order holds or held no more"),
    );
    client.expect("STOCK.ORDER sale ann", ANY).field("state").is("held");
    client.expect("STOCK.CONFIRM sale ann KEEP 1", ("OK", 1, 4, -1, "r"));
    for again in ["", "KEEP 1", "KEEP 2", "keep 9"] {
        client.expect(format!("STOCK.CONFIRM sale ann {again}"), ("DUPLICATE", 1, 4, -1, "r"));
    }
    let page = events(&mut client, "events");
    assert_eq!(told(&mut client), ["ok ann 3 held", "keep ann 1 held", "confirm ann 1"]);
    assert_eq!(page.iter().map(|event| event.deadline).collect::<Vec<_>>(), [Some(until), Some(until), Some(-1)]);
    client.expect("STOCK.BUYER sale ann", (1, 3));
    // All of it: nothing goes back, so nothing but the confirmation is told.
    client.expect("STOCK.DECR_ONCE sale bob QTY 2 HOLD 3600000", ("OK", 2, 2, INT, ""));
    client.expect("STOCK.CONFIRM sale bob KEEP 2", ("OK", 2, 2, -1, ""));
    assert_eq!(told(&mut client)[3..], ["ok bob 2 held", "confirm bob 2"]);
    Replay::of(5, &events(&mut client, "events")).agrees_with(&mut client, "sale");
    let books = books(&mut client, "sale");
    assert_eq!((books.remaining, books.held, books.sold), (2, 0, 3));
}

#[test]
fn a_refund_leaves_what_it_says_and_may_be_repeated() {
    let server = Server::start();
    let mut client = server.client();
    let until = sale(&mut client, 5);
    client.expect("STOCK.CANCEL sale ann KEEP 2", ("OK", 2, 3, until, "r"));
    client.expect("STOCK.CANCEL sale ann KEEP 2", ("DUPLICATE", 2, 3, until, "r"));
    client.expect("STOCK.CANCEL sale ann KEEP 7", ("DUPLICATE", 2, 3, until, "r"));
    client.expect("STOCK.CONFIRM sale ann", ("OK", 2, 3, -1, "r"));
    client.expect("STOCK.CANCEL sale ann KEEP 1", ("OK", 1, 4, -1, "r"));
    client.expect("STOCK.CANCEL sale ann", ("OK", 0, 5, -1, "r"));
    client.expect("STOCK.CANCEL sale ann KEEP 1", ("DUPLICATE", 0, 5, -1, "r"));
    client.expect("STOCK.CONFIRM sale ann KEEP 1", ("CANCELLED", 0, 5, -1, "r"));
    client.expect("STOCK.CANCEL sale nobody KEEP 1", ("NOORDER", 0, 5, -1, ""));
    client.expect("STOCK.CONFIRM sale nobody KEEP 1", ("NOORDER", 0, 5, -1, ""));
    client.expect("STOCK.CANCEL none ann KEEP 1", ("NOSTOCK", 0, 0, -1, ""));
    assert_eq!(told(&mut client), ["ok ann 3 held", "keep ann 2 held", "confirm ann 2", "keep ann 1", "cancel ann 1"]);
    Replay::of(5, &events(&mut client, "events")).agrees_with(&mut client, "sale");
}

#[test]
fn what_comes_back_goes_to_the_line_in_the_same_step() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 6 STREAM events DEADLINES", OK);
    client.expect("STOCK.DECR_ONCE sale ann QTY 3 HOLD 3600000", ANY);
    client.expect("STOCK.DECR_ONCE sale bob QTY 3", ANY);
    for (id, units) in [("c", 1), ("d", 2), ("e", 1)] {
        client.expect(format!("STOCK.DECR_ONCE sale {id} QTY {units} HOLD 60000 WAITLIST"), ("QUEUED", 0, 0, -1, ""));
    }
    // A waiting order goes on waiting.
    client.expect("STOCK.CANCEL sale d KEEP 1", ("QUEUED", 0, 0, -1, ""));
    client.expect("STOCK.CONFIRM sale d KEEP 9", ("QUEUED", 0, 0, -1, ""));
    client.expect("STOCK.CANCEL sale bob KEEP 2", ("OK", 2, 0, -1, ""));
    client.expect("STOCK.CONFIRM sale ann KEEP 1", ("OK", 1, 0, -1, ""));
    assert_eq!(
        told(&mut client)[5..],
        ["keep bob 2", "ok c 1 held", "keep ann 1 held", "confirm ann 1", "ok d 2 held"]
    );
    client.expect("STOCK.INFO sale", ANY).field("waiting").is(1);
    Replay::of(6, &events(&mut client, "events")).agrees_with(&mut client, "sale");
}

#[test]
fn a_late_confirmation_takes_only_that_many_again() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 3 STREAM events", OK);
    for id in ["ann", "bob"] {
        client.expect(format!("STOCK.DECR_ONCE sale {id} QTY 3 HOLD 1"), ("OK", 3, 0, INT, ""));
        eventually("it lapses", || client.cmd("STOCK.INFO sale").field("remaining").int() == 3);
    }
    client.expect("STOCK.CANCEL sale ann KEEP 1", ("EXPIRED", 0, 3, -1, ""));
    client.expect("STOCK.CONFIRM sale ann KEEP 4", err("ERR KEEP must be at most 3"));
    client.expect("STOCK.DECR_ONCE sale eve", ("OK", 1, 2, -1, ""));
    client.expect("STOCK.CONFIRM sale ann KEEP 2", ("OK", 2, 0, -1, ""));
    client.expect("STOCK.CONFIRM sale ann KEEP 2", ("DUPLICATE", 2, 0, -1, ""));
    client.expect("STOCK.CONFIRM sale bob KEEP 1", ("EXPIRED", 0, 0, -1, ""));
    client.expect("STOCK.CANCEL sale eve", ("OK", 0, 1, -1, ""));
    // What was refused stays so, for however little.
    for keep in ["", "KEEP 1", "KEEP 9"] {
        client.expect(format!("STOCK.CONFIRM sale bob {keep}"), ("EXPIRED", 0, 1, -1, ""));
    }
    assert_eq!(told(&mut client)[4..], ["ok eve 1", "confirm ann 2", "cancel eve 1"]);
    Replay::of(3, &events(&mut client, "events")).agrees_with(&mut client, "sale");
}

#[test]
fn if_one_of_its_events_cannot_be_appended_nothing_is_done() {
    // How many more entries the stream takes, and what each command would append.
    for (room, call) in [
        (1, "STOCK.CONFIRM sale ann KEEP 1"),
        (2, "STOCK.CONFIRM sale ann KEEP 1"),
        (1, "STOCK.CANCEL sale ann KEEP 2"),
    ] {
        let server = Server::start();
        let mut client = server.client();
        client.expect("STOCK.CREATE sale 3 STREAM events", OK);
        client.expect("STOCK.DECR_ONCE sale ann QTY 3 HOLD 3600000", ANY);
        client.expect("STOCK.DECR_ONCE sale bob WAITLIST", ("QUEUED", 0, 0, -1, ""));
        let last = u64::MAX - room;
        client.expect(format!("XADD events 18446744073709551615-{last} x y"), ANY);
        let before = (client.cmd("DUMP sale"), client.cmd("XLEN events"));
        client.expect(call, err("ERR the sale's stream does not take the event, so nothing was done"));
        assert_eq!((client.cmd("DUMP sale"), client.cmd("XLEN events")), before, "{call} with room for {room}");
    }
}

#[test]
fn replicas_and_files_are_told_what_is_left() {
    let mut stage = Stage::set(|words| format!("{words:?}"));
    let mut client = stage.server.client();
    client.expect("STOCK.CREATE sale 9", OK);
    for id in ["a", "b", "c"] {
        client.expect(format!("STOCK.DECR_ONCE sale {id} QTY 3"), ANY);
    }
    stage.told();
    for (commands, told) in [
        ("yes", ["STOCK.CANCEL sale a KEEP 2", "STOCK.CANCEL sale b KEEP 2", "STOCK.CANCEL sale c KEEP 2"]),
        ("no", ["STOCK.APPLY sale KEPT a 1", "STOCK.APPLY sale KEPT b 1", "STOCK.APPLY sale KEPT c 1"]),
    ] {
        client.expect(format!("CONFIG SET lockstock.replicate-commands {commands}"), OK);
        let keep = if commands == "yes" { 2 } else { 1 };
        for id in ["a", "b", "c"] {
            client.expect(format!("STOCK.CANCEL sale {id} KEEP {keep}"), ("OK", keep, INT, -1, ""));
            client.expect(format!("STOCK.CANCEL sale {id} KEEP {keep}"), ("DUPLICATE", keep, INT, -1, ""));
        }
        assert_eq!(stage.told(), told);
    }
    client.expect("STOCK.DECR_ONCE sale d QTY 3 HOLD 3600000", ANY);
    client.expect("STOCK.DECR_ONCE sale e QTY 3 HOLD 1", ANY);
    // Its units are free before the timer has reported it.
    eventually("it lapses", || client.cmd("STOCK.INFO sale").field("expired").int() == 1);
    stage.told();
    client.expect("STOCK.CONFIRM sale d KEEP 1", ("OK", 1, 5, -1, ""));
    client.expect("STOCK.CONFIRM sale e KEEP 2", ("OK", 2, 3, -1, ""));
    stage.tells(&[
        "MULTI",
        "STOCK.APPLY sale KEPT d 1",
        "STOCK.APPLY sale CONFIRMED d 1",
        "EXEC",
        "STOCK.APPLY sale CONFIRMED e 2",
    ]);
    client.expect("CONFIG SET lockstock.replicate-commands yes", OK);
    client.expect("STOCK.DECR_ONCE sale f QTY 2 HOLD 3600000", ANY);
    stage.told();
    client.expect("STOCK.CONFIRM sale f KEEP 2", ("OK", 2, 1, -1, ""));
    stage.tells(&["STOCK.CONFIRM sale f KEEP 2"]);
    let before = stage.server.digest();
    let began = unix_ms();
    stage.server.shutdown();
    stage.server.start_again();
    assert_eq!(stage.server.digest(), before);
    let replica = Server::builder().replica_of(&stage.server).start();
    replica.wait_in_sync(&stage.server);
    assert_eq!(replica.digest(), before, "{began}");
}

#[test]
fn listeners_hear_of_it() {
    let server = Server::builder().config("notify-keyspace-events KA").start();
    let (mut client, mut listener) = (server.client(), server.client());
    sale(&mut client, 5);
    listener.expect("PSUBSCRIBE __keyspace@0__:sale", ANY);
    client.expect("STOCK.CANCEL sale ann KEEP 2", ANY);
    client.expect("STOCK.CONFIRM sale ann KEEP 1", ANY);
    for event in ["stock.keep", "stock.keep", "stock.confirm"] {
        listener.read().at(3).clone().is(event);
    }
}
