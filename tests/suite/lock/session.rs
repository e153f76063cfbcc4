//! Holds that are tied to a connection, and the end of it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use harness::{ANY, Client, INT, NULL, OK, Reply, Server, Tap, err, eventually};

use crate::support::line::Line;

/// A process of its own that holds the lock "lock" with a session.
struct Holder(Child);

impl Holder {
    fn start(server: &Server) -> Self {
        let script = format!(
            "exec 3<>/dev/tcp/127.0.0.1/{}; printf 'LOCK.ACQUIRE lock TOKEN holder SESSION\\r\\n' >&3; \
             read -r reply <&3; echo \"$reply\"; read -r forever",
            server.port()
        );
        let mut child = Command::new("bash")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("the reply");
        assert_eq!(line.trim(), "*3");
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // SIGKILL: nothing of the process gets to say goodbye.
        self.0.kill().expect("the process is there");
        self.0.wait().expect("a child can be waited for");
    }
}

#[test]
fn the_next_waiter_has_the_lock_as_soon_as_the_holder_is_gone() {
    let server = Server::start();
    let mut line = Line::at(&server);
    let killer = |client: Client, id: i64| {
        server.expect(format!("CLIENT KILL ID {id}"), 1);
        drop(client);
    };
    let ways: [&dyn Fn(Client, i64); 3] = [&|client, _| client.close(), &|client, _| client.reset(), &killer];
    for end in ways {
        let mut holder = server.client();
        let id = holder.id();
        holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 3600000 SESSION", ("holder", INT, 3_600_000));
        let mut waiter = line.join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
        end(holder, id);
        waiter.read().is(("waiter", INT, 30_000));
        waiter.expect("LOCK.RELEASE lock waiter", 1);
    }
    assert_eq!(line.count("lock_handover_disconnect"), 3);
}

#[test]
fn a_process_that_is_killed_frees_its_lock() {
    let server = Server::start();
    let mut line = Line::at(&server);
    let holder = Holder::start(&server);
    let mut waiter = line.join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
    drop(holder);
    waiter.read().is(("waiter", INT, 30_000));
    assert_eq!(line.count("lock_handover_disconnect"), 1);
}

#[test]
fn without_a_session_the_hold_outlives_its_connection() {
    let server = Server::start();
    let mut line = Line::at(&server);
    let mut holder = server.client();
    holder.expect("LOCK.ACQUIRE plain TOKEN holder", ANY);
    holder.expect("LOCK.ACQUIRE tied TOKEN holder SESSION", ANY);
    holder.close();
    eventually("the tied hold ends", || line.holders("tied").is_empty());
    assert_eq!(line.holders("plain"), ["holder"]);
}

#[test]
fn everything_of_one_connection_ends_with_it() {
    let server = Server::start();
    let mut line = Line::at(&server);
    let mut busy = server.client();
    for n in 0..1_000 {
        busy.send(format!("LOCK.ACQUIRE lock-{n} TOKEN busy SESSION"));
    }
    (0..1_000).for_each(|_| drop(busy.read().is(("busy", INT, 30_000))));
    busy.expect("LOCK.MACQUIRE 3 a b c TOKEN busy SESSION", ("busy", INT, 30_000));
    busy.expect("LOCK.ACQUIRE shared TOKEN busy SHARED SESSION", ANY);
    let mut other = server.client();
    other.expect("LOCK.ACQUIRE shared TOKEN other SHARED", ANY);
    other.expect("LOCK.ACQUIRE gate TOKEN other", ANY);
    let mut many = line.join("LOCK.MACQUIRE 4 c lock-7 a b TOKEN many WAIT 0");
    // It also waits somewhere itself.
    line.enter(&mut busy, "LOCK.ACQUIRE gate TOKEN busy WAIT 0 SESSION");
    busy.reset();
    many.read().is(("many", INT, 30_000));
    line.until("locks_held", 2 + 4);
    assert_eq!(line.holders("shared"), ["other"]);
    assert_eq!(line.waiters("gate"), [""; 0]);
}

