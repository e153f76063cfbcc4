//! Commands of this module may be guarded, also one that ends the hold, and so may what takes the lock's key away.

use harness::{ANY, INT, NULL, OK, Reply, Server, err};

use super::held;
use crate::support::line::Line;

#[test]
fn a_guarded_release_hands_over_in_its_step() {
    let server = Server::start();
    let (mut client, mut line) = (held(&server), Line::at(&server));
    for end in ["LOCK.RELEASE lock t", "LOCK.MRELEASE t 1 lock", "DEL lock", "UNLINK lock", "LOCK.EXTEND lock t PX 1"] {
        let mut waiter = line.join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
        let mut parked = line.join("LOCK.MACQUIRE 2 lock other TOKEN last WAIT 0");
        client.expect(format!("LOCK.GUARD lock t {end}"), 1);
        waiter.read().is(("waiter", INT, INT));
        client.expect("LOCK.GUARD lock t INCR n", err("NOTHELD"));
        client.expect("LOCK.GUARD lock waiter LOCK.RELEASE lock waiter", 1);
        parked.read().is(("last", INT, INT));
        client.expect("LOCK.GUARD other last LOCK.MRELEASE last 2 lock other", 2);
        client.expect("LOCK.ACQUIRE lock TOKEN t PX 3600000", ("t", INT, INT));
    }
    assert_eq!(line.count("lock_waiters"), 0);
}

#[test]
fn the_locks_key_may_be_renamed_replaced_moved_and_flushed_by_the_command() {
    let server = Server::start();
    let mut client = held(&server);
    client.expect("LOCK.GUARD lock t RENAME lock moved", OK);
    client.expect("LOCK.GUARD lock t PING", err("NOTHELD"));
    client.expect("LOCK.GUARD moved t RENAME moved lock", OK);
    // Servers differ in how they refuse it.
    client.cmd("LOCK.GUARD lock t COPY lock copy");
    client.expect("LOCK.GUARD lock t EXISTS copy", 0);
    client.expect("LOCK.GUARD lock t MOVE lock 1", 1);
    client.expect("LOCK.GUARD lock t PING", err("NOTHELD"));
    client.expect("SELECT 1", OK);
    client.expect("LOCK.GUARD lock t MOVE lock 0", 1);
    client.expect("SELECT 0", OK);
    let dump = client.expect("LOCK.GUARD lock t DUMP lock", ANY).bytes();
    client.expect([&b"LOCK.GUARD"[..], b"lock", b"t", b"RESTORE", b"lock", b"0", &dump, b"REPLACE"], OK);
    client.expect("LOCK.GUARD lock t SET lock text", OK);
    client.expect("LOCK.GUARD lock t PING", err("WRONGTYPE"));
    client.expect("DEL lock", 1);
    client.expect("LOCK.ACQUIRE lock TOKEN t", ("t", INT, INT));
    client.expect("LOCK.GUARD lock t SWAPDB 0 1", OK);
    client.expect("LOCK.GUARD lock t PING", err("NOTHELD"));
    client.expect("LOCK.ACQUIRE lock TOKEN t", ("t", INT, INT));
    client.expect("LOCK.GUARD lock t FLUSHALL", OK);
    client.expect("LOCK.GUARD lock t PING", err("NOTHELD"));
    assert_eq!(Line::at(&server).count("locks_held"), 0);
}

