//! One request to several sales: all of it happens, in one step, or nothing.

mod budget;
mod told;

use harness::shop::{Replay, books, events};
use harness::{ANY, Client, INT, OK, Server, Want, err, eventually, unix_ms};

/// A reply to a request to several sales: the status, and the five of each.
fn cart<T: Into<Want>>(status: &str, fives: impl IntoIterator<Item = T>) -> Want {
    let fives = fives.into_iter().map(Into::into);
    [Want::from(status)].into_iter().chain(fives).collect::<Vec<_>>().into()
}

/// Three sales of `units` each, with a stream for each.
#[track_caller]
fn mall(client: &mut Client, units: i64, options: &str) {
    for sale in ["one", "two", "three"] {
        client.expect(format!("STOCK.CREATE {sale} {units} STREAM {sale}:events {options}"), OK);
    }
}

/// Fails the test unless each sale's stream tells what became of it.
#[track_caller]
fn streams_agree(client: &mut Client, units: i64) {
    for sale in ["one", "two", "three"] {
        let told = events(client, &format!("{sale}:events"));
        Replay::of(units, &told).agrees_with(client, sale);
    }
}

#[test]
fn a_cart_is_taken_confirmed_and_cancelled_once() {
    let server = Server::start();
    let mut client = server.client();
    mall(&mut client, 5, "");
    let call = "STOCK.MDECR_ONCE o1 3 one 1 two 2 three 3 BUYER ann HOLD 60000 REF r";
    let held =
        client.expect(call, cart("OK", [("OK", 1, 4, INT, "r"), ("OK", 2, 3, INT, "r"), ("OK", 3, 2, INT, "r")]));
    let deadline = held.at(1).at(3).int();
    assert!((unix_ms()..=unix_ms() + 60_000).contains(&deadline), "{deadline}");
    client.expect(
        call,
        cart(
            "DUPLICATE",
            [
                ("DUPLICATE", 1, 4, deadline, "r"),
                ("DUPLICATE", 2, 3, deadline, "r"),
                ("DUPLICATE", 3, 2, deadline, "r"),
            ],
        ),
    );
    client.expect("STOCK.BUYER three ann", (3, 0));
    client.expect("STOCK.MCONFIRM o1 2 two one", cart("OK", [("OK", 2, 3, -1, "r"), ("OK", 1, 4, -1, "r")]));
    client.expect(
        "STOCK.MCONFIRM o1 3 one two three",
        cart("OK", [("DUPLICATE", 1, 4, -1, "r"), ("DUPLICATE", 2, 3, -1, "r"), ("OK", 3, 2, -1, "r")]),
    );
    client.expect("STOCK.MCONFIRM o1 1 one", cart("DUPLICATE", [("DUPLICATE", 1, 4, -1, "r")]));
    client.expect("STOCK.CANCEL two o1", ("OK", 0, 5, -1, "r"));
    client.expect(
        "STOCK.MCANCEL o1 4 one two none three",
        cart(
            "OK",
            [("OK", 0, 5, -1, "r"), ("DUPLICATE", 0, 5, -1, "r"), ("NOSTOCK", 0, 0, -1, ""), ("OK", 0, 5, -1, "r")],
        ),
    );
    client.expect(
        "STOCK.MCANCEL o1 2 none one",
        cart("NOSTOCK", [("NOSTOCK", 0, 0, -1, ""), ("DUPLICATE", 0, 5, -1, "r")]),
    );
    streams_agree(&mut client, 5);
}

