//! The goals on all servers that were measured, side by side in docs/performance.md.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use lockstock_bench::table::number;
use serde::{Deserialize, Serialize};

use crate::goals::Finding;

/// The table stands between these lines.
const MARKS: [&str; 2] = ["<!-- goals: written by make bench -->\n", "<!-- end of goals -->\n"];

/// A goal as it is kept for the summary.
#[derive(Serialize, Deserialize)]
struct Goal {
    what: String,
    limit: String,
    measured: String,
    reached: Option<bool>,
}

/// Keeps what a server's run has found, and writes the table anew.
pub fn update(docs: &Path, server: &str, findings: &[Finding]) {
    let goals: Vec<Goal> = findings
        .iter()
        .map(|finding| Goal {
            what: finding.what.clone(),
            limit: finding.limit.show(),
            measured: number(finding.measured),
            reached: finding.reached(),
        })
        .collect();
    let text = serde_json::to_string_pretty(&goals).expect("goals as text") + "\n";
    fs::write(docs.join("bench").join(server).join("goals.json"), text).expect("the goals are kept");

    let page = docs.join("performance.md");
    let Ok(text) = fs::read_to_string(&page) else { return };
    let parts = text.split_once(MARKS[0]).zip(text.split_once(MARKS[1]));
    let ((before, _), (_, after)) = parts.unwrap_or_else(|| panic!("{} has no place for the goals", page.display()));
    let [begin, end] = MARKS;
    fs::write(&page, format!("{before}{begin}\n{}\n{end}{after}", table(&docs.join("bench"))))
        .expect("the page is written");
}

/// What every server's last run has found.
fn table(bench: &Path) -> String {
    let mut servers: BTreeMap<String, Vec<Goal>> = BTreeMap::new();
    for entry in fs::read_dir(bench).expect("a directory").flatten() {
        if let Ok(text) = fs::read_to_string(entry.path().join("goals.json")) {
            let goals = serde_json::from_str(&text).expect("goals that were kept");
            servers.insert(entry.file_name().to_string_lossy().into_owned(), goals);
        }
    }
    let mut order: Vec<(&str, &str)> = vec![];
    for goal in servers.values().flatten() {
        if order.iter().all(|known| known.0 != goal.what) {
            order.push((&goal.what, &goal.limit));
        }
    }
    let names: Vec<&str> = servers.keys().map(String::as_str).collect();
    let mut lines =
        vec![format!("| goal | limit | {} |", names.join(" | ")), format!("|---|--:|{}", "--:|".repeat(names.len()))];
    for (what, limit) in order {
        let cells: Vec<String> = servers
            .values()
            .map(|goals| match goals.iter().find(|goal| goal.what == what) {
                Some(Goal { measured, reached: Some(false), .. }) => format!("**{measured}**"),
                Some(goal) => goal.measured.clone(),
                None => "–".into(),
            })
            .collect();
        lines.push(format!("| {what} | {limit} | {} |", cells.join(" | ")));
    }
    lines.join("\n") + "\n"
}
