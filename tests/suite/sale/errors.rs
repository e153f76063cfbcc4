//! What is an error of the caller's is one at once, names what is wrong, and changes nothing.

use harness::shop::{books, orders};
use harness::{ANY, Client, Feeder, INT, NULL, OK, Reply, Server, Words, err, eventually, unix_ms};

#[test]
fn a_stream_key_that_holds_something_else_is_wrong_from_the_start() {
    let server = Server::start();
    let mut client = server.client();
    for (key, made) in [
        ("string", "SET string x"),
        ("list", "RPUSH list x"),
        ("hash", "HSET hash f v"),
        ("lock", "LOCK.ACQUIRE lock TOKEN t"),
        ("other", "STOCK.CREATE other 5"),
    ] {
        client.expect(made, ANY);
        let before = server.keys();
        let call = format!("STOCK.CREATE sale 5 STREAM {key}");
        client.expect(&*call, err("WRONGTYPE Operation against a key holding the wrong kind of value"));
        client.expect(format!("{call} DEADLINES"), err("WRONGTYPE"));
        let replies = client.pipeline(["MULTI", &call, "EXEC"]);
        replies[2].at(0).clone().is(err("WRONGTYPE"));
        client.expect(["EVAL", &format!("return redis.pcall('{}')", call.replace(' ', "','")), "0"], err("WRONGTYPE"));
        server.keys().are(&before);
        client.expect("STOCK.INFO sale", NULL);
        client.expect(["DEL", key], 1);
        client.expect(&*call, OK);
        client.expect("DEL sale", 1);
    }
    // A key that holds something and is the sale's own is BUSYKEY, whatever the stream is.
    client.expect("SET string x", OK);
    client.expect("SET sale x", OK);
    client.expect("STOCK.CREATE sale 5 STREAM string", err("BUSYKEY"));
    client.expect("DEL sale string", 2);
    // A stream is right, and so is nothing, or what has expired.
    client.expect("XADD events * f v", ANY);
    client.expect("STOCK.CREATE sale 5 STREAM events", OK);
    client.expect("SET soon x PX 1", OK);
    let over = unix_ms() + 1;
    eventually("the key has expired", || unix_ms() > over);
    client.expect("STOCK.CREATE another 5 STREAM soon", OK);
    client.expect("STOCK.DECR_ONCE another ann", ("OK", 1, 4, -1, ""));
}

#[test]
fn a_window_that_ends_before_it_starts_is_none() {
    let server = Server::start();
    let mut client = server.client();
    for (window, said) in [
        ("START 500 END 499", "ERR START must be before END, and 500 is not before 499"),
        ("END 500 START 500", "ERR START must be before END, and 500 is not before 500"),
    ] {
        client.expect(format!("STOCK.CREATE sale 5 {window}"), err(said));
        client.expect("EXISTS sale", 0);
    }
    client.expect("STOCK.CREATE sale 5 START 500 END 501", OK);
    client.expect("STOCK.CREATE sale 5 START 500 END 499", err("ERR START must be before END"));
    let before = server.keys();
    // As the sale would be: what is not named stays.
    for (window, said) in [
        ("START 501", "ERR START must be before END, and 501 is not before 501"),
        ("END 500", "ERR START must be before END, and 500 is not before 500"),
        ("END 500 LIMIT 3", "ERR START must be before END, and 500 is not before 500"),
        ("START 900 END 800 REBUY yes", "ERR START must be before END, and 900 is not before 800"),
    ] {
        client.expect(format!("STOCK.ALTER sale {window}"), err(said));
        server.keys().are(&before);
    }
    for window in ["START 900 END 901", "START 0 END 2", "START 1", "END 0", "START 7", "LIMIT 3"] {
        client.expect(format!("STOCK.ALTER sale {window}"), OK);
    }
    let info = client.cmd("STOCK.INFO sale");
    assert_eq!((info.field("start").int(), info.field("end").int(), info.field("limit").int()), (7, 0, 3));
}

/// Version 0.1 let such sales be made. They come from its files and from a primary of that version, which sends the words of
/// `STOCK.CREATE` and the effects of `STOCK.ALTER` as they are.
const OF_OLD: [&str; 4] = [
    "STOCK.CREATE empty 5 START 500 END 400 STREAM text",
    "STOCK.CREATE altered 5",
    "STOCK.APPLY altered ALTERED 0 700 600 no",
    "STOCK.APPLY altered TAKEN ann 1",
];

#[track_caller]
fn they_are_there(client: &mut Client) {
    for (sale, start, end) in [("empty", 500, 400), ("altered", 700, 600)] {
        let info = client.cmd(["STOCK.INFO", sale]);
        assert_eq!((info.field("start").int(), info.field("end").int()), (start, end), "{info:?}");
    }
    assert_eq!(orders(client, "altered").len(), 1);
}