#[test]
fn a_session_binds_to_the_connection_that_renews_last() {
    let server = Server::start();
    let mut line = Line::at(&server);
    let (mut first, mut second, mut third) = (server.client(), server.client(), server.client());
    let fence = first.expect("LOCK.ACQUIRE lock TOKEN t SESSION", ("t", INT, 30_000)).at(1).int();
    second.expect("LOCK.ACQUIRE lock TOKEN t SESSION", ("t", fence, 30_000));
    // A renewal without SESSION and an extension leave the tie as it is.
    third.expect("LOCK.ACQUIRE lock TOKEN t PX 60000", ("t", fence, 60_000));
    third.expect("LOCK.EXTEND lock t", 1);
    let mut mark = server.client();
    mark.expect("LOCK.ACQUIRE mark TOKEN m SESSION", ANY);
    first.close();
    third.close();
    mark.close();
    eventually("the server has noticed", || line.holders("mark").is_empty());
    assert_eq!(line.holders("lock"), ["t"]);
    second.close();
    eventually("the hold ends", || line.holders("lock").is_empty());
}

#[test]
fn a_session_that_was_waited_for_is_a_session_too() {
    let server = Server::start();
    let mut line = Line::at(&server);
    let mut holder = server.client();
    holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    let mut waiter = line.join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0 SESSION");
    let mut last = line.join("LOCK.ACQUIRE lock TOKEN last WAIT 0");
    holder.expect("LOCK.RELEASE lock holder", 1);
    waiter.read().is(("waiter", INT, 30_000));
    holder.close();
    waiter.close();
    last.read().is(("last", INT, 30_000));
}

#[test]
fn a_dead_holder_costs_the_replicas_nothing_but_its_hold() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    replica.wait_in_sync(&primary);
    let mut line = Line::at(&primary);
    // On the replica some innocent client has the same number as the holder.
    let (mut holder, mut innocent) = (primary.client(), replica.client());
    while holder.id() <= innocent.id() {
        holder = primary.client();
    }
    let id = holder.id();
    while innocent.id() < id {
        innocent = replica.client();
    }
    assert_eq!(innocent.id(), id);
    holder.expect("LOCK.ACQUIRE lock TOKEN holder SESSION", ANY);
    let mut waiter = line.join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");

    let mut tap = Tap::attach(&primary);
    primary.expect(format!("CLIENT KILL ID {id}"), 1);
    let fence = waiter.read().is(("waiter", INT, 30_000)).at(1).int();
    let seen = tap.drain();
    assert_eq!(seen.len(), 1, "{seen:?}");
    let effect = format!("LOCK.APPLY lock ENDED holder DISCONNECTED HELD waiter {fence} ");
    assert!(format!("{:?}", seen[0]).starts_with(&effect), "{seen:?}");
    replica.wait_in_sync(&primary);
    innocent.expect("PING", ANY);
    assert_eq!(replica.cmd("LOCK.INFO lock").field("holders").at(0).field("token").text(), "waiter");
}

#[test]
fn a_connection_that_was_reset_keeps_its_ties() {
    let server = Server::start();
    let mut line = Line::at(&server);
    let mut client = server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN t SESSION", ANY);
    client.expect("RESET", ANY);
    client.expect("LOCK.ACQUIRE lock TOKEN other", NULL);
    assert_eq!(line.holders("lock"), ["t"]);
    client.close();
    eventually("the hold ends", || line.holders("lock").is_empty());
}

#[test]
fn where_no_connection_asks_there_is_no_session() {
    let server = Server::start();
    let mut client = server.client();
    for call in ["'LOCK.ACQUIRE', KEYS[1], 'SESSION'", "'LOCK.MACQUIRE', '1', KEYS[1], 'WAIT', '0', 'SESSION'"] {
        client.expect(["EVAL", &format!("return redis.call({call})"), "1", "lock"], err("ERR SESSION needs"));
        client.expect("EXISTS lock", 0);
    }
    // A transaction is run by its connection.
    let replies = client.pipeline(["MULTI", "LOCK.ACQUIRE lock TOKEN t SESSION", "EXEC"]);
    replies[2].clone().is((("t", INT, 30_000),));
    client.close();
    eventually("the hold ends", || server.cmd("EXISTS lock").int() == 0);
}

