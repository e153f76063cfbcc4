//! Effects say what has happened, and are taken only from a source that knows: the primary, a file, a slot that moves here.

use std::fs::File;
use std::io::Write;

use harness::shop::events;
use harness::{ANY, INT, OK, Reply, Server, Words, err, eventually, unix_ms};

use crate::support::line::Line;

const LATER: &str = "4102444800000";
const HOUR: i64 = 3_600_000;
const REFUSED: &str = "NOPERM effects are accepted from the primary, from files and from slots that move here only";

/// Has an append-only file of `server`, which is stopped, end with `commands`.
#[track_caller]
fn write_into_the_file(server: &Server, commands: &[Words]) {
    let path = server.dir().join("appendonlydir/appendonly.aof.1.incr.aof");
    let mut file = File::options().append(true).open(path).expect("the file");
    let bytes: Vec<u8> = commands.iter().flat_map(Words::wire).collect();
    file.write_all(&bytes).expect("written");
}

/// A server that has loaded `commands` from its append-only file.
#[track_caller]
fn that_has_loaded(commands: &[Words]) -> Server {
    let mut server = Server::builder().aof("always").start();
    server.expect("SET first x", OK);
    server.shutdown();
    write_into_the_file(&server, commands);
    server.start_again();
    server
}

/// The payload of a lock with this fence.
#[track_caller]
fn payload(fence: i64) -> Vec<u8> {
    let effect = format!("LOCK.APPLY lock HELD t {fence} {LATER}").into();
    that_has_loaded(&["SELECT 0".into(), effect]).cmd("DUMP lock").bytes()
}

#[test]
fn are_taken_from_nobody_who_asks() {
    let server = Server::builder().config(&harness::listener::line()).start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 5", OK);
    let before = server.keys();
    for effect in [
        &format!("LOCK.APPLY lock HELD t 5 {LATER}"),
        "LOCK.APPLY lock ENDED t",
        "LOCK.APPLY lock NONSENSE x",
        "LOCK.APPLY sale ENDED t",
        "STOCK.APPLY sale TAKEN a 5",
        "STOCK.APPLY sale NONSENSE x",
        "STOCK.APPLY none TAKEN a 5",
        // Whatever the arguments are.
        "LOCK.APPLY lock",
        "STOCK.APPLY sale TAKEN",
    ] {
        client.expect(effect, err(REFUSED));
        let replies = client.pipeline(["MULTI", effect, "EXEC"]);
        replies[2].at(0).clone().is(err(REFUSED));
        let script = format!("return redis.pcall('{}')", effect.replace(' ', "','"));
        client.expect(["EVAL", &script, "0"], err(REFUSED));
        client.expect(format!("LISTENER.CALL {effect}"), err(REFUSED));
        let library = format!("#!lua name=l\nredis.register_function('f', function() {script} end)");
        client.expect(["FUNCTION", "LOAD", "REPLACE", &library], "l");
        client.expect("FCALL f 0", err(REFUSED));
        client.expect("LISTENER.FORGET", OK);
        client.expect(format!("LISTENER.LATER {effect}"), OK);
        eventually("the timer has run it", || {
            client.expect(["LISTENER.SEEN", ""], ANY).items().iter().any(|told| told.text().contains("NOPERM effects"))
        });
    }
    server.keys().are(&before);
    server.take_effects();
    client.expect(format!("LOCK.APPLY lock HELD t 5 {LATER}"), OK);
    client.expect(["EVAL", "return redis.call('STOCK.APPLY','sale','TAKEN','a','5')", "0"], OK);
}

#[test]
fn are_taken_from_files_of_every_form_and_from_the_primary() {
    let far = (unix_ms() + 7_200_000) * 1_000;
    let commands = [
        "SELECT 0".to_owned(),
        format!("LOCK.APPLY plain HELD t {far} {LATER}"),
        "MULTI".into(),
        format!("LOCK.APPLY multi HELD t {} {LATER}", far + 1),
        "STOCK.CREATE sale 5".into(),
        "STOCK.APPLY sale TAKEN a 2".into(),
        "EXEC".into(),
    ];
    let mut server = that_has_loaded(&commands.map(Words::from));
    let replica = Server::builder().replica_of(&server).start();
    replica.wait_in_sync(&server);
    let there = server.keys();
    assert_eq!(there.0.len(), 4);
    replica.keys().are(&there);
    // Over the link, alone and in a transaction.
    server.take_effects();
    let mut client = server.client();
    client.expect(format!("LOCK.APPLY linked HELD t 5 {LATER}"), OK);
    client.pipeline(["MULTI", "LOCK.ACQUIRE one TOKEN t EX 3600", "STOCK.DECR_ONCE sale b", "EXEC"])[3].clone().is(ANY);
    replica.wait_in_sync(&server);
    replica.keys().are(&server.keys());
    for preamble in [true, false] {
        server.rewrite_aof(preamble);
        let before = server.keys();
        client.expect("DEBUG LOADAOF", OK);
        server.keys().are(&before);
    }
    client.expect("DEBUG RELOAD", OK);
    let before = server.keys();
    server.restart();
    server.keys().are(&before);
}

#[test]
fn are_taken_in_import_mode_from_who_brings_the_data() {
    let server = Server::start();
    if !server.is_valkey() || server.version() < [8, 1, 0] {
        assert!(server.cmd("CONFIG GET import-mode").items().is_empty(), "only Valkey has it");
        return;
    }
    let (mut source, mut other) = (server.client(), server.client());
    let effect = format!("LOCK.APPLY lock HELD t 5 {LATER}");
    source.expect("CONFIG SET import-mode yes", OK);
    source.expect(&effect, err(REFUSED));
    source.expect("CLIENT IMPORT-SOURCE ON", OK);
    source.expect(&effect, OK);
    other.expect(&effect, err(REFUSED));
    source.expect("CONFIG SET import-mode no", OK);
    source.expect(&effect, err(REFUSED));
}

