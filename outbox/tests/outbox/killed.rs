//! The outbox, the server and the database are killed and frozen while it works.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use harness::shop::{Replay, books, events};
use harness::{OK, Server, eventually, random};
use rustix::process::{Pid, Signal, kill_process};

use crate::databases::{Database, Kind};
use crate::support::{EVERYTHING, Outbox, agree, has_every_event, progress, sell, shop};

/// As many orders as each of three clients makes at most.
const ORDERS: usize = 2_000;

pub fn an_outbox_that_is_killed_writes_every_event_once(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    server.expect("STOCK.CREATE sale 1000000 STREAM events DEADLINES", OK);
    let mut random = random();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for name in ["a", "b", "c"] {
            let (mut client, stop) = (server.client(), &stop);
            scope.spawn(move || {
                for number in (0..ORDERS).take_while(|_| !stop.load(Relaxed)) {
                    shop(&mut client, "sale", name, number..number + 1).expect("the server lives");
                }
            });
        }
        for _ in 0..10 {
            // Small batches, so that more of them are in hand.
            let outbox = Outbox::start(&server, &database, &[EVERYTHING, &["--batch", "20"]].concat());
            // At any point of its work: before it has begun, between two statements, …
            let goal = progress(&database, "sale") + random.i64(0..300);
            eventually("the outbox gets on", || progress(&database, "sale") >= goal || stop.load(Relaxed));
            outbox.kill9();
        }
        stop.store(true, Relaxed);
    });
    let outbox = Outbox::start(&server, &database, EVERYTHING);
    let mut client = server.client();
    agree(&database, &mut client, "sale");
    outbox.end();
    assert!(books(&mut client, "sale").sold > 0);
    has_every_event(&database, &mut client, "sale", "events");
    Replay::of(1_000_000, &events(&mut client, "events")).agrees_with(&mut client, "sale");
}

pub fn a_server_that_is_killed_loses_nothing(kind: Kind) {
    let (mut server, database) = (Server::builder().aof("always").start(), Database::start(kind));
    server.expect("STOCK.CREATE sale 1000000 STREAM events DEADLINES", OK);
    let outbox = Outbox::start(&server, &database, EVERYTHING);
    for round in 0..4 {
        let mut client = server.client();
        let shopping = thread::spawn(move || shop(&mut client, "sale", &round.to_string(), 0..ORDERS));
        let goal = progress(&database, "sale") + 100;
        eventually("the outbox gets on", || progress(&database, "sale") >= goal);
        server.kill9();
        shopping.join().expect("a client that loses its server");
        server.start_again();
    }
    let mut client = server.client();
    agree(&database, &mut client, "sale");
    let said = outbox.end();
    assert!(said.contains("the server is away, trying again"), "{said}");
    assert_eq!(said.matches("is away").count(), said.matches("answers again").count(), "{said}");
    has_every_event(&database, &mut client, "sale", "events");
}

pub fn a_frozen_server_is_waited_for(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    server.expect("STOCK.CREATE sale 1000000 STREAM events DEADLINES", OK);
    let outbox = Outbox::start(&server, &database, EVERYTHING);
    let mut client = server.client();
    shop(&mut client, "sale", "before", 0..50);
    agree(&database, &mut client, "sale");
    let signal = |signal| {
        let process = i32::try_from(server.pid()).expect("a number");
        kill_process(Pid::from_raw(process).expect("a number"), signal).expect("it runs");
    };
    signal(Signal::STOP);
    outbox.says("the server is away, trying again: timed out");
    signal(Signal::CONT);
    shop(&mut client, "sale", "after", 0..50);
    agree(&database, &mut client, "sale");
    outbox.end();
    has_every_event(&database, &mut client, "sale", "events");
}

pub fn a_database_that_is_killed_loses_nothing(kind: Kind) {
    let (server, mut database) = (Server::start(), Database::start(kind));
    if kind == Kind::Sqlite {
        return;
    }
    server.expect("STOCK.CREATE sale 1000000 STREAM events DEADLINES", OK);
    let (stop, sold) = (AtomicBool::new(false), AtomicUsize::new(0));
    let outbox = Outbox::start(&server, &database, &[EVERYTHING, &["--batch", "20"]].concat());
    thread::scope(|scope| {
        let (mut client, stop, sold) = (server.client(), &stop, &sold);
        scope.spawn(move || {
            while !stop.load(Relaxed) {
                let number = sold.fetch_add(1, Relaxed);
                shop(&mut client, "sale", "a", number..number + 1).expect("the server lives");
            }
        });
        for _ in 0..3 {
            let goal = progress(&database, "sale") + 100;
            eventually("the outbox gets on", || progress(&database, "sale") >= goal);
            database.kill9();
            let goal = sold.load(Relaxed) + 200;
            eventually("the shop goes on", || sold.load(Relaxed) >= goal);
            database.start_again();
        }
        stop.store(true, Relaxed);
    });
    let mut client = server.client();
    agree(&database, &mut client, "sale");
    let said = outbox.end();
    assert!(said.contains("the database is away, trying again"), "{said}");
    has_every_event(&database, &mut client, "sale", "events");
}

pub fn a_frozen_database_is_waited_for(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    if kind == Kind::Sqlite {
        return;
    }
    server.expect("STOCK.CREATE sale 1000000 STREAM events DEADLINES", OK);
    let outbox = Outbox::start(&server, &database, EVERYTHING);
    let mut client = server.client();
    shop(&mut client, "sale", "before", 0..50);
    agree(&database, &mut client, "sale");
    database.signal(Signal::STOP);
    sell(&mut client, "sale", "frozen", 3);
    outbox.says("the database is away, trying again: no answer within");
    database.signal(Signal::CONT);
    shop(&mut client, "sale", "after", 0..50);
    agree(&database, &mut client, "sale");
    outbox.end();
    has_every_event(&database, &mut client, "sale", "events");
}

pub fn a_failover_by_sentinel_is_followed(kind: Kind) {
    let (mut primary, database) = (Server::start(), Database::start(kind));
    let replica = Server::builder().replica_of(&primary).start();
    let sentinel = primary.watched_with(&replica);
    let mut client = primary.client();
    client.expect("STOCK.CREATE sale 1000 STREAM events DEADLINES", OK);
    // A Sentinel that is not there is passed over.
    let url = format!("redis+sentinel://127.0.0.1:1,{}/main", sentinel.address());
    let outbox = Outbox::at(&url, &database.url(), EVERYTHING);
    sell(&mut client, "sale", "before", 20);
    agree(&database, &mut client, "sale");
    replica.wait_in_sync(&primary);
    primary.kill9();
    // Sentinel closes the connections of the server that it promotes.
    eventually("the replica is the primary", || format!("{:?}", replica.client().ask("ROLE")).contains("master"));
    let mut client = replica.client();
    eventually("it takes orders", || client.ask("STOCK.DECR_ONCE sale first").is_some());
    sell(&mut client, "sale", "after", 20);
    agree(&database, &mut client, "sale");
    outbox.end();
    has_every_event(&database, &mut client, "sale", "events");
}
