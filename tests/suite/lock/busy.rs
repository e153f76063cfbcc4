//! A script that takes long: the server answers `BUSY` meanwhile, and what falls due is made up for when the script has ended.

use std::time::Duration;

use harness::{ANY, Client, INT, NULL, OK, Reply, Server, err, eventually, unix_ms};

use crate::support::line::Line;

const THRESHOLD: &str = "busy-reply-threshold 50";

/// Sends `script` from a new connection and returns when the server tells all clients that it is busy.
#[track_caller]
fn keep_busy(server: &Server, script: &str) -> (Client, Client) {
    let (mut runner, mut admin) = (server.client(), server.client());
    runner.send(["EVAL", script, "0"]);
    eventually("the script takes long", || admin.cmd("PING").is_error());
    (runner, admin)
}

#[test]
fn what_falls_due_while_a_script_runs_is_made_up_for_when_it_was_killed() {
    let server = Server::builder().config(THRESHOLD).start();
    let (mut line, mut client, mut listener) = (Line::at(&server), server.client(), server.client());
    listener.expect("SUBSCRIBE news", ANY);
    client.expect("STOCK.CREATE sale 1 STREAM events", OK);
    client.expect("LOCK.ACQUIRE stays TOKEN holder PX 600000", ("holder", INT, 600_000));
    let fence = client.expect("LOCK.ACQUIRE over TOKEN holder PX 3000", ("holder", INT, 3000)).at(1).int();
    client.expect("LOCK.ACQUIRE both TOKEN holder PX 3000", ("holder", INT, 3000));
    client.expect("STOCK.DECR_ONCE sale ann HOLD 3000", ("OK", 1, 0, INT, ""));
    client.expect("STOCK.DECR_ONCE sale ben WAITLIST", ("QUEUED", 0, 0, -1, ""));
    let mut short = line.join("LOCK.ACQUIRE stays TOKEN short WAIT 3000");
    client.expect("LOCK.ACQUIRE stays TOKEN told WAIT 3000 NOTIFY news", 2);
    let mut long = line.join("LOCK.ACQUIRE stays TOKEN long WAIT 0");
    let mut next = line.join("LOCK.ACQUIRE over TOKEN next PX 2000 WAIT 0");
    let mut many = line.join("LOCK.MACQUIRE 2 other over TOKEN many WAIT 3000");
    let mut late = line.join("LOCK.ACQUIRE both TOKEN late WAIT 3500");
    let asked = unix_ms();

    let (mut runner, mut admin) = keep_busy(&server, "while true do end");
    assert!(unix_ms() < asked + 2500, "the machine is too slow for this test");
    for words in ["LOCK.ACQUIRE new TOKEN t", "LOCK.RELEASE stays holder", "LOCK.INFO over", "STOCK.INFO sale"] {
        admin.expect(words, err("BUSY"));
    }
    eventually("all of it is over", || unix_ms() > asked + 3700);
    for waiting in [&mut short, &mut long, &mut next, &mut many, &mut late, &mut listener] {
        assert_eq!(waiting.try_read(Duration::from_millis(5)), None, "nothing is decided while the script runs");
    }
    admin.expect("SCRIPT KILL", OK);
    assert!(runner.read().is_error());

    // Whose time was over has not got the lock, though it might have become free before.
    short.read().is(NULL);
    many.read().is(NULL);
    late.read().is(NULL);
    let told = listener.read();
    told.is(("message", "news", r#"{"event":"timeout","key":"stays","token":"told"}"#));
    // `next` waits without a limit, and its lease begins with its grant.
    assert!(next.read().is(("next", INT, 2000)).at(1).int() > fence);
    assert_eq!(line.waiters("stays"), ["long"]);
    assert_eq!(line.holders("stays"), ["holder"]);
    eventually("the lease that was over is ended", || client.cmd("EXISTS both") == Reply::Int(0));
    eventually("the reservation lapsed and the line was served", || client.cmd("XLEN events") == Reply::Int(4));
    client.expect("STOCK.DECR_ONCE sale ben", ("DUPLICATE", 1, 0, -1, ""));
    client.expect("STOCK.DECR_ONCE sale ann", ("EXPIRED", 0, 0, -1, ""));
    client.expect("LOCK.RELEASE stays holder", 1);
    long.read().is(("long", INT, 30_000));
    // And the timers go on.
    eventually("the granted lease ends in its turn", || client.cmd("EXISTS over") == Reply::Int(0));
    assert_eq!((line.count("locks_held"), line.count("lock_waiters")), (1, 0));
}

#[test]
fn who_was_told_of_a_grant_by_a_script_that_takes_long_has_it_and_who_was_told_null_has_not() {
    let server = Server::builder().config(THRESHOLD).start();
    let mut line = Line::at(&server);
    // It lets go, and goes on for longer than the waiter has time.
    let script = "redis.call('LOCK.RELEASE', 'lock', 'holder')
        local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end
        local over = now() + 1500
        while now() < over do end
        return 'done'";
    for wait in [1000, 600_000] {
        let mut holder = server.client();
        let fence = holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 600000", ANY).at(1).int();
        let mut waiter = line.join(format!("LOCK.ACQUIRE lock TOKEN waiter PX 600000 WAIT {wait}"));
        let (mut runner, mut admin) = keep_busy(&server, script);
        // It has written: it cannot be killed.
        admin.expect("SCRIPT KILL", err("UNKILLABLE"));
        runner.read().is("done");
        let told = waiter.read();
        if matches!(told, Reply::Nil(_)) {
            assert_eq!((wait, line.holders("lock")), (1000, vec![]));
            continue;
        }
        assert!(told.is(("waiter", INT, 600_000)).at(1).int() > fence);
        assert_eq!(line.holders("lock"), ["waiter"]);
        waiter.expect("LOCK.RELEASE lock waiter", 1);
    }
}