#[test]
fn if_one_sale_refuses_the_others_skip() {
    let server = Server::start();
    let mut client = server.client();
    mall(&mut client, 5, "LIMIT 3");
    client.expect("STOCK.DECR_ONCE two all QTY 3", ("OK", 3, 2, -1, ""));
    let before = server.keys();
    for (call, status, fives) in [
        ("one 1 two 3", "INSUFFICIENT", [("SKIPPED", 0, 5, -1, ""), ("INSUFFICIENT", 0, 2, -1, "")]),
        ("two 3 one 4", "INSUFFICIENT", [("INSUFFICIENT", 0, 2, -1, ""), ("LIMIT", 0, 5, -1, "")]),
        ("one 4 two 3", "LIMIT", [("LIMIT", 0, 5, -1, ""), ("INSUFFICIENT", 0, 2, -1, "")]),
        ("one 1 none 1", "NOSTOCK", [("SKIPPED", 0, 5, -1, ""), ("NOSTOCK", 0, 0, -1, "")]),
    ] {
        client.expect(format!("STOCK.MDECR_ONCE o1 2 {call}"), cart(status, fives));
        server.keys().are(&before);
    }
    // What was there already refuses nothing and stays; what is taken beside it is taken by this call.
    let held = client.expect("STOCK.DECR_ONCE one o1 QTY 2 REF r HOLD 60000", ("OK", 2, 3, INT, "r")).at(3).int();
    client.expect(
        "STOCK.MDECR_ONCE o1 2 one 1 two 3",
        cart("INSUFFICIENT", [("DUPLICATE", 2, 3, held, "r"), ("INSUFFICIENT", 0, 2, -1, "")]),
    );
    client.expect(
        "STOCK.MDECR_ONCE o1 3 three 1 one 1 two 1 REF s",
        cart("OK", [("OK", 1, 4, -1, "s"), ("DUPLICATE", 2, 3, held, "r"), ("OK", 1, 1, -1, "s")]),
    );
    // What is skipped says what the id has there.
    client.expect(
        "STOCK.MCONFIRM o1 2 one none",
        cart("NOSTOCK", [("SKIPPED", 2, 3, held, "r"), ("NOSTOCK", 0, 0, -1, "")]),
    );
    client
        .expect("STOCK.MCONFIRM o2 2 one two", cart("NOORDER", [("NOORDER", 0, 3, -1, ""), ("NOORDER", 0, 1, -1, "")]));
    client.expect("STOCK.ALTER two START 4102444800000", OK);
    client.expect(
        "STOCK.MDECR_ONCE o3 2 one 1 two 1",
        cart("NOTSTARTED", [("SKIPPED", 0, 3, -1, ""), ("NOTSTARTED", 0, 1, 4_102_444_800_000_i64, "")]),
    );
    streams_agree(&mut client, 5);
}

#[test]
fn a_late_payment_of_a_cart_is_refused_for_good_where_it_was_refused() {
    let server = Server::start();
    let mut client = server.client();
    mall(&mut client, 2, "");
    client.expect("STOCK.MDECR_ONCE o1 2 one 2 two 2 HOLD 1", cart("OK", [ANY, ANY]));
    eventually("both lapse", || ["one", "two"].iter().all(|sale| books(&mut client, sale).remaining == 2));
    client.expect("STOCK.DECR_ONCE two bob", ("OK", 1, 1, -1, ""));
    client
        .expect("STOCK.MCONFIRM o1 2 one two", cart("EXPIRED", [("SKIPPED", 0, 2, -1, ""), ("EXPIRED", 0, 1, -1, "")]));
    client.expect("STOCK.CANCEL two bob", ("OK", 0, 2, -1, ""));
    client
        .expect("STOCK.MCONFIRM o1 2 one two", cart("EXPIRED", [("SKIPPED", 0, 2, -1, ""), ("EXPIRED", 0, 2, -1, "")]));
    client.expect("STOCK.CONFIRM two o1", ("EXPIRED", 0, 2, -1, ""));
    client.expect("STOCK.CONFIRM one o1", ("OK", 2, 0, -1, ""));
    streams_agree(&mut client, 2);
}

/// A refusal is no event, so the stream of the leg that refuses is not needed.
#[test]
fn a_late_payment_is_refused_though_the_stream_of_that_leg_is_gone() {
    let server = Server::start();
    let mut client = server.client();
    mall(&mut client, 2, "");
    client.expect("STOCK.MDECR_ONCE o1 2 one 2 two 2 HOLD 1", cart("OK", [ANY, ANY]));
    for sale in ["one", "two"] {
        eventually("it has expired", || client.cmd(["STOCK.INFO", sale]).field("expired").int() == 1);
    }
    client.expect("STOCK.DECR_ONCE one other", ("OK", 1, 1, -1, ""));
    client.expect("SET one:events text", OK);
    client
        .expect("STOCK.MCONFIRM o1 2 one two", cart("EXPIRED", [("EXPIRED", 0, 1, -1, ""), ("SKIPPED", 0, 2, -1, "")]));
}

#[test]
fn an_id_of_another_buyer_or_a_key_of_another_type_is_an_error_and_nothing_is_taken() {
    let server = Server::start();
    let mut client = server.client();
    mall(&mut client, 5, "");
    client.expect("STOCK.DECR_ONCE three o1 BUYER ann", ANY);
    client.expect("SET text x", OK);
    client.expect("LOCK.ACQUIRE lock TOKEN t", ANY);
    let before = server.keys();
    for (call, fault) in [
        ("MDECR_ONCE o1 3 one 1 two 9 three 1 BUYER bob", "ERR the order of this id has another BUYER"),
        ("MDECR_ONCE o1 2 one 1 text 1", "WRONGTYPE"),
        ("MDECR_ONCE o1 2 lock 1 one 1", "WRONGTYPE"),
        ("MCONFIRM o1 2 three text", "WRONGTYPE"),
        ("MCANCEL o1 2 three lock", "WRONGTYPE"),
    ] {
        client.expect(format!("STOCK.{call}"), err(fault));
        server.keys().are(&before);
    }
}

