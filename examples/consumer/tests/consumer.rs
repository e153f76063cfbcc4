//! The consumer: killed again and again while it writes a sale's orders into a database, and with a server that
//! forgets what it has told it.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "here a panic is a failed test, not a dead server"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;

use harness::shop::{Order, Replay, books, events, orders};
use harness::{ANY, Client, OK, PATIENCE, Server, eventually, kill, random, spawn};
use lockstock_consumer::consume;
use rusqlite::{Connection, params};

/// Starts a consumer as a process of its own.
fn start(server: &Server, database: &Path) -> Child {
    start_told(server, database, None)
}

/// Starts one that was told to go on from the entry `go_on`.
fn start_told(server: &Server, database: &Path, go_on: Option<&str>) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstock-consumer"));
    command.args([&url(server), "events"]).arg(database).stdin(Stdio::null()).stdout(Stdio::null());
    if let Some(entry) = go_on {
        command.args(["--go-on", entry]);
    }
    spawn(command).expect("a process")
}

fn url(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port())
}

/// The number of the last event in the database; 0 before there is a database.
fn progress(database: &Path) -> i64 {
    let read = Connection::open(database)
        .and_then(|db| db.query_row("SELECT coalesce(max(seq), 0) FROM events", [], |row| row.get(0)));
    read.unwrap_or(0)
}

/// The entry of the stream that was written last.
fn last_entry(database: &Path) -> Option<String> {
    let query = "SELECT entry FROM events ORDER BY seq DESC LIMIT 1";
    Connection::open(database).and_then(|db| db.query_row(query, [], |row| row.get(0))).ok()
}

/// The orders in the database.
#[track_caller]
fn written(database: &Path) -> BTreeMap<String, Order> {
    let database = Connection::open(database).expect("the database");
    let mut all = database.prepare("SELECT id, state, units, buyer, ref, deadline FROM orders").expect("its orders");
    let rows = all.query_map([], |row| {
        let text =
            |column| Ok::<_, rusqlite::Error>(String::from_utf8_lossy(&row.get::<_, Vec<u8>>(column)?).into_owned());
        let (buyer, reference) = (text(3)?, text(4)?);
        let order = Order { state: row.get(1)?, units: row.get(2)?, buyer, reference, deadline: row.get(5)? };
        Ok((text(0)?, order))
    });
    rows.expect("rows").collect::<Result<_, _>>().expect("orders")
}

/// As many orders as a shop makes at the most: more than the consumer is killed over, and few enough for it to catch up with.
const ORDERS: usize = 3_000;

/// Takes, confirms, settles for less, extends, cancels and lets lapse until `stop`.
fn shop(mut client: Client, name: usize, stop: &AtomicBool, sold: &AtomicUsize) {
    for number in 0..ORDERS {
        if stop.load(Relaxed) {
            return;
        }
        let id = format!("o-{name}-{number}");
        let hold = ["", "HOLD 3", "HOLD 3", "HOLD 600000", "HOLD 600000", "HOLD 600000"][number % 6];
        client.expect(format!("STOCK.DECR_ONCE sale {id} QTY 2 BUYER b-{name} REF r-{number} {hold}"), ANY);
        match number % 5 {
            0 => client.expect(format!("STOCK.CONFIRM sale {id} KEEP 1"), ANY),
            1 => client.expect(format!("STOCK.CONFIRM sale {id}"), ANY),
            2 => {
                client.expect(format!("STOCK.CANCEL sale {id} KEEP 1"), ANY);
                client.expect(format!("STOCK.CANCEL sale {id}"), ANY)
            }
            3 => client.expect(format!("STOCK.EXTEND sale {id} PX 900000"), ANY),
            _ => client.expect("STOCK.ADJUST sale 2", ANY),
        };
        sold.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_consumer_that_is_killed_at_random_writes_every_order_once() {
    let server = Server::start();
    let dir = tempfile::tempdir().expect("a directory");
    let database = dir.path().join("orders.db");
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1000000 STREAM events DEADLINES", OK);
    let mut random = random();
    let (stop, sold) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for name in 0..3 {
            let (client, stop, sold) = (server.client(), &stop, &sold);
            scope.spawn(move || shop(client, name, stop, sold));
        }
        for _ in 0..12 {
            let mut process = start(&server, &database);
            // At any point of its work: before it has begun, between commit and acknowledgement, …
            let goal = progress(&database) + random.i64(0..300);
            eventually("the consumer gets on", || progress(&database) >= goal);
            kill(&mut process);
        }
        stop.store(true, Relaxed);
    });
    let mut process = start(&server, &database);
    eventually("the consumer has caught up, and the last short hold has lapsed", || {
        progress(&database) == client.cmd("STOCK.INFO sale").field("seq").int()
            && written(&database) == orders(&mut client, "sale")
    });
    kill(&mut process);
    assert!(books(&mut client, "sale").sold > 0);
    Replay::of(1_000_000, &events(&mut client, "events")).agrees_with(&mut client, "sale");
}