#[test]
fn what_a_file_brings_is_taken_as_it_is() {
    let mut server = Server::builder().aof("always").start();
    server.expect("SET text x", OK);
    server.shutdown();
    let file = server.dir().join("appendonlydir/appendonly.aof.1.incr.aof");
    let wire: Vec<u8> = OF_OLD.iter().flat_map(|line| Words::from(*line).wire()).collect();
    let before = std::fs::read(&file).expect("the file");
    std::fs::write(&file, [before, wire].concat()).expect("a longer file");
    for preamble in [false, true] {
        server.start_again();
        let mut client = server.client();
        they_are_there(&mut client);
        // All but the window can be altered, and the window can be mended.
        client.expect("STOCK.ALTER empty LIMIT 3", OK);
        client.expect("STOCK.ALTER empty END 500", err("ERR START must be before END"));
        server.rewrite_aof(preamble);
        server.shutdown();
    }
    server.start_again();
    let mut client = server.client();
    they_are_there(&mut client);
    client.expect("STOCK.ALTER empty END 501", OK);
    client.expect("STOCK.ALTER altered START 0", OK);
    client.expect("STOCK.DECR_ONCE altered bob", ("ENDED", 0, 4, -1, ""));
}

#[test]
fn what_the_primary_sends_is_taken_as_it_is() {
    let mut empty = Server::start();
    empty.expect("SET text x", OK);
    empty.shutdown();
    let file = std::fs::read(empty.dir().join("dump.rdb")).expect("the file");
    let stream: Vec<Words> = ["SELECT 0"].iter().chain(&OF_OLD).map(|line| Words::from(*line)).collect();
    let feeder = Feeder::with_stream(file, &stream);
    let replica = Server::builder().aof("always").start();
    replica.expect(format!("REPLICAOF 127.0.0.1 {}", feeder.port()), OK);
    let mut client = replica.client();
    eventually("the replica has it all", || !matches!(client.cmd("STOCK.ORDER altered ann"), Reply::Nil(_)));
    they_are_there(&mut client);
    replica.promote();
    client.expect("STOCK.CREATE new 5 START 500 END 400", err("ERR START must be before END"));
    they_are_there(&mut client);
}

#[test]
fn an_id_that_two_buyers_chose_stays_with_the_first() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 10 LIMIT 4", OK);
    client.expect("STOCK.DECR_ONCE sale o1 BUYER ann QTY 2 REF r", ("OK", 2, 8, -1, "r"));
    client.expect("STOCK.DECR_ONCE sale o2 BUYER ann QTY 2 HOLD 60000", ("OK", 2, 6, INT, ""));
    client.expect("STOCK.DECR_ONCE sale eve", ("OK", 1, 5, -1, ""));
    let before = server.keys();
    let said = "ERR the order of this id has another BUYER; two callers have chosen the same id";
    for call in ["o1 BUYER bob", "o1 BUYER o1", "o2 BUYER bob QTY 2 HOLD 60000", "eve BUYER ann", "o1 BUYER ANN"] {
        client.expect(format!("STOCK.DECR_ONCE sale {call}"), err(said));
        server.keys().are(&before);
    }
    // A request by the buyer, or one that names no buyer, is about its own order. That comes before the limit, the window and the stock.
    client.expect("STOCK.DECR_ONCE sale o1 BUYER ann QTY 9", ("DUPLICATE", 2, 5, -1, "r"));
    client.expect("STOCK.DECR_ONCE sale o1", ("DUPLICATE", 2, 5, -1, "r"));
    client.expect("STOCK.DECR_ONCE sale eve BUYER eve", ("DUPLICATE", 1, 5, -1, ""));
    client.expect("STOCK.ALTER sale END 1", OK);
    client.expect("STOCK.DECR_ONCE sale o1 BUYER bob", err(said));
    client.expect("STOCK.ALTER sale END 0", OK);
    assert_eq!(books(&mut client, "sale").held, 2);
    // An order that is over has no buyer: it is refused to every buyer, or with REBUY is open to every buyer.
    client.expect("STOCK.CANCEL sale o1", ("OK", 0, 7, -1, "r"));
    client.expect("STOCK.DECR_ONCE sale o1 BUYER bob", ("CANCELLED", 0, 7, -1, "r"));
    client.expect("STOCK.EXTEND sale o2 PX 1", ("OK", 2, 7, INT, ""));
    eventually("the hold lapses", || client.cmd("STOCK.ORDER sale o2").field("state").text() == "expired");
    client.expect("STOCK.DECR_ONCE sale o2 BUYER bob", ("EXPIRED", 0, 9, -1, ""));
    client.expect("STOCK.ALTER sale REBUY yes", OK);
    client.expect("STOCK.DECR_ONCE sale o1 BUYER bob", ("OK", 1, 8, -1, ""));
    client.expect("STOCK.DECR_ONCE sale o2 BUYER bob HOLD 60000", ("OK", 1, 7, INT, ""));
    client.expect("STOCK.DECR_ONCE sale o1 BUYER ann", err(said));
    client.expect("STOCK.BUYER sale bob", (2, 4));
}

