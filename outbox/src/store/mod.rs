//! The database: connections, tables, and transactions that move a sale's position with the rows.

mod sql;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use sqlx::any::AnyConnectOptions;
use sqlx::{AnyConnection, AssertSqlSafe, ConnectOptions, Connection, Row};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::event::{EntryId, EventRow, OrderRow, State, storable};
use crate::source::Order;
use crate::trouble::{Place, Trouble};
pub use sql::LONGEST_SALE;
use sql::{Kind, Sql};

/// The version of the tables that this program makes and understands.
const VERSION: i64 = 1;
/// How long a database may take for one transaction.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long for one that makes the tables of a sale anew.
const LONG_PATIENCE: Duration = Duration::from_mins(10);
/// How many connections there are at most.
const CONNECTIONS: usize = 8;
/// How many rows one statement has.
const ROWS: usize = 1000;

/// A database with the tables in it.
pub struct Store {
    options: AnyConnectOptions,
    sql: Sql,
    events: bool,
    /// Whether the tables say which stream a position is of.
    has_streams: AtomicBool,
    slots: Semaphore,
    idle: Mutex<Vec<AnyConnection>>,
}

/// How far the tables have come with a sale, and their values for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub seq: i64,
    /// The entry of that event.
    pub entry: EntryId,
    /// The entry is none of this sale's, only the last before its events go on: after the sale was reconciled.
    pub foreign: bool,
    pub total: i64,
    pub remaining: i64,
}

impl Position {
    /// As in XRANGE: `(` stands for the entries after it.
    fn stream_id(&self) -> String {
        format!("{}{}", if self.foreign { "(" } else { "" }, self.entry)
    }

    /// When the last event was, in Unix milliseconds; now by our clock if there was none.
    pub fn moment(&self) -> u64 {
        if self.entry == EntryId::default() { now() } else { storable(self.entry.ms) }
    }

    /// Where to begin to read: with the event that was written last, if it is there.
    pub fn first(&self) -> EntryId {
        if self.foreign { self.entry.next() } else { self.entry }
    }
}

/// Which writer writes which sale, from which position.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    pub sale: &'a str,
    pub fence: i64,
    pub from: Position,
}

/// An order in the tables, and the number of the event that made it so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub order: Order,
    pub seq: i64,
}

/// A connection that is closed when it is dropped, unless it is given back.
struct Lent<'a> {
    connection: AnyConnection,
    _slot: SemaphorePermit<'a>,
}

impl Store {
    /// The database of this URL.
    ///
    /// # Errors
    /// The URL is none of a database.
    pub fn new(url: &str, prefix: &str, events: bool) -> Result<Self, String> {
        sqlx::any::install_default_drivers();
        let (kind, url) = match url.split_once(':').map(|(scheme, _)| scheme) {
            Some("postgres" | "postgresql") => (Kind::Postgres, url.to_owned()),
            Some("mysql" | "mariadb") => (Kind::MySql, url.to_owned()),
            Some("sqlite") if url.contains("mode=") => (Kind::Sqlite, url.to_owned()),
            Some("sqlite") => (Kind::Sqlite, format!("{url}{}mode=rwc", if url.contains('?') { '&' } else { '?' })),
            _ => return Err("expected postgres://…, mysql://… or sqlite:FILE".into()),
        };
        let options: AnyConnectOptions = url.parse().map_err(|error: sqlx::Error| error.to_string())?;
        let connections = if kind == Kind::Sqlite { 1 } else { CONNECTIONS };
        Ok(Self {
            options: options.disable_statement_logging(),
            sql: Sql::new(kind, prefix),
            events,
            has_streams: AtomicBool::new(false),
            slots: Semaphore::new(connections),
            idle: Mutex::default(),
        })
    }

    /// Makes the tables, unless they are there.
    pub async fn prepare(&self) -> Result<(), Trouble> {
        patiently(PATIENCE, async {
            let mut lent = self.lend().await?;
            // Another outbox may be creating the tables at the same time.
            let mut tries = 3_u32;
            loop {
                let looked = self.look(&mut lent.connection).await;
                let Err(Trouble::Refused(_)) = looked else { return looked };
                tries = tries.saturating_sub(1);
                if tries == 0 {
                    return looked;
                }
                let made = self.make(&mut lent.connection).await;
                if tries == 1 {
                    made?;
                }
            }
        })
        .await
    }

    /// Whether the tables have the right shape. A table that nothing but its name is known of is not made use of.
    async fn look(&self, connection: &mut AnyConnection) -> Result<(), Trouble> {
        for look in self.sql.looks.iter().chain(self.events.then_some(&self.sql.events_look)) {
            sqlx::query(AssertSqlSafe(look.clone())).fetch_optional(&mut *connection).await?;
        }
        let version = sqlx::query(AssertSqlSafe(self.sql.version.clone())).fetch_one(&mut *connection).await?;
        let version: Option<i64> = version.try_get(0)?;
        match version {
            Some(VERSION) => self.look_for_streams(connection).await,
            Some(other) => {
                Err(Trouble::Refused(format!("the tables have version {other}, and this program knows {VERSION}")))
            }
            None => Err(Trouble::Refused("the tables have no version".into())),
        }
    }