/// Who waits, in the order in which they will be served, and for how many units.
#[track_caller]
fn line(database: &Path) -> Vec<(String, i64)> {
    let database = Connection::open(database).expect("the database");
    let mut all = database.prepare("SELECT id, units FROM line ORDER BY seq").expect("the line");
    let rows = all.query_map([], |row| {
        Ok((String::from_utf8_lossy(&row.get::<_, Vec<u8>>(0)?).into_owned(), row.get::<_, i64>(1)?))
    });
    rows.expect("rows").collect::<Result<_, _>>().expect("orders")
}

#[test]
fn who_waits_is_written_in_line() {
    let server = Server::start();
    let dir = tempfile::tempdir().expect("a directory");
    let database = dir.path().join("orders.db");
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 4 STREAM events DEADLINES", OK);
    for (id, units) in [("a", 4), ("b", 3), ("c", 1), ("d", 2), ("e", 1)] {
        client.expect(format!("STOCK.DECR_ONCE sale {id} QTY {units} HOLD 600000 WAITLIST"), ANY);
    }
    let mut process = start(&server, &database);
    let caught_up = |client: &mut Client| progress(&database) == client.cmd("STOCK.INFO sale").field("seq").int();
    eventually("the line is written", || progress(&database) == 5);
    let named = |line: &[(&str, i64)]| line.iter().map(|(id, units)| ((*id).to_owned(), *units)).collect::<Vec<_>>();
    assert_eq!(line(&database), named(&[("b", 3), ("c", 1), ("d", 2), ("e", 1)]));
    client.expect("STOCK.CANCEL sale d", ANY);
    client.expect("STOCK.CANCEL sale a", ANY);
    client.expect("STOCK.DECR_ONCE sale f QTY 2 WAITLIST", ANY);
    eventually("the consumer has caught up", || caught_up(&mut client));
    assert_eq!(line(&database), named(&[("e", 1), ("f", 2)]));
    assert_eq!(written(&database), orders(&mut client, "sale"));
    kill(&mut process);
}

/// A sale that a server forgets a part of, and the database that it was written to.
struct Story {
    database: tempfile::TempDir,
}

impl Story {
    fn database(&self) -> std::path::PathBuf {
        self.database.path().join("orders.db")
    }

    /// Has a consumer write all that has happened, and go again.
    #[track_caller]
    fn write_all(&self, server: &Server, go_on: Option<&str>) {
        let (mut process, mut client) = (start_told(server, &self.database(), go_on), server.client());
        let last = client.cmd("XREVRANGE events + - COUNT 1").at(0).at(0).text();
        eventually("all is written", || last_entry(&self.database()).as_ref() == Some(&last));
        kill(&mut process);
    }

    /// What a consumer stops with.
    #[track_caller]
    fn alarm(&self, server: &Server, go_on: Option<&str>) -> String {
        let (tell, told) = mpsc::channel();
        let (url, database, go_on) = (url(server), self.database(), go_on.map(String::from));
        thread::spawn(move || {
            let stopped = consume(&url, "events", &database, go_on.as_deref());
            tell.send(stopped.expect_err("it never ends otherwise").to_string())
        });
        told.recv_timeout(PATIENCE).expect("an alarm")
    }

    /// What the shop does: the orders that are named are made what `STOCK.ORDERS` says, if anything.
    #[track_caller]
    fn settle(&self, named: &BTreeSet<String>, sale: &BTreeMap<String, Order>) {
        let database = Connection::open(self.database()).expect("the database");
        for id in named {
            match sale.get(id) {
                None => database.execute("DELETE FROM orders WHERE id = ?1", [id.as_bytes()]),
                Some(order) => database.execute(
                    "UPDATE orders SET state = ?2, units = ?3, deadline = ?4 WHERE id = ?1",
                    params![id.as_bytes(), order.state, order.units, order.deadline],
                ),
            }
            .expect("a row");
        }
    }

