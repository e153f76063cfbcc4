//! Clients that lose their connection in line and ask again.

use harness::{ANY, Client, INT, NULL, OK, Server, err};

use super::notify::channel::Channel;
use crate::support::line::Line;

const LATE: &str = "place-grace-ms 60000";

#[test]
fn a_client_that_reconnects_has_its_place_again() {
    let server = Server::builder().module_args(LATE).start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 600000", ANY);
    let words = |token: &str| format!("LOCK.ACQUIRE lock TOKEN {token} WAIT 0");
    let mut waiters: Vec<Client> = ["a", "b", "c"].iter().map(|token| line.join(words(token))).collect();
    for (token, closes) in [("b", true), ("a", false), ("a", true), ("b", false)] {
        let at = usize::from(token == "b");
        let gone = std::mem::replace(&mut waiters[at], server.client());
        if closes {
            gone.close();
        } else {
            gone.reset();
        }
        line.until("lock_vacant_places", 1);
        assert_eq!((line.waiters("lock").len(), line.count("lock_waiters")), (2, 2));
        line.enter(&mut waiters[at], words(token));
        assert_eq!(line.waiters("lock"), ["a", "b", "c"], "{token}");
        assert_eq!(line.count("lock_vacant_places"), 0);
    }
    // Killed, and passed over while it is away.
    let id = holder.cmd("LOCK.INFO lock").field("waiters").at(0).field("client").int();
    holder.expect(format!("CLIENT KILL ID {id}"), 1);
    line.until("lock_vacant_places", 1);
    holder.expect("LOCK.RELEASE lock holder", 1);
    waiters[1].read().is(("b", INT, 30_000));
    let mut again = line.join(words("a"));
    assert_eq!(line.waiters("lock"), ["a", "c"]);
    waiters[1].expect("LOCK.RELEASE lock b", 1);
    again.read().is(("a", INT, 30_000));
    again.expect("LOCK.RELEASE lock a", 1);
    waiters[2].read().is(("c", INT, 30_000));
}

#[test]
fn so_has_one_that_waits_for_several() {
    let server = Server::builder().module_args(LATE).start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    holder.expect("LOCK.MACQUIRE 2 a b TOKEN holder PX 600000", ANY);
    let both = line.join("LOCK.MACQUIRE 2 a b TOKEN both WAIT 0");
    let _one = line.join("LOCK.ACQUIRE a TOKEN one WAIT 0");
    both.close();
    line.until("lock_vacant_places", 1);
    let mut both = line.join("LOCK.MACQUIRE 3 b a b TOKEN both WAIT 0");
    assert_eq!((line.waiters("a"), line.waiters("b")), (vec!["both".into(), "one".into()], vec!["both".into()]));
    holder.expect("LOCK.MRELEASE holder 2 a b", 2);
    both.read().is(("both", INT, 30_000));
}