#[test]
fn a_payload_with_a_fence_out_of_reach_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    let mut ask = |fence: i64| client.cmd([&b"RESTORE"[..], b"lock", b"0", &payload(fence), b"REPLACE"]);
    for fence in [(1 << 53) - 1, (unix_ms() + HOUR + 60_000) * 1_000] {
        ask(fence).is(err("ERR Bad data format"));
        assert_eq!(server.cmd("EXISTS lock"), Reply::Int(0));
    }
    let line = "a lockstk-l is refused: its fence is more than an hour ahead of the server's clock";
    assert_eq!(server.log().matches(line).count(), 2);
    // The clock has gone on when it comes.
    ask((unix_ms() + HOUR) * 1_000).is(OK);
    client.expect("DEL lock", 1);
    let fence = client.expect("LOCK.ACQUIRE lock TOKEN t", ("t", INT, 30_000)).at(1).int();
    assert!(fence < (unix_ms() + HOUR) * 1_000 + 10, "{fence}");

    // A client that may send effects may not bring one either.
    server.take_effects();
    let far = (unix_ms() + HOUR + 60_000) * 1_000;
    let ahead = "ERR the fence is more than an hour ahead of the server's clock";
    client.expect(format!("LOCK.APPLY other ENDED x HELD t {far} {LATER}"), err(ahead));
    let mut load = vec![1, 0, 1, 1, b't'];
    for mut number in [far.cast_unsigned(), LATER.parse().expect("a time")] {
        while number > 127 {
            load.push(u8::try_from(number & 127 | 128).expect("a byte"));
            number >>= 7;
        }
        load.push(u8::try_from(number).expect("a byte"));
    }
    client.expect([&b"LOCK.APPLY"[..], b"other", b"LOAD", &load], err(ahead));
    client.expect("EXISTS other", 0);
}

#[test]
fn a_fence_out_of_reach_is_taken_from_files_and_from_the_primary_and_migrate_is_a_payload() {
    let far = (unix_ms() + 7_200_000) * 1_000;
    let mut primary = that_has_loaded(&["SELECT 0".into(), format!("LOCK.APPLY lock HELD t {far} {LATER}").into()]);
    let replica = Server::builder().replica_of(&primary).start();
    replica.wait_in_sync(&primary);
    let fence = |server: &Server| server.cmd("LOCK.INFO lock").field("holders").at(0).field("fence").int();
    assert_eq!([fence(&primary), fence(&replica)], [far, far]);
    primary.expect("DEBUG RELOAD", OK);
    primary.restart();
    assert_eq!(fence(&primary), far);

    let other = Server::start();
    let target = format!("MIGRATE 127.0.0.1 {} lock 0 5000", other.port());
    primary.expect(target, err("ERR Target instance replied with error: ERR Bad data format"));
    assert_eq!((fence(&primary), other.cmd("DBSIZE")), (far, Reply::Int(0)));
}

#[test]
fn who_may_restore_may_make_a_sale_that_writes_to_a_stream() {
    let (from, to) = (Server::start(), Server::start());
    from.expect("STOCK.CREATE sale 5 STREAM theirs", OK);
    let replies = from.client().pipeline(["MULTI", "STOCK.DECR_ONCE sale a HOLD 100", "DUMP sale", "EXEC"]);
    let sale = replies[3].at(1).bytes();
    to.expect("ACL SETUSER tenant on nopass ~mine* +restore", OK);
    let mut tenant = to.client();
    tenant.expect("AUTH tenant x", OK);
    tenant.expect("XLEN theirs", err("NOPERM"));
    tenant.expect([&b"RESTORE"[..], b"mine", b"0", &sale], OK);
    let mut eye = to.client();
    eventually("the hold lapses", || eye.cmd("XLEN theirs") == Reply::Int(1));
    assert_eq!(events(&mut eye, "theirs")[0].event, "expire");
}

#[test]
fn who_waits_where_effects_are_taken_is_served_when_they_make_room() {
    let server = Server::start();
    server.take_effects();
    let (mut tool, mut line) = (server.client(), Line::at(&server));
    for key in ["ended", "shared", "one"] {
        tool.expect(["LOCK.ACQUIRE", key, "TOKEN", "holder", "EX", "3600"], ANY);
    }
    let mut first = line.join("LOCK.ACQUIRE ended TOKEN next WAIT 0");
    let mut reader = line.join("LOCK.ACQUIRE shared TOKEN next SHARED WAIT 0");
    let mut both = line.join("LOCK.MACQUIRE 2 one other TOKEN next WAIT 0");
    tool.expect("LOCK.APPLY ended ENDED holder", OK);
    first.read().is(("next", INT, 30_000));
    tool.expect(format!("LOCK.APPLY shared HELD holder 5 {LATER} SHARED"), OK);
    reader.read().is(("next", INT, 30_000));
    // A lock that a token holds alone is no obstacle to the token, whatever its source.
    tool.expect(format!("LOCK.APPLY one HELD next 6 {LATER}"), OK);
    both.read().is(("next", INT, 30_000));
}

#[test]
fn a_replica_that_takes_writes_refuses_it_too() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).config("replica-read-only no").start();
    replica.wait_in_sync(&primary);
    let mut client = replica.client();
    client.expect([&b"RESTORE"[..], b"lock", b"0", &payload((1 << 53) - 1)], err("ERR Bad data format"));
    replica.promote();
    client.expect("LOCK.ACQUIRE lock TOKEN t", ("t", INT, 30_000));
}