    /// The orders that the alarm names.
    #[track_caller]
    fn named(&self, alarm: &str) -> BTreeSet<String> {
        let database = Connection::open(self.database()).expect("the database");
        let query = alarm.split_once("orders in ").and_then(|(_, rest)| rest.split_once(" with ")).expect("a query").0;
        let mut query = database.prepare(query).expect("a query");
        let rows = query.query_map([], |row| row.get::<_, Vec<u8>>(0)).expect("rows");
        rows.map(|id| String::from_utf8(id.expect("an id")).expect("a name")).collect()
    }

    /// The server has forgotten the events from `first` on, which are written, and told of as many others.
    #[track_caller]
    fn is_told_of_it_and_goes_on(&self, server: &Server, first: i64, stale: Option<&str>) -> String {
        let (mut client, database) = (server.client(), self.database());
        let before = written(&database);
        let last = progress(&database);
        let alarm = self.alarm(server, stale);
        assert!(alarm.starts_with(&format!("event {first} is the entry ")), "{alarm}");
        let entry = alarm.rsplit(' ').next().expect("an entry").to_owned();
        let there = client.cmd(["XRANGE", "events", &entry, &entry]);
        assert_eq!(there.at(0).at(1).field("seq").text(), first.to_string(), "{alarm}");
        // It stops there, however often it is started, and has written nothing.
        assert_eq!(self.alarm(server, stale), alarm);
        assert_eq!(self.alarm(server, Some("1-1")), alarm);
        assert_eq!((progress(&database), &written(&database)), (last, &before));
        // All that differs but for what is yet to be written is named.
        let (sale, named) = (orders(&mut client, "sale"), self.named(&alarm));
        let differ = |id: &&String| sale.get(*id) != before.get(*id);
        let lost: BTreeSet<String> = before.keys().filter(differ).cloned().collect();
        assert!(lost.is_subset(&named) && !lost.is_empty(), "{lost:?} {named:?}");
        self.settle(&named, &sale);
        self.write_all(server, Some(&entry));
        assert_eq!(written(&database), orders(&mut client, "sale"));
        Replay::of(1_000, &events(&mut client, "events")).agrees_with(&mut client, "sale");
        entry
    }
}

/// Orders of every kind, all of this `name`.
#[track_caller]
fn sell(client: &mut Client, name: &str, count: usize) {
    for number in 0..count {
        let hold = ["", "HOLD 3600000"][number % 2];
        client.expect(format!("STOCK.DECR_ONCE sale {name}-{number} {hold}"), ANY);
    }
}

/// Some orders that everybody knows, and others that only the server itself and the database will know.
#[track_caller]
fn known(client: &mut Client) -> i64 {
    client.expect("STOCK.CREATE sale 1000 STREAM events DEADLINES", OK);
    sell(client, "known", 6);
    client.cmd("STOCK.INFO sale").field("seq").int() + 1
}

#[track_caller]
fn lost(client: &mut Client) {
    sell(client, "lost", 4);
    client.expect("STOCK.CONFIRM sale known-1", ANY);
    client.expect("STOCK.CANCEL sale known-2", ANY);
}

#[test]
fn after_a_promotion_that_lost_changes_it_stops_and_goes_on_when_told() {
    // What the old primary told is older than what the new one tells, or, where clocks differ, newer.
    for ahead in [false, true] {
        let mut primary = Server::start();
        let replica = Server::builder().replica_of(&primary).start();
        replica.wait_in_sync(&primary);
        let story = Story { database: tempfile::tempdir().expect("a directory") };
        let mut client = primary.client();
        let first = known(&mut client);
        story.write_all(&primary, None);
        replica.wait_in_sync(&primary);
        replica.expect("REPLICAOF 127.0.0.1 1", OK);
        if ahead {
            client.expect("XSETID events 9000000000000-0", OK);
        }
        lost(&mut client);
        story.write_all(&primary, None);
        primary.kill9();
        replica.promote();
        let mut client = replica.client();
        sell(&mut client, "new", 20);
        let entry = story.is_told_of_it_and_goes_on(&replica, first, None);
        // What it was told is good for that one time, and does no harm afterwards.
        sell(&mut client, "later", 3);
        story.write_all(&replica, Some(&entry));
        assert_eq!(written(&story.database()), orders(&mut client, "sale"));
    }
}

