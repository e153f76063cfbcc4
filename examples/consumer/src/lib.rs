//! A consumer that writes a sale's orders into a database, each change exactly once.
//!
//! ```text
//! cargo run -p lockstock-consumer -- redis://127.0.0.1:6379 events orders.db [--go-on ENTRY]
//! ```
//!
//! The stream delivers at least once: whoever dies between the database's commit and the acknowledgement gets the same entries
//! again. The sale numbers its events without gaps, and the database keeps, in the same transaction as the order, which entry of
//! the stream each number was. So there are three kinds of entries:
//!
//! - The next number: it is written.
//! - A number that was written, in the same entry: it was delivered again, and is passed over.
//! - Any other is an alarm, and the consumer stops. A number that comes again in another entry is not a repetition: a server that
//!   lost its newest changes (a failover to a replica that was behind, a start from an old file) has used it for another change. And
//!   where numbers are missing, somebody has deleted from the stream.
//!
//! After an alarm the database may tell of orders that the sale does not know any more. The alarm says which to compare with
//! `STOCK.ORDERS`; what becomes of them is the shop's to decide: sell again under the same id, or give the money back. After that
//! `--go-on` with the entry at which it stopped has it go on from there. It may stay in the command line: it is good for this one
//! entry only.
//!
//! One consumer per sale: the order of the events matters. When it dies, start it again, anywhere with the same database.
//!
//! Create the sale with `STREAM events DEADLINES`. Then the last event of an order says all that it is: held until when,
//! sold, cancelled or expired; or waiting. Who waits, and for how many units,
//! is in a table of its own, in the order in which they will be served.

use std::error::Error;
use std::path::Path;

use redis::{Connection, RedisResult, Value, cmd};
use rusqlite::{Connection as Database, OptionalExtension, Transaction, params};

const GROUP: &str = "orders-db";
const NAME: &str = "writer";

/// Writes the events of `stream` into `database`, for ever. `go_on` is the entry that an earlier alarm was about.
///
/// # Errors
///
/// When the server or the database fails: start it again, and it goes on where it was. And the alarms.
pub fn consume(url: &str, stream: &str, database: &Path, go_on: Option<&str>) -> Result<(), Box<dyn Error>> {
    let mut database = open(database)?;
    let mut redis = redis::Client::open(url)?.get_connection()?;
    join(&mut redis, stream)?;
    // First what was delivered before and not acknowledged, then what comes.
    let mut from = "0";
    loop {
        let delivered = read(&mut redis, stream, from)?;
        if delivered.is_empty() {
            from = ">";
            continue;
        }
        let changes = database.transaction()?;
        for (_, event) in &delivered {
            // What was deleted since it was delivered has been written, or else its number will be missed.
            if let Some(event) = event {
                write(&changes, event, go_on)?;
            }
        }
        changes.commit()?;
        let mut ack = cmd("XACK");
        ack.arg(stream).arg(GROUP);
        for (entry, _) in &delivered {
            ack.arg(entry);
        }
        ack.exec(&mut redis)?;
    }
}

fn open(path: &Path) -> rusqlite::Result<Database> {
    let database = Database::open(path)?;
    database.pragma_update(None, "journal_mode", "WAL")?;
    database.execute_batch(
        "CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, entry TEXT NOT NULL, id BLOB NOT NULL);
         CREATE TABLE IF NOT EXISTS orders (id BLOB PRIMARY KEY, state TEXT NOT NULL, units INTEGER NOT NULL,
                                            buyer BLOB NOT NULL, ref BLOB NOT NULL, deadline INTEGER NOT NULL);
         CREATE TABLE IF NOT EXISTS line (seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, units INTEGER NOT NULL);",
    )?;
    Ok(database)
}

/// Makes the consumer group, unless it is there already.
fn join(redis: &mut Connection, stream: &str) -> RedisResult<()> {
    let made = cmd("XGROUP").arg("CREATE").arg(stream).arg(GROUP).arg("0").arg("MKSTREAM").exec(redis);
    match made {
        Err(error) if error.code() == Some("BUSYGROUP") => Ok(()),
        made => made,
    }
}

/// One event of the sale, and the name of its entry in the stream.
struct Event {
    entry: String,
    seq: i64,
    kind: String,
    id: Vec<u8>,
    units: i64,
    buyer: Vec<u8>,
    reference: Vec<u8>,
    /// Until when the units are held; -1: they are not.
    deadline: i64,
}

