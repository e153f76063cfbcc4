//! Several outboxes, and several sales.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use harness::{Client, OK, Server, eventually};
use rustix::process::Signal;

use crate::databases::{Database, Kind};
use crate::support::{EVERYTHING, Outbox, agree, agrees, has_every_event, once, progress, sell, shop};

pub fn a_second_outbox_stands_in_line(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1000 STREAM events DEADLINES", OK);
    let first = Outbox::start(&server, &database, EVERYTHING);
    sell(&mut client, "sale", "a", 3);
    agree(&database, &mut client, "sale");
    let second = Outbox::start(&server, &database, EVERYTHING);
    second.says("sale: another outbox is at work on it; this one stands in line");
    sell(&mut client, "sale", "b", 3);
    agree(&database, &mut client, "sale");
    // The next has it at once, whether the first ends in order or not.
    first.end();
    sell(&mut client, "sale", "c", 3);
    agree(&database, &mut client, "sale");
    let third = Outbox::start(&server, &database, EVERYTHING);
    third.says("stands in line");
    second.kill9();
    sell(&mut client, "sale", "d", 3);
    agree(&database, &mut client, "sale");
    third.end();
    has_every_event(&database, &mut client, "sale", "events");
    client.expect("EXISTS lockstock-outbox:sale", 0);
}

pub fn two_outboxes_with_a_sale_each_stand_in_line_for_the_other(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = server.client();
    client.expect("STOCK.CREATE a 1000 STREAM events:a DEADLINES", OK);
    let first = Outbox::start(&server, &database, EVERYTHING);
    agree(&database, &mut client, "a");
    // The second finds the new sale before the first does.
    first.signal(Signal::STOP);
    client.expect("STOCK.CREATE b 1000 STREAM events:b DEADLINES", OK);
    let second = Outbox::start(&server, &database, EVERYTHING);
    second.says("a: another outbox is at work on it");
    agree(&database, &mut client, "b");
    first.signal(Signal::CONT);
    first.says("b: another outbox is at work on it");
    for sale in ["a", "b"] {
        let lock = ["LOCK.INFO".to_owned(), format!("lockstock-outbox:{sale}")];
        eventually("the other stands in line", || client.cmd(lock.clone()).field("waiting").int() == 1);
    }
    assert_eq!(server.info_int("lockstock", "lockstock_lock_deadlocks"), 0);
    assert!(!first.end().contains("is away"));
    sell(&mut client, "a", "b", 3);
    agree(&database, &mut client, "a");
    assert!(!second.end().contains("is away"));
}

/// An outbox that has written half of a sale's orders and is frozen.
fn frozen(kind: Kind) -> (Server, Database, Client, Outbox) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1000 STREAM events DEADLINES", OK);
    let outbox = Outbox::start(&server, &database, EVERYTHING);
    sell(&mut client, "sale", "a", 5);
    agree(&database, &mut client, "sale");
    outbox.signal(Signal::STOP);
    sell(&mut client, "sale", "b", 5);
    (server, database, client, outbox)
}

pub fn a_sale_that_was_deleted_is_written_after_a_failure(kind: Kind) {
    let (_server, database, mut client, outbox) = frozen(kind);
    client.expect("DEL sale", 1);
    // The next write fails, as if another outbox had been there.
    database.change("UPDATE lockstock_sales SET fence = fence + 1");
    outbox.signal(Signal::CONT);
    outbox.says("sale: the sale was deleted, and all that its stream tells is written");
    outbox.end();
    assert_eq!(progress(&database, "sale"), 10);
    has_every_event(&database, &mut client, "sale", "events");
}

pub fn a_sale_that_was_renamed_is_followed(kind: Kind) {
    let (_server, database, mut client, outbox) = frozen(kind);
    client.expect("RENAME sale moved", OK);
    // The events cannot be written yet, as if the database were away.
    let fence = |change: &str| {
        database
            .change(&format!("UPDATE lockstock_sales SET fence = fence {change} 1000000000000000 WHERE sale = 'sale'"));
    };
    fence("+");
    outbox.signal(Signal::CONT);
    outbox.says("follows moved");
    thread::sleep(Duration::from_millis(500));
    fence("-");
    outbox.says("sale: the sale was deleted, and all that its stream tells is written");
    agree(&database, &mut client, "moved");
    outbox.end();
    assert_eq!(progress(&database, "sale"), 10);
    has_every_event(&database, &mut client, "moved", "events");
}

/// How often a seller sells that does not wait for the outbox.
const ROUNDS: usize = 10_000;