#[test]
fn bad_requests_change_nothing() {
    let server = Server::start();
    let mut client = server.client();
    mall(&mut client, 5, "");
    let before = server.keys();
    let (range, numkeys) =
        ("must be an integer from 1 to 9007199254740991", "ERR numkeys must be an integer from 1 to");
    let long = "x".repeat(513);
    for (call, fault) in [
        ("MDECR_ONCE o 2 one 1 one 1".to_owned(), "ERR a sale is named twice".to_owned()),
        ("MCONFIRM o 3 one two one".into(), "ERR a sale is named twice".into()),
        ("MCANCEL o 2 one one".into(), "ERR a sale is named twice".into()),
        ("MDECR_ONCE o 2 one 1 two".into(), "ERR numkeys is 2, but only 1 key with its number follows".into()),
        ("MDECR_ONCE o 0 one 1".into(), format!("{numkeys} 1")),
        ("MDECR_ONCE o -1 one 1".into(), format!("{numkeys} 1")),
        ("MDECR_ONCE o x one 1".into(), format!("{numkeys} 1")),
        ("MDECR_ONCE o 1 one 0".into(), format!("ERR qty {range}")),
        ("MDECR_ONCE o 1 one 1.5".into(), format!("ERR qty {range}")),
        ("MDECR_ONCE o 2 one 1 two two".into(), format!("ERR qty {range}")),
        ("MDECR_ONCE o 1 one 9007199254740992".into(), format!("ERR qty {range}")),
        ("MDECR_ONCE o 1 one 1 QTY 2".into(), "ERR syntax error".into()),
        ("MDECR_ONCE o 1 one 1 WAITLIST".into(), "ERR syntax error".into()),
        ("MDECR_ONCE o 1 one 1 two 1".into(), "ERR syntax error".into()),
        ("MDECR_ONCE o 1 one 1 REF a REF b".into(), "ERR syntax error".into()),
        ("MDECR_ONCE o 1 one 1 HOLD".into(), "ERR syntax error".into()),
        ("MDECR_ONCE o 1 one 1 HOLD 0".into(), "ERR HOLD must be an integer from 1 to".into()),
        (format!("MDECR_ONCE {long} 1 one 1"), "ERR id must be a string of 1 to 512 bytes".into()),
        (format!("MDECR_ONCE o 1 one 1 BUYER {long}"), "ERR BUYER must be a string of 1 to 512 bytes".into()),
        ("MCONFIRM o 2 one".into(), "ERR numkeys is 2, but only 1 key follows".into()),
        ("MCONFIRM o 1 one two".into(), "ERR syntax error".into()),
        ("MCANCEL o 1 one HOLD 5".into(), "ERR syntax error".into()),
        (format!("MCANCEL {long} 1 one"), "ERR id must be a string of 1 to 512 bytes".into()),
    ] {
        client.expect(format!("STOCK.{call}"), err(&fault));
        server.keys().are(&before);
    }
    for call in ["MDECR_ONCE o 1 one", "MCONFIRM o 1", "MCANCEL o"] {
        client.expect(format!("STOCK.{call}"), err("ERR wrong number of arguments"));
    }
    // The options may come in any order and case.
    client.expect("stock.mdecr_once o 1 one 1 ref r hold 60000 buyer b", cart("OK", [("OK", 1, 4, INT, "r")]));
}

#[test]
fn a_request_names_as_many_sales_as_the_setting_says() {
    let server = Server::start();
    let mut client = server.client();
    mall(&mut client, 5, "");
    client.expect("CONFIG SET lockstock.max-keys 2", OK);
    let fault = err("ERR numkeys must be an integer from 1 to 2");
    client.expect("STOCK.MDECR_ONCE o 3 one 1 two 1 three 1", fault.clone());
    client.expect("STOCK.MCONFIRM o 3 one two three", fault.clone());
    client.expect("STOCK.MCANCEL o 3 one two three", fault);
    client.expect("STOCK.MDECR_ONCE o 2 one 1 two 1", cart("OK", [ANY, ANY]));
    client.expect("CONFIG SET lockstock.max-keys 1000", OK);
    let sales: Vec<String> = (0..1_000).map(|n| format!("s{n}")).collect();
    client.pipeline(sales.iter().map(|sale| format!("STOCK.CREATE {sale} 1")));
    let taken = client.cmd(format!("STOCK.MDECR_ONCE o 1000 {} 1", sales.join(" 1 ")));
    assert_eq!((taken.at(0).text(), taken.items().len()), ("OK".into(), 1_001));
    assert!(taken.items()[1..].iter().all(|five| five.at(2).int() == 0), "{taken:?}");
}