/// Names and values; `None` of an entry that is pending and has been deleted from the stream, by `XTRIM` say.
type Fields = Option<Vec<(String, Vec<u8>)>>;

/// The name of an entry, and its event.
type Delivered = (String, Option<Event>);

fn read(redis: &mut Connection, stream: &str, from: &str) -> Result<Vec<Delivered>, Box<dyn Error>> {
    type Entry = (String, Fields);

    let mut call = cmd("XREADGROUP");
    call.arg("GROUP").arg(GROUP).arg(NAME).arg("COUNT").arg(100).arg("BLOCK").arg(1_000);
    let reply: Value = call.arg("STREAMS").arg(stream).arg(from).query(redis)?;
    let streams: Option<Vec<(String, Vec<Entry>)>> = redis::from_redis_value(reply)?;
    let entries = streams.unwrap_or_default().into_iter().flat_map(|(_, entries)| entries);
    entries.map(|(entry, fields)| Ok((entry.clone(), event(entry, fields)?))).collect()
}

fn event(entry: String, fields: Fields) -> Result<Option<Event>, Box<dyn Error>> {
    let Some(fields) = fields else { return Ok(None) };
    let bytes = |name: &str| {
        let found = fields.iter().find(|(field, _)| field == name);
        let why = || format!("the entry {entry} has no {name}: it is no event of a sale with DEADLINES");
        found.map(|(_, value)| value.clone()).ok_or_else(why)
    };
    let text = |name: &str| bytes(name).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(Some(Event {
        seq: text("seq")?.parse()?,
        kind: text("event")?,
        id: bytes("id")?,
        units: text("units")?.parse()?,
        buyer: bytes("buyer")?,
        reference: bytes("ref")?,
        deadline: text("deadline")?.parse()?,
        entry,
    }))
}

/// Writes one event, unless this very entry has been written before.
fn write(changes: &Transaction<'_>, event: &Event, go_on: Option<&str>) -> Result<(), Box<dyn Error>> {
    let Event { seq, entry, .. } = event;
    let known = "SELECT entry FROM events WHERE seq = ?1";
    let known: Option<String> = changes.query_row(known, [seq], |row| row.get(0)).optional()?;
    if known.as_ref() == Some(entry) {
        return Ok(());
    }
    let last: i64 = changes.query_row("SELECT coalesce(max(seq), 0) FROM events", [], |row| row.get(0))?;
    if Some(*seq) != last.checked_add(1) {
        if go_on != Some(entry) {
            return Err(alarm(event, last, known.as_deref()).into());
        }
        // Those from here on are of a past that the server has lost.
        changes.execute("DELETE FROM events WHERE seq >= ?1", [seq])?;
        changes.execute("DELETE FROM line WHERE seq >= ?1", [seq])?;
    }
    let (state, units) = match event.kind.as_str() {
        // An order that keeps some of its units is held or sold, as it was.
        "ok" | "extend" | "keep" if event.deadline >= 0 => ("held", event.units),
        "ok" | "confirm" | "keep" => ("sold", event.units),
        "wait" => ("waiting", 0),
        "cancel" => ("cancelled", 0),
        "expire" => ("expired", 0),
        // "adjust" is about the sale and not about an order.
        _ => ("", 0),
    };
    if !state.is_empty() {
        changes.execute(
            "INSERT OR REPLACE INTO orders (id, state, units, buyer, ref, deadline) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![event.id, state, units, event.buyer, event.reference, event.deadline],
        )?;
    }
    // Whoever waits is served, or leaves the line.
    changes.execute("DELETE FROM line WHERE id = ?1", params![event.id])?;
    if event.kind == "wait" {
        changes
            .execute("INSERT INTO line (seq, id, units) VALUES (?1, ?2, ?3)", params![seq, event.id, event.units])?;
    }
    changes.execute("INSERT INTO events (seq, entry, id) VALUES (?1, ?2, ?3)", params![seq, entry, event.id])?;
    Ok(())
}

/// What has happened, and what to do about it.
fn alarm(Event { seq, entry, .. }: &Event, last: i64, known: Option<&str>) -> String {
    let (what, compare) = match known {
        Some(known) => (
            format!("event {seq} is the entry {entry} and was {known}: the server has lost what it told since then"),
            format!("the orders in SELECT DISTINCT id FROM events WHERE seq >= {seq}"),
        ),
        None => (format!("after event {last} comes {seq}: the stream has lost some"), "all orders".into()),
    };
    format!("{what}. Compare {compare} with STOCK.ORDERS, then start again with --go-on {entry}")
}
