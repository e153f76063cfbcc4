//! Starting `lockstock-outbox`, and comparing what it has written with what the sale says.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;

use harness::shop::{Order, orders};
use harness::{ANY, Client, Server, eventually, kill, spawn};
use rustix::process::{Pid, Signal, kill_process};

use crate::databases::Database;

pub const EVERYTHING: &[&str] = &["--sale", "*", "--events"];

/// A running outbox; killed when it is dropped.
pub struct Outbox {
    process: Child,
    said: Arc<Mutex<String>>,
    reader: Option<thread::JoinHandle<()>>,
}

/// What it ends with.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    pub status: Option<i32>,
    pub said: String,
}

pub fn url(server: &Server) -> String {
    format!("redis://{}", server.address())
}

impl Outbox {
    pub fn start(server: &Server, database: &Database, words: &[&str]) -> Self {
        Self::at(&url(server), &database.url(), words)
    }

    pub fn at(server: &str, database: &str, words: &[&str]) -> Self {
        let mut command = crate::bench::program();
        command.args(["--redis", server, "--to", database]).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = spawn(command).expect("the outbox starts");
        let said = Arc::<Mutex<String>>::default();
        let (mut pipe, hears) = (process.stderr.take().expect("a pipe"), said.clone());
        let reader = thread::spawn(move || {
            use std::io::Read;
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut bytes) {
                hears.lock().expect("a reader").push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { process, said, reader: Some(reader) }
    }

    /// What it has said so far.
    pub fn said(&self) -> String {
        self.said.lock().expect("a reader").clone()
    }

    #[track_caller]
    pub fn says(&self, words: &str) {
        eventually(words, || self.said().contains(words));
    }

    pub fn signal(&self, signal: Signal) {
        let process = i32::try_from(self.process.id()).expect("a number");
        kill_process(Pid::from_raw(process).expect("a number"), signal).expect("it runs");
        if signal == Signal::STOP {
            // Until then it may still read what comes next.
            eventually("it is frozen", || self.is_frozen());
        }
    }

    fn is_frozen(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).expect("it runs");
        stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T'))
    }

    pub fn kill9(self) {
        drop(self);
    }

    /// Ends in order, with status 0.
    #[track_caller]
    pub fn end(self) -> String {
        self.signal(Signal::TERM);
        let ended = self.ended();
        assert_eq!(ended.status, Some(0), "{ended:?}");
        ended.said
    }

    /// Waits until it ends by itself.
    #[track_caller]
    pub fn ended(mut self) -> Ended {
        let mut status = None;
        eventually(&format!("it ends: {}", self.said()), || {
            status = self.process.try_wait().expect("a child");
            status.is_some()
        });
        self.reader.take().expect("a reader").join().expect("a reader");
        Ended { status: status.and_then(|status| status.code()), said: self.said() }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        kill(&mut self.process);
        if thread::panicking() {
            eprintln!("the outbox has said:\n{}", self.said());
        }
    }
}

/// Writes all that there is, and ends with 0.
#[track_caller]
pub fn once(server: &Server, database: &Database, words: &[&str]) -> String {
    let ended = Outbox::start(server, database, &[words, &["--once"]].concat()).ended();
    assert_eq!(ended.status, Some(0), "{ended:?}");
    ended.said
}

/// Stops at a sale and ends with 1.
#[track_caller]
pub fn stops(server: &Server, database: &Database, words: &str) {
    let ended = Outbox::start(server, database, &["--sale", "*", "--once"]).ended();
    assert_eq!(ended.status, Some(1), "{ended:?}");
    assert!(ended.said.contains(words) && ended.said.contains("--reconcile"), "{ended:?}");
}

/// The orders in the tables.
#[track_caller]
pub fn written(database: &Database, sale: &str) -> BTreeMap<String, Order> {
    let query = "SELECT «id», «state», units, «buyer», «ref», deadline FROM lockstock_orders WHERE sale = ";
    let rows = database.rows(&format!("{query}'{sale}'"));
    let order = |row: Vec<String>| {
        let [id, state, units, buyer, reference, deadline] = row.try_into().expect("six columns");
        let deadline = if deadline == "NULL" { -1 } else { deadline.parse().expect("a number") };
        (id, Order { state, units: units.parse().expect("a number"), buyer, reference, deadline })
    };
    rows.into_iter().map(order).collect()
}

/// How many events are written; 0 before there are tables.
pub fn progress(database: &Database, sale: &str) -> i64 {
    let rows = database.try_rows(&format!("SELECT seq FROM lockstock_sales WHERE sale = '{sale}'"));
    rows.ok().and_then(|rows| rows.first()?.first()?.parse().ok()).unwrap_or(0)
}

/// Whether the tables say of the sale what it says itself.
pub fn agrees(database: &Database, client: &mut Client, sale: &str) -> bool {
    let info = client.expect(["STOCK.INFO", sale], ANY);
    let sums = ["total", "remaining", "seq"].map(|name| info.field(name).int().to_string());
    // Before there are tables they say nothing.
    let rows = database.try_rows(&format!("SELECT total, remaining, seq FROM lockstock_sales WHERE sale = '{sale}'"));
    rows.is_ok_and(|rows| rows == [sums.to_vec()]) && written(database, sale) == orders(client, sale)
}

#[track_caller]
pub fn agree(database: &Database, client: &mut Client, sale: &str) {
    eventually("the tables say what the sale says", || agrees(database, client, sale));
}

/// Fails unless the table of events has each of the stream once, as it is.
#[track_caller]
pub fn has_every_event(database: &Database, client: &mut Client, sale: &str, stream: &str) {
    let query = "SELECT seq, «event», «id», units, «buyer», «ref», deadline FROM lockstock_events WHERE sale = ";
    let rows = database.rows(&format!("{query}'{sale}' ORDER BY seq"));
    let told = harness::shop::events(client, stream);
    let told: Vec<Vec<String>> = told
        .into_iter()
        .map(|event| {
            let deadline =
                event.deadline.filter(|deadline| *deadline >= 0).map_or("NULL".into(), |deadline| deadline.to_string());
            vec![
                event.seq.to_string(),
                event.event,
                event.id,
                event.units.to_string(),
                event.buyer,
                event.reference,
                deadline,
            ]
        })
        .collect();
    assert_eq!(rows.len(), told.len());
    assert!(rows == told, "an event differs");
}

/// Takes, confirms, settles for less, extends, cancels and lets lapse: one order after another.
pub fn shop(client: &mut Client, sale: &str, name: &str, numbers: std::ops::Range<usize>) -> Option<()> {
    for number in numbers {
        let id = format!("o-{name}-{number}");
        let hold = ["", "HOLD 3", "HOLD 3", "HOLD 600000", "HOLD 600000", "HOLD 600000"][number % 6];
        client.ask(format!("STOCK.DECR_ONCE {sale} {id} QTY 2 BUYER b-{name} REF r-{number} {hold}"))?;
        match number % 5 {
            0 => client.ask(format!("STOCK.CONFIRM {sale} {id} KEEP 1"))?,
            1 => client.ask(format!("STOCK.CONFIRM {sale} {id}"))?,
            2 => {
                client.ask(format!("STOCK.CANCEL {sale} {id} KEEP 1"))?;
                client.ask(format!("STOCK.CANCEL {sale} {id}"))?
            }
            3 => client.ask(format!("STOCK.EXTEND {sale} {id} PX 900000"))?,
            _ => client.ask(format!("STOCK.ADJUST {sale} 2"))?,
        };
    }
    Some(())
}

/// Orders of every kind, all of this `name`.
#[track_caller]
pub fn sell(client: &mut Client, sale: &str, name: &str, count: usize) {
    for number in 0..count {
        let hold = ["", "HOLD 3600000"][number % 2];
        client.expect(format!("STOCK.DECR_ONCE {sale} {name}-{number} {hold}"), ANY);
    }
}