#[test]
fn holds_that_are_over_lapse_first_in_every_sale() {
    let server = Server::start();
    let mut client = server.client();
    mall(&mut client, 2, "DEADLINES");
    for _ in 0..20 {
        client.expect("STOCK.MDECR_ONCE a 2 one 2 two 1 HOLD 1", cart("OK", [ANY, ANY]));
        let replies = client.pipeline(["MULTI", "DEBUG SLEEP 0.003", "STOCK.MDECR_ONCE b 2 one 1 two 2", "EXEC"]);
        replies[3].at(1).at(0).clone().is("OK");
        client.expect("STOCK.MCANCEL b 2 one two", cart("OK", [ANY, ANY]));
        for sale in ["one", "two", "three"] {
            let told = events(&mut client, &format!("{sale}:events"));
            Replay::of(2, &told).agrees_with(&mut client, sale);
            client.expect(format!("DEL {sale} {sale}:events"), ANY);
        }
        mall(&mut client, 2, "DEADLINES");
    }
}

#[test]
fn the_server_counts_each_sales_answer() {
    let server = Server::start();
    let mut client = server.client();
    mall(&mut client, 5, "");
    client.expect("STOCK.MDECR_ONCE a 2 one 5 two 1", ANY);
    client.expect("STOCK.MDECR_ONCE b 2 one 1 two 1", cart("SOLDOUT", [ANY, ANY]));
    client.expect("STOCK.MDECR_ONCE a 3 one 1 two 1 three 1", ANY);
    client.expect("STOCK.MCANCEL a 2 one none", ANY);
    let counted = |status: &str| server.info_int("lockstock", &format!("lockstock_stock_{status}"));
    let statuses = ["ok", "duplicate", "soldout", "skipped", "nostock"];
    assert_eq!(statuses.map(counted), [4, 2, 1, 1, 1]);
    let of = |client: &mut Client, sale: &str, field: &str| client.cmd(["STOCK.INFO", sale]).field(field).int();
    assert_eq!(["ok", "duplicate", "soldout", "cancelled"].map(|field| of(&mut client, "one", field)), [1, 1, 1, 1]);
    assert_eq!(["ok", "duplicate", "soldout", "cancelled"].map(|field| of(&mut client, "two", field)), [1, 1, 0, 0]);
}

#[test]
fn a_full_server_takes_no_cart_and_still_gives_back() {
    let server = Server::start();
    let mut client = server.client();
    mall(&mut client, 5, "");
    client.expect("STOCK.MDECR_ONCE a 2 one 1 two 1 HOLD 60000", cart("OK", [ANY, ANY]));
    client.expect("STOCK.MDECR_ONCE b 2 one 1 two 1 HOLD 60000", cart("OK", [ANY, ANY]));
    client.expect("CONFIG SET maxmemory 1", OK);
    client.expect("STOCK.MDECR_ONCE c 2 one 1 two 1", err("OOM"));
    client.expect("STOCK.MCONFIRM a 2 one two", cart("OK", [ANY, ANY]));
    client.expect("STOCK.MCANCEL b 2 one two", cart("OK", [ANY, ANY]));
    client.expect("CONFIG SET maxmemory 0", OK);
    streams_agree(&mut client, 5);
}