    /// Adds the column of the stream where it is missing. If that is refused, as for want of the right, it goes on without.
    async fn look_for_streams(&self, connection: &mut AnyConnection) -> Result<(), Trouble> {
        // Another outbox may be adding it at the same time.
        for statement in [&self.sql.stream_look, &self.sql.stream_column, &self.sql.stream_look] {
            match sqlx::raw_sql(AssertSqlSafe(statement.clone())).execute(&mut *connection).await.map_err(Trouble::from)
            {
                Ok(_) => {
                    self.has_streams.store(true, Relaxed);
                    break;
                }
                Err(Trouble::Refused(_)) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }

    async fn make(&self, connection: &mut AnyConnection) -> Result<(), Trouble> {
        for table in self.sql.tables.iter().chain(self.events.then_some(&self.sql.events_table)) {
            sqlx::raw_sql(AssertSqlSafe(table.clone())).execute(&mut *connection).await?;
        }
        let version = sqlx::query(AssertSqlSafe(self.sql.version.clone())).fetch_one(&mut *connection).await?;
        if version.try_get::<Option<i64>, _>(0)?.is_none() {
            sqlx::raw_sql(AssertSqlSafe(self.sql.first_version.clone())).execute(connection).await?;
        }
        Ok(())
    }

    /// Writes that `sale` is followed under this fence, and returns its position and whether that is one in this stream.
    /// [`Trouble::Lost`] if the table has a larger fence.
    pub async fn claim(&self, sale: &str, fence: i64, stream: &str) -> Result<(Position, bool), Trouble> {
        patiently(PATIENCE, async {
            let mut lent = self.lend().await?;
            let mut work = lent.connection.begin().await?;
            let first = sqlx::query(AssertSqlSafe(self.sql.first_row.clone())).bind(sale).bind(signed(now()));
            first.execute(&mut *work).await?;
            let claim = sqlx::query(AssertSqlSafe(self.sql.claim.clone())).bind(fence).bind(sale).bind(fence);
            if claim.execute(&mut *work).await?.rows_affected() != 1 {
                return Err(Trouble::Lost);
            }
            let row = sqlx::query(AssertSqlSafe(self.sql.position.clone())).bind(sale).fetch_one(&mut *work).await?;
            let entry: String = row.try_get(1)?;
            let (foreign, entry) = entry.strip_prefix('(').map_or((false, entry.as_str()), |entry| (true, entry));
            let entry = entry.parse().map_err(Trouble::Refused)?;
            let position =
                Position { seq: row.try_get(0)?, entry, foreign, total: row.try_get(2)?, remaining: row.try_get(3)? };
            let mut ours = true;
            if self.has_streams.load(Relaxed) {
                let note =
                    sqlx::query(AssertSqlSafe(self.sql.same_stream.clone())).bind(stream).bind(sale).bind(stream);
                ours = note.execute(&mut *work).await?.rows_affected() == 1;
            }
            work.commit().await?;
            self.give_back(lent);
            Ok((position, ours))
        })
        .await
    }

    /// Writes rows and the new position in one transaction. [`Trouble::Lost`] if the position or the fence has changed.
    pub async fn write(
        &self,
        writer: Writer<'_>,
        to: Position,
        orders: &[OrderRow],
        events: &[EventRow],
    ) -> Result<(), Trouble> {
        patiently(PATIENCE, async {
            let mut lent = self.lend().await?;
            let mut work = lent.connection.begin().await?;
            self.advance(&mut work, writer, to).await?;
            send(&mut work, &self.sql.orders, writer.sale, orders).await?;
            if self.events {
                send(&mut work, &self.sql.events, writer.sale, events).await?;
            }
            work.commit().await?;
            self.give_back(lent);
            Ok(())
        })
        .await
    }

    /// All orders of a sale, by id.
    pub async fn orders(&self, sale: &str) -> Result<HashMap<String, Stored>, Trouble> {
        let (mut all, mut after) = (HashMap::new(), String::new());
        loop {
            let page = patiently(PATIENCE, async {
                let mut lent = self.lend().await?;
                let count = i64::try_from(ROWS).unwrap_or(i64::MAX);
                let page =
                    sqlx::query(AssertSqlSafe(self.sql.page.clone())).bind(sale).bind(after.as_str()).bind(count);
                let page = page.fetch_all(&mut lent.connection).await?;
                self.give_back(lent);
                Ok(page)
            })
            .await?;
            let Some(last) = page.last() else { return Ok(all) };
            after = last.try_get("id").map_err(Trouble::from)?;
            for row in page {
                let stored = stored(&row)?;
                all.insert(stored.order.id.clone(), stored);
            }
        }
    }

    /// Begins the one transaction that makes the tables of a sale anew, up to a position in this stream.
    pub async fn renew<'a>(&'a self, writer: Writer<'a>, to: Position, stream: &str) -> Result<Renewal<'a>, Trouble> {
        let mut lent = patiently(PATIENCE, self.lend()).await?;
        let moved = patiently(PATIENCE, async {
            sqlx::query("BEGIN").execute(&mut lent.connection).await?;
            self.advance(&mut lent.connection, writer, to).await?;
            if self.has_streams.load(Relaxed) {
                let note = sqlx::query(AssertSqlSafe(self.sql.stream.clone())).bind(stream).bind(writer.sale);
                note.execute(&mut lent.connection).await?;
            }
            Ok(())
        });
        moved.await?;
        Ok(Renewal { store: self, lent, sale: writer.sale })
    }

    /// The first statement of a transaction. An outbox that has lost the sale waits here for its successor, and then writes nothing.
    async fn advance(&self, work: &mut AnyConnection, writer: Writer<'_>, to: Position) -> Result<(), Trouble> {
        let advance = sqlx::query(AssertSqlSafe(self.sql.advance.clone()))
            .bind(to.seq)
            .bind(to.stream_id())
            .bind(to.total)
            .bind(to.remaining)
            .bind(signed(to.moment()))
            .bind(writer.sale)
            .bind(writer.fence)
            .bind(writer.from.seq);
        if advance.execute(work).await?.rows_affected() == 1 { Ok(()) } else { Err(Trouble::Lost) }
    }

    async fn lend(&self) -> Result<Lent<'_>, Trouble> {
        let away = |error: tokio::sync::AcquireError| Trouble::Away(Place::Database, error.to_string());
        let slot = self.slots.acquire().await.map_err(away)?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = if let Some(connection) = idle {
            connection
        } else {
            let mut new = self.options.connect().await?;
            for word in self.sql.greeting {
                sqlx::raw_sql(*word).execute(&mut new).await?;
            }
            new
        };
        Ok(Lent { connection, _slot: slot })
    }

    /// Keeps a connection whose work is done. One whose work failed may be in any state.
    fn give_back(&self, lent: Lent<'_>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(lent.connection);
    }
}

/// The transaction that makes the tables of a sale anew; nothing of it counts before [`commit`](Self::commit).
pub struct Renewal<'a> {
    store: &'a Store,
    lent: Lent<'a>,
    sale: &'a str,
}

