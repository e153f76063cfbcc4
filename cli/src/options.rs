//! The options of the command line.
#![expect(clippy::doc_markdown, reason = "these are the words of `--help`")]
#![expect(clippy::struct_excessive_bools, reason = "options that are there or not")]

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use serde::{Deserialize, Serialize};

/// Locks and limited stock of Redis and Valkey servers that have loaded the lockstock module.
#[derive(Debug, Parser)]
#[command(name = "lockstock", version, subcommand_required = true, after_help = URLS)]
pub struct Options {
    /// The server: redis://[user:pass@]host:port[/db] (or see below)
    #[arg(
        long,
        global = true,
        env = "LOCKSTOCK_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    pub url: String,
    #[command(subcommand)]
    pub command: Command,
}

const URLS: &str = "\
Servers:
  redis://[user:pass@]host:port[/db]             one server
  rediss://[user:pass@]host:port[/db]            the same with TLS
  redis+cluster://host:port,host:port            a cluster, by some of its nodes
  redis+sentinel://host:port,host:port/name      the primary of this name, by its Sentinels

Times: 500ms, 30s, 5m, 2h.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command while a lock is held
    ///
    /// Takes the lock, runs the command, releases the lock, and ends with the command's status. The lease is extended while the command
    /// runs. If that becomes impossible, the command's whole process group gets TERM, and KILL before the lease can end. If this
    /// process is killed, the group is killed, too. The command finds LOCKSTOCK_KEY (the first), LOCKSTOCK_KEYS (all), LOCKSTOCK_TOKEN
    /// and LOCKSTOCK_FENCE in its environment.
    Run(Box<Run>),
    /// Show locks, waiters and sales
    ///
    /// One screen that refreshes; on a large server it takes at most a tenth of a core, so a new lock may show only after some time.
    /// ↻ stands before tokens that wait for each other in a circle.
    Top(Top),
    /// Examine a server, or all of a deployment
    ///
    /// Looks at the module, memory, files, replicas, clocks, users and streams of every server that is known, and writes what is to be
    /// mended, worst first. Nothing is changed.
    #[command(after_help = "Exit status: 0 nothing to mend, 1 something, 2 no answer.")]
    Doctor,
    /// The process that has the lock; `run` starts it
    #[command(hide = true)]
    Guardian,
    /// Write the man page to standard output
    #[command(hide = true)]
    Man,
}

/// See [`Command::Run`].
#[derive(Debug, Args)]
#[command(after_help = STATUSES, after_long_help = STATUSES, override_usage = "lockstock run [OPTIONS] KEY… -- COMMAND [ARG…]")]
pub struct Run {
    /// How long to stand in line, or `forever`
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = wait)]
    pub wait: Wait,
    /// How long the lock outlasts this process if it dies without a word; at least 1s
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    pub lease: Duration,
    /// Together with other readers
    #[arg(long, conflicts_with = "limit")]
    pub shared: bool,
    /// As one of N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..1 << 53))]
    pub limit: Option<u64>,
    /// The lock is also free when the connection ends; then the command is killed at once
    #[arg(long, conflicts_with = "at_least")]
    pub session: bool,
    /// The token of the request, instead of a random one
    #[arg(long)]
    pub token: Option<OsString>,
    /// The grant counts only when N replicas have it within a second
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub replicas: u32,
    /// Between TERM and KILL when the command must end; at most a third of the lease
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub grace: Duration,
    /// The lock stays taken until TIME after the grant, though the command ends sooner
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = time)]
    pub at_least: Duration,
    /// Not granted is success: status 0, and the command did not run
    #[arg(long)]
    pub skip: bool,
    /// Say when the lock was granted, extended, lost, released
    #[arg(short, long)]
    pub verbose: bool,
    /// The lock; several are taken together, or none of them
    #[arg(value_name = "KEY", required = true)]
    pub keys: Vec<OsString>,
    /// What to run
    #[arg(value_name = "COMMAND", required = true, last = true)]
    pub command: Vec<OsString>,
}

const STATUSES: &str = "\
Exit status: the command's (128 + n if signal n killed it), or
   64  wrong usage
   69  the server cannot be reached, refuses, or lacks the module
   73  the lock was lost while the command ran
   74  granted, but not on N replicas
   75  not granted within the wait
  126  the command cannot be run
  127  the command is not there";

/// See [`Command::Top`].
#[derive(Debug, Clone, Args)]
pub struct Top {
    /// One look at everything, as fast as it goes, and the end
    #[arg(long)]
    pub once: bool,
    /// JSON: one object on a line, with `--once` or every time
    #[arg(long)]
    pub json: bool,
    /// Only keys like this, as SCAN matches them
    #[arg(long = "match", value_name = "PATTERN")]
    pub pattern: Option<String>,
    /// How often the screen is drawn
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    pub every: Duration,
}

/// How long to stand in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wait {
    For(Duration),
    Forever,
}

fn wait(text: &str) -> Result<Wait, String> {
    if text == "forever" { Ok(Wait::Forever) } else { time(text).map(Wait::For) }
}

/// `500ms`, `30s`, `5m`, `2h`; a number without a unit could mean anything.
pub fn time(text: &str) -> Result<Duration, String> {
    let expected = || "expected a time such as 500ms, 30s, 5m or 2h".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(expected)?;
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(expected()),
    };
    let time = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    // What a server takes for a time.
    time.filter(|time| *time < 1 << 53).map(Duration::from_millis).ok_or_else(expected)
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
        for (text, ms) in [("0s", 0), ("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("2h", 7_200_000)] {
            assert_eq!(time(text), Ok(Duration::from_millis(ms)));
        }
        for wrong in ["", "5", "s", "-1s", "1.5s", "1d", "5 s", "1ss", "99999999999999999999s", "9007199254740992ms"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn everything_after_the_dashes_is_the_command() {
        let words = ["lockstock", "run", "a", "--wait", "forever", "b", "--", "echo", "--wait", "-v", "--"];
        let options = Options::try_parse_from(words).unwrap();
        let Command::Run(run) = options.command else { panic!("not run") };
        assert_eq!((run.keys, run.wait, run.verbose), (vec!["a".into(), "b".into()], Wait::Forever, false));
        assert_eq!(run.command, ["echo", "--wait", "-v", "--"]);
    }

    #[test]
    fn every_call_on_the_pages_is_understood() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let pages = std::fs::read_dir(format!("{root}/docs")).unwrap().map(|entry| entry.unwrap().path());
        let pages =
            pages.filter(|path| path.extension() == Some("md".as_ref())).chain([format!("{root}/README.md").into()]);
        let mut calls = 0;
        for page in pages {
            let text = std::fs::read_to_string(&page).unwrap();
            // A line of a block, or a piece of code in a sentence.
            for code in text.lines().chain(text.split('`')).filter(|code| code.starts_with("lockstock run ")) {
                let words = code.lines().next().unwrap_or_default().split(" # ").next().unwrap_or_default();
                if words.contains(" -- ") {
                    let options = Options::try_parse_from(words.split_whitespace());
                    assert!(options.is_ok(), "{}: {words}: {}", page.display(), options.err().unwrap());
                    calls += 1;
                }
            }
        }
        assert!(calls >= 6, "only {calls} calls were found");
    }
}
