//! Waiting in line: hand-over, time limits, and everything that can happen to a client that is parked.

use std::time::{Duration, Instant};

use harness::{ANY, INT, NULL, OK, Server, Tap, Want, err};

use crate::support::line::Line;

/// How late something may be on a machine that runs many tests at once. The benchmarks say how late it is.
const LATE: Duration = Duration::from_millis(750);

#[test]
fn the_release_itself_decides_who_is_next() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    holder.expect("LOCK.ACQUIRE lock TOKEN first PX 60000", ("first", INT, 60_000));
    let mut second = line.join("LOCK.ACQUIRE lock TOKEN second PX 50000 WAIT 0");
    let mut third = line.join("LOCK.ACQUIRE lock TOKEN third PX 40000 WAIT 60000");
    assert_eq!(line.waiters("lock"), ["second", "third"]);

    let mut tap = Tap::attach(&server);
    holder.expect("LOCK.RELEASE lock first", 1);
    let fence = second.read().is(("second", INT, 50_000)).at(1).int();
    let seen = tap.drain();
    assert_eq!(seen.len(), 1, "{seen:?}");
    let effect = format!("LOCK.APPLY lock ENDED first HELD second {fence} ");
    assert!(format!("{:?}", seen[0]).starts_with(&effect), "{seen:?}");

    second.expect("LOCK.RELEASE lock second", 1);
    third.read().is(("third", Want::Within(fence + 1..=i64::MAX), 40_000));
    third.expect("LOCK.RELEASE lock third", 1);
    holder.expect("EXISTS lock", 0);
    assert_eq!(line.count("lock_handover_release"), 2);
    assert_eq!(line.count("lock_longest_queue"), 2);
    assert_eq!((line.count("lock_waiters"), line.count("locks_held")), (0, 0));
}

#[test]
fn a_lease_that_ends_hands_over_without_any_traffic() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    let mut waiter = line.join_behind(&mut holder, 400);
    let begun = Instant::now();
    waiter.read().is(("waiter", INT, 60_000));
    assert!(begun.elapsed() < Duration::from_millis(400) + LATE, "{:?}", begun.elapsed());
    assert_eq!((line.count("lock_handover_expiry"), line.count("lock_lapses")), (1, 1));
    holder.expect("LOCK.RELEASE lock holder", 0);
    holder.expect("LOCK.EXTEND lock holder", 0);
}

#[test]
fn waiting_ends_with_null_at_its_time_and_leaves_no_trace() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    let mut behind = line.join_behind(&mut holder, 60_000);
    let mut brief = line.join("LOCK.ACQUIRE lock TOKEN brief WAIT 30");
    let begun = Instant::now();
    brief.read().is(NULL);
    assert!(begun.elapsed() < Duration::from_millis(30) + LATE, "{:?}", begun.elapsed());
    assert_eq!(line.waiters("lock"), ["waiter"]);
    assert_eq!((line.count("lock_timeouts"), line.count("lock_waiters")), (1, 1));
    // Without a wait there is one try, and a refusal does not stand in the way of others.
    brief.expect("LOCK.ACQUIRE lock TOKEN brief", NULL);
    holder.expect("LOCK.RELEASE lock holder", 1);
    behind.read().is(("waiter", INT, 60_000));
}

#[test]
fn a_wait_ends_at_its_time_on_a_server_that_has_nothing_else_to_do() {
    // Left alone, this server would look for it once a second.
    let server = Server::builder().config("hz 1").config("dynamic-hz no").start();
    let (mut holder, mut waiter) = (server.client(), server.client());
    holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 600000", ANY);
    let mut late: Vec<Duration> = (0..9)
        .map(|n| {
            let wait = 20 + n * 7;
            let begun = Instant::now();
            waiter.expect(format!("LOCK.ACQUIRE lock WAIT {wait}"), NULL);
            begun.elapsed().checked_sub(Duration::from_millis(wait)).expect("not before its time")
        })
        .collect();
    late.sort();
    assert!(late[4] < Duration::from_millis(200), "{late:?}");
}

#[test]
fn a_grant_that_meets_the_end_of_the_wait_is_one_answer_and_the_truth() {
    let server = Server::start();
    let mut holder = server.client();
    let (mut granted, mut refused) = (0, 0);
    for pause in ["0.02", "0.03", "0.04"] {
        let mut line = Line::at(&server);
        holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
        let mut waiter = line.join("LOCK.ACQUIRE lock TOKEN waiter WAIT 30");
        // The server is busy until the time is over, and releases the lock in the same breath.
        holder.pipeline(["MULTI", &format!("DEBUG SLEEP {pause}"), "LOCK.RELEASE lock holder", "EXEC"]);
        let answer = waiter.read();
        waiter.expect("PING", ANY);
        if line.holders("lock").is_empty() {
            answer.is(NULL);
            refused += 1;
        } else {
            answer.is(("waiter", INT, 30_000));
            waiter.expect("LOCK.RELEASE lock waiter", 1);
            granted += 1;
        }
    }
    assert_eq!(granted + refused, 3);
}