#[test]
fn so_has_one_that_waits_by_notify() {
    let server = Server::builder().module_args(LATE).start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 600000", ANY);
    let (mut one, mut other) = (server.client(), server.client());
    one.expect("LOCK.ACQUIRE lock TOKEN a WAIT 0 NOTIFY one", 1);
    one.expect("LOCK.MACQUIRE 2 lock free TOKEN b WAIT 0 NOTIFY one", 2);
    other.expect("LOCK.ACQUIRE lock TOKEN c WAIT 0 NOTIFY other", 3);
    one.close();
    line.until("lock_vacant_places", 2);
    assert_eq!((line.count("lock_waiters"), line.count("lock_waiters_notified")), (1, 1));
    let mut channel = Channel::of(&server, "again");
    let mut again = server.client();
    again.expect("LOCK.MACQUIRE 2 lock free TOKEN b WAIT 0 NOTIFY again", 1);
    // Parked before, or notified: it is the same request.
    let mut parked = line.join("LOCK.ACQUIRE lock TOKEN a WAIT 0");
    assert_eq!((line.waiters("lock"), line.count("lock_vacant_places")), (vec!["a".into(), "b".into(), "c".into()], 0));
    holder.expect("LOCK.RELEASE lock holder", 1);
    parked.read().is(("a", INT, 30_000));
    parked.expect("LOCK.RELEASE lock a", 1);
    channel.grants(r#""keys":["lock","free"],"token":"b""#, 30_000);
}

#[test]
fn the_place_ends_by_itself_by_release_and_with_the_setting() {
    let server = Server::builder().module_args("place-grace-ms 40").start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 600000", ANY);
    let a = line.join("LOCK.ACQUIRE lock TOKEN a WAIT 0");
    let _b = line.join("LOCK.ACQUIRE lock TOKEN b WAIT 0");
    a.close();
    line.until("lock_waiters", 1);
    line.until("lock_vacant_places", 0);
    let a = line.join("LOCK.ACQUIRE lock TOKEN a WAIT 0");
    assert_eq!(line.waiters("lock"), ["b", "a"]);

    holder.expect("CONFIG SET lockstock.place-grace-ms 60000", OK);
    let _c = line.join("LOCK.ACQUIRE lock TOKEN c WAIT 0");
    a.close();
    line.until("lock_vacant_places", 1);
    holder.expect("LOCK.RELEASE lock a", 0);
    assert_eq!(line.count("lock_vacant_places"), 0);
    let a = line.join("LOCK.ACQUIRE lock TOKEN a WAIT 0");
    assert_eq!(line.waiters("lock"), ["b", "c", "a"]);

    holder.expect("CONFIG SET lockstock.place-grace-ms 0", OK);
    let _d = line.join("LOCK.ACQUIRE lock TOKEN d WAIT 0");
    a.close();
    line.until("lock_waiters", 3);
    assert_eq!(line.count("lock_vacant_places"), 0);
    holder.expect("CONFIG SET lockstock.place-grace-ms -1", err("ERR"));
}

#[test]
fn who_was_told_that_it_does_not_get_the_lock_has_no_place() {
    let server = Server::builder().module_args(LATE).start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 600000", ANY);
    let mut brief = line.join("LOCK.ACQUIRE lock TOKEN brief WAIT 20");
    brief.read().is(NULL);
    for (how, told) in [("TIMEOUT", NULL), ("ERROR", err("UNBLOCKED"))] {
        line.enter(&mut brief, "LOCK.ACQUIRE lock TOKEN brief WAIT 0");
        let id = holder.cmd("LOCK.INFO lock").field("waiters").at(0).field("client").int();
        holder.expect(format!("CLIENT UNBLOCK {id} {how}"), 1);
        brief.read().is(told);
    }
    brief.close();
    line.until("lock_waiters", 0);
    assert_eq!(line.count("lock_vacant_places"), 0);
}

#[test]
fn so_has_one_whose_connection_ended_before_it_could_hear_of_its_grant() {
    let server = Server::builder().module_args(LATE).start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    for (ask, release) in
        [("ACQUIRE lock", "RELEASE lock holder"), ("MACQUIRE 2 other lock", "MRELEASE holder 2 lock other")]
    {
        holder.expect("LOCK.MACQUIRE 2 lock other TOKEN holder PX 600000", ANY);
        let mut gone = line.join(format!("LOCK.{ask} TOKEN a WAIT 0"));
        let mut next = line.join("LOCK.ACQUIRE lock TOKEN b WAIT 0");
        let _last = line.join("LOCK.ACQUIRE lock TOKEN c WAIT 0");
        let id = holder.cmd("LOCK.INFO lock").field("waiters").at(0).field("client").int();
        holder.expect("MULTI", OK);
        holder.expect(format!("LOCK.{release}"), ANY);
        holder.expect(format!("CLIENT KILL ID {id}"), ANY);
        holder.cmd("EXEC");
        gone.read_to_end();
        next.read().is(("b", INT, 30_000));
        assert_eq!(line.count("lock_vacant_places"), 1);
        let mut again = line.join(format!("LOCK.{ask} TOKEN a WAIT 0"));
        assert_eq!(line.waiters("lock"), ["a", "c"]);
        next.expect("LOCK.RELEASE lock b", 1);
        again.read().is(("a", INT, 30_000));
        holder.expect("LOCK.RELEASE lock c", 0);
        holder.expect("LOCK.MRELEASE a 2 lock other", ANY);
    }
}

#[test]
fn it_is_not_taken_up_where_both_would_wait_for_each_other() {
    let server = Server::builder().module_args(LATE).start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    holder.expect("LOCK.ACQUIRE x TOKEN one PX 600000", ANY);
    holder.expect("LOCK.ACQUIRE y TOKEN other PX 600000", ANY);
    let ann = line.join("LOCK.MACQUIRE 2 x y TOKEN ann WAIT 0");
    let mut bob = line.join("LOCK.ACQUIRE x TOKEN bob WAIT 0");
    ann.close();
    line.until("lock_vacant_places", 1);
    holder.expect("LOCK.RELEASE x one", 1);
    bob.read().is(("bob", INT, 30_000));
    line.enter(&mut bob, "LOCK.ACQUIRE y TOKEN bob WAIT 0");
    // In front of bob ann would wait for his x, and he for her to have y.
    let mut ann = line.join("LOCK.MACQUIRE 2 x y TOKEN ann WAIT 0");
    assert_eq!((line.waiters("x"), line.waiters("y")), (vec!["ann".into()], vec!["bob".into(), "ann".into()]));
    holder.expect("LOCK.RELEASE y other", 1);
    bob.read().is(("bob", INT, 30_000));
    bob.expect("LOCK.MRELEASE bob 2 x y", 2);
    ann.read().is(("ann", INT, 30_000));
}

/// As go-redis does it by default: a read times out, the connection is given up, and the command is sent again over another one.
#[test]
fn clients_that_give_up_their_connections_and_resend_are_served_in_the_order_in_which_they_came() {
    let server = Server::builder().module_args(LATE).start();
    let (mut line, mut admin) = (Line::at(&server), server.client());
    let words = |number: usize| format!("LOCK.ACQUIRE lock TOKEN t{number} PX 600000 WAIT 60000");
    admin.expect(words(0), ("t0", INT, 600_000));
    let mut waiting: Vec<(usize, Client)> = (1..12).map(|number| (number, line.join(words(number)))).collect();
    for holder in 0..11 {
        // All of them, in another order each time.
        fastrand::Rng::with_seed(holder).shuffle(&mut waiting);
        for (number, client) in &mut waiting {
            std::mem::replace(client, server.client()).close();
            line.until("lock_vacant_places", 1);
            line.enter(client, words(*number));
        }
        admin.expect(format!("LOCK.RELEASE lock t{holder}"), 1);
        let next = usize::try_from(holder).unwrap() + 1;
        let at = waiting.iter().position(|(number, _)| *number == next).unwrap();
        waiting.swap_remove(at).1.read().is((format!("t{next}"), INT, 600_000));
    }
}
