//! Which user may do what with a sale.

use harness::shop::{Replay, books, events};
use harness::{ANY, Client, INT, OK, Server, err, eventually};

/// A connection of a user with these rules.
#[track_caller]
fn as_user(server: &Server, rules: &str) -> Client {
    server.expect(format!("ACL SETUSER user reset on nopass {rules}"), OK);
    let mut client = server.client();
    client.expect("AUTH user any", OK);
    client
}

#[test]
fn a_buyers_service_takes_and_nothing_else() {
    let server = Server::start();
    server.expect("STOCK.CREATE sale:1 10", OK);
    let mut service = as_user(&server, "~sale:* +stock.decr_once +stock.order");
    service.expect("STOCK.DECR_ONCE sale:1 ann", ("OK", 1, 9, -1, ""));
    service.expect("STOCK.ORDER sale:1 ann", ANY);
    for call in [
        "STOCK.CREATE sale:2 5",
        "STOCK.ADJUST sale:1 5",
        "STOCK.ALTER sale:1 LIMIT 9",
        "STOCK.CANCEL sale:1 ann",
        "STOCK.ORDERS sale:1 0",
        "STOCK.APPLY sale:1 LAPSED ann",
        "DEL sale:1",
        "STOCK.DECR_ONCE other bob",
    ] {
        service.expect(call, err("NOPERM"));
    }
    // Nor by way of a script.
    let mut scripted = as_user(&server, "~sale:* +stock.decr_once +eval");
    scripted.expect(["EVAL", "return redis.call('STOCK.ADJUST', KEYS[1], 5)", "1", "sale:1"], err("ERR"));
    scripted.expect(["EVAL", "return redis.call('STOCK.DECR_ONCE', KEYS[1], 'bob')", "1", "sale:1"], ANY);
    assert_eq!(books(&mut server.client(), "sale:1").sold, 2);
}

#[test]
fn an_auditor_reads() {
    let server = Server::start();
    server.expect("STOCK.CREATE sale:1 10", OK);
    let mut auditor = as_user(&server, "%R~sale:* +@all");
    for call in ["INFO sale:1", "ORDERS sale:1 0", "BUYER sale:1 ann"] {
        auditor.expect(format!("STOCK.{call}"), ANY);
    }
    auditor.expect("STOCK.ORDER sale:1 ann", harness::NULL);
    for call in ["DECR_ONCE sale:1 ann", "CONFIRM sale:1 ann", "EXTEND sale:1 ann PX 1", "ADJUST sale:1 1"] {
        auditor.expect(format!("STOCK.{call}"), err("NOPERM"));
    }
}

#[test]
fn who_may_not_write_the_stream_takes_nothing() {
    let server = Server::start();
    let mut owner = server.client();
    owner.expect("STOCK.CREATE sale:1 10 STREAM events:1", OK);
    let refused = "NOPERM the sale's stream does not take the event";
    for rules in [
        // Neither the command nor the key; the key without the command; the command without the key; the key for reading.
        "~sale:* +stock.decr_once",
        "~sale:* ~events:* +stock.decr_once",
        "~sale:* +stock.decr_once +xadd",
        "~sale:* %R~events:* +stock.decr_once +xadd",
    ] {
        let mut service = as_user(&server, rules);
        service.expect("STOCK.DECR_ONCE sale:1 ann", err(refused));
        let replies = service.pipeline(["MULTI", "STOCK.DECR_ONCE sale:1 ann", "EXEC"]);
        if !replies[0].is_error() {
            replies[2].at(0).clone().is(err(refused));
        }
        assert_eq!(books(&mut owner, "sale:1").remaining, 10, "{rules}");
        assert_eq!(owner.cmd("EXISTS events:1").int(), 0, "{rules}");
    }
    let mut service = as_user(&server, "~sale:* %W~events:* +stock.decr_once +xadd");
    service.expect("STOCK.DECR_ONCE sale:1 ann HOLD 20", ("OK", 1, 9, INT, ""));
    service.expect("STOCK.DECR_ONCE sale:1 bob", ANY);
    // A lapse is nobody's command: it needs nobody's permission.
    server.expect("ACL DELUSER user", 1);
    eventually("the hold lapses", || owner.cmd("XLEN events:1").int() == 3);
    let told = events(&mut owner, "events:1");
    Replay::of(10, &told).agrees_with(&mut owner, "sale:1");
}

#[test]
fn whoever_creates_a_sale_must_be_allowed_its_stream() {
    let server = Server::start();
    let mut clerk = as_user(&server, "~sale:* +stock.create");
    clerk.expect("STOCK.CREATE sale:1 10 STREAM events:1", err("NOPERM"));
    clerk.expect("STOCK.CREATE sale:1 10 STREAM sale:events", OK);
}