#[test]
fn sales_are_sold_confirmed_and_given_back() {
    let server = Server::start();
    let mut client = held(&server);
    for (command, status) in [
        ("STOCK.DECR_ONCE sale ann", ("OK", 1, 4, -1, "")),
        ("STOCK.DECR_ONCE sale ann", ("DUPLICATE", 1, 4, -1, "")),
        ("STOCK.DECR_ONCE sale bob QTY 4", ("OK", 4, 0, -1, "")),
        ("STOCK.DECR_ONCE sale carl WAITLIST", ("QUEUED", 0, 0, -1, "")),
        ("STOCK.CANCEL sale bob", ("OK", 0, 3, -1, "")),
        ("STOCK.DECR_ONCE sale carl", ("DUPLICATE", 1, 3, -1, "")),
    ] {
        if client.cmd("EXISTS sale") == Reply::Int(0) {
            client.expect("LOCK.GUARD lock t STOCK.CREATE sale 5 STREAM events", OK);
        }
        client.expect(format!("LOCK.GUARD lock t {command}"), status);
    }
    client.expect("LOCK.GUARD lock t XLEN events", 5);
    client.expect("LOCK.GUARD lock t STOCK.MDECR_ONCE cart 2 sale 1 none 1", ANY);
    client.expect("LOCK.GUARD lock t STOCK.ADJUST none 1", err("NOSTOCK"));
    client.expect("LOCK.GUARD lock t LOCK.APPLY lock ENDED t", err("NOPERM"));
    client.expect("LOCK.GUARD lock t STOCK.APPLY sale LAPSED ann", err("NOPERM"));
}

#[test]
fn other_locks_are_taken_and_released() {
    let server = Server::start();
    let mut client = held(&server);
    let fence = client.expect("LOCK.GUARD lock t LOCK.ACQUIRE other TOKEN t PX 5000", ("t", INT, 5_000)).at(1).int();
    client.expect("LOCK.GUARD lock t LOCK.ACQUIRE other TOKEN t", ("t", fence, INT));
    client.expect("LOCK.GUARD other t LOCK.INFO lock", ANY);
    client.expect("LOCK.GUARD other u LOCK.ACQUIRE lock TOKEN u", err("NOTHELD"));
    client.expect("LOCK.GUARD other t LOCK.ACQUIRE lock TOKEN u", NULL);
    client.expect("LOCK.GUARD other t LOCK.EXTEND lock t", 1);
    client.expect("LOCK.GUARD lock t LOCK.RELEASE other t", 1);
    assert_eq!(Line::at(&server).count("locks_held"), 1);
}

#[test]
fn a_session_or_a_notified_request_is_of_the_connection_that_guards() {
    let server = Server::builder().config(&harness::listener::line()).start();
    let (mut client, mut line) = (held(&server), Line::at(&server));
    let mut tied = server.client();
    server.expect("LOCK.ACQUIRE taken TOKEN another PX 3600000", ANY);
    tied.expect("LOCK.GUARD lock t LOCK.ACQUIRE mine TOKEN t SESSION PX 3600000", ("t", INT, INT));
    tied.expect("LOCK.GUARD lock t LOCK.ACQUIRE taken TOKEN t WAIT 0 NOTIFY channel", 1);
    let replies = tied.pipeline(["MULTI", "LOCK.GUARD lock t LOCK.MACQUIRE 2 a b TOKEN t SESSION PX 3600000", "EXEC"]);
    replies[2].at(0).clone().is(("t", INT, INT));
    assert_eq!(client.cmd("LOCK.INFO mine").field("holders").at(0).field("session").text(), "yes");
    assert_eq!(client.cmd("LOCK.INFO taken").field("waiters").at(0).field("client"), Reply::Int(tied.id()));
    // A script has none, nor has another module that is in between.
    let refused = err("ERR SESSION needs a connection");
    let script = "return redis.pcall('LOCK.GUARD', KEYS[1], 't', 'LOCK.ACQUIRE', KEYS[2], 'SESSION')";
    tied.expect(["EVAL", script, "2", "lock", "free"], refused.clone());
    tied.expect("LOCK.GUARD lock t LISTENER.CALL LOCK.ACQUIRE free SESSION", refused.clone());
    tied.expect("LISTENER.CALL LOCK.GUARD lock t LOCK.ACQUIRE free SESSION", refused);
    // What is refused leaves nothing behind for the next.
    tied.expect("LOCK.GUARD lock t LOCK.ACQUIRE", err("ERR wrong number of arguments"));
    tied.close();
    line.until("locks_held", 2);
    line.until("lock_waiters", 0);
    assert_eq!(line.holders("lock"), ["t"]);
}
