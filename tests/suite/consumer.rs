//! The consumer of `examples/consumer.rs`, killed again and again while it writes a sale's orders into a database.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use rusqlite::Connection;

use crate::harness::{ANY, Client, OK, Server, eventually, kill, spawn};
use crate::scene::random;
use crate::shop::{Order, Replay, books, events, orders};

#[expect(dead_code, reason = "a test has no use for its main function")]
#[path = "../../examples/consumer.rs"]
mod example;

const URL: &str = "LOCKSTOCK_CONSUMER_URL";
const DATABASE: &str = "LOCKSTOCK_CONSUMER_DATABASE";

/// Not a test: what the processes run that [`start`] starts.
#[test]
#[ignore = "the consumer's process, started by another test"]
fn the_process() {
    if let (Ok(url), Some(database)) = (env::var(URL), env::var_os(DATABASE)) {
        example::consume(&url, "events", Path::new(&database)).expect("a server and a database");
    }
}

/// Starts a consumer as a process of its own.
fn start(server: &Server, database: &Path) -> Child {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", "consumer::the_process", "--ignored"]).stdin(Stdio::null()).stdout(Stdio::null());
    command.env(URL, format!("redis://127.0.0.1:{}", server.port())).env(DATABASE, database);
    spawn(command).expect("a process")
}

/// The number of the last event in the database; 0 before there is a database.
fn progress(database: &Path) -> i64 {
    let read = Connection::open(database).and_then(|db| db.query_row("SELECT seq FROM progress", [], |row| row.get(0)));
    read.unwrap_or(0)
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

/// Takes, confirms, extends, cancels and lets lapse until `stop`.
fn shop(mut client: Client, name: usize, stop: &AtomicBool, sold: &AtomicUsize) {
    for number in 0..ORDERS {
        if stop.load(Relaxed) {
            return;
        }
        let id = format!("o-{name}-{number}");
        let hold = ["", "HOLD 3", "HOLD 3", "HOLD 600000", "HOLD 600000", "HOLD 600000"][number % 6];
        client.expect(format!("STOCK.DECR_ONCE sale {id} QTY 2 BUYER b-{name} REF r-{number} {hold}"), ANY);
        match number % 5 {
            0 | 1 => client.expect(format!("STOCK.CONFIRM sale {id}"), ANY),
            2 => client.expect(format!("STOCK.CANCEL sale {id}"), ANY),
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