#[test]
fn the_same_token_takes_over_its_place() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    let mut lost = line.join_behind(&mut holder, 60_000);
    let mut behind = line.join("LOCK.ACQUIRE lock TOKEN behind WAIT 0");
    let mut again = line.join("LOCK.ACQUIRE lock TOKEN waiter PX 5000 WAIT 0");
    lost.read().is(NULL);
    assert_eq!(line.waiters("lock"), ["waiter", "behind"]);
    holder.expect("LOCK.RELEASE lock holder", 1);
    again.read().is(("waiter", INT, 5_000));
    again.expect("LOCK.RELEASE lock waiter", 1);
    behind.read().is(("behind", INT, 30_000));
    lost.expect("PING", ANY);
}

#[test]
fn where_nobody_can_wait_there_is_one_try() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    let ask = "LOCK.ACQUIRE lock TOKEN other WAIT 0";
    let replies = holder.pipeline(["MULTI", ask, "LOCK.MACQUIRE 2 lock free TOKEN other WAIT 0", "EXEC"]);
    replies[3].clone().is((NULL, NULL));
    let script = "return redis.call('LOCK.ACQUIRE', KEYS[1], 'TOKEN', 'other', 'WAIT', '0')";
    holder.expect(["EVAL", script, "1", "lock"], NULL);
    let library = "#!lua name=lib\nredis.register_function('ask', function(keys)\
                   return redis.call('LOCK.ACQUIRE', keys[1], 'TOKEN', 'other', 'WAIT', '0') end)";
    holder.expect(["FUNCTION", "LOAD", library], "lib");
    holder.expect("FCALL ask 1 lock", NULL);
    holder.expect("EXISTS free", 0);
    assert_eq!(line.count("lock_waits"), 0);
    // A free lock is granted there as anywhere.
    holder.expect(["EVAL", script, "1", "free"], ("other", INT, 30_000));
}

#[test]
fn an_administrator_can_send_a_waiter_away() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    let (mut polite, mut rude, mut next) = (server.client(), server.client(), server.client());
    let (polite_id, rude_id) = (polite.id(), rude.id());
    line.enter(&mut polite, "LOCK.ACQUIRE lock TOKEN polite WAIT 0");
    line.enter(&mut rude, "LOCK.ACQUIRE lock TOKEN rude WAIT 60000");
    line.enter(&mut next, "LOCK.ACQUIRE lock TOKEN next WAIT 0");
    holder.expect(format!("CLIENT UNBLOCK {polite_id}"), 1);
    polite.read().is(NULL);
    holder.expect(format!("CLIENT UNBLOCK {rude_id} ERROR"), 1);
    rude.read().is(err("UNBLOCKED"));
    assert_eq!(line.waiters("lock"), ["next"]);
    holder.expect("LOCK.RELEASE lock holder", 1);
    next.read().is(("next", INT, 30_000));
    polite.expect("PING", ANY);
    rude.expect("PING", ANY);
}

#[test]
fn whoever_hangs_up_leaves_the_line_at_once_wherever_he_stood() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    let mut parked = vec![];
    for n in 0..7 {
        let mut client = server.client();
        let id = client.id();
        line.enter(&mut client, format!("LOCK.ACQUIRE lock TOKEN t{n} WAIT 0"));
        parked.push(Some((id, client)));
    }
    for (left, (position, way)) in
        [(0, "FIN"), (3, "RST"), (6, "KILL"), (1, "KILL"), (5, "FIN")].into_iter().enumerate()
    {
        let (id, client) = parked[position].take().unwrap();
        match way {
            "FIN" => client.close(),
            "RST" => client.reset(),
            _ => drop(holder.expect(format!("CLIENT KILL ID {id}"), 1)),
        }
        line.until("lock_waiters", 6 - i64::try_from(left).unwrap());
    }
    assert_eq!(line.waiters("lock"), ["t2", "t4"]);
    holder.expect("LOCK.RELEASE lock holder", 1);
    parked[2].as_mut().unwrap().1.read().is(("t2", INT, 30_000));
    assert_eq!(line.waiters("lock"), ["t4"]);
}

