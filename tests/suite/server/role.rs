//! Servers that change their role with locks held and clients parked.

use std::fs::File;
use std::io::Write;

use harness::{ANY, Aof, Client, INT, NULL, OK, Server, Words, err, eventually};

use crate::support::line::Line;

/// A primary and its replica, with a lock held by a session, and two waiters.
fn pair() -> (Server, Server) {
    let primary = Server::builder().aof("always").start();
    let replica = Server::builder().aof("always").replica_of(&primary).start();
    replica.wait_in_sync(&primary);
    (primary, replica)
}

/// Whatever the server sent before it hung up was no grant.
fn is_sent_away(mut client: Client) {
    for reply in client.read_to_end() {
        reply.is(err("UNBLOCKED"));
    }
}

#[test]
fn waiters_of_a_demoted_server_are_sent_away_and_nothing_is_granted() {
    let (old, new) = pair();
    let mut line = Line::at(&old);
    let mut holder = old.client();
    holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 60000 SESSION", ANY);
    let waiter = line.join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
    let many = line.join("LOCK.MACQUIRE 2 free lock TOKEN many WAIT 60000");
    let mut redirected = old.client();
    let can_redirect = !redirected.cmd("CLIENT CAPA redirect").is_error() && old.version() >= [9, 0, 0];
    line.enter(&mut redirected, "LOCK.ACQUIRE lock TOKEN redirected WAIT 0");
    new.wait_in_sync(&old);

    new.promote();
    old.follow(&new);
    is_sent_away(waiter);
    is_sent_away(many);
    if can_redirect {
        redirected.read().is(err("REDIRECT"));
        redirected.expect("PING", ANY);
    } else {
        is_sent_away(redirected);
    }
    line.until("lock_waiters", 0);
    // The session's connection is the old primary's business, and it does not decide any more.
    holder.close();
    old.wait_in_sync(&new);
    assert_eq!(Line::at(&new).holders("lock"), ["holder"]);
    assert_eq!(line.holders("lock"), ["holder"]);
    old.expect("LOCK.RELEASE lock holder", err("READONLY"));
    new.expect("LOCK.RELEASE lock holder", 1);
    old.wait_in_sync(&new);
    assert_eq!(line.holders("lock"), [""; 0]);
}

#[test]
fn a_replica_ends_nothing_by_itself_and_makes_up_for_it_when_promoted() {
    let (primary, replica) = pair();
    let mut holder = primary.client();
    holder.expect("LOCK.ACQUIRE brief TOKEN holder PX 3000", ANY);
    let fence = holder.expect("LOCK.ACQUIRE tied TOKEN holder PX 60000 SESSION", ANY).at(1).int();
    replica.wait_in_sync(&primary);
    // The primary is gone before the lease is over, and so is the holder's connection.
    drop(primary);
    eventually("the lease is over on the replica, too", || {
        matches!(replica.cmd("LOCK.INFO brief"), harness::Reply::Nil(_))
    });
    replica.expect("EXISTS brief tied", 2);
    let before = Aof::of(&replica).commands.len();
    replica.expect("LOCK.ACQUIRE brief", err("READONLY"));
    assert_eq!(Aof::of(&replica).commands.len(), before);

    replica.promote();
    eventually("the lapsed hold is ended", || replica.cmd("EXISTS brief").int() == 0);
    let mut line = Line::at(&replica);
    assert_eq!(line.holders("tied"), ["holder"]);
    let commands = Aof::of(&replica).commands;
    assert_eq!(commands[before..], ["LOCK.APPLY brief ENDED holder LAPSED"]);
    // Waiting works on the new primary, and its fences go on from where the old one's were.
    let mut waiter = line.join("LOCK.ACQUIRE tied TOKEN waiter WAIT 0");
    replica.expect("LOCK.RELEASE tied holder", 1);
    assert!(waiter.read().is(("waiter", INT, 30_000)).at(1).int() > fence);
}

#[test]
fn a_failover_hands_the_locks_over_with_their_leases() {
    let (old, new) = pair();
    let mut line = Line::at(&old);
    let mut holder = old.client();
    let fence = holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 60000", ANY).at(1).int();
    let waiter = line.join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
    old.wait_online();
    old.expect(format!("FAILOVER TO 127.0.0.1 {}", new.port()), OK);
    is_sent_away(waiter);
    eventually("the roles are exchanged", || new.info("replication")["role"] == "master");
    new.expect("LOCK.ACQUIRE lock TOKEN waiter", NULL);
    new.expect("LOCK.ACQUIRE lock TOKEN holder PX 60000", ("holder", fence, 60_000));
    new.expect("LOCK.RELEASE lock holder", 1);
    assert!(new.expect("LOCK.ACQUIRE lock TOKEN next", ("next", INT, 30_000)).at(1).int() > fence);
}

#[test]
fn a_server_that_is_demoted_and_promoted_again_goes_on_where_it_was() {
    let (old, other) = pair();
    let mut line = Line::at(&old);
    let mut holder = old.client();
    holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 60000", ANY);
    other.wait_in_sync(&old);
    for _ in 0..3 {
        let waiter = line.join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
        old.follow(&other);
        is_sent_away(waiter);
        old.promote();
        assert_eq!(line.holders("lock"), ["holder"]);
    }
    let mut waiter = line.join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
    old.expect("LOCK.RELEASE lock holder", 1);
    waiter.read().is(("waiter", INT, 30_000));
}

#[test]
fn a_blocking_command_in_an_append_only_file_blocks_nobody() {
    let mut server = Server::builder().aof("always").start();
    server.expect("LOCK.ACQUIRE lock TOKEN holder PX 3600000", ANY);
    let files = std::fs::read_dir(server.dir().join("appendonlydir")).unwrap();
    let file =
        files.map(|file| file.unwrap().path()).find(|path| path.to_string_lossy().ends_with(".incr.aof")).unwrap();
    server.kill9();
    let mut file = File::options().append(true).open(file).unwrap();
    for words in [
        "LOCK.ACQUIRE lock TOKEN waiter WAIT 0",
        "LOCK.MACQUIRE 2 lock other TOKEN waiter WAIT 60000",
        "MULTI",
        "LOCK.ACQUIRE lock TOKEN waiter WAIT 0",
        "EXEC",
        "SET after 1",
    ] {
        file.write_all(&Words::from(words).wire()).unwrap();
    }
    drop(file);
    server.start_again();
    server.expect("GET after", "1");
    let mut line = Line::at(&server);
    assert_eq!(line.holders("lock"), ["holder"]);
    assert_eq!(line.count("lock_waiters"), 0);
    server.expect("EXISTS other", 0);
}

#[test]
fn nobody_is_parked_on_a_replica_that_takes_writes() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).config("replica-read-only no").start();
    replica.wait_in_sync(&primary);
    primary.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    replica.wait_in_sync(&primary);
    // Nothing is handed over there, so it would wait for ever.
    replica.expect("LOCK.ACQUIRE lock TOKEN waiter WAIT 0", NULL);
    replica.expect("LOCK.MACQUIRE 2 lock free TOKEN waiter WAIT 0", NULL);
    assert_eq!(Line::at(&replica).count("lock_waits"), 0);
}