pub fn once_ends_though_events_go_on(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 10000000 STREAM events DEADLINES", OK);
    sell(&mut client, "sale", "a", 100);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (stop, mut seller) = (&stop, server.client());
        let selling = scope.spawn(move || {
            let rounds = (0..ROUNDS).take_while(|_| !stop.load(Relaxed));
            let sell = |round| {
                seller.pipeline((0..5).map(|number| format!("STOCK.DECR_ONCE sale {round}-{number}")));
                thread::sleep(Duration::from_millis(1));
            };
            rounds.map(sell).count()
        });
        let written = Outbox::start(&server, &database, &["--sale", "*", "--once", "--batch", "5"]).ended();
        stop.store(true, Relaxed);
        let rounds = selling.join().expect("a seller");
        assert_eq!(written.status, Some(0), "{written:?}");
        assert!(rounds < ROUNDS, "it ended after the last event");
    });
    assert!(progress(&database, "sale") >= 100);
}

pub fn an_outbox_that_was_frozen_writes_nothing_more(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 100000 STREAM events DEADLINES", OK);
    let first = Outbox::start(&server, &database, &[EVERYTHING, &["--batch", "5"]].concat());
    shop(&mut client, "sale", "a", 0..20);
    if kind == Kind::Sqlite {
        // A process that is frozen amid a transaction keeps the file to itself.
        agree(&database, &mut client, "sale");
    }
    eventually("it works", || progress(&database, "sale") > 0);
    first.signal(Signal::STOP);
    let fence = |database: &Database| database.rows("SELECT fence FROM lockstock_sales").concat();
    let before = fence(&database);
    shop(&mut client, "sale", "b", 0..100);
    let second = Outbox::start(&server, &database, EVERYTHING);
    // Once the lease of the first is over.
    agree(&database, &mut client, "sale");
    assert!(fence(&database) > before, "{:?} {before:?}", fence(&database));
    first.signal(Signal::CONT);
    first.says("stands in line");
    shop(&mut client, "sale", "c", 0..100);
    agree(&database, &mut client, "sale");
    assert_eq!(fence(&database).len(), 1);
    first.end();
    second.end();
    has_every_event(&database, &mut client, "sale", "events");
}

pub fn many_sales_are_followed(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = server.client();
    let create = |client: &mut Client, sale: &str| {
        client.expect(format!("STOCK.CREATE {sale} 1000 STREAM events:{sale} DEADLINES"), OK);
        sell(client, sale, "a", 3);
    };
    for number in 0..20 {
        create(&mut client, &format!("sale:{number}"));
    }
    create(&mut client, "unlike");
    client.expect("STOCK.CREATE sale:silent 10", OK);
    client.expect("SET sale:word 1", OK);
    let outbox = Outbox::start(&server, &database, &["--sale", "sale:*", "--sale", "single"]);
    outbox.says("sale:silent: it has no stream");
    for number in 0..20 {
        agree(&database, &mut client, &format!("sale:{number}"));
    }
    for new in ["sale:new", "single"] {
        create(&mut client, new);
        agree(&database, &mut client, new);
    }
    // One that is deleted is written to its end.
    sell(&mut client, "sale:1", "last", 3);
    client.expect("DEL sale:1", 1);
    outbox.says("sale:1: the sale was deleted, and all that its stream tells is written");
    assert_eq!(progress(&database, "sale:1"), 6);
    assert_eq!(database.rows("SELECT seq FROM lockstock_sales WHERE sale = 'unlike'").len(), 0);
    let said = outbox.end();
    assert_eq!(said.matches("it has no stream").count(), 1, "{said}");
    // Nobody can tell their events apart.
    client.expect("STOCK.CREATE sale:twin 10 STREAM events:sale:2", OK);
    let ended = Outbox::start(&server, &database, &["--sale", "sale:*", "--once"]).ended();
    assert_eq!(ended.status, Some(78), "{ended:?}");
    assert!(ended.said.contains("the sales sale:2 and sale:twin have one stream, events:sale:2"), "{ended:?}");
}

pub fn what_is_written_is_trimmed(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 100000 STREAM events DEADLINES", OK);
    let sold = |client: &mut Client, name: &str| {
        sell(client, "sale", name, 300);
        client.cmd("XLEN events").int()
    };
    assert_eq!(sold(&mut client, "a"), 300);
    once(&server, &database, EVERYTHING);
    client.expect("XLEN events", 300);
    once(&server, &database, &[EVERYTHING, &["--keep", "1h"]].concat());
    client.expect("XLEN events", 300);
    once(&server, &database, &[EVERYTHING, &["--keep", "0s"]].concat());
    client.expect("XLEN events", 0);
    // It goes on behind what it has trimmed.
    assert_eq!(sold(&mut client, "b"), 300);
    once(&server, &database, EVERYTHING);
    assert!(agrees(&database, &mut client, "sale"));
    let outbox = Outbox::start(&server, &database, &[EVERYTHING, &["--keep", "10ms"]].concat());
    eventually("what is old is trimmed", || client.cmd("XLEN events").int() == 0);
    sell(&mut client, "sale", "c", 300);
    agree(&database, &mut client, "sale");
    outbox.end();
    assert_eq!(database.rows("SELECT count(*) FROM lockstock_events"), [["900"]]);
}