/// The connection itself survives: what ends is that the server decides.
#[test]
fn a_demotion_ends_no_hold_and_every_session() {
    let (first, second) = (Server::start(), Server::start());
    second.follow(&first);
    second.wait_in_sync(&first);
    let mut holder = first.client();
    for lock in ["kept", "renamed", "shared"] {
        let shared = if lock == "shared" { "SHARED" } else { "" };
        holder.expect(format!("LOCK.ACQUIRE {lock} TOKEN t EX 3600 SESSION {shared}"), ("t", INT, 3_600_000));
    }
    holder.expect("LOCK.ACQUIRE shared TOKEN u EX 3600 SESSION SHARED", ANY);
    let sessions = |server: &Server, lock: &str| -> Vec<String> {
        let info = server.cmd(["LOCK.INFO", lock]);
        assert!(!matches!(info, Reply::Nil(_)), "{lock} is gone, and there is {:?}", server.cmd("KEYS *"));
        info.field("holders").items().iter().map(|holder| holder.field("session").text()).collect()
    };
    assert_eq!(sessions(&first, "shared"), ["yes", "yes"]);
    second.wait_in_sync(&first);
    second.promote();
    first.follow(&second);
    first.wait_in_sync(&second);
    assert_eq!(second.info_int("stats", "sync_partial_ok"), 1, "nothing was loaded anew");
    assert_eq!(sessions(&first, "kept"), ["no"]);

    second.wait_online();
    first.promote();
    second.follow(&first);
    first.expect("RENAME renamed elsewhere", OK);
    for lock in ["kept", "elsewhere"] {
        assert_eq!(sessions(&first, lock), ["no"], "{lock}");
    }
    assert_eq!(sessions(&first, "shared"), ["no", "no"]);
    // A session that begins now is one.
    holder.expect("LOCK.ACQUIRE shared TOKEN u EX 3600 SESSION SHARED", ANY);
    assert_eq!(sessions(&first, "shared"), ["no", "yes"]);
    holder.close();
    eventually("the new session ends", || sessions(&first, "shared") == ["no"]);
    for lock in ["kept", "elsewhere"] {
        assert_eq!(
            sessions(&first, lock),
            ["no"],
            "{lock}: {:?} {:?}",
            first.cmd("KEYS *"),
            first.cmd(["LOCK.INFO", lock])
        );
    }
    second.wait_in_sync(&first);
    assert_eq!(second.digest(), first.digest());
}

#[test]
fn another_module_has_no_connection_to_end_with() {
    let server = Server::builder().config(&harness::listener::line()).start();
    let mut client = server.client();
    let refused = err("ERR SESSION needs a connection to end with");
    for ask in ["LOCK.ACQUIRE lock TOKEN t SESSION", "LOCK.MACQUIRE 2 lock other TOKEN t SESSION"] {
        client.expect(format!("LISTENER.CALL {ask}"), refused.clone());
        client.pipeline(["MULTI".into(), format!("LISTENER.CALL {ask}"), "EXEC".into()])[2]
            .at(0)
            .clone()
            .is(refused.clone());
        client.expect("LISTENER.FORGET", OK);
        client.expect(format!("LISTENER.LATER {ask}"), OK);
        eventually("the timer has run it", || {
            let told = client.expect(["LISTENER.SEEN", ""], ANY);
            told.items().iter().any(|line| line.text().starts_with("-ERR SESSION"))
        });
        client.expect("DBSIZE", 0);
    }
    client.expect("LISTENER.CALL LOCK.ACQUIRE lock TOKEN t", ("t", INT, 30_000));
    // A transaction of a client is the client's.
    client.pipeline(["MULTI", "LOCK.ACQUIRE mine TOKEN t SESSION", "EXEC"])[2].at(0).clone().is(("t", INT, 30_000));
    client.close();
    eventually("the session ends", || server.cmd("EXISTS mine") == Reply::Int(0));
    server.expect("EXISTS lock", 1);
}
