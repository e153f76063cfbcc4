//! RDB files in the wrong hands, and damaged ones.

use std::fs;

use harness::{ANY, Feeder, INT, OK, Payload, Server, Words, eventually};

/// Uses everything once on a server with the module, and leaves `key` behind if there is one.
#[track_caller]
fn file_after_use(key: Option<&str>) -> Server {
    let mut server = Server::start();
    let mut client = server.client();
    for line in [
        "LOCK.ACQUIRE lock TOKEN t",
        "LOCK.ACQUIRE readers TOKEN r SHARED",
        "LOCK.ACQUIRE short TOKEN t PX 1",
        "STOCK.CREATE sale 10",
        "STOCK.DECR_ONCE sale ann",
        "SET plain x",
    ] {
        client.expect(line, ANY);
    }
    for (name, end) in [("lock", "LOCK.RELEASE lock t"), ("readers", "LOCK.RELEASE readers r"), ("sale", "DEL sale")] {
        if key != Some(name) {
            client.expect(end, 1);
        }
    }
    let left = 1 + i64::from(key.is_some());
    eventually("the short lease is over", || client.cmd("DBSIZE").int() == left);
    server.shutdown();
    server
}

#[test]
fn a_file_without_locks_and_sales_needs_no_module() {
    let used = file_after_use(None);
    let plain = Server::plain().config(&format!("dir {}", used.dir().display())).start();
    plain.expect("GET plain", "x");
    plain.expect("DBSIZE", 1);
}

#[test]
fn a_file_with_one_is_refused_where_the_module_is_missing_and_the_log_says_why() {
    for (key, kind) in [("lock", "lockstk-l"), ("sale", "lockstk-s")] {
        let used = file_after_use(Some(key));
        let log = Server::plain().config(&format!("dir {}", used.dir().display())).start_refused();
        let why = log.lines().find(|line| line.contains("module data") && line.contains("no matching module"));
        // With a lock in it, the fences come first in the file.
        assert!(why.is_some_and(|why| why.contains(kind) || why.contains("lockstk-l")), "{log}");
    }
}

