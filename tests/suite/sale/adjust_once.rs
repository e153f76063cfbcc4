//! Adjustments with an id happen once, wherever the sale goes.

use harness::shop::{Replay, books, events};
use harness::{Client, OK, Server, Stage, err};

/// A sale of 12 units that has forgotten nothing: three adjustments with ids, one of them of nothing.
#[track_caller]
fn adjusted(client: &mut Client, options: &str) {
    client.expect(format!("STOCK.CREATE sale 5 {options}"), OK);
    client.expect("STOCK.ADJUST sale 9 ID truck-1", 14);
    client.expect("STOCK.ADJUST sale 0 ID seen", 14);
    client.expect(["STOCK.ADJUST", "sale", "-2", "id", "back \0%s"], 12);
}

/// Fails the test unless the sale knows them, wherever it is now.
#[track_caller]
fn they_are_remembered(server: &Server, what: &str) {
    let mut client = server.client();
    let (seq, digest) = (client.cmd("STOCK.INFO sale").field("seq").int(), server.digest());
    let replies = client.pipeline(["STOCK.ADJUST sale 9 ID truck-1", "STOCK.ADJUST sale -9000 ID seen"]);
    assert!(replies.iter().all(|reply| reply.int() == 12), "{what}: {replies:?}");
    client.expect(["STOCK.ADJUST", "sale", "-2", "ID", "back \0%s"], 12);
    assert_eq!(client.cmd("STOCK.INFO sale").field("seq").int(), seq, "{what}");
    assert_eq!(server.digest(), digest, "{what}");
    client.expect("STOCK.ADJUST sale 1 ID truck-2", 13);
    client.expect("STOCK.ADJUST sale -1 ID truck-3", 12);
}

#[test]
fn the_second_changes_nothing_and_answers_what_remains_now() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 5 STREAM events DEADLINES", OK);
    client.expect("STOCK.ADJUST sale 5 ID truck-1", 10);
    client.expect("STOCK.DECR_ONCE sale ann QTY 3", ("OK", 3, 7, -1, ""));
    client.expect("STOCK.ADJUST sale 5 ID truck-1", 7);
    // The ids of orders are other ids.
    client.expect("STOCK.ADJUST sale 1 ID ann", 8);
    client.expect("STOCK.DECR_ONCE sale truck-1", ("OK", 1, 7, -1, ""));
    // What was refused was not done, and may be done later.
    client.expect("STOCK.ADJUST sale -8 ID out", err("ERR delta must be at least -7"));
    client.expect("STOCK.CANCEL sale truck-1", ("OK", 0, 8, -1, ""));
    client.expect("STOCK.ADJUST sale -8 ID out", 0);
    client.expect("STOCK.ADJUST sale 0 ID nothing", 0);
    client.expect("STOCK.ADJUST sale 4 ID nothing", 0);
    let told = events(&mut client, "events");
    assert_eq!(told.iter().filter(|event| event.event == "adjust").count(), 3, "{told:?}");
    Replay::of(5, &told).agrees_with(&mut client, "sale");
    assert_eq!(books(&mut client, "sale").total, 3);
}

#[test]
fn replicas_and_the_file_are_told_of_the_id_too() {
    let mut stage = Stage::set(|words| format!("{words:?}"));
    let mut client = stage.server.client();
    client.expect("STOCK.CREATE sale 5", OK);
    stage.told();
    for (call, after, is_told) in
        [("5 ID a", 10, true), ("5 ID a", 10, false), ("0 ID b", 10, true), ("0", 10, false), ("-3", 7, true)]
    {
        client.expect(format!("STOCK.ADJUST sale {call}"), after);
        let told = if is_told { vec![format!("STOCK.ADJUST sale {call}")] } else { vec![] };
        assert_eq!(stage.told(), told, "{call}");
    }
    stage.server.take_effects();
    let before = stage.server.digest();
    for refused in ["ADJUSTED 5 a", "ADJUSTED -8 c", "ADJUSTED 5 c d", "ADJUSTED"] {
        client.expect(format!("STOCK.APPLY sale {refused}"), err("ERR"));
    }
    assert_eq!(stage.server.digest(), before);
}

#[test]
fn an_event_that_cannot_be_appended_leaves_nothing_remembered() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 5 STREAM events", OK);
    client.expect("SET events x", OK);
    client.expect("STOCK.ADJUST sale 5 ID a", err("WRONGTYPE"));
    // This one has no event.
    client.expect("STOCK.ADJUST sale 0 ID b", 5);
    client.expect("DEL events", 1);
    client.expect("STOCK.ADJUST sale 5 ID a", 10);
    client.expect("STOCK.ADJUST sale 5 ID b", 10);
}

#[test]
fn it_is_remembered_after_a_restart_from_any_file() {
    for (file, rewrite) in [("AOF", None), ("AOF of commands", Some(false)), ("AOF with an RDB preamble", Some(true))] {
        let mut server = Server::builder().aof("always").start();
        adjusted(&mut server.client(), "");
        let before = server.digest();
        if let Some(preamble) = rewrite {
            server.rewrite_aof(preamble);
        }
        server.kill9();
        server.start_again();
        assert_eq!(server.digest(), before, "{file}");
        they_are_remembered(&server, file);
    }
    let mut server = Server::start();
    adjusted(&mut server.client(), "");
    server.expect("SAVE", OK);
    server.kill9();
    server.start_again();
    they_are_remembered(&server, "RDB");
}

#[test]
fn it_is_remembered_wherever_the_sale_goes_and_on_replicas() {
    let primary = Server::start();
    let listener = Server::builder().replica_of(&primary).start();
    listener.wait_in_sync(&primary);
    adjusted(&mut primary.client(), "STREAM events");
    let late = Server::builder().replica_of(&primary).start();
    let other = Server::start();
    let dump = primary.cmd("DUMP sale").bytes();
    other.expect([&b"RESTORE"[..], b"sale", b"0", &dump], OK);
    they_are_remembered(&other, "RESTORE");
    for replica in [&listener, &late] {
        replica.wait_in_sync(&primary);
        assert_eq!(replica.digest(), primary.digest());
        replica.promote();
        they_are_remembered(replica, "promoted");
    }
    primary.expect("RENAME sale other", OK);
    primary.expect("RENAME other sale", OK);
    they_are_remembered(&primary, "RENAME");
}

/// Lockstock 0.1 reads what has not used the new, to the byte.
#[test]
fn a_sale_without_such_ids_has_the_bytes_it_had() {
    let server = Server::start();
    let mut client = server.client();
    let dumps = ["one", "two"].map(|sale| {
        client.expect(format!("STOCK.CREATE {sale} 5"), OK);
        client.expect(format!("STOCK.ADJUST {sale} 3"), 8);
        client.expect(format!("STOCK.DECR_ONCE {sale} a"), ("OK", 1, 7, -1, ""));
        if sale == "two" {
            client.expect("STOCK.ADJUST two -9 ID refused", err("ERR"));
        }
        client.cmd(["DUMP", sale]).bytes()
    });
    assert_eq!(dumps[0], dumps[1]);
    client.expect("STOCK.ADJUST two 0 ID a", 7);
    assert_ne!(client.cmd("DUMP two").bytes(), dumps[1]);
}
