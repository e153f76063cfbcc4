//! The statements for each database. Rows go as one JSON array, so that a statement is the same for one row and for a thousand.

use std::fmt::Write;

/// Which database it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Postgres,
    /// MariaDB, too.
    MySql,
    Sqlite,
}

/// The statements for one database and one prefix.
#[derive(Debug)]
pub struct Sql {
    /// Said to every new connection.
    pub greeting: &'static [&'static str],
    /// The tables that are always there, and the one of the events.
    pub tables: [String; 3],
    pub events_table: String,
    /// Fail unless the tables have the columns that they should.
    pub looks: [String; 3],
    pub events_look: String,
    /// Fails if the column of the stream is missing, which builds of 0.3 lack that are older than it.
    pub stream_look: String,
    pub stream_column: String,
    /// The version of the tables.
    pub version: String,
    pub first_version: String,
    /// The first row of a sale: sale, time.
    pub first_row: String,
    /// Writes the fence of a sale's outbox, unless the table has a larger one: fence, sale, fence.
    pub claim: String,
    /// seq, `stream_id`, total and remaining of a sale.
    pub position: String,
    /// Notes whose entries those of the position are: stream, sale.
    pub stream: String,
    /// The same, unless it is a position in another stream: stream, sale, stream.
    pub same_stream: String,
    /// Moves the position: seq, `stream_id`, total, remaining, time, sale, fence, seq before.
    pub advance: String,
    /// Writes orders: sale, rows.
    pub orders: String,
    /// Writes events: sale, rows.
    pub events: String,
    /// Removes events of a sale: sale, the number after which.
    pub forget_events: String,
    /// A page of the orders of a sale in the order of their ids: sale, the id after which, how many.
    pub page: String,
}

/// Names of 512 bytes in hex, with `\x`; the key of InnoDB has 3072 bytes.
const NAME: &str = "VARBINARY(1026)";

/// The longest name of a sale that is stored.
pub const LONGEST_SALE: usize = 1026;

impl Sql {
    pub fn new(kind: Kind, prefix: &str) -> Self {
        let words = Words { kind, prefix };
        Self {
            greeting: match kind {
                // Writes wait for those of other programs.
                Kind::Sqlite => &["PRAGMA busy_timeout = 5000", "PRAGMA journal_mode = WAL"],
                // A process that is frozen amid a transaction does not keep the next one from the rows. In MySQL it does.
                Kind::Postgres => &["SET idle_in_transaction_session_timeout = '10s'"],
                Kind::MySql => &["SET @lockstock = 1 /*M!100300 , SESSION idle_transaction_timeout = 10 */"],
            },
            tables: [words.orders_table(), words.sales_table(), words.schema_table()],
            events_table: words.events_table(),
            looks: [
                format!(
                    "SELECT sale, id, state, units, buyer, ref, deadline, seq, changed_at FROM {prefix}orders WHERE 1 = 0"
                ),
                format!(
                    "SELECT sale, total, remaining, seq, stream_id, fence, changed_at FROM {prefix}sales WHERE 1 = 0"
                ),
                format!("SELECT version FROM {prefix}schema WHERE 1 = 0"),
            ],
            events_look: format!(
                "SELECT sale, seq, event, id, units, buyer, ref, deadline FROM {prefix}events WHERE 1 = 0"
            ),
            stream_look: format!("SELECT stream FROM {prefix}sales WHERE 1 = 0"),
            stream_column: format!("ALTER TABLE {prefix}sales ADD COLUMN stream {}", words.name()),
            version: format!("SELECT max(version) FROM {prefix}schema"),
            first_version: format!("INSERT INTO {prefix}schema (version) VALUES (1)"),
            first_row: words.first_row(),
            claim: words.numbered(&format!("UPDATE {prefix}sales SET fence = ? WHERE sale = ? AND fence <= ?")),
            position: words.numbered(&format!(
                "SELECT seq, {}, total, remaining FROM {prefix}sales WHERE sale = ?",
                words.text("stream_id")
            )),
            stream: words.numbered(&format!("UPDATE {prefix}sales SET stream = ? WHERE sale = ?")),
            same_stream: words.numbered(&format!(
                "UPDATE {prefix}sales SET stream = ? WHERE sale = ? AND (stream_id = '0-0' OR stream IS NULL OR stream = ?)"
            )),
            advance: words.numbered(&format!(
                "UPDATE {prefix}sales SET seq = ?, stream_id = ?, total = ?, remaining = ?, changed_at = {} \
                 WHERE sale = ? AND fence = ? AND seq = ?",
                words.time("?")
            )),
            orders: words.upsert(
                "orders",
                &["id"],
                &[
                    ("state", Column::Word),
                    ("units", Column::Number),
                    ("buyer", Column::Name),
                    ("ref", Column::Name),
                    ("deadline", Column::Number),
                    ("seq", Column::Number),
                    ("at", Column::Time),
                ],
            ),
            events: words.upsert(
                "events",
                &["seq"],
                &[
                    ("event", Column::Word),
                    ("id", Column::Name),
                    ("units", Column::Number),
                    ("buyer", Column::Name),
                    ("ref", Column::Name),
                    ("deadline", Column::Number),
                ],
            ),
            forget_events: words.numbered(&format!("DELETE FROM {prefix}events WHERE sale = ? AND seq > ?")),
            page: words.numbered(&format!(
                "SELECT {} AS id, {} AS state, units, {} AS buyer, {} AS ref, deadline, seq FROM {prefix}orders \
                 WHERE sale = ? AND id > ? ORDER BY {prefix}orders.id LIMIT ?",
                words.text("id"),
                words.text("state"),
                words.text("buyer"),
                words.text("ref")
            )),
        }
    }
}

