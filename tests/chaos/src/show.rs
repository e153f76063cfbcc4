//! The figures of a run, and every violation with its story.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, LineStyle, TableStyle};

use crate::check::Verdict;
use crate::history::{Fault, seconds};
use crate::play::Played;

/// A line above, one below the header, one at the end.
const LOOK: TableStyle = TableStyle::new().top_border(LINE).header_separator(LINE).bottom_border(LINE);
const LINE: LineStyle = LineStyle::none().fill('─').junction('─');

const HEADER: [&str; 11] = [
    "scene",
    "operations",
    "refused",
    "unknown",
    "grants",
    "longest wait",
    "orders",
    "holds lost",
    "orders lost",
    "stale writes stopped",
    "violations",
];

/// How many violations of each rule are told in full.
const TOLD: usize = 3;

/// The outcome of all scenes.
#[derive(Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    faults: BTreeMap<String, usize>,
    servers: Vec<String>,
    violations: usize,
}

impl Table {
    /// Adds a scene, and tells its violations.
    pub fn add(&mut self, name: &str, played: &Played) {
        let (figures, verdict) = (&played.figures, &played.verdict);
        let mut rules: BTreeMap<&str, usize> = BTreeMap::new();
        for violation in &verdict.violations {
            let told = rules.entry(violation.rule).or_default();
            *told += 1;
            if *told <= TOLD {
                println!("    {violation}");
            }
        }
        if !rules.is_empty() {
            let rules: Vec<String> = rules.iter().map(|(rule, count)| format!("{rule} ({count})")).collect();
            println!("    rules broken: {}", rules.join(", "));
        }
        let kinds = kinds(&played.faults);
        let told: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        println!("    {}", told.join(", "));
        if verdict.outlived + verdict.unheard + verdict.inherited > 0 {
            println!("    {}", succession(verdict));
        }
        for (kind, count) in kinds {
            *self.faults.entry(kind.to_owned()).or_default() += count;
        }
        if !self.servers.contains(&played.server) {
            self.servers.push(played.server.clone());
        }
        self.violations += verdict.violations.len();
        let caught =
            format!("{} ({} within the lease)", verdict.stale_caught + verdict.lost_caught, verdict.lost_caught);
        let counts = [figures.operations, figures.refused, figures.unknown, figures.granted];
        let mut row = vec![name.to_owned()];
        row.extend(counts.map(|count| count.to_string()));
        row.push(format!("{} ms", figures.longest_wait / 1_000));
        row.extend([figures.orders, verdict.holds_lost, verdict.orders_lost].map(|count| count.to_string()));
        row.extend([caught, verdict.violations.len().to_string()]);
        self.rows.push(row);
    }

    /// Notes a scene that this machine cannot play.
    pub fn skip(&mut self, name: &str) {
        self.rows.push(vec![name.to_owned(), "skipped".into()]);
    }

    /// Notes a scene that broke down: its servers or this program did what nobody expected.
    pub fn fail(&mut self, name: &str) {
        self.rows.push(vec![name.to_owned(), "broke down".into()]);
        self.violations += 1;
    }

    /// Prints everything; whether there was no violation.
    pub fn print(self) -> bool {
        let mut table = comfy_table::Table::new();
        table.load_style(LOOK).set_header(HEADER);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table.add_rows(self.rows);
        println!("\n{}\n{table}", self.servers.join(", "));
        let faults: Vec<String> = self.faults.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        println!("faults: {}", faults.join(", "));
        println!("violations: {}", if self.violations == 0 { "none".into() } else { self.violations.to_string() });
        self.violations == 0
    }
}

/// What became of locks whose holders were stopped or killed.
fn succession(verdict: &Verdict) -> String {
    let (outlived, unheard, refused) = (verdict.outlived, verdict.unheard, verdict.refused);
    let most = match verdict.longest_inheritance {
        0 => String::new(),
        most => format!(" (the next knew after {} s at most)", seconds(most)),
    };
    let inherited = verdict.inherited;
    format!(
        "locks that went on without their holders: {outlived} held and {unheard} granted while stopped ({refused} late writes \
         refused), {inherited} held with a session and killed{most}"
    )
}

/// How many faults there were of each kind.
fn kinds(faults: &[Fault]) -> BTreeMap<&str, usize> {
    let mut kinds = BTreeMap::new();
    for fault in faults {
        *kinds.entry(&*fault.kind).or_default() += 1;
    }
    kinds
}
