//! Cancelling: after a release its token neither holds nor waits.

use harness::{ANY, INT, NULL, Server, Stage, err};

use crate::support::line::Line;

#[test]
fn a_release_from_any_connection_ends_the_wait_and_is_safe_to_repeat() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    let mut waiter = line.join_behind(&mut holder, 60_000);
    let mut behind = line.join("LOCK.ACQUIRE lock TOKEN behind WAIT 0");
    holder.expect("LOCK.RELEASE lock waiter", 0);
    waiter.read().is(NULL);
    assert_eq!(line.waiters("lock"), ["behind"]);
    holder.expect("LOCK.RELEASE lock waiter", 0);
    holder.expect("LOCK.RELEASE lock holder", 1);
    behind.read().is(("behind", INT, 30_000));
    waiter.expect("LOCK.RELEASE lock behind", 1);
    waiter.expect("DBSIZE", 0);
    assert_eq!((line.count("lock_waiters"), line.count("lock_timeouts")), (0, 0));
}

#[test]
fn it_ends_a_wait_without_a_limit_in_each_protocol() {
    let server = Server::start();
    let mut holder = server.client();
    holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    for resp in [2, 3] {
        let (mut line, mut waiter) = (Line::at(&server), server.client());
        waiter.expect(format!("HELLO {resp}"), ANY);
        line.enter(&mut waiter, "LOCK.ACQUIRE lock TOKEN waiter WAIT 0 SESSION");
        holder.expect("LOCK.RELEASE lock waiter", 0);
        assert_eq!(waiter.read_raw(), if resp == 2 { &b"$-1\r\n"[..] } else { b"_\r\n" });
        waiter.expect("PING", ANY);
    }
}

#[test]
fn whoever_stood_behind_is_served_in_the_same_step() {
    let server = Server::start();
    let (mut line, mut reader) = (Line::at(&server), server.client());
    reader.expect("LOCK.ACQUIRE lock TOKEN reader SHARED", ANY);
    let mut writer = line.join("LOCK.ACQUIRE lock TOKEN writer WAIT 0");
    let mut late = line.join("LOCK.ACQUIRE lock TOKEN late SHARED WAIT 0");
    let replies = reader.pipeline(["LOCK.RELEASE lock writer", "LOCK.INFO lock"]);
    replies[0].clone().is(0);
    assert_eq!(replies[1].field("holders").items().len(), 2);
    writer.read().is(NULL);
    late.read().is(("late", INT, 30_000));
}

#[test]
fn an_upgrade_ends_with_the_hold() {
    let server = Server::start();
    let (mut line, mut other) = (Line::at(&server), server.client());
    for token in ["one", "two"] {
        other.expect(format!("LOCK.ACQUIRE lock TOKEN {token} SHARED"), ANY);
    }
    let mut upgrade = line.join("LOCK.ACQUIRE lock TOKEN one WAIT 0");
    other.expect("LOCK.RELEASE lock one", 1);
    upgrade.read().is(NULL);
    other.expect("LOCK.RELEASE lock one", 0);
    assert_eq!(line.holders("lock"), ["two"]);
}

#[test]
fn one_key_ends_a_request_for_several() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    holder.expect("LOCK.MACQUIRE 2 a b TOKEN holder", ANY);
    let mut both = line.join("LOCK.MACQUIRE 3 a b c TOKEN waiter WAIT 0");
    let mut behind = line.join("LOCK.ACQUIRE c TOKEN behind WAIT 0");
    holder.expect("LOCK.RELEASE c waiter", 0);
    both.read().is(NULL);
    behind.read().is(("behind", INT, 30_000));
    for release in ["LOCK.MRELEASE waiter 2 b free", "LOCK.MRELEASE waiter 1 a", "LOCK.RELEASE b waiter"] {
        line.enter(&mut both, "LOCK.MACQUIRE 2 b a TOKEN waiter WAIT 0");
        holder.expect(release, 0);
        both.read().is(NULL);
    }
    assert_eq!(line.count("lock_waiters"), 0);
}

#[test]
fn in_transactions_and_scripts_too() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    let mut waiter = line.join_behind(&mut holder, 60_000);
    let replies = holder.pipeline(["MULTI", "LOCK.RELEASE lock holder", "LOCK.RELEASE lock waiter", "EXEC"]);
    // The waiter was granted the lock before its own release came.
    replies[3].clone().is((1, 1));
    waiter.read().is(("waiter", INT, 60_000));
    let mut waiter = line.join_behind(&mut holder, 60_000);
    let replies = holder.pipeline(["MULTI", "LOCK.RELEASE lock waiter", "LOCK.RELEASE lock holder", "EXEC"]);
    replies[3].clone().is((0, 1));
    waiter.read().is(NULL);
    let mut waiter = line.join_behind(&mut holder, 60_000);
    let script = "return redis.call('LOCK.MRELEASE', ARGV[1], 1, KEYS[1])";
    holder.expect(["EVAL", script, "1", "lock", "waiter"], 0);
    waiter.read().is(NULL);
    assert_eq!(line.holders("lock"), ["holder"]);
}

#[test]
fn nothing_of_it_is_replicated() {
    let mut stage = Stage::set(|words| format!("{words:?}"));
    let mut client = stage.server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    client.expect("SET text x", ANY);
    let mut waiter = stage.waiter("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
    stage.told();
    client.expect("LOCK.MRELEASE waiter 2 lock text", err("WRONGTYPE"));
    assert_eq!(Line::at(&stage.server).waiters("lock"), ["waiter"], "nothing was released");
    client.expect("LOCK.RELEASE lock waiter", 0);
    waiter.read().is(NULL);
    stage.tells(&[]);
}

#[test]
fn it_works_when_memory_is_out() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    let mut waiter = line.join_behind(&mut holder, 60_000);
    holder.expect("CONFIG SET maxmemory 1", ANY);
    holder.expect("LOCK.RELEASE lock waiter", 0);
    waiter.read().is(NULL);
}
