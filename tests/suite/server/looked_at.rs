//! The commands with which an administrator looks at a server and at single keys, while locks have waiters and sales are on.

use harness::{ANY, Client, INT, NULL, OK, Reply, Server, TEXT, err};

use crate::support::line::Line;

/// The command of a line that MONITOR shows: without the time and the connection.
fn shown(line: &Reply) -> String {
    let Reply::Simple(text) = line else { panic!("no line of MONITOR: {line:?}") };
    let (_, command) = text.split_once("] ").expect("a time and a connection");
    command.replace('"', "")
}

#[test]
fn a_monitor_sees_each_request_once_whatever_becomes_of_it() {
    let server = Server::start();
    let (mut monitor, mut client, mut first, mut second) =
        (server.client(), server.client(), server.client(), server.client());
    client.expect("STOCK.CREATE sale 1 STREAM events", OK);
    monitor.expect("MONITOR", OK);
    let mut does = |client: &mut Client, words: &str| {
        client.send(words);
        let seen = shown(&monitor.read());
        assert_eq!(seen, words);
    };
    does(&mut client, "LOCK.ACQUIRE lock TOKEN holder PX 600000");
    client.read().is(("holder", INT, 600_000));
    // That it was seen says that it has run: it waits.
    does(&mut first, "LOCK.ACQUIRE lock TOKEN first WAIT 0");
    does(&mut second, "LOCK.MACQUIRE 2 other lock TOKEN second WAIT 0");
    does(&mut client, "LOCK.RELEASE lock holder");
    client.read().is(1);
    // Nothing of the grants is shown between these.
    first.read().is(("first", INT, 30_000));
    does(&mut first, "LOCK.RELEASE lock first");
    first.read().is(1);
    second.read().is(("second", INT, 30_000));
    does(&mut client, "LOCK.INFO none");
    client.read().is(NULL);
    does(&mut client, "STOCK.INFO none");
    client.read().is(NULL);
    // The event of an order is a command of its own, which the server shows first.
    client.send("STOCK.DECR_ONCE sale ann");
    assert_eq!(shown(&monitor.read()), "XADD events * seq 1 event ok id ann units 1 buyer ann ref ");
    assert_eq!(shown(&monitor.read()), "STOCK.DECR_ONCE sale ann");
    client.read().is(("OK", 1, 0, -1, ""));
}

#[test]
fn waiters_may_ask_not_to_touch_keys() {
    let server = Server::start();
    let mut line = Line::at(&server);
    let knows_no_touch = server.is_valkey() || server.version() >= [7, 2, 0];
    let quiet = |client: &mut Client| {
        let touch = client.cmd("CLIENT NO-TOUCH ON");
        assert_eq!(touch.is_error(), !knows_no_touch, "{touch:?}");
        client.expect("CLIENT NO-EVICT ON", OK);
    };
    let mut holder = server.client();
    quiet(&mut holder);
    holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 600000", ("holder", INT, 600_000));
    let mut waiters = [(); 3].map(|()| server.client());
    for (number, waiter) in waiters.iter_mut().enumerate() {
        quiet(waiter);
        line.enter(waiter, format!("LOCK.ACQUIRE lock TOKEN w{number} WAIT 0"));
    }
    assert_eq!(Line::at(&server).waiters("lock"), ["w0", "w1", "w2"]);
    holder.expect("LOCK.RELEASE lock holder", 1);
    for (number, waiter) in waiters.iter_mut().enumerate() {
        waiter.read().is((format!("w{number}"), INT, 30_000));
        waiter.expect(format!("LOCK.RELEASE lock w{number}"), 1);
    }
}

#[test]
fn looking_at_a_key_from_all_sides_changes_nothing() {
    let server = Server::start();
    let (mut line, mut client) = (Line::at(&server), server.client());
    client.expect("LOCK.ACQUIRE lock TOKEN holder PX 600000", ("holder", INT, 600_000));
    let mut first = line.join("LOCK.ACQUIRE lock TOKEN first WAIT 0");
    let mut second = line.join("LOCK.MACQUIRE 2 lock other TOKEN second WAIT 0");
    client.expect("STOCK.CREATE sale 2 STREAM events", OK);
    client.expect("STOCK.DECR_ONCE sale ann", ("OK", 1, 1, -1, ""));
    client.expect("STOCK.DECR_ONCE sale ben HOLD 600000", ("OK", 1, 0, INT, ""));
    client.expect("STOCK.DECR_ONCE sale cid WAITLIST", ("QUEUED", 0, 0, -1, ""));
    let whole = server.digest();
    for key in ["lock", "sale"] {
        let digest = client.cmd(["DEBUG", "DIGEST-VALUE", key]);
        for (look, want) in [
            ("OBJECT ENCODING", "raw".into()),
            ("OBJECT REFCOUNT", 1.into()),
            ("OBJECT IDLETIME", (0..=60).into()),
            ("OBJECT FREQ", err("ERR An LFU maxmemory policy is not selected")),
            ("MEMORY USAGE", (48..=4096).into()),
            ("DUMP", TEXT),
            ("DEBUG OBJECT", ANY),
            ("DEBUG SDSLEN", err("ERR Not an sds encoded string")),
            ("DEBUG LISTPACK", err("ERR Not a listpack encoded object")),
            ("DEBUG HTSTATS-KEY", err("ERR The value stored at the specified key is not represented using an hash")),
            ("DEBUG JMAP", err("ERR unknown subcommand")),
            ("SORT", err("WRONGTYPE")),
            ("TOUCH", 1.into()),
        ] {
            client.expect(format!("{look} {key}"), want);
        }
        client.expect(format!("MEMORY USAGE {key} SAMPLES 0"), 48..=4096);
        client.expect(["DEBUG", "DIGEST-VALUE", key], digest.clone());
    }
    for (look, want) in [
        ("MEMORY DOCTOR", TEXT),
        ("MEMORY STATS", ANY),
        ("MEMORY PURGE", OK),
        ("DEBUG HTSTATS 0", ANY),
        ("DEBUG STRUCTSIZE", ANY),
        ("DEBUG CHANGE-REPL-ID", OK),
    ] {
        client.expect(look, want);
    }
    // Under an LFU policy the server counts how often a key is used, and no longer when.
    client.expect("CONFIG SET maxmemory-policy volatile-lfu", OK);
    for key in ["lock", "sale"] {
        client.expect(["OBJECT", "FREQ", key], 0..=255);
        client.expect(["OBJECT", "IDLETIME", key], err("ERR An LFU maxmemory policy is selected"));
    }
    assert_eq!(server.digest(), whole);
    assert_eq!(
        (line.holders("lock"), line.waiters("lock")),
        (vec!["holder".into()], vec!["first".into(), "second".into()])
    );
    client.expect("LOCK.RELEASE lock holder", 1);
    first.read().is(("first", INT, 30_000));
    first.expect("LOCK.RELEASE lock first", 1);
    second.read().is(("second", INT, 30_000));
    client.expect("STOCK.CANCEL sale ben", ("OK", 0, 0, -1, ""));
    client.expect("STOCK.DECR_ONCE sale cid", ("DUPLICATE", 1, 0, -1, ""));
}