#[test]
fn the_server_knows_which_words_are_sales() {
    let server = Server::start();
    let mut client = server.client();
    for call in [
        "MDECR_ONCE one 3 one 1 two 2 three 3 BUYER four HOLD 5",
        "MCONFIRM one 3 one two three",
        "MCANCEL one 3 one two three",
    ] {
        client.expect(format!("COMMAND GETKEYS STOCK.{call}"), ("one", "two", "three"));
        let flags = client.cmd(format!("COMMAND GETKEYSANDFLAGS STOCK.{call}"));
        assert_eq!(flags.items().len(), 3, "{flags:?}");
        assert!(flags.items().iter().all(|key| key.at(1).items().len() == 3), "{flags:?}");
    }
    for call in ["MDECR_ONCE id 3 one 1 two", "MDECR_ONCE id x one 1", "MCONFIRM id 2 one"] {
        client.expect(format!("COMMAND GETKEYS STOCK.{call}"), err("ERR"));
    }
    server.expect("ACL SETUSER clerk on nopass ~mine:* +@all", OK);
    client.expect("STOCK.CREATE mine:1 5", OK);
    client.expect("STOCK.CREATE mine:2 5", OK);
    client.expect("STOCK.CREATE other 5", OK);
    client.expect("AUTH clerk any", OK);
    client.expect("STOCK.MDECR_ONCE other 2 mine:1 1 mine:2 2 REF other", cart("OK", [ANY, ANY]));
    for sales in ["other 1 mine:1 1 mine:2 1", "mine:1 1 other 1 mine:2 1", "mine:1 1 mine:2 1 other 1"] {
        client.expect(format!("STOCK.MDECR_ONCE id 3 {sales}"), err("NOPERM"));
    }
    client.expect("STOCK.MCONFIRM id 2 mine:1 other", err("NOPERM"));
    client.expect("STOCK.MCANCEL id 2 other mine:1", err("NOPERM"));
    // The streams are the user's to write, too; what was appended to another is taken out again.
    server.expect("STOCK.CREATE mine:3 5 STREAM mine:events", OK);
    server.expect("STOCK.CREATE mine:4 5 STREAM other:events", OK);
    client.expect("STOCK.MDECR_ONCE id 2 mine:3 1 mine:4 1", err("NOPERM the sale's stream does not take the event"));
    server.expect("XLEN mine:events", 0);
    assert_eq!(books(&mut client, "mine:3").remaining, 5);
}

#[test]
fn scripts_and_other_modules_take_carts_too() {
    let server = Server::builder().config(&harness::listener::line()).start();
    let mut client = server.client();
    mall(&mut client, 5, "");
    let script = "return redis.call('STOCK.MDECR_ONCE', ARGV[1], 2, KEYS[1], 1, KEYS[2], 1)[1]";
    client.expect(["EVAL", script, "2", "one", "two", "o"], "OK");
    client.expect(["EVAL", script, "2", "one", "two", "o"], "DUPLICATE");
    client.expect("LISTENER.CALL STOCK.MDECR_ONCE p 2 one 1 three 1", cart("OK", [ANY, ANY]));
    client.expect("LISTENER.CALL STOCK.MCANCEL p 2 one three", cart("OK", [ANY, ANY]));
    streams_agree(&mut client, 5);
}

#[test]
fn while_somebody_waits_a_leg_is_sold_out_and_what_comes_back_goes_to_the_line() {
    let server = Server::start();
    let mut client = server.client();
    mall(&mut client, 2, "DEADLINES");
    client.expect("STOCK.MDECR_ONCE first 2 one 2 two 2 HOLD 60000", cart("OK", [ANY, ANY]));
    client.expect("STOCK.DECR_ONCE one ann WAITLIST", ("QUEUED", 0, 0, -1, ""));
    client.expect("STOCK.DECR_ONCE two bob QTY 2 HOLD 60000 WAITLIST", ("QUEUED", 0, 0, -1, ""));
    client.expect("STOCK.DECR_ONCE two eve WAITLIST", ("QUEUED", 0, 0, -1, ""));
    // A waiting order is neither refused nor sold there, so the whole is not.
    client.expect(
        "STOCK.MDECR_ONCE ann 2 three 1 one 1",
        cart("QUEUED", [("SKIPPED", 0, 2, -1, ""), ("QUEUED", 0, 0, -1, "")]),
    );
    client.expect(
        "STOCK.MCONFIRM ann 2 three one",
        cart("NOORDER", [("NOORDER", 0, 2, -1, ""), ("QUEUED", 0, 0, -1, "")]),
    );
    // One step: both come back, and both lines are served.
    client.expect("STOCK.MCANCEL first 2 one two", cart("OK", [("OK", 0, 1, -1, ""), ("OK", 0, 0, -1, "")]));
    client.expect("STOCK.ORDER one ann", ANY).field("state").clone().is("sold");
    client.expect("STOCK.ORDER two bob", ANY).field("state").clone().is("held");
    // One unit is left in `one`; in `two` eve still waits, so nobody else gets any.
    client.expect(
        "STOCK.MDECR_ONCE second 2 one 1 two 1",
        cart("SOLDOUT", [("SKIPPED", 0, 1, -1, ""), ("SOLDOUT", 0, 0, -1, "")]),
    );
    // A cancelled cart leaves the lines, too.
    client.expect("STOCK.MCANCEL eve 2 one two", cart("OK", [("NOORDER", 0, 1, -1, ""), ("OK", 0, 0, -1, "")]));
    streams_agree(&mut client, 2);
}
