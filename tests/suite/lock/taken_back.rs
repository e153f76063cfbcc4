//! A grant that is taken back takes nothing else: what its token held before is there again.

use harness::{ANY, Client, INT, NULL, Reply, Server, eventually};

use crate::support::line::Line;

/// The fence and the rest of the lease of `token` on `lock`.
fn hold(client: &mut Client, lock: &str, token: &str) -> Option<(i64, i64)> {
    let info = match client.cmd(["LOCK.INFO", lock]) {
        Reply::Nil(_) => return None,
        info => info,
    };
    let row = info.field("holders").items().iter().find(|row| row.field("token").text() == token)?.clone();
    Some((row.field("fence").int(), row.field("lease-ms").int()))
}

/// Frees `lock`, which `by` holds, and kills the client `id`, which is granted something thereby, before it can be told.
fn free_and_kill(admin: &mut Client, lock: &str, by: &str, id: i64) {
    let replies = admin.pipeline([
        "MULTI".to_owned(),
        format!("LOCK.RELEASE {lock} {by}"),
        format!("CLIENT KILL ID {id}"),
        "EXEC".to_owned(),
    ]);
    replies[3].clone().is((1, 1));
}

#[test]
fn what_the_token_held_of_many_keys_is_held_as_before() {
    let primary = Server::builder().aof("always").start();
    let replica = Server::start();
    replica.follow(&primary);
    let (mut line, mut admin, mut mine) = (Line::at(&primary), primary.client(), primary.client());
    for session in ["", " SESSION"] {
        let fence = mine.expect(format!("LOCK.ACQUIRE a TOKEN t PX 3600000{session}"), ANY).at(1).int();
        admin.expect("LOCK.ACQUIRE b TOKEN other", ANY);
        let mut victim = primary.client();
        let id = victim.id();
        line.enter(&mut victim, "LOCK.MACQUIRE 2 a b TOKEN t PX 60000 WAIT 0");
        free_and_kill(&mut admin, "b", "other", id);
        eventually("b is free again", || hold(&mut admin, "b", "t").is_none());
        let (back, left) = hold(&mut admin, "a", "t").expect("what t held before stays");
        assert_eq!(back, fence);
        assert!(left > 3_000_000, "its lease is the one it had: {left}");
        admin.expect("LOCK.ACQUIRE a TOKEN else", NULL);
        replica.wait_in_sync(&primary);
        primary.keys().are(&replica.keys());
        let held = primary.keys();
        admin.expect("DEBUG LOADAOF", ANY);
        primary.keys().are(&held);
        if session.is_empty() {
            admin.expect("LOCK.RELEASE a t", 1);
        }
    }
}

#[test]
fn a_session_that_comes_back_ends_with_its_connection() {
    let server = Server::start();
    let (mut line, mut admin, mut mine) = (Line::at(&server), server.client(), server.client());
    mine.expect("LOCK.ACQUIRE a TOKEN t PX 3600000 SESSION", ANY);
    admin.expect("LOCK.ACQUIRE b TOKEN other", ANY);
    let mut victim = server.client();
    let id = victim.id();
    line.enter(&mut victim, "LOCK.MACQUIRE 2 a b TOKEN t PX 60000 WAIT 0");
    let mut next = line.join("LOCK.ACQUIRE a TOKEN next WAIT 0");
    free_and_kill(&mut admin, "b", "other", id);
    eventually("b is free again", || hold(&mut admin, "b", "t").is_none());
    assert!(hold(&mut admin, "a", "t").is_some());
    mine.close();
    next.read().is(("next", INT, 30_000));
}

#[test]
fn an_upgrade_that_nobody_heard_of_leaves_the_shared_hold() {
    let server = Server::start();
    let (mut line, mut admin) = (Line::at(&server), server.client());
    let fence = admin.expect("LOCK.ACQUIRE book TOKEN t SHARED PX 3600000", ANY).at(1).int();
    admin.expect("LOCK.ACQUIRE book TOKEN other SHARED", ANY);
    let mut victim = server.client();
    let id = victim.id();
    line.enter(&mut victim, "LOCK.ACQUIRE book TOKEN t PX 60000 WAIT 0");
    let mut reader = line.join("LOCK.ACQUIRE book TOKEN reader SHARED WAIT 0");
    free_and_kill(&mut admin, "book", "other", id);
    reader.read().is(("reader", INT, 30_000));
    let (back, left) = hold(&mut admin, "book", "t").expect("the shared hold stays");
    assert_eq!(back, fence);
    assert!(left > 3_000_000, "{left}");
    assert_eq!(line.holders("book"), ["t", "reader"]);
}