#[test]
fn after_a_start_from_an_old_file_it_stops_and_goes_on_when_told() {
    let mut server = Server::start();
    let story = Story { database: tempfile::tempdir().expect("a directory") };
    let (mut first, mut stale) = (known(&mut server.client()), None);
    for round in 0..2 {
        story.write_all(&server, stale.as_deref());
        server.expect("SAVE", OK);
        lost(&mut server.client());
        sell(&mut server.client(), &format!("lost-{round}"), 3);
        story.write_all(&server, stale.as_deref());
        server.kill9();
        server.start_again();
        // As many as there were, so that whoever goes by numbers has seen them all.
        let mut client = server.client();
        sell(
            &mut client,
            &format!("new-{round}"),
            usize::try_from(progress(&story.database()) - first + 1).expect("few"),
        );
        stale = Some(story.is_told_of_it_and_goes_on(&server, first, stale.as_deref()));
        first = client.cmd("STOCK.INFO sale").field("seq").int() + 1;
    }
}

#[test]
fn where_events_are_missing_it_stops_and_goes_on_when_told() {
    let server = Server::start();
    let story = Story { database: tempfile::tempdir().expect("a directory") };
    let mut client = server.client();
    known(&mut client);
    story.write_all(&server, None);
    sell(&mut client, "deleted", 2);
    let gone = client.cmd("XREVRANGE events + - COUNT 2").at(1).at(0).text();
    client.expect(["XDEL", "events", &gone], 1);
    let alarm = story.alarm(&server, None);
    assert!(
        alarm.starts_with("after event 6 comes 8: the stream has lost some. Compare all orders with STOCK.ORDERS"),
        "{alarm}"
    );
    story.write_all(&server, alarm.rsplit(' ').next());
    let (mut sale, database) = (orders(&mut client, "sale"), written(&story.database()));
    assert!(sale.remove("deleted-0").is_some(), "{sale:?}");
    assert_eq!(database, sale);
}

#[test]
fn what_was_deleted_after_it_was_delivered_is_passed_over_if_it_was_written_and_missed_if_not() {
    let server = Server::start();
    let story = Story { database: tempfile::tempdir().expect("a directory") };
    let mut client = server.client();
    known(&mut client);
    story.write_all(&server, None);
    let deliver_and_delete = |client: &mut Client, id: &str| {
        let delivered = client.cmd("XREADGROUP GROUP orders-db writer STREAMS events >");
        assert!(!delivered.at(0).at(1).at(0).at(0).text().is_empty());
        client.expect("XTRIM events MAXLEN 0", ANY);
        sell(client, id, 1);
    };
    // As it is for one that dies between commit and acknowledgement.
    client.expect("XGROUP SETID events orders-db 0", OK);
    deliver_and_delete(&mut client, "written");
    story.write_all(&server, None);
    assert_eq!(written(&story.database()), orders(&mut client, "sale"));
    client.expect("XLEN events", 1);
    // And for one that dies before.
    sell(&mut client, "unwritten", 2);
    deliver_and_delete(&mut client, "new");
    let alarm = story.alarm(&server, None);
    assert!(alarm.starts_with("after event 7 comes 10: the stream has lost some. Compare all orders"), "{alarm}");
    story.write_all(&server, alarm.rsplit(' ').next());
    let mut sale = orders(&mut client, "sale");
    sale.retain(|id, _| !id.starts_with("unwritten"));
    assert_eq!(written(&story.database()), sale);
}

#[test]
fn what_is_no_event_is_named_and_can_be_deleted() {
    let server = Server::start();
    let story = Story { database: tempfile::tempdir().expect("a directory") };
    let mut client = server.client();
    known(&mut client);
    let foreign = client.cmd("XADD events * some thing").text();
    sell(&mut client, "new", 1);
    let alarm = story.alarm(&server, None);
    assert_eq!(alarm, format!("the entry {foreign} has no seq: it is no event of a sale with DEADLINES"));
    client.expect(["XDEL", "events", &foreign], 1);
    story.write_all(&server, None);
    assert_eq!(written(&story.database()), orders(&mut client, "sale"));
}
