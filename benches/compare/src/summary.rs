//! The goals on all servers that were measured, side by side in docs/goals.md.

use std::fs;
use std::path::Path;

use lockstock_bench::table::number;

use crate::goals::{Finding, Limit};

/// The table stands between these lines.
const MARKS: [&str; 2] = ["<!-- goals: written by make bench -->\n", "<!-- end of goals -->\n"];

/// What stands where nothing was measured.
const NOTHING: &str = "–";

/// Puts what a server's run has found into its column; those of other servers stay as they are. What was there before goes if it was a
/// `whole` run.
pub fn update(docs: &Path, server: &str, findings: &[Finding], whole: bool) {
    let page = docs.join("goals.md");
    let Ok(text) = fs::read_to_string(&page) else { return };
    let parts = text.split_once(MARKS[0]).zip(text.split_once(MARKS[1]));
    let ((before, rest), (_, after)) = parts.unwrap_or_else(|| panic!("{} has no place for the goals", page.display()));
    let mut table = Table::parse(rest.split(MARKS[1]).next().unwrap_or_default());
    table.replace(server, findings, whole);
    let [begin, end] = MARKS;
    fs::write(&page, format!("{before}{begin}\n{}\n{end}{after}", table.show())).expect("the page is written");
}

/// The table as it stands on the page.
struct Table {
    servers: Vec<String>,
    goals: Vec<Goal>,
}

/// A line: the goal, its limit, and what was measured on each of the servers, not in bold.
struct Goal {
    what: String,
    limit: String,
    measured: Vec<String>,
}

impl Table {
    fn parse(text: &str) -> Self {
        let mut lines = text.lines().filter_map(|line| {
            let cells = line.strip_prefix('|')?.strip_suffix('|')?.split('|');
            Some(cells.map(|cell| cell.trim().to_owned()).collect::<Vec<_>>())
        });
        let servers = lines.next().unwrap_or_default().into_iter().skip(2).collect();
        let goals = lines.skip(1).map(|mut cells| {
            let measured = cells.split_off(2).iter().map(|cell| cell.replace("**", "")).collect();
            let [what, limit] = cells.try_into().expect("a goal and its limit");
            Goal { what, limit, measured }
        });
        Self { servers, goals: goals.collect() }
    }

    /// Replaces the column of `server`. Goals that nobody has any more are left out.
    fn replace(&mut self, server: &str, findings: &[Finding], whole: bool) {
        let column = self.servers.iter().position(|name| name == server).unwrap_or_else(|| {
            let at = self.servers.partition_point(|name| name.as_str() < server);
            self.servers.insert(at, server.into());
            self.goals.iter_mut().for_each(|goal| goal.measured.insert(at, NOTHING.into()));
            at
        });
        if whole {
            self.goals.iter_mut().for_each(|goal| goal.measured[column] = NOTHING.into());
        }
        for finding in findings {
            let at = self.goals.iter().position(|goal| goal.what == finding.what).unwrap_or_else(|| {
                let measured = vec![NOTHING.into(); self.servers.len()];
                self.goals.push(Goal { what: finding.what.clone(), limit: String::new(), measured });
                self.goals.len() - 1
            });
            self.goals[at].limit = finding.limit.show();
            self.goals[at].measured[column] = number(finding.measured);
        }
        self.goals.retain(|goal| goal.measured.iter().any(|measured| measured != NOTHING));
    }

    fn show(&self) -> String {
        let mut lines = vec![
            format!("| goal | limit | {} |", self.servers.join(" | ")),
            format!("|---|--:|{}", "--:|".repeat(self.servers.len())),
        ];
        let goals = self.goals.iter();
        lines.extend(goals.map(|goal| format!("| {} | {} | {} |", goal.what, goal.limit, goal.judged().join(" | "))));
        lines.join("\n") + "\n"
    }
}

impl Goal {
    /// What was measured, in bold where it does not reach the goal, which may be another one than at that time.
    fn judged(&self) -> Vec<String> {
        let limit = Limit::parse(&self.limit).expect("a limit");
        let bold = |cell: &String| cell.replace(' ', "").parse().is_ok_and(|measured| !limit.admits(measured));
        self.measured.iter().map(|cell| if bold(cell) { format!("**{cell}**") } else { cell.clone() }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goals::Limit;

    const BEFORE: &str = "
| goal | limit | redis-7.0.15 | valkey-9.1.2 |
|---|--:|--:|--:|
| speed | ≤ 1.10 | 1.09 | **1.12** |
| memory | ≤ 1.00 | – | 0.50 |
";

    fn found(what: &str, measured: f64) -> Finding {
        Finding { what: what.into(), limit: Limit::AtMost(1.0), measured }
    }

    #[test]
    fn a_run_replaces_the_column_of_its_server_and_no_other() {
        let mut table = Table::parse(BEFORE);
        assert_eq!(table.show(), BEFORE.trim_start());
        table.replace("valkey-9.1.2", &[found("speed", 0.98), found("fairness", 1.5)], true);
        table.replace("redis-8.6.3", &[found("speed", f64::NAN), found("fairness", 0.25)], true);
        // Nobody has measured the memory, and 1.09 is too much now.
        let after = "
| goal | limit | redis-7.0.15 | redis-8.6.3 | valkey-9.1.2 |
|---|--:|--:|--:|--:|
| speed | ≤ 1.00 | **1.09** | – | 0.98 |
| fairness | ≤ 1.00 | – | 0.25 | **1.50** |
";
        assert_eq!(table.show(), after.trim_start());
    }

    #[test]
    fn a_part_of_a_run_replaces_only_what_it_has_found() {
        let mut table = Table::parse(BEFORE);
        table.replace("valkey-9.1.2", &[found("speed", 0.98)], false);
        assert_eq!(
            table.show(),
            BEFORE.trim_start().replace("**1.12**", "0.98").replace("1.10 | 1.09", "1.00 | **1.09**")
        );
    }
}