#[test]
fn a_grant_to_a_client_that_never_heard_of_it_goes_on_to_the_next() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    // The victim dies before the release, after it but before its reply is written, or takes its whole queue along.
    for kill_first in [true, false] {
        holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
        let mut victim = server.client();
        let id = victim.id();
        line.enter(&mut victim, "LOCK.ACQUIRE lock TOKEN victim PX 60000 WAIT 0");
        let mut next = line.join("LOCK.ACQUIRE lock TOKEN next WAIT 0");
        let (kill, release) = (format!("CLIENT KILL ID {id}"), "LOCK.RELEASE lock holder".to_owned());
        let both = if kill_first { [kill, release] } else { [release, kill] };
        let replies = holder.pipeline(["MULTI", &both[0], &both[1], "EXEC"]);
        replies[3].clone().is((1, 1));
        next.read().is(("next", INT, 30_000));
        assert_eq!(line.holders("lock"), ["next"]);
        next.expect("LOCK.RELEASE lock next", 1);
    }
    assert_eq!((line.count("locks_held"), line.count("lock_waiters")), (0, 0));
}

#[test]
fn a_grant_that_was_delivered_outlives_its_connection() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    for hang_up in [harness::Client::close, harness::Client::reset] {
        let mut waiter = line.join_behind(&mut holder, 60_000);
        holder.send("LOCK.RELEASE lock holder");
        waiter.read().is(("waiter", INT, 60_000));
        hang_up(waiter);
        holder.read().is(1);
        holder.expect("PING", ANY);
        assert_eq!(line.holders("lock"), ["waiter"]);
        holder.expect("LOCK.RELEASE lock waiter", 1);
    }
}

#[test]
fn a_grant_that_its_token_has_claimed_from_elsewhere_stays() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    let mut victim = server.client();
    let id = victim.id();
    line.enter(&mut victim, "LOCK.ACQUIRE lock TOKEN two-lines PX 60000 WAIT 0");
    let _next = line.join("LOCK.ACQUIRE lock TOKEN next WAIT 0");
    let replies = holder.pipeline([
        "MULTI",
        "LOCK.RELEASE lock holder",
        "LOCK.ACQUIRE lock TOKEN two-lines PX 50000",
        &format!("CLIENT KILL ID {id}"),
        "EXEC",
    ]);
    replies[4].clone().is((Want::from(1), Want::from(("two-lines", INT, 50_000)), Want::from(1)));
    holder.expect("PING", ANY);
    assert_eq!(line.holders("lock"), ["two-lines"]);
    assert_eq!(line.waiters("lock"), ["next"]);
}

#[test]
fn readers_are_let_in_together_and_cannot_starve_a_writer() {
    let server = Server::start();
    let (mut line, mut writer) = (Line::at(&server), server.client());
    writer.expect("LOCK.ACQUIRE lock TOKEN writer", ANY);
    let mut readers: Vec<_> =
        (0..3).map(|n| line.join(format!("LOCK.ACQUIRE lock TOKEN r{n} SHARED WAIT 0"))).collect();
    let mut second = line.join("LOCK.ACQUIRE lock TOKEN second WAIT 0");
    let mut late = line.join("LOCK.ACQUIRE lock TOKEN late SHARED WAIT 0");
    writer.expect("LOCK.RELEASE lock writer", 1);
    for (n, reader) in readers.iter_mut().enumerate() {
        reader.read().is((format!("r{n}"), INT, 30_000));
    }
    // There is room for one more reader, but the writer was here first.
    writer.expect("LOCK.ACQUIRE lock TOKEN hasty SHARED", NULL);
    assert_eq!(line.waiters("lock"), ["second", "late"]);
    for (n, reader) in readers.iter_mut().enumerate() {
        reader.expect(format!("LOCK.RELEASE lock r{n}"), 1);
    }
    second.read().is(("second", INT, 30_000));
    second.expect("LOCK.RELEASE lock second", 1);
    late.read().is(("late", INT, 30_000));
}

#[test]
fn permits_are_handed_on_as_they_come_back() {
    let server = Server::start();
    let (mut line, mut client) = (Line::at(&server), server.client());
    for n in 0..3 {
        client.expect(format!("LOCK.ACQUIRE pool TOKEN p{n} LIMIT 3"), ANY);
    }
    let mut waiters: Vec<_> =
        (3..6).map(|n| line.join(format!("LOCK.ACQUIRE pool TOKEN p{n} LIMIT 3 WAIT 0"))).collect();
    for (n, waiter) in waiters.iter_mut().enumerate() {
        client.expect(format!("LOCK.RELEASE pool p{n}"), 1);
        waiter.read().is((format!("p{}", n + 3), INT, 30_000));
        assert_eq!(line.holders("pool").len(), 3);
    }
}

#[test]
fn pipelined_commands_behind_a_wait_are_answered_after_it() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    let mut waiter = server.client();
    waiter.expect("SET before 1", OK);
    waiter.send("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
    waiter.send("LOCK.RELEASE lock waiter");
    waiter.send("GET before");
    line.until("lock_waiters", 1);
    assert_eq!(waiter.try_read(Duration::from_millis(5)), None);
    holder.expect("LOCK.RELEASE lock holder", 1);
    waiter.read().is(("waiter", INT, 30_000));
    waiter.read().is(1);
    waiter.read().is("1");
}
