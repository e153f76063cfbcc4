//! What is in the tables.

use std::time::{SystemTime, UNIX_EPOCH};

use harness::shop::orders;
use harness::{ANY, OK, Server, eventually};

use crate::databases::{Database, Kind};
use crate::support::{EVERYTHING, Outbox, agree, has_every_event, once, shop, stops, written};

pub fn names_are_stored_as_they_are(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1000 STREAM events DEADLINES", OK);
    let names: [(&[u8], &str); 14] = [
        (b"mug", "mug"),
        (b"MUG", "MUG"),
        (b"mug ", "mug "),
        (b" mug", " mug"),
        ("müg".as_bytes(), "müg"),
        ("mu\u{308}g".as_bytes(), "mu\u{308}g"),
        ("杯🍵".as_bytes(), "杯🍵"),
        (b"'; DROP TABLE lockstock_orders; --", "'; DROP TABLE lockstock_orders; --"),
        (b"\"\\\n\t{}[]%_$1?", "\"\\\n\t{}[]%_$1?"),
        (b"\xff", "\\xff"),
        (b"\xc3\x28", "\\xc328"),
        (b"a\0b", "\\x610062"),
        (b"\0", "\\x00"),
        (b"\\x00", "\\x5c783030"),
    ];
    for (name, _) in names {
        let words: [&[u8]; 8] = [b"STOCK.DECR_ONCE", b"sale", name, b"BUYER", name, b"REF", name, b"WAITLIST"];
        client.expect(words.map(<[u8]>::to_vec), ANY);
    }
    once(&server, &database, EVERYTHING);
    let written = written(&database, "sale");
    assert_eq!(written.len(), names.len(), "{written:?}");
    for (_, stored) in names {
        let order = &written[stored];
        assert_eq!((order.state.as_str(), order.units), ("sold", 1), "{stored}");
        assert_eq!((order.buyer.as_str(), order.reference.as_str()), (stored, stored));
    }
    // The sale itself has any name, too.
    for (name, _) in names {
        let sale = [b"sale:", name].concat();
        let words: [&[u8]; 5] = [b"STOCK.CREATE", &sale, b"1000", b"STREAM", &[b"stream:", name].concat()];
        client.expect(words.map(<[u8]>::to_vec), OK);
        let words: [&[u8]; 3] = [b"STOCK.DECR_ONCE", &sale, b"a"];
        client.expect(words.map(<[u8]>::to_vec), ANY);
    }
    once(&server, &database, EVERYTHING);
    let rows = database.rows("SELECT «sale» FROM lockstock_sales WHERE seq = 1");
    let mut found = rows.concat();
    let mut expected: Vec<String> = names
        .iter()
        .map(|(name, _)| match str::from_utf8(name) {
            Ok(text) if !text.contains('\0') => format!("sale:{text}"),
            _ => [b"sale:", *name].concat().iter().fold("\\x".into(), |hex, byte| format!("{hex}{byte:02x}")),
        })
        .collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

pub fn every_state_is_written(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 10 STREAM events DEADLINES", OK);
    let outbox = Outbox::start(&server, &database, EVERYTHING);
    for words in [
        "STOCK.DECR_ONCE sale sold QTY 2 BUYER ann REF r",
        "STOCK.DECR_ONCE sale held QTY 3 HOLD 600000",
        "STOCK.DECR_ONCE sale cancelled",
        "STOCK.CANCEL sale cancelled",
        "STOCK.DECR_ONCE sale expired HOLD 1",
        "STOCK.DECR_ONCE sale waiting QTY 9 WAITLIST",
        "STOCK.ADJUST sale 5",
    ] {
        client.expect(words, ANY);
    }
    agree(&database, &mut client, "sale");
    let states = written(&database, "sale");
    for (id, units) in [("sold", 2), ("held", 3), ("cancelled", 0), ("expired", 0)] {
        assert_eq!((states[id].state.as_str(), states[id].units), (id, units));
    }
    assert!(["sold", "waiting"].contains(&states["waiting"].state.as_str()));
    client.expect("STOCK.CANCEL sale held", ANY);
    agree(&database, &mut client, "sale");
    assert_eq!(
        (written(&database, "sale")["waiting"].state.as_str(), written(&database, "sale")["waiting"].units),
        ("sold", 9)
    );
    outbox.end();
    // When it was changed is when the server says so, to the millisecond, in UTC.
    let entry = client.cmd("XREVRANGE events + - COUNT 1").at(0).at(0).text();
    let ms: i64 = entry.split_once('-').and_then(|(ms, _)| ms.parse().ok()).expect("an id");
    assert_eq!(changed(&database), ms);
    has_every_event(&database, &mut client, "sale", "events");
}

/// When the sale was changed, in Unix milliseconds.
fn changed(database: &Database) -> i64 {
    let query = match database.kind {
        Kind::Sqlite => "SELECT CAST(round(unixepoch(changed_at, 'subsec') * 1000) AS INTEGER) FROM lockstock_sales",
        Kind::Postgres => "SELECT round(extract(epoch FROM changed_at) * 1000)::bigint FROM lockstock_sales",
        Kind::MariaDb => {
            "SELECT CAST(timestampdiff(MICROSECOND, '1970-01-01', changed_at) DIV 1000 AS SIGNED) FROM lockstock_sales"
        }
    };
    database.rows(query)[0][0].parse().expect("a number")
}

pub fn a_sale_without_events_has_a_time(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    server.expect("STOCK.CREATE sale 10 STREAM events", OK);
    for words in [EVERYTHING, &["--sale", "*", "--reconcile"]] {
        let before = now();
        once(&server, &database, words);
        assert_eq!(database.rows("SELECT total, seq FROM lockstock_sales"), [["10", "0"]]);
        assert!((before..=now()).contains(&changed(&database)), "{before} {}", changed(&database));
        database.change("UPDATE lockstock_sales SET total = 0");
    }
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(now.as_millis()).expect("a number")
}

pub fn an_order_is_sold_only_if_the_sale_says_so(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 10 STREAM events", OK);
    for words in ["sold", "held HOLD 3600000", "cancelled HOLD 3600000", "lapsed HOLD 1"] {
        client.expect(format!("STOCK.DECR_ONCE sale {words}"), ANY);
    }
    client.expect("STOCK.CANCEL sale cancelled", ANY);
    eventually("it has lapsed", || client.cmd("XLEN events").int() == 6);
    // The outbox stands where it has read the events of the holds, and not yet of their ends.
    for end in &client.cmd("XRANGE events - +").items()[4..] {
        client.expect(["XDEL", "events", &end.at(0).text()], 1);
    }
    stops(&server, &database, "sale: stopped: events 5 to 6 are missing");
    let known = orders(&mut client, "sale");
    assert_eq!(known["lapsed"].state, "expired");
    assert_eq!(written(&database, "sale"), known);
    // A sale that is gone says of no order that it is sold.
    client.expect("STOCK.CREATE gone 10 STREAM others", OK);
    let outbox = Outbox::start(&server, &database, &["--sale", "gone"]);
    eventually("it is followed", || {
        !database.rows("SELECT seq FROM lockstock_sales WHERE total = 10 AND seq = 0").is_empty()
    });
    outbox.signal(rustix::process::Signal::STOP);
    client.expect("STOCK.DECR_ONCE gone a HOLD 3600000", ANY);
    client.expect("DEL gone", 1);
    outbox.signal(rustix::process::Signal::CONT);
    outbox.says("gone: the sale was deleted");
    outbox.end();
    let order = &written(&database, "gone")["a"];
    assert_eq!((order.state.as_str(), order.units, order.deadline), ("held", 1, -1));
}

pub fn a_sale_without_deadlines_is_written(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 100000 STREAM events", OK);
    shop(&mut client, "sale", "a", 0..100);
    let outbox = Outbox::start(&server, &database, EVERYTHING);
    agree(&database, &mut client, "sale");
    // EXTEND is no event of such a sale: only the deadline is not known.
    for number in (0..300).filter(|number| number % 5 != 3) {
        shop(&mut client, "sale", "b", number..number + 1);
    }
    agree(&database, &mut client, "sale");
    assert_eq!(written(&database, "sale"), orders(&mut client, "sale"));
    outbox.end();
    has_every_event(&database, &mut client, "sale", "events");
}

pub fn a_batch_of_the_longest_names_is_written(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = server.client();
    let sale = "s".repeat(1000);
    client.expect(format!("STOCK.CREATE {sale} 100000 STREAM events DEADLINES"), OK);
    let calls = (0..1500).map(|number| {
        // Two bytes of each make it a name of its own, and none of them is text.
        let mut name = vec![0xff; 512];
        name.extend(format!("{number}").bytes());
        let name = name.split_off(name.len() - 512);
        [&b"STOCK.DECR_ONCE"[..], sale.as_bytes(), &name, b"BUYER", &name, b"REF", &name].map(<[u8]>::to_vec)
    });
    client.pipeline(calls);
    once(&server, &database, &[EVERYTHING, &["--batch", "10000"]].concat());
    let rows = database.rows("SELECT count(*), min(length(id)), max(length(ref)) FROM lockstock_orders");
    assert_eq!(rows, [["1500", "1026", "1026"]]);
    once(&server, &database, &[EVERYTHING, &["--reconcile"]].concat());
    assert_eq!(database.rows("SELECT count(*) FROM lockstock_orders WHERE state = 'sold'"), [["1500"]]);
    // A longer name of a sale is none of a table's.
    client.expect(format!("STOCK.CREATE {sale}{sale} 1 STREAM others"), OK);
    let ended = Outbox::start(&server, &database, &["--sale", "s*", "--once"]).ended();
    assert_eq!(ended.status, Some(1), "{ended:?}");
    assert!(ended.said.contains("its name is longer than a table takes"), "{ended:?}");
    assert_eq!(database.rows("SELECT count(*) FROM lockstock_sales"), [["1"]]);
}