/// A value in a file: its key, where it begins behind that, and its parts.
type Specimen = (&'static str, usize, Payload);

/// A stopped server, its file, and a value of every kind in there.
#[track_caller]
fn specimens() -> (Server, Vec<u8>, Vec<Specimen>) {
    let mut server = Server::builder().config("rdbcompression no").config("rdbchecksum no").start();
    let mut client = server.client();
    for line in [
        "LOCK.ACQUIRE exclusive TOKEN alice EX 3600",
        "LOCK.ACQUIRE shared TOKEN r1 EX 3600 SHARED",
        "LOCK.ACQUIRE shared TOKEN r2 EX 3600 SHARED",
        "LOCK.ACQUIRE permits TOKEN p1 EX 3600 LIMIT 300",
        "STOCK.CREATE sale 100 LIMIT 9 END 9000000000000",
        "STOCK.DECR_ONCE sale sold QTY 2 BUYER b REF r",
        "STOCK.DECR_ONCE sale held HOLD 3600000",
    ] {
        client.expect(line, ANY);
    }
    let dumps = ["exclusive", "shared", "permits", "sale"].map(|key| (key, client.cmd(["DUMP", key]).bytes()));
    server.shutdown();
    let file = fs::read(server.dir().join("dump.rdb")).expect("the file");
    let places = dumps.map(|(key, dump)| {
        let value = &dump[1..dump.len() - 10];
        let at = file.windows(value.len()).position(|window| window == value).expect("the value is in the file");
        (key, at, Payload::of(&dump))
    });
    (server, file, places.into())
}

/// Damages in the string of a value that no reader may take for another value: its version, and everything behind that.
fn damages(file: &[u8], at: usize) -> Vec<Vec<u8>> {
    // The type's id takes nine bytes, the code and length of the first string two.
    let string = at + 11;
    let changed = |position: usize, byte: u8| {
        let mut bytes = file.to_vec();
        bytes[position] = byte;
        bytes
    };
    vec![
        changed(string, 9),
        changed(string + 1, 0xff),
        changed(string + 2, 0xff),
        file[..at + 4].to_vec(),
        file[..string].to_vec(),
        file[..string + 5].to_vec(),
    ]
}

#[test]
fn a_damaged_file_stops_the_start_with_a_clear_line_and_no_crash() {
    let (mut server, file, specimens) = specimens();
    for (key, at, _) in specimens {
        for damaged in damages(&file, at) {
            fs::write(server.dir().join("dump.rdb"), &damaged).unwrap();
            let log = Server::builder().config(&format!("dir {}", server.dir().display())).start_refused();
            let cut = damaged.len() < file.len();
            // The server itself refuses a file that is cut off before the module reads it.
            let who = if cut { "RDB ERROR DETECTED" } else { "lockstock: a lockstk-" };
            assert!(log.contains(who), "{key}: {log}");
        }
    }
    fs::write(server.dir().join("dump.rdb"), &file).unwrap();
    server.start_again();
    server.expect("DBSIZE", 4);
}

#[test]
fn a_replica_survives_a_link_that_breaks_anywhere_in_a_value() {
    let (mut server, file, specimens) = specimens();
    // Straight from the socket into the module. (A file that it cannot read ends a replica as it ends a start.)
    let replica = Server::builder().config("repl-diskless-load on-empty-db").start();
    for (_, at, value) in specimens {
        let string = at + 11;
        for sent in [at + 4, string, string + 1, string + value.strings[0].len()] {
            let feeder = Feeder::start(file.clone(), sent);
            replica.expect(format!("REPLICAOF 127.0.0.1 {}", feeder.port()), OK);
            eventually("the link is broken", || feeder.fed() > 0);
            replica.expect("REPLICAOF NO ONE", OK);
            // Server and module drop the part of the file that they had read.
            eventually("half a file is forgotten", || {
                replica.cmd("DBSIZE").int() == 0 && replica.info_int("lockstock", "lockstock_locks_held") == 0
            });
        }
    }
    assert!(replica.log().contains("lockstock: a lockstk-"), "{}", replica.log());
    server.start_again();
    replica.follow(&server);
    replica.wait_in_sync(&server);
    replica.keys().are(&server.keys());
    replica.promote();
    replica.expect("LOCK.ACQUIRE free TOKEN t", ("t", INT, 30_000));
}

/// The timer, which tidies up, does not run while a file is loaded.
#[test]
fn what_a_file_makes_and_ends_again_leaves_nothing_in_memory() {
    const MANY: usize = 100_000;
    let held = |number: usize| format!("LOCK.APPLY lock-{number} HELD t {} 4102444800000", 1_000 + number);
    for (what, end) in
        [("released", "LOCK.APPLY lock-# ENDED t"), ("deleted", "DEL lock-#"), ("overwritten", "SET lock-# x PX 1")]
    {
        let mut server = Server::builder().aof("always").start();
        server.expect("SET first x", OK);
        let before = server.info_int("memory", "used_memory");
        server.shutdown();
        let path = server.dir().join("appendonlydir/appendonly.aof.1.incr.aof");
        let both = |number: usize| [held(number), end.replace('#', &number.to_string()), format!("DEL lock-{number}")];
        let lines: Vec<u8> = (0..MANY).flat_map(both).flat_map(|line| Words::from(line).wire()).collect();
        let mut file = fs::File::options().append(true).open(path).expect("the file");
        std::io::Write::write_all(&mut file, &lines).expect("written");
        server.start_again();
        server.expect("DBSIZE", 1);
        let more = server.info_int("memory", "used_memory_peak") - before;
        println!("{MANY} {what}: {more} bytes at most");
        assert!(more < 1_000_000, "{what}: {more} bytes");
    }
}
