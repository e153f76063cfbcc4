//! A panic while a client is answered or leaves, or hears nothing of it.

use std::time::Duration;

use harness::{ANY, Client, INT, NULL, OK, Reply, Server, Words, err, eventually};

use super::REFUSED;
use super::site::Site;

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn while_turns_are_counted() {
    let mut site = Site::set();
    // Others count what they have sent instead.
    if site.client.cmd("CLIENT LIST").text().contains("tot-net-out") {
        return;
    }
    let mut waiter = site.server.client();
    waiter.send("LOCK.ACQUIRE key TOKEN waiter WAIT 0");
    waiter.send("PING");
    eventually("it waits, and what it has sent behind that is there", || {
        site.client
            .cmd("CLIENT LIST")
            .text()
            .lines()
            .any(|line| line.contains("lock.acquire") && !line.contains(" qbuf=0 "))
    });
    std::thread::park_timeout(Duration::from_millis(10));
    site.arm("a turn");
    let mut heir = site.heirs.remove(2);
    site.client.expect("LOCK.RELEASE key first", 1);
    heir.read().is(("heir", INT, 3_600_000));
    site.client.expect("LOCK.RELEASE key heir", 1);
    site.struck("a turn");
    waiter.read().is(("waiter", INT, 30_000));
    assert_eq!(waiter.read().text(), "PONG");
    site.client.expect("LOCK.RELEASE key waiter", 1);
    site.wait_again("key", heir);
    site.proves_whole();
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn in_an_event() {
    let mut site = Site::set();
    let id = site.holder.as_mut().expect("the holder").id();
    site.arm("an event");
    site.client.expect(format!("CLIENT KILL ID {id}"), ANY);
    site.struck("an event");
    let mut heir = site.heirs.remove(0);
    heir.read().is(("heir", INT, 3_600_000));
    site.wait_again("session", heir);
    site.proves_whole();

    for (event, both) in [("FLUSHALL", false), ("SWAPDB 0 1", true)] {
        let mut site = Site::set();
        site.arm("an event");
        site.client.expect(event, OK);
        site.struck("an event");
        for heir in &mut site.heirs {
            heir.read().is(("heir", INT, 3_600_000));
        }
        if both {
            site.client.expect("SELECT 1", OK);
            eventually("the lease ends where it is now", || site.client.cmd("EXISTS lease") == Reply::Int(0));
            let state = |client: &mut Client| client.cmd("STOCK.ORDER sale held").field("state").text();
            eventually("and so does the hold", || state(&mut site.client) == "expired");
        }
        site.client.expect("PING", Reply::Simple("PONG".into()));
    }
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn while_a_parked_client_is_answered_or_leaves() {
    // The grant that its client never heard of goes to the next.
    let mut site = Site::set();
    let mut next = site.server.client();
    next.send("LOCK.ACQUIRE key TOKEN next WAIT 0");
    eventually("it waits", || site.server.info_int("lockstock", "lockstock_lock_waiters") == 4);
    site.arm("an answer to a parked client");
    site.client.expect("LOCK.RELEASE key first", 1);
    let mut unlucky = site.heirs.pop().expect("the heir of the key");
    unlucky.read().is(err(REFUSED));
    next.read().is(("next", INT, 30_000));
    site.wait_again("key", unlucky);
    site.struck("an answer to a parked client");
    site.proves_whole();

    // Its time is over, it hangs up, it is unblocked: the one behind it gets the lock all the same.
    for leave in ["time", "hangs up", "unblocked"] {
        for doing in ["the end of a parked client", "an answer to a parked client"] {
            let mut site = Site::set();
            let mut leaver = site.server.client();
            let id = leaver.id();
            leaver.send("LOCK.ACQUIRE session TOKEN leaver WAIT 1000");
            eventually("it waits", || site.server.info_int("lockstock", "lockstock_lock_waiters") == 4);
            site.arm(doing);
            match leave {
                "time" => drop(leaver.read()),
                "hangs up" => leaver.reset(),
                _ => {
                    site.client.expect(format!("CLIENT UNBLOCK {id} ERROR"), 1);
                    leaver.read().is(err("UNBLOCKED"));
                }
            }
            if leave == "time" || doing == "the end of a parked client" {
                site.struck(doing);
            }
            site.arm("");
            eventually("it is forgotten", || site.server.info_int("lockstock", "lockstock_lock_waiters") == 3);
            site.proves_whole();
        }
    }
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn whoever_has_read_its_grant_keeps_it() {
    let server = Server::start();
    let (mut holder, mut heir) = (server.client(), server.client());
    holder.expect("LOCK.ACQUIRE lock TOKEN first EX 3600", ANY);
    heir.send("LOCK.ACQUIRE lock TOKEN heir EX 3600 WAIT 0");
    eventually("it waits", || server.info_int("lockstock", "lockstock_lock_waiters") == 1);
    // The fault comes in the same turn of the server's event loop as the reply, and has nothing to do with it.
    let replies = holder.pipeline([
        Words::from("LOCK.RELEASE lock first"),
        ["LOCK.FAULT", "a command"].into(),
        "LOCK.INFO other".into(),
    ]);
    assert!(replies[2].is_error(), "{replies:?}");
    let grant = heir.read();
    eventually("the look after the fault is over", || server.info_int("lockstock", "lockstock_lock_waiters") == 0);
    server.expect("LOCK.ACQUIRE lock TOKEN other", NULL);
    let holders = server.cmd("LOCK.INFO lock");
    assert_eq!(holders.field("holders").at(0).field("fence"), *grant.at(1), "{holders:?}");
}
