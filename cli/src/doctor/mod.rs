//! `lockstock doctor`: the faults of a deployment, worst first, with their meaning and the action to take.
//!
//! [`server`] examines each server by itself; [`together`] compares the servers; [`sales`] examines the sales.

mod sales;
mod server;
mod together;

use std::collections::HashMap;
use std::io::Write;

use lockstock::{Client, Error, Node};
use redis::{Cmd, FromRedisValue, ToRedisArgs, cmd};

use crate::fail::{Failure, USAGE};

/// No answer to be had.
const UNANSWERED: i32 = 2;

/// How bad it is; the worst comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Locks or orders are in danger, or do not work.
    Bad,
    /// They will be when something else fails.
    Risk,
    /// Worth knowing.
    Note,
}

/// Something to mend.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    weight: Weight,
    what: String,
    means: &'static str,
    remedy: &'static str,
}

impl Finding {
    pub fn new(weight: Weight, what: String, means: &'static str, remedy: &'static str) -> Self {
        Self { weight, what, means, remedy }
    }

    fn text(&self) -> String {
        let mark = match self.weight {
            Weight::Bad => "BAD ",
            Weight::Risk => "RISK",
            Weight::Note => "NOTE",
        };
        format!("{mark}  {}\n      {}\n      To do: {}\n", self.what, self.means, self.remedy)
    }
}

/// A server and its INFO.
pub struct Patient {
    pub node: Node,
    pub info: HashMap<String, String>,
    /// Whether it does not tell its settings.
    pub is_secretive: bool,
}

impl Patient {
    pub fn field(&self, name: &str) -> &str {
        self.info.get(name).map_or("", String::as_str)
    }

    pub fn number(&self, name: &str) -> u64 {
        self.field(name).parse().unwrap_or_default()
    }

    /// A setting of the server; empty if it has none of this name, `None` if it tells none.
    pub async fn setting(&mut self, name: &str) -> Option<String> {
        let found: Option<HashMap<String, String>> = self.ask(&["CONFIG", "GET", name]).await;
        self.is_secretive |= found.is_none();
        Some(found?.remove(name).unwrap_or_default())
    }

    /// Names among the words are bytes.
    pub async fn ask<T: FromRedisValue>(&mut self, words: &[impl ToRedisArgs]) -> Option<T> {
        self.node.query(Cmd::new().arg(words)).await.ok()
    }
}

pub fn run(url: &str) -> Result<i32, Failure> {
    let client = Client::open(url).map_err(|error| Failure::new(USAGE, format!("--url: {error}")))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(UNANSWERED, error))?;
    let mut findings = runtime.block_on(examine(&client)).map_err(|error| Failure::new(UNANSWERED, error))?;
    findings.sort();
    findings.dedup();
    let mut lines: Vec<String> = findings.iter().map(Finding::text).collect();
    lines.push(match findings.len() {
        0 => "Nothing to mend.\n".to_owned(),
        1 => "1 finding.\n".to_owned(),
        count => format!("{count} findings.\n"),
    });
    let text = lines.join("\n");
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(i32::from(!findings.is_empty()))
}

async fn examine(client: &Client) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    let mut patients = Vec::new();
    for (address, node) in client.nodes().await? {
        let reached = match node {
            Ok(mut node) => info(&mut node).await.map(|info| Patient { node, info, is_secretive: false }),
            Err(error) => Err(error),
        };
        match reached {
            Ok(patient) => patients.push(patient),
            Err(error) => findings.push(Finding::new(
                Weight::Bad,
                format!("{address} does not answer: {error}"),
                "Nobody knows what it would do if it had to take over, and what it has is out of reach.",
                "Start it, or take it out of the deployment.",
            )),
        }
    }
    if patients.is_empty() {
        return Err(Error::Invalid("no server answers"));
    }
    for patient in &mut patients {
        server::examine(patient, &mut findings).await;
    }
    together::examine(&mut patients, &mut findings).await;
    for patient in patients.iter_mut().filter(|patient| patient.node.is_primary) {
        sales::examine(patient, &mut findings).await;
    }
    Ok(findings)
}

async fn info(node: &mut Node) -> Result<HashMap<String, String>, Error> {
    let text: String = node.query(cmd("INFO").arg("everything")).await?;
    let fields = text.lines().filter_map(|line| line.trim_end().split_once(':'));
    Ok(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}
