//! Where the server cannot park a client, or has an opinion of its own on when it is let go.

use harness::{ANY, Client, INT, NULL, Server, err, unix_ms};

use crate::support::line::Line;

/// The longest wait there is.
const LONGEST: i64 = (1 << 53) - 1;

#[test]
fn a_wait_beyond_what_servers_can_time_is_refused_and_parks_nobody() {
    let server = Server::start();
    let (mut line, mut holder, mut client) = (Line::at(&server), server.client(), server.client());
    holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    let keys = (0..999).map(|n| format!("k{n}")).collect::<Vec<_>>().join(" ");
    let range = err("ERR WAIT must be an integer from 0 to 9007199254740991");
    for wait in [LONGEST + 1, i64::MAX - unix_ms() - 1, i64::MAX - unix_ms(), i64::MAX] {
        client.expect(format!("LOCK.ACQUIRE lock TOKEN waiter WAIT {wait}"), range.clone());
        client.expect(format!("LOCK.MACQUIRE 1000 lock {keys} TOKEN waiter WAIT {wait}"), range.clone());
    }
    assert_eq!(line.waiters("lock"), Vec::<String>::new());
    line.enter(&mut client, format!("LOCK.ACQUIRE lock TOKEN waiter WAIT {LONGEST}"));
    holder.expect("LOCK.RELEASE lock holder", 1);
    client.read().is(("waiter", INT, 30_000));
    client.expect("PING", ANY);
}

#[test]
fn a_request_that_another_module_makes_does_not_wait_even_where_it_might() {
    let server = Server::builder().config(&harness::listener::line()).start();
    let (mut line, mut holder, mut client) = (Line::at(&server), server.client(), server.client());
    holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    let mut waiter = line.join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
    let reply = if server.version() < [7, 2, 0] { err("ERR the server would not run it") } else { NULL };
    for ask in ["LOCK.ACQUIRE lock TOKEN waiter WAIT 0", "LOCK.MACQUIRE 2 lock other TOKEN other WAIT 60000"] {
        client.expect(format!("LISTENER.BIDE {ask}"), reply.clone());
    }
    assert_eq!(line.waiters("lock"), ["waiter"]);
    holder.expect("LOCK.RELEASE lock holder", 1);
    waiter.read().is(("waiter", INT, 30_000));
    client.expect("PING", ANY);
}

/// A client that speaks RESP3 and is subscribed to something, as one that caches may be.
fn subscribed(server: &Server) -> Client {
    let mut client = server.client();
    client.hello3();
    client.send("SUBSCRIBE news");
    client.read();
    client
}

#[test]
fn a_client_with_a_subscription_waits_or_hears_null_and_then_nothing_has_changed() {
    let server = Server::start();
    let (mut line, mut holder, mut client) = (Line::at(&server), server.client(), subscribed(&server));
    for (ask, lock, release) in [
        ("LOCK.ACQUIRE lock TOKEN waiter", "lock", "LOCK.RELEASE lock"),
        ("LOCK.MACQUIRE 2 lock free TOKEN waiter", "lock", "LOCK.MRELEASE"),
    ] {
        holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
        let mut first = line.join(format!("{ask} WAIT 0"));
        let _second = line.join("LOCK.ACQUIRE lock TOKEN second WAIT 60000");
        let waits = line.count("lock_waits");
        let mut granted = if server.is_valkey() {
            // Valkey parks no such client.
            client.expect(format!("{ask} WAIT 0"), NULL);
            assert_eq!(line.waiters(lock), ["waiter", "second"]);
            assert_eq!(line.count("lock_waits"), waits);
            holder.expect("LOCK.RELEASE lock holder", 1);
            first
        } else {
            line.enter(&mut client, format!("{ask} WAIT 0"));
            first.read().is(NULL);
            assert_eq!(line.waiters(lock), ["waiter", "second"]);
            holder.expect("LOCK.RELEASE lock holder", 1);
            std::mem::replace(&mut client, subscribed(&server))
        };
        granted.read().is(("waiter", INT, 30_000));
        let release =
            if release == "LOCK.MRELEASE" { "LOCK.MRELEASE waiter 2 lock free" } else { "LOCK.RELEASE lock waiter" };
        granted.expect(release, INT);
        line.until("lock_waiters", 0);
        holder.expect("LOCK.RELEASE lock second", 1);
        // What is free it gets.
        client.expect("LOCK.ACQUIRE free TOKEN waiter WAIT 0", ("waiter", INT, 30_000));
        client.expect("LOCK.RELEASE free waiter", 1);
        assert_eq!(line.count("locks_held"), 0);
    }
}

/// The lock is released, and in the same packet its waiter is sent away as `how` says.
fn released_and_sent_away(how: &str, all_at_once: bool) {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    for round in 0..4 {
        holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
        let mut waiter = server.client();
        let id = waiter.id();
        line.enter(&mut waiter, "LOCK.ACQUIRE lock TOKEN waiter PX 60000 WAIT 60000");
        let mut next = line.join("LOCK.ACQUIRE lock TOKEN next WAIT 0");
        let both = ["LOCK.RELEASE lock holder".to_owned(), format!("CLIENT UNBLOCK {id} {how}")];
        if all_at_once {
            let replies = holder.pipeline(["MULTI".into(), both[0].clone(), both[1].clone(), "EXEC".into()]);
            replies[3].clone().is((1, INT));
        } else {
            holder.pipeline(both)[0].clone().is(1);
        }
        let answer = waiter.read();
        if answer.is_error() {
            answer.is(err("UNBLOCKED"));
            // A refused token does not hold.
            next.read().is(("next", INT, 30_000));
            assert_eq!(line.holders("lock"), ["next"], "round {round}");
            next.expect("LOCK.RELEASE lock next", 1);
        } else {
            answer.is(("waiter", INT, 60_000));
            assert_eq!(line.holders("lock"), ["waiter"], "round {round}");
            if how == "ERROR" && server.version() < [7, 2, 0] && !server.is_valkey() {
                // This server says its own word after the grant, which stands all the same.
                waiter.read().is(err("UNBLOCKED"));
            }
            waiter.expect("LOCK.RELEASE lock waiter", 1);
            next.read().is(("next", INT, 30_000));
            next.expect("LOCK.RELEASE lock next", 1);
        }
        waiter.expect("PING", ANY);
        assert_eq!((line.count("locks_held"), line.count("lock_waiters")), (0, 0));
    }
}

#[test]
fn whoever_is_sent_away_with_an_error_in_the_turn_of_its_grant_does_not_hold() {
    released_and_sent_away("ERROR", false);
    released_and_sent_away("ERROR", true);
}

#[test]
fn whoever_is_sent_away_politely_in_the_turn_of_its_grant_hears_the_truth() {
    released_and_sent_away("TIMEOUT", false);
    released_and_sent_away("TIMEOUT", true);
}

#[test]
fn no_lock_is_a_key_that_its_waiters_are_blocked_on() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    let mut waiter = line.join_behind(&mut holder, 60_000);
    let mut many = line.join("LOCK.MACQUIRE 3 lock a b TOKEN many WAIT 0");
    // Redis 7.0 does not tell. The others would ask each of them whenever such a key is created.
    if let Some(keys) = server.info("clients").get("total_blocking_keys") {
        assert_eq!(keys, "1");
    }
    holder.expect("DEL lock", 1);
    waiter.read().is(("waiter", INT, 60_000));
    holder.expect("DEL lock", 1);
    many.read().is(("many", INT, 30_000));
    assert_eq!(line.count("lock_waiters"), 0);
}
