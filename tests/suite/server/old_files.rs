//! What versions 0.1 and 0.2 left behind loads, and says what it said there.
//!
//! `of_0_1/` was made by lockstock 0.1.0 and `of_0_2/` by 0.2.0, both on Redis 7.0.15 with the `commands` in there, and three hundred orders
//! of the sale `many`: an RDB file (`snapshot`), an append-only file as commands (`base`, rewritten half way, and `increments`), each lock
//! and sale as `DUMP` gave it (`dumps`), and what the version answered about them (`answers`). What depends on the moment is left out of the
//! answers: how much is left of leases, sessions, and the counters of a server's own life.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use harness::{INT, OK, Reply, Server};

/// An older version, by the folder of what it left behind.
#[derive(Clone, Copy, PartialEq)]
enum Old {
    V0_1,
    V0_2,
}

impl Old {
    const ALL: [Self; 2] = [Self::V0_1, Self::V0_2];

    fn file(self, name: &str) -> Vec<u8> {
        let folder = if self == Self::V0_1 { "of_0_1" } else { "of_0_2" };
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/suite/server").join(folder).join(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn text(self, name: &str) -> String {
        String::from_utf8(self.file(name)).expect("a text")
    }
}

/// A reply as the answers of this version have it.
fn written(old: Old, reply: &Reply) -> String {
    let Reply::Array(items) = reply else {
        let text = if let Reply::Int(number) = reply { number.to_string() } else { reply.text() };
        return if text.is_empty() { "''".into() } else { text };
    };
    let mut line = String::new();
    let mut momentary = false;
    for item in items {
        let item = if momentary { "*".into() } else { written(old, item) };
        // Version 0.1 knew no waitlist. Behind it are the counters of a server's own life.
        if item == if old == Old::V0_1 { "waiting" } else { "ok" } && line.starts_with("total") {
            break;
        }
        momentary = ["lease-ms", "session"].contains(&item.as_str());
        let space = if line.is_empty() { "" } else { " " };
        write!(line, "{space}{item}").expect("a string takes all");
    }
    format!("[{line}]")
}

/// Asks all that the version was asked about keys that `there` are.
#[track_caller]
fn answers_as_of_old(old: Old, server: &Server, there: impl Fn(&str) -> bool) {
    let mut asked = 0;
    for pair in old.text("answers").lines().collect::<Vec<_>>().chunks(2) {
        let (question, answer) = (pair[0], pair[1].trim_start());
        if !question.split(' ').nth(1).is_some_and(&there) {
            continue;
        }
        let reply = server.cmd(question);
        let now = if question.starts_with("XRANGE") {
            format!("{} entries", reply.items().len())
        } else {
            written(old, &reply)
        };
        assert_eq!(now, answer, "{question}");
        asked += 1;
    }
    assert!(asked >= 20, "only {asked} questions");
}

/// The fences go on above those of old, and what was begun there can be ended here.
#[track_caller]
fn goes_on(old: Old, server: &Server) {
    let last = server.cmd("LOCK.INFO permits").field("holders").items()[1].field("fence").int();
    let new = server.cmd("LOCK.ACQUIRE new TOKEN t").at(1).int();
    assert!(new > last, "{new} after {last}");
    server.expect("LOCK.RELEASE alone ann", 1);
    server.expect("LOCK.MRELEASE 6f9619ff-8b86-d011-b42d-00cf4fc964ff 3 a b c", 3);
    server.expect("STOCK.CONFIRM shop order-1", ("OK", 2, 87, -1, "a"));
    server.expect("STOCK.DECR_ONCE plain 18446744073709551615", ("DUPLICATE", 1, 989, -1, ""));
    if old == Old::V0_1 {
        return;
    }
    server.expect("LOCK.MEXTEND ben 2 d e PX 1000", 1);
    server.expect("STOCK.ADJUST adjusted 5 ID delivery:1", 4);
    server.expect("STOCK.CONFIRM refused late", ("EXPIRED", 0, 0, -1, ""));
    let leg = ("DUPLICATE", 2, 2, -1, "cart");
    server.expect("STOCK.MCONFIRM journey-1 2 outward return", ("DUPLICATE", leg, leg));
    // The waitlist is in its order: of three units that come back, two go to the second order and one to the third.
    server.expect("STOCK.CANCEL line first", ("OK", 0, 0, -1, ""));
    server.expect("STOCK.DECR_ONCE line second", ("DUPLICATE", 2, 0, INT, "later"));
    server.expect("STOCK.DECR_ONCE line third", ("DUPLICATE", 1, 0, -1, ""));
}

#[test]
fn an_rdb_file() {
    for old in Old::ALL {
        let mut server = Server::builder().config("dbfilename of-old.rdb").start();
        fs::write(server.dir().join("of-old.rdb"), old.file("snapshot")).expect("the directory is ours");
        server.kill9();
        server.start_again();
        answers_as_of_old(old, &server, |_| true);
        goes_on(old, &server);
    }
}

#[test]
fn an_append_only_file() {
    for old in Old::ALL {
        let mut server = Server::builder().aof("no").start();
        server.kill9();
        let dir = server.dir().join("appendonlydir");
        for file in fs::read_dir(&dir).expect("the files").flatten() {
            fs::remove_file(file.path()).expect("a file of ours");
        }
        let put = |name: &str, bytes: &[u8]| fs::write(dir.join(name), bytes).expect("the directory is ours");
        put("appendonly.aof.1.base.aof", &old.file("base"));
        put("appendonly.aof.1.incr.aof", &old.file("increments"));
        let manifest = "file appendonly.aof.1.base.aof seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n";
        put("appendonly.aof.manifest", manifest.as_bytes());
        server.start_again();
        answers_as_of_old(old, &server, |_| true);
        goes_on(old, &server);
    }
}

#[test]
fn each_value_as_dump_gave_it() {
    for old in Old::ALL {
        let server = Server::start();
        for line in old.text("dumps").lines() {
            let (key, hex) = line.split_once(' ').expect("a key and its value");
            let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("hex"));
            let payload: Vec<u8> = digits.map(|pair| u8::from_str_radix(pair, 16).expect("hex")).collect();
            server.expect([b"RESTORE", key.as_bytes(), b"0", &payload], OK);
        }
        answers_as_of_old(old, &server, |key| !["events", "line-events", "other"].contains(&key));
    }
}
