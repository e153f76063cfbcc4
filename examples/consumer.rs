//! A consumer that writes a sale's orders into a database, each change exactly once.
//!
//!     cargo run --example consumer -- redis://127.0.0.1:6379 events orders.db
//!
//! The stream delivers at least once: whoever dies between the database's commit and the acknowledgement gets the same events
//! again. The sale numbers its events without gaps, so the number of the last one that was written, kept in the same
//! database and changed in the same transaction, says which of them are new. It also says when one is missing, which is
//! worth an alarm, for then somebody has deleted from the stream.
//!
//! One consumer per sale: the order of the events matters. When it dies, start it again, anywhere with the same database.
//!
//! Create the sale with `STREAM events DEADLINES`. Then the last event of an order says all that it is: held until when,
//! sold, cancelled or expired.

use std::env;
use std::error::Error;
use std::path::Path;

use redis::{Connection, RedisResult, Value, cmd};
use rusqlite::{Connection as Database, Transaction, params};

const GROUP: &str = "orders-db";
const NAME: &str = "writer";

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [url, stream, database] = &args[..] else { return Err("usage: consumer URL STREAM DATABASE".into()) };
    consume(url, stream, Path::new(database))
}

/// Writes the events of `stream` into `database`, for ever.
///
/// # Errors
///
/// When the server or the database fails, or events are missing; start it again, and it goes on where it was.
pub fn consume(url: &str, stream: &str, database: &Path) -> Result<(), Box<dyn Error>> {
    let mut database = open(database)?;
    let mut redis = redis::Client::open(url)?.get_connection()?;
    join(&mut redis, stream)?;
    // First what was delivered before and not acknowledged, then what comes.
    let mut from = "0";
    loop {
        let events = read(&mut redis, stream, from)?;
        if events.is_empty() {
            from = ">";
            continue;
        }
        let changes = database.transaction()?;
        for event in &events {
            write(&changes, event)?;
        }
        changes.commit()?;
        let mut ack = cmd("XACK");
        ack.arg(stream).arg(GROUP);
        for event in &events {
            ack.arg(&event.entry);
        }
        ack.exec(&mut redis)?;
    }
}

fn open(path: &Path) -> rusqlite::Result<Database> {
    let database = Database::open(path)?;
    database.pragma_update(None, "journal_mode", "WAL")?;
    database.execute_batch(
        "CREATE TABLE IF NOT EXISTS progress (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL);
         CREATE TABLE IF NOT EXISTS orders (id BLOB PRIMARY KEY, state TEXT NOT NULL, units INTEGER NOT NULL,
                                            buyer BLOB NOT NULL, ref BLOB NOT NULL, deadline INTEGER NOT NULL);
         INSERT OR IGNORE INTO progress VALUES (1, 0);",
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

fn read(redis: &mut Connection, stream: &str, from: &str) -> Result<Vec<Event>, Box<dyn Error>> {
    type Entry = (String, Vec<(String, Vec<u8>)>);

    let mut call = cmd("XREADGROUP");
    call.arg("GROUP").arg(GROUP).arg(NAME).arg("COUNT").arg(100).arg("BLOCK").arg(1_000);
    let reply: Value = call.arg("STREAMS").arg(stream).arg(from).query(redis)?;
    let streams: Option<Vec<(String, Vec<Entry>)>> = redis::from_redis_value(reply)?;
    streams.unwrap_or_default().into_iter().flat_map(|(_, entries)| entries).map(event).collect()
}

fn event((entry, fields): (String, Vec<(String, Vec<u8>)>)) -> Result<Event, Box<dyn Error>> {
    let bytes = |name: &str| {
        let found = fields.iter().find(|(field, _)| field == name);
        found.map(|(_, value)| value.clone()).ok_or_else(|| format!("{entry} has no {name}"))
    };
    let text = |name: &str| bytes(name).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(Event {
        seq: text("seq")?.parse()?,
        kind: text("event")?,
        id: bytes("id")?,
        units: text("units")?.parse()?,
        buyer: bytes("buyer")?,
        reference: bytes("ref")?,
        deadline: text("deadline")?.parse()?,
        entry,
    })
}

/// Writes one event, unless it has been written before.
fn write(changes: &Transaction<'_>, event: &Event) -> Result<(), Box<dyn Error>> {
    let last: i64 = changes.query_row("SELECT seq FROM progress", [], |row| row.get(0))?;
    if event.seq <= last {
        return Ok(());
    }
    if Some(event.seq) != last.checked_add(1) {
        return Err(format!("after event {last} comes {}: the stream has lost some", event.seq).into());
    }
    let (state, units) = match event.kind.as_str() {
        "ok" | "extend" if event.deadline >= 0 => ("held", event.units),
        "ok" | "confirm" => ("sold", event.units),
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
    changes.execute("UPDATE progress SET seq = ?1", [event.seq])?;
    Ok(())
}
