//! Holds survive whatever the data goes through: every file, every copy, every restart.
//!
//! `Server::keys` compares values to the byte: tokens, fences, modes, limits, and deadlines as absolute times.

use std::collections::BTreeSet;

use harness::{ANY, Aof, Base, Client, NULL, OK, Server, eventually, unix_ms};

use crate::support::load::fill;
use crate::support::scene::{Scene, holds};

/// Holds of `server`, then what `road` makes of it, then the same holds.
#[track_caller]
fn survive(mut server: Server, road: impl FnOnce(&mut Server)) -> Server {
    let scene = Scene::set(&server);
    let (before, digest) = (server.keys(), server.digest());
    assert_eq!(before.0.len(), 26, "{:?}", before.0.keys());
    road(&mut server);
    server.keys().are(&before);
    assert_eq!(server.digest(), digest);
    drop(scene);
    server
}

fn power_cut(server: &mut Server) {
    server.kill9();
    server.start_again();
}

#[test]
fn a_power_cut_with_an_append_only_file() {
    survive(Server::builder().aof("always").start(), power_cut);
}

#[test]
fn an_rdb_file_saved_in_the_foreground() {
    survive(Server::start(), |server| {
        server.expect("SAVE", OK);
        power_cut(server);
    });
}

#[test]
fn an_rdb_file_saved_in_the_background() {
    survive(Server::start(), |server| {
        server.save_in_background();
        power_cut(server);
    });
}

#[test]
fn an_orderly_restart() {
    survive(Server::start(), Server::restart);
}

#[test]
fn an_append_only_file_rewritten_as_rdb() {
    let server = survive(Server::builder().aof("always").start(), |server| {
        server.rewrite_aof(true);
        power_cut(server);
    });
    let aof = Aof::of(&server);
    assert!(matches!(aof.base, Base::Rdb(_)));
    assert!(aof.commands.iter().all(|command| command.name() != "LOCK.ACQUIRE"), "{aof:?}");
}

#[test]
fn an_append_only_file_rewritten_as_commands() {
    let server = survive(Server::builder().aof("always").start(), |server| {
        server.rewrite_aof(false);
        power_cut(server);
    });
    let Base::Commands(commands) = Aof::of(&server).base else { panic!("not rewritten as commands") };
    let count = |name| commands.iter().filter(|command| command.name() == name).count();
    assert_eq!(count("LOCK.APPLY"), 19, "one for each lock: {commands:?}");
    assert!(count("STOCK.APPLY") >= 8, "two or more for each sale: {commands:?}");
    assert!(commands.iter().all(|words| !["LOCK.ACQUIRE", "STOCK.DECR_ONCE"].contains(&words.name().as_str())));
}

#[test]
fn a_rewrite_while_holds_come_and_go() {
    let mut server = Server::builder().aof("always").start();
    let mut client = server.client();
    for preamble in ["yes", "no"] {
        client.expect(format!("CONFIG SET aof-use-rdb-preamble {preamble}"), OK);
        client.expect("BGREWRITEAOF", ANY);
        // Some of these fall before, some into and some behind the rewrite; all belong to what comes back.
        let mut rounds = 0;
        eventually("the rewrite is done", || {
            rounds += 1;
            for lock in 0..10 {
                client.expect(format!("LOCK.ACQUIRE l{lock} TOKEN t{rounds} EX 3600"), ANY);
                if lock % 3 > 0 {
                    client.expect(format!("LOCK.RELEASE l{lock} t{rounds}"), 0..=1);
                }
            }
            server.info_int("persistence", "aof_rewrite_in_progress") == 0
        });
        server.wait_for_rewrite();
        let before = server.keys();
        assert_eq!(before.0.len(), 4);
        power_cut(&mut server);
        server.keys().are(&before);
        client = server.client();
    }
}

#[test]
fn debug_reload_and_loadaof() {
    survive(Server::builder().aof("always").start(), |server| {
        server.expect("DEBUG RELOAD", OK);
        server.expect("DEBUG LOADAOF", OK);
        // Over the values that are there.
        server.expect("DEBUG RELOAD MERGE NOFLUSH", OK);
    });
}

