//! What may be asked for on the command line.

use std::ffi::OsString;
use std::time::Duration;

use clap::Parser;

/// Write the orders of sales into a database, each change once.
///
/// Follows the stream of every sale that matches, and writes its orders and how far it has read in one transaction. It may be killed at
/// any instant and started again, anywhere with the same database; a second one stands in line until the first has ended.
#[derive(Debug, Clone, Parser)]
#[command(name = "lockstock-outbox", version, after_help = BELOW, after_long_help = BELOW)]
pub struct Options {
    /// The server: redis://[user:pass@]host:port[/db] (or see below)
    #[arg(
        long,
        value_name = "URL",
        env = "LOCKSTOCK_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    pub redis: String,
    /// The database: postgres://user:pass@host/db, mysql://user:pass@host/db or sqlite:FILE
    #[arg(long, value_name = "URL", env = "LOCKSTOCK_OUTBOX_TO", hide_env_values = true)]
    pub to: String,
    /// The sales: a key, or a pattern as SCAN matches it; may be repeated
    #[arg(long = "sale", value_name = "PATTERN", required = true)]
    pub sales: Vec<OsString>,
    /// Write all that has happened so far, and end
    #[arg(long)]
    pub once: bool,
    /// Make the tables what STOCK.ORDERS says, then go on; also after events were lost or a sale was created anew
    #[arg(long)]
    pub reconcile: bool,
    /// Trim entries that are written and older than TIME from the streams
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub keep: Option<Duration>,
    /// How many events one transaction has at most
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub batch: u32,
    /// Serve metrics for Prometheus on this address, at /metrics
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics: Option<String>,
    /// Keep every event, too, in a table of its own
    #[arg(long)]
    pub events: bool,
    /// What the names of the tables begin with
    #[arg(long, value_name = "NAME", default_value = "lockstock_", value_parser = prefix)]
    pub prefix: String,
}

const BELOW: &str = "\
Servers:
  redis://[user:pass@]host:port[/db]             one server
  rediss://[user:pass@]host:port[/db]            the same with TLS
  redis+cluster://host:port,host:port            a cluster, by some of its nodes
  redis+sentinel://host:port,host:port/name      the primary of this name, by its Sentinels

Tables, made if they are missing:
  lockstock_orders   sale, id, state, units, buyer, ref, deadline, seq, changed_at
  lockstock_sales    sale, total, remaining, seq, stream_id, fence, changed_at, stream
  lockstock_events   sale, seq, event, id, units, buyer, ref, deadline (with --events)

Times: 500ms, 30s, 5m, 2h, 7d.

Exit status: 0 after --once, TERM or INT,
   1  --once has stopped a sale; the log names the reason
  64  wrong usage
  78  the database or the server refuses: a password, a table of another shape, no module";

/// `500ms`, `30s`, `5m`, `2h`, `7d`; a number without a unit could mean anything.
pub fn time(text: &str) -> Result<Duration, String> {
    let expected = || "expected a time such as 500ms, 30s, 5m, 2h or 7d".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(expected)?;
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(expected()),
    };
    let time = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    time.filter(|time| *time < 1 << 53).map(Duration::from_millis).ok_or_else(expected)
}

/// The beginning of a name that needs no quotes in any database.
fn prefix(text: &str) -> Result<String, String> {
    let mut letters = text.chars();
    let begins = letters.next().is_none_or(|first| first.is_ascii_lowercase() || first == '_');
    let goes_on = letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if begins && goes_on && text.len() <= 40 {
        Ok(text.to_owned())
    } else {
        Err("expected at most 40 of a to z, 0 to 9 and _".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_is_sound() {
        use clap::CommandFactory;
        Options::command().debug_assert();
    }

    #[test]
    fn times_have_units() {
        for (text, ms) in [("0s", 0), ("500ms", 500), ("30s", 30_000), ("2h", 7_200_000), ("1d", 86_400_000)] {
            assert_eq!(time(text), Ok(Duration::from_millis(ms)));
        }
        for wrong in ["", "5", "s", "-1s", "1.5s", "5 s", "99999999999999999999d", "9007199254740992ms"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_prefix_needs_no_quotes() {
        for fine in ["", "shop_", "_x9"] {
            assert_eq!(prefix(fine).as_deref(), Ok(fine));
        }
        for wrong in ["9a", "a-b", "a b", "a;drop", "Shop_", "schema.", "x".repeat(41).as_str()] {
            assert!(prefix(wrong).is_err(), "{wrong}");
        }
    }
}
