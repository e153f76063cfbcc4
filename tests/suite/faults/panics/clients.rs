//! A panic while a client is answered or leaves, or hears nothing of it.

use harness::{ANY, Client, INT, NULL, OK, Reply, Server, Words, err, eventually};

use super::REFUSED;
use super::site::Site;

#[test]
#[ignore = "needs a debug build: make test-panics"]
fn while_the_timer_is_armed_for_a_thread_of_another_module() {
    let server = Server::builder().config(&harness::listener::line()).start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1 STREAM events", OK);
    for point in [0, 1] {
        client.expect(["LOCK.FAULT", "arming the timer", &point.to_string()], (INT, INT));
        client.expect(format!("LISTENER.THREAD STOCK.DECR_ONCE sale {point} HOLD 20"), ("OK", 1, 0, INT, ""));
        eventually("the fault strikes", || {
            let log = server.log();
            log.matches("lockstock: arming the timer was given up after the fault above").count() == point + 1
        });
        eventually("the hold expires", || {
            client.cmd("XLEN events") == Reply::Int(2 * (i64::try_from(point).expect("small") + 1))
        });
    }
}

#[test]
#[ignore = "needs a debug build: make test-panics"]
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
#[ignore = "needs a debug build: make test-panics"]
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
#[ignore = "needs a debug build: make test-panics"]
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