#[test]
fn a_lease_that_ended_while_the_server_was_down_is_over_right_after_the_load() {
    for aof in [true, false] {
        let builder = Server::builder();
        let mut server = if aof { builder.aof("always").start() } else { builder.start() };
        server.expect("LOCK.ACQUIRE short TOKEN t PX 1500", ANY);
        server.expect("LOCK.ACQUIRE crowd TOKEN short PX 1500 SHARED", ANY);
        server.expect("LOCK.ACQUIRE crowd TOKEN long EX 3600 SHARED", ANY);
        let over = unix_ms() + 1_500;
        if !aof {
            server.expect("SAVE", OK);
        }
        server.kill9();
        eventually("the lease is over", || unix_ms() > over);
        server.start_again();
        // No command ever looks at the locks.
        eventually("the lapsed holds are gone", || {
            server.info_int("lockstock", "lockstock_lock_lapses") == 2 && server.cmd("DBSIZE").int() == 1
        });
        assert!(holds(&server, "crowd").keys().eq(["long"]));
        if aof {
            // Together, if both were found in one turn of the timer.
            let ends = Aof::of(&server).commands.split_off(3);
            let ends = ends.iter().filter(|command| command.name() == "LOCK.APPLY");
            let ends: BTreeSet<String> = ends.map(|command| format!("{command:?}")).collect();
            assert!(
                ends.iter().eq(["LOCK.APPLY crowd ENDED short LAPSED", "LOCK.APPLY short ENDED t LAPSED"]),
                "{ends:?}"
            );
        }
    }
}

#[test]
fn a_reservation_that_ended_while_the_server_was_down_is_back_on_sale_right_after_the_load() {
    for aof in [true, false] {
        let builder = Server::builder();
        let mut server = if aof { builder.aof("always").start() } else { builder.start() };
        server.expect("STOCK.CREATE sale 10 STREAM events", OK);
        server.expect("STOCK.DECR_ONCE sale short QTY 3 HOLD 1500 BUYER ann", ANY);
        server.expect("STOCK.DECR_ONCE sale long QTY 2 HOLD 3600000", ANY);
        let over = unix_ms() + 1_500;
        if !aof {
            server.expect("SAVE", OK);
        }
        server.kill9();
        eventually("the deadline is over", || unix_ms() > over);
        server.start_again();
        // Nobody asks the sale.
        eventually("its stream tells of the end", || server.cmd("XLEN events").int() == 3);
        let event = server.cmd("XREVRANGE events + - COUNT 1").at(0).at(1).fields();
        assert_eq!(
            ["seq", "event", "id", "units", "buyer"].map(|field| event[field].text()),
            ["3", "expire", "short", "3", "ann"]
        );
        let info = server.cmd("STOCK.INFO sale");
        assert_eq!(["remaining", "held", "sold"].map(|field| info.field(field).int()), [8, 2, 0]);
        server.expect("STOCK.CONFIRM sale long", ("OK", 2, 8, -1, ""));
    }
}

#[test]
fn a_session_hold_that_was_loaded_stays_until_its_lease_whoever_disconnects() {
    let mut server = Server::builder().aof("always").start();
    let mut holder = server.client();
    let id = holder.id();
    holder.expect("LOCK.ACQUIRE lock TOKEN t EX 3600 SESSION", ANY);
    power_cut(&mut server);
    // Connections are numbered from the start again: another client gets the number of the dead holder, and leaves.
    let mut namesake: Client = server.client();
    while namesake.id() < id {
        namesake = server.client();
    }
    let last = namesake.id();
    drop(namesake);
    eventually("the namesake is gone", || server.cmd(format!("CLIENT LIST ID {last}")).bytes().is_empty());
    server.expect("LOCK.ACQUIRE lock TOKEN other", NULL);
    let info = server.cmd("LOCK.INFO lock");
    assert_eq!(info.field("holders").at(0).field("session").text(), "no");

    // Bound again by the next connection that renews with SESSION, and then it does end with it.
    let mut renewer = server.client();
    renewer.expect("LOCK.ACQUIRE lock TOKEN t EX 3600 SESSION", ANY);
    renewer.close();
    eventually("the hold ends with its new connection", || holds(&server, "lock").is_empty());
}

#[test]
fn a_file_leaves_nothing_behind_but_its_keys() {
    const LOCKS: usize = 100_000;
    let mut server = Server::start();
    let used = |server: &Server| {
        eventually("the locks have been met", || {
            server.info_int("lockstock", "lockstock_locks_held") == i64::try_from(LOCKS).expect("a hundred thousand")
        });
        eventually("nobody else is there", || server.info_int("clients", "connected_clients") == 1);
        server.info_int("memory", "used_memory")
    };
    fill(&mut server.client(), LOCKS, |n| format!("LOCK.ACQUIRE lock-{n} TOKEN t EX 3600"));
    let before = used(&server);
    server.expect("SAVE", OK);
    power_cut(&mut server);
    let after = used(&server);
    assert!(after < before + 1_000_000, "{before} bytes before and {after} after");
}