/// How a column of a row of JSON is read.
#[derive(Clone, Copy)]
enum Column {
    Name,
    Word,
    Number,
    /// Unix milliseconds under `at`, which become `changed_at`.
    Time,
}

struct Words<'a> {
    kind: Kind,
    prefix: &'a str,
}

impl Words<'_> {
    /// Text that compares by bytes; in MySQL and MariaDB every type of text would take some names for one.
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Postgres => "TEXT COLLATE \"C\"",
            Kind::MySql => NAME,
            Kind::Sqlite => "TEXT",
        }
    }

    fn word(&self) -> &'static str {
        match self.kind {
            Kind::MySql => "VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin",
            Kind::Postgres | Kind::Sqlite => "TEXT",
        }
    }

    fn moment(&self) -> &'static str {
        match self.kind {
            Kind::Postgres => "TIMESTAMPTZ",
            Kind::MySql => "DATETIME(3)",
            Kind::Sqlite => "TEXT",
        }
    }

    /// The end of a table's description.
    fn end(&self) -> &'static str {
        match self.kind {
            Kind::Postgres => ")",
            Kind::MySql => ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
            Kind::Sqlite => ") WITHOUT ROWID",
        }
    }

    fn orders_table(&self) -> String {
        let Self { prefix, .. } = self;
        let (name, word, moment, end) = (self.name(), self.word(), self.moment(), self.end());
        format!(
            "CREATE TABLE IF NOT EXISTS {prefix}orders (sale {name} NOT NULL, id {name} NOT NULL, state {word} NOT NULL, \
             units BIGINT NOT NULL, buyer {name} NOT NULL, ref {name} NOT NULL, deadline BIGINT, seq BIGINT NOT NULL, \
             changed_at {moment} NOT NULL, PRIMARY KEY (sale, id){end}"
        )
    }

    fn sales_table(&self) -> String {
        let Self { prefix, .. } = self;
        let (name, moment, end) = (self.name(), self.moment(), self.end());
        let id = if self.kind == Kind::MySql { "VARCHAR(42) CHARACTER SET ascii COLLATE ascii_bin" } else { "TEXT" };
        format!(
            "CREATE TABLE IF NOT EXISTS {prefix}sales (sale {name} NOT NULL, total BIGINT NOT NULL, remaining BIGINT NOT NULL, \
             seq BIGINT NOT NULL, stream_id {id} NOT NULL, fence BIGINT NOT NULL, changed_at {moment} NOT NULL, stream {name}, \
             PRIMARY KEY (sale){end}"
        )
    }

    fn events_table(&self) -> String {
        let Self { prefix, .. } = self;
        let (name, word, end) = (self.name(), self.word(), self.end());
        format!(
            "CREATE TABLE IF NOT EXISTS {prefix}events (sale {name} NOT NULL, seq BIGINT NOT NULL, event {word} NOT NULL, \
             id {name} NOT NULL, units BIGINT NOT NULL, buyer {name} NOT NULL, ref {name} NOT NULL, deadline BIGINT, \
             PRIMARY KEY (sale, seq){end}"
        )
    }

    fn schema_table(&self) -> String {
        let (Self { prefix, .. }, end) = (self, self.end());
        format!("CREATE TABLE IF NOT EXISTS {prefix}schema (version BIGINT NOT NULL, PRIMARY KEY (version){end}")
    }

    /// The moment of this many Unix milliseconds.
    fn time(&self, ms: &str) -> String {
        match self.kind {
            Kind::Postgres => format!("to_timestamp({ms}::bigint / 1000.0)"),
            // In UTC, whatever zone the session has.
            Kind::MySql => format!("(TIMESTAMP'1970-01-01 00:00:00.000' + INTERVAL 1000 * {ms} MICROSECOND)"),
            Kind::Sqlite => format!("strftime('%Y-%m-%dT%H:%M:%fZ', {ms} / 1000.0, 'unixepoch')"),
        }
    }

    /// A column of names as text.
    fn text(&self, column: &str) -> String {
        match self.kind {
            Kind::MySql => format!("CONVERT({column} USING utf8mb4)"),
            Kind::Postgres | Kind::Sqlite => column.to_owned(),
        }
    }

    /// PostgreSQL numbers its parameters.
    fn numbered(&self, statement: &str) -> String {
        if self.kind != Kind::Postgres {
            return statement.to_owned();
        }
        let mut parts = statement.split('?');
        let mut numbered = parts.next().unwrap_or_default().to_owned();
        for (number, part) in (1..).zip(parts) {
            // Writing into a string does not fail.
            let _ = write!(numbered, "${number}");
            numbered.push_str(part);
        }
        numbered
    }

    fn first_row(&self) -> String {
        let (Self { prefix, .. }, time) = (self, self.time("?"));
        let row = format!(
            "INTO {prefix}sales (sale, total, remaining, seq, stream_id, fence, changed_at) VALUES (?, 0, 0, 0, '0-0', 0, {time})"
        );
        self.numbered(&match self.kind {
            Kind::MySql => format!("INSERT IGNORE {row}"),
            Kind::Postgres | Kind::Sqlite => format!("INSERT {row} ON CONFLICT DO NOTHING"),
        })
    }

    /// Inserts rows of JSON, or replaces those that are there.
    fn upsert(&self, table: &str, key: &[&str], values: &[(&str, Column)]) -> String {
        let Self { prefix, .. } = self;
        let key_columns = key.iter().map(|name| (*name, if *name == "seq" { Column::Number } else { Column::Name }));
        let all: Vec<(&str, Column)> = key_columns.chain(values.iter().copied()).collect();
        let target = |name: &str, column: Column| {
            if matches!(column, Column::Time) { "changed_at".to_owned() } else { name.to_owned() }
        };
        let list = |part: &dyn Fn(&str, Column) -> String| {
            all.iter().map(|(name, column)| part(name, *column)).collect::<Vec<_>>().join(", ")
        };
        let columns = list(&target);
        let from = match self.kind {
            Kind::Postgres => {
                let types = list(&|name, column| {
                    format!(
                        "{name} {}",
                        if matches!(column, Column::Number | Column::Time) { "bigint" } else { "text" }
                    )
                });
                format!("json_to_recordset(?::json) AS r({types})")
            }
            Kind::MySql => {
                let types = list(&|name, column| {
                    let kind = match column {
                        Column::Number | Column::Time => "BIGINT",
                        Column::Name => "VARCHAR(1026) CHARACTER SET utf8mb4",
                        Column::Word => "VARCHAR(16) CHARACTER SET utf8mb4",
                    };
                    format!("{name} {kind} PATH '$.{name}'")
                });
                format!("JSON_TABLE(?, '$[*]' COLUMNS ({types})) AS r")
            }
            Kind::Sqlite => "json_each(?) AS r".to_owned(),
        };
        let read = list(&|name, column| {
            let value = if self.kind == Kind::Sqlite { format!("r.value ->> '{name}'") } else { format!("r.{name}") };
            if matches!(column, Column::Time) { self.time(&format!("({value})")) } else { value }
        });
        let set = values.iter().map(|(name, column)| target(name, *column)).map(|name| match self.kind {
            Kind::MySql => format!("{name} = VALUES({name})"),
            Kind::Postgres | Kind::Sqlite => format!("{name} = excluded.{name}"),
        });
        let set = set.collect::<Vec<_>>().join(", ");
        let insert = format!("INSERT INTO {prefix}{table} (sale, {columns}) SELECT ?, {read} FROM {from}");
        self.numbered(&match self.kind {
            Kind::MySql => format!("{insert} ON DUPLICATE KEY UPDATE {set}"),
            // Without WHERE, SQLite would take ON for a join's.
            Kind::Postgres | Kind::Sqlite => {
                format!("{insert} WHERE true ON CONFLICT (sale, {}) DO UPDATE SET {set}", key.join(", "))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbered_for_postgresql_only() {
        let [postgres, mysql] = [Kind::Postgres, Kind::MySql].map(|kind| Sql::new(kind, "shop_"));
        assert_eq!(postgres.claim, "UPDATE shop_sales SET fence = $1 WHERE sale = $2 AND fence <= $3");
        assert_eq!(mysql.claim, "UPDATE shop_sales SET fence = ? WHERE sale = ? AND fence <= ?");
        assert!(postgres.orders.contains("json_to_recordset($2::json)"), "{}", postgres.orders);
    }
}