#[test]
fn what_cannot_be_withdrawn_is_said_in_sensible_words() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 3", OK);
    client.expect("STOCK.ADJUST sale -4", err("ERR delta must be at least -3, for no more units remain unsold"));
    client.expect("STOCK.DECR_ONCE sale ann QTY 3", ANY);
    client.expect("STOCK.ADJUST sale -1", err("ERR delta must be at least 0, for no units remain unsold"));
    client.expect("STOCK.ADJUST sale 0", 0);
    let most = 9_007_199_254_740_991_i64;
    let full = "ERR delta must be at most 9007199254740988, for a total is at most 9007199254740991";
    client.expect(format!("STOCK.ADJUST sale {most}"), err(full));
    client.expect(format!("STOCK.ADJUST sale {}", most - 3), most - 3);
    client.expect("STOCK.ADJUST sale 1", err("ERR delta must be at most 0, for a total is at most 9007199254740991"));
}

/// The bounds that an error names, as `from … to …`, `1 to …`, `at least …`, `at most …`.
fn bounds(said: &str) -> Vec<i64> {
    let words = said.split(|c: char| c.is_whitespace() || c == ',');
    words.filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn every_error_names_an_argument_and_a_range_that_has_something_in_it() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 0 STREAM events", OK);
    client.expect("STOCK.CREATE full 9007199254740991", OK);
    let long = "x".repeat(513);
    let bad =
        ["-1", "-0", "0", "x", "1.5", "9007199254740992", "9223372036854775807", "9223372036854775808", "", &long];
    let mut said = 0;
    for line in [
        "STOCK.CREATE new %",
        "STOCK.CREATE new 5 LIMIT %",
        "STOCK.CREATE new 5 START %",
        "STOCK.CREATE new 5 END %",
        "STOCK.CREATE new 5 START 9 END %",
        "STOCK.ALTER sale LIMIT %",
        "STOCK.ALTER sale START %",
        "STOCK.ALTER sale END %",
        "STOCK.ALTER sale REBUY %",
        "STOCK.ADJUST sale %",
        "STOCK.ADJUST full %",
        "STOCK.DECR_ONCE sale %",
        "STOCK.DECR_ONCE sale id QTY %",
        "STOCK.DECR_ONCE sale id BUYER %",
        "STOCK.DECR_ONCE sale id HOLD %",
        "STOCK.DECR_ONCE sale id REF %",
        "STOCK.CONFIRM sale %",
        "STOCK.CANCEL sale %",
        "STOCK.EXTEND sale % PX 5",
        "STOCK.EXTEND sale id PX %",
        "STOCK.ORDER sale %",
        "STOCK.BUYER sale %",
        "STOCK.ORDERS sale %",
        "STOCK.ORDERS sale 0 COUNT %",
        "STOCK.ORDERS sale 0 STATE %",
    ] {
        let argument = line.split(' ').rev().find(|word| !["%", "5"].contains(word)).expect("a name");
        for value in bad {
            let words: Vec<&str> = line.split(' ').map(|word| if word == "%" { value } else { word }).collect();
            let Reply::Error(error) = client.cmd(&words[..]) else {
                client.cmd("DEL new");
                continue;
            };
            said += 1;
            // An option is called by its name, a plain argument as the documentation calls it.
            let named = argument.chars().all(char::is_uppercase) && error.contains(argument)
                || ["total", "delta", "id", "buyer", "cursor", "START"]
                    .iter()
                    .any(|name| error.starts_with(&format!("ERR {name} ")));
            assert!(error.starts_with("ERR ") && named, "{words:?}: {error}");
            assert!(!error.contains("-0") || value == "-0", "{words:?}: {error}");
            let bounds = bounds(&error);
            let range = error.contains(" to ");
            assert!(!range || bounds.len() == 2 && bounds[0] < bounds[1], "{words:?}: {error}");
        }
    }
    assert!(said > 100, "{said} errors");
    assert_eq!(books(&mut client, "sale").total, 0);
}
