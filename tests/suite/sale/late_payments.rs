//! A payment that comes after its hold has lapsed: once it was answered "too late", no redelivery of it is ever answered "done".

use harness::shop::{Replay, books, events, orders};
use harness::{ANY, Client, INT, OK, Reply, Server, Stage, Tap, err, eventually};

/// Holds `units` for the order `id` and waits until that has lapsed.
#[track_caller]
fn lapse(client: &mut Client, id: &str, options: &str) {
    client.expect(format!("STOCK.DECR_ONCE sale {id} {options} HOLD 1"), ("OK", INT, INT, INT, ANY));
    eventually("the hold lapses", || client.cmd(["STOCK.ORDER", "sale", id]).field("state").text() == "expired");
}

/// A sale of 5 units, which are all there, with two orders whose late payments were refused: `gone`, for there was nothing left,
/// and `more`, for ann had bought her limit anew. So the payments of `late` would be, too, had they been confirmed.
#[track_caller]
fn refused(client: &mut Client, options: &str) {
    client.expect(format!("STOCK.CREATE sale 5 LIMIT 5 {options}"), OK);
    lapse(client, "gone", "QTY 2 REF invoice");
    lapse(client, "late", "QTY 2");
    client.expect("STOCK.DECR_ONCE sale all QTY 4", ("OK", 4, 1, -1, ""));
    client.expect("STOCK.CONFIRM sale gone", ("EXPIRED", 0, 1, -1, "invoice"));
    client.expect("STOCK.CANCEL sale all", ("OK", 0, 5, -1, ""));
    lapse(client, "more", "QTY 3 BUYER ann");
    client.expect("STOCK.DECR_ONCE sale anew QTY 3 BUYER ann", ("OK", 3, 2, -1, ""));
    client.expect("STOCK.CONFIRM sale more", ("LIMIT", 0, 2, -1, ""));
    client.expect("STOCK.CANCEL sale anew", ("OK", 0, 5, -1, ""));
}

/// Fails the test unless a redelivery of both payments is answered as it was, wherever the sale is now.
#[track_caller]
fn they_stay_refused(server: &Server, what: &str) {
    let mut client = server.client();
    let seq = client.cmd("STOCK.INFO sale").field("seq").int();
    for _ in 0..2 {
        let replies = client.pipeline(["STOCK.CONFIRM sale gone", "STOCK.CONFIRM sale more"]);
        assert_eq!(replies[0].at(0).text(), "EXPIRED", "{what}: {replies:?}");
        assert_eq!(replies[1].at(0).text(), "EXPIRED", "{what}: {replies:?}");
    }
    client.expect("STOCK.CANCEL sale gone", ("EXPIRED", 0, 5, -1, "invoice"));
    client.expect("STOCK.EXTEND sale gone PX 1000", ("EXPIRED", 0, 5, -1, "invoice"));
    client.expect("STOCK.DECR_ONCE sale gone", ("EXPIRED", 0, 5, -1, "invoice"));
    assert_eq!(books(&mut client, "sale").remaining, 5, "{what}");
    assert_eq!(client.cmd("STOCK.INFO sale").field("seq").int(), seq, "{what}");
}

/// Asserts that a late payment which was never refused is still honoured.
#[track_caller]
fn the_other_is_honoured(server: &Server, what: &str) {
    let reply = server.cmd("STOCK.CONFIRM sale late");
    assert_eq!((reply.at(0).text(), reply.at(1).int()), ("OK".into(), 2), "{what}");
}

#[test]
fn a_refused_payment_stays_refused_and_is_no_event() {
    let server = Server::start();
    let mut client = server.client();
    refused(&mut client, "STREAM events DEADLINES");
    let told = events(&mut client, "events");
    they_stay_refused(&server, "the server itself");
    assert_eq!(events(&mut client, "events"), told);
    assert!(told.iter().all(|event| ["ok", "cancel", "expire"].contains(&event.event.as_str())), "{told:?}");
    the_other_is_honoured(&server, "the server itself");
    Replay::of(5, &events(&mut client, "events")).agrees_with(&mut client, "sale");
}

#[test]
fn it_does_after_a_restart_from_any_file() {
    for (file, rewrite) in [("AOF", None), ("AOF of commands", Some(false)), ("AOF with an RDB preamble", Some(true))] {
        let mut server = Server::builder().aof("always").start();
        refused(&mut server.client(), "");
        let before = server.digest();
        if let Some(preamble) = rewrite {
            server.rewrite_aof(preamble);
        }
        for _ in 0..2 {
            server.kill9();
            server.start_again();
            assert_eq!(server.digest(), before, "{file}");
            they_stay_refused(&server, file);
        }
        the_other_is_honoured(&server, file);
    }
    let mut server = Server::start();
    refused(&mut server.client(), "");
    server.expect("SAVE", OK);
    server.kill9();
    server.start_again();
    they_stay_refused(&server, "RDB");
    the_other_is_honoured(&server, "RDB");
}

#[test]
fn it_does_wherever_the_sale_goes() {
    let (from, to) = (Server::start(), Server::start());
    refused(&mut from.client(), "");
    let dump = from.cmd("DUMP sale").bytes();
    to.expect([&b"RESTORE"[..], b"sale", b"0", &dump], OK);
    assert_eq!(to.digest(), from.digest());
    they_stay_refused(&to, "RESTORE");
    from.expect("RENAME sale other", OK);
    from.expect("RENAME other sale", OK);
    they_stay_refused(&from, "RENAME");
    the_other_is_honoured(&to, "RESTORE");
}