impl Renewal<'_> {
    pub async fn orders(&mut self, orders: &[OrderRow]) -> Result<(), Trouble> {
        patiently(LONG_PATIENCE, send(&mut self.lent.connection, &self.store.sql.orders, self.sale, orders)).await
    }

    pub async fn events(&mut self, events: &[EventRow]) -> Result<(), Trouble> {
        patiently(LONG_PATIENCE, send(&mut self.lent.connection, &self.store.sql.events, self.sale, events)).await
    }

    /// Removes the events after number `seq`.
    pub async fn forget_events(&mut self, seq: i64) -> Result<(), Trouble> {
        patiently(LONG_PATIENCE, async {
            let forget = sqlx::query(AssertSqlSafe(self.store.sql.forget_events.clone())).bind(self.sale).bind(seq);
            forget.execute(&mut self.lent.connection).await?;
            Ok(())
        })
        .await
    }

    pub async fn commit(mut self) -> Result<(), Trouble> {
        patiently(LONG_PATIENCE, async {
            sqlx::query("COMMIT").execute(&mut self.lent.connection).await?;
            Ok(())
        })
        .await?;
        self.store.give_back(self.lent);
        Ok(())
    }
}

async fn send<T: Serialize>(work: &mut AnyConnection, statement: &str, sale: &str, rows: &[T]) -> Result<(), Trouble> {
    for rows in rows.chunks(ROWS) {
        let rows = serde_json::to_string(rows).map_err(|error| Trouble::Refused(error.to_string()))?;
        sqlx::query(AssertSqlSafe(statement.to_owned())).bind(sale).bind(rows).execute(&mut *work).await?;
    }
    Ok(())
}

fn stored(row: &sqlx::any::AnyRow) -> Result<Stored, Trouble> {
    let state = row.try_get::<String, _>("state")?.parse();
    let order = Order {
        id: row.try_get("id")?,
        // A state that no outbox writes equals no order's, so the row is corrected.
        units: if state.is_ok() { row.try_get("units")? } else { -1 },
        state: state.unwrap_or(State::Held),
        buyer: row.try_get("buyer")?,
        reference: row.try_get("ref")?,
        deadline: row.try_get("deadline")?,
    };
    Ok(Stored { order, seq: row.try_get("seq")? })
}

/// A database that is frozen or cut off does not say so.
async fn patiently<T>(patience: Duration, work: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
    let silent = || Trouble::Away(Place::Database, format!("no answer within {} s", patience.as_secs()));
    timeout(patience, work).await.unwrap_or_else(|_| Err(silent()))
}

/// Unix milliseconds by our clock.
pub fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_millis().try_into().unwrap_or(u64::MAX)
}

/// The type of a parameter.
fn signed(ms: u64) -> i64 {
    ms.try_into().unwrap_or(i64::MAX)
}