#[test]
fn it_does_on_replicas_which_hear_of_it_and_when_they_are_promoted() {
    let primary = Server::start();
    let listener = Server::builder().replica_of(&primary).start();
    listener.wait_in_sync(&primary);
    refused(&mut primary.client(), "STREAM events");
    let late = Server::builder().replica_of(&primary).start();
    for replica in [&listener, &late] {
        replica.wait_in_sync(&primary);
        assert_eq!(replica.digest(), primary.digest());
    }
    for replica in [&listener, &late] {
        replica.promote();
        they_stay_refused(replica, "promoted");
        the_other_is_honoured(replica, "promoted");
    }
}

#[test]
fn with_rebuy_the_id_may_buy_anew_and_pays_in_time() {
    let server = Server::start();
    let mut client = server.client();
    refused(&mut client, "REBUY");
    client.expect("STOCK.CONFIRM sale gone", ("EXPIRED", 0, 5, -1, "invoice"));
    client.expect("STOCK.DECR_ONCE sale gone QTY 2 HOLD 60000 REF again", ("OK", 2, 3, INT, "again"));
    client.expect("STOCK.CONFIRM sale gone", ("OK", 2, 3, -1, "again"));
    client.expect("STOCK.CONFIRM sale gone", ("DUPLICATE", 2, 3, -1, "again"));
    // It lapses once more, and the payment of the new order may come late like any other.
    lapse(&mut client, "more", "QTY 1");
    client.expect("STOCK.CONFIRM sale more", ("OK", 1, 2, -1, ""));
}

#[test]
fn replicas_and_the_file_are_told_once() {
    let mut stage = Stage::set(|words| format!("{words:?}"));
    stage.server.take_effects();
    let mut client = stage.server.client();
    refused(&mut client, "");
    let told: Vec<String> = stage.told().into_iter().filter(|told| told.contains("REFUSED")).collect();
    assert_eq!(told, ["STOCK.APPLY sale REFUSED gone", "STOCK.APPLY sale REFUSED more"]);
    for request in ["CONFIRM sale gone", "CONFIRM sale more", "CANCEL sale gone", "DECR_ONCE sale gone"] {
        client.expect(format!("STOCK.{request}"), ("EXPIRED", 0, 5, -1, ANY));
        assert_eq!(stage.told(), [""; 0], "{request}");
    }
    // What does not fit is refused, as with every effect.
    for id in ["gone", "all", "nobody"] {
        client.expect(format!("STOCK.APPLY sale REFUSED {id}"), err("ERR the effect is damaged"));
    }
    client.expect("STOCK.APPLY sale CONFIRMED gone", err("ERR the effect is damaged"));
}

/// Has ann hold two units until their deadline is over, and lowers the limit to one, while the timer comes to nothing; then `more`.
#[track_caller]
fn due(client: &mut Client, more: &[&str]) -> Vec<Reply> {
    let before = ["MULTI", "STOCK.DECR_ONCE sale ann QTY 2 HOLD 1", "DEBUG SLEEP 0.01", "STOCK.ALTER sale LIMIT 1"];
    let calls: Vec<&str> = before.iter().chain(more).chain(&["EXEC"]).copied().collect();
    client.pipeline(calls).pop().expect("a reply").items()[3..].to_vec()
}

#[test]
fn a_hold_that_is_due_lapses_in_the_step_in_which_its_payment_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 5 STREAM events", OK);
    let mut tap = Tap::attach(&server);
    due(&mut client, &["STOCK.CONFIRM sale ann"])[0].clone().is(("LIMIT", 0, 5, -1, ""));
    let told: Vec<String> = tap.drain().iter().map(|words| format!("{words:?}")).collect();
    let [.., event, lapse, refusal, exec] = &told[..] else { panic!("{told:?}") };
    assert!(event.contains("event expire id ann"), "{told:?}");
    assert_eq!([lapse, refusal, exec], ["STOCK.APPLY sale LAPSED ann", "STOCK.APPLY sale REFUSED ann", "EXEC"]);
    client.expect("STOCK.ALTER sale LIMIT 0", OK);
    client.expect("STOCK.CONFIRM sale ann", ("EXPIRED", 0, 5, -1, ""));
    Replay::of(5, &events(&mut client, "events")).agrees_with(&mut client, "sale");
}

#[test]
fn a_refusal_that_cannot_be_remembered_is_not_given() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 5 STREAM events", OK);
    let replies = due(&mut client, &["RENAME events aside", "SET events x", "STOCK.CONFIRM sale ann"]);
    replies[2].clone().is(err("WRONGTYPE the sale's stream does not take the event, so nothing was done: "));
    // The payment is not refused yet, so it may be honoured.
    client.expect("STOCK.ALTER sale LIMIT 0", OK);
    // In one step, so that no retry finds the name free.
    client.expect("RENAME aside events", OK);
    client.expect("STOCK.CONFIRM sale ann", ("OK", 2, 3, -1, ""));
    Replay::of(5, &events(&mut client, "events")).agrees_with(&mut client, "sale");
}

#[test]
fn refusals_take_no_memory() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1000", OK);
    client.pipeline((0..1_000).map(|n| format!("STOCK.DECR_ONCE sale {n} HOLD 1 REF r-{n}")));
    eventually("all of them have lapsed", || client.cmd("STOCK.INFO sale").field("seq").int() == 2_000);
    client.expect("STOCK.DECR_ONCE sale all QTY 1000", ("OK", 1_000, 0, -1, ""));
    let usage = |client: &mut Client| client.cmd("MEMORY USAGE sale").int();
    let before = usage(&mut client);
    let replies = client.pipeline((0..1_000).map(|n| format!("STOCK.CONFIRM sale {n}")));
    assert!(replies.iter().all(|reply| reply.at(0).text() == "EXPIRED"), "{:?}", replies[0]);
    assert_eq!(usage(&mut client), before);
    assert_eq!(orders(&mut client, "sale").values().filter(|order| order.state == "expired").count(), 1_000);
}
