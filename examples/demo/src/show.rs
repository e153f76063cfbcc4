//! What the demo looks like: headings, a live bar, tables, verdicts. Colours only where a terminal wants them.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use console::{StyledObject, style};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use crate::books::{Findings, Tally};
use crate::wire::Outcome;

/// How far texts stand from the left edge.
const INDENT: &str = "   ";

/// A line above, one below the header, one at the end.
const LOOK: TableStyle = TableStyle::new().top_border(LINE).header_separator(LINE).bottom_border(LINE);
const LINE: LineStyle = LineStyle::none().fill('─').junction('─');

/// Prints lines, and passes on a closed pipe as an error instead of a panic.
pub fn print(text: impl AsRef<str>) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", text.as_ref().trim_end()).and_then(|()| out.flush()).context("print")
}

/// A scene's heading: its number, its title and the commands it plays.
pub fn heading(number: &str, title: &str, how: &str) -> Result<()> {
    print(format!("\n{number:<2} {}\n{INDENT}{}", style(title).bold(), style(how).dim()))
}

/// A line of text under a scene.
pub fn note(text: &str) -> Result<()> {
    print(format!("{INDENT}{text}"))
}

/// The last line of a scene, or what is wrong with its books.
pub fn verdict(verdict: &str, findings: &Findings) -> Result<()> {
    if findings.broken().is_empty() {
        return print(format!("{INDENT}{} {}", tick(), style(verdict).bold()));
    }
    print(format!("{INDENT}{} {}", cross(), style("the books are wrong").red().bold()))?;
    broken(findings)
}

/// The broken rules, one to a line.
pub fn broken(findings: &Findings) -> Result<()> {
    findings.broken().iter().try_for_each(|rule| print(format!("{INDENT}  {} {rule}", cross())))
}

/// The last line of all.
pub fn sum(findings: &Findings, took: Duration) -> Result<()> {
    let (held, broken) = (findings.held(), findings.broken().len());
    let sign = if broken == 0 { tick() } else { cross() };
    let sum = if broken == 0 {
        format!("all books are right: {} checks in {:.1} s", count(held as u64), took.as_secs_f64())
    } else {
        format!("{broken} of {} checks found the books wrong", held + broken)
    };
    print(format!("\n{sign}  {}", style(sum).bold()))
}

/// The sign of a thing that is right.
fn tick() -> StyledObject<&'static str> {
    style("✔").green()
}

/// The sign of a thing that is wrong.
fn cross() -> StyledObject<&'static str> {
    style("✘").red()
}

/// A number with its thousands apart.
pub fn count(number: u64) -> String {
    HumanCount(number).to_string()
}

/// A bar over `length` steps on standard error; none at all where that is no terminal, or when not `live`.
pub fn bar(length: u64, live: bool) -> Result<ProgressBar> {
    if !live {
        return Ok(ProgressBar::hidden());
    }
    let look = "   {bar:24.cyan/dim} {human_pos}/{human_len}  {wide_msg}";
    let look = ProgressStyle::with_template(look).context("style the bar")?.progress_chars("━━─");
    Ok(ProgressBar::new(length).with_style(look))
}

/// A table: a header, rows, and perhaps a last row that sums them up.
pub struct Sheet {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    total: Option<Vec<String>>,
    words: usize,
}

impl Sheet {
    /// An empty table whose first `words` columns hold text and the others numbers.
    pub fn new<const N: usize>(header: [&str; N], words: usize) -> Self {
        Self { header: header.map(str::to_owned).to_vec(), rows: Vec::new(), total: None, words }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The answers: a row for each group, and their sum. Always has a column for each of `columns`; anything else
    /// that was heard gets one too, so that nothing hides.
    pub fn of_tallies(group: &str, attempts: &str, columns: &[Outcome], tallies: &[(String, Tally)]) -> Self {
        let all = Tally::together(tallies);
        let others = all.outcomes().filter(|outcome| !columns.contains(outcome));
        let columns: Vec<_> = columns.iter().copied().chain(others).collect();
        let row = |name: &str, tally: &Tally| {
            let heard = columns.iter().map(|outcome| count(tally.of(*outcome)));
            let mut cells = vec![name.to_owned(), count(tally.answers())];
            cells.extend(heard);
            cells.push(count(tally.units));
            cells
        };
        let mut header = vec![group.to_owned(), attempts.to_owned()];
        header.extend(columns.iter().map(Outcome::to_string));
        header.push("units".to_owned());
        Self {
            header,
            rows: tallies.iter().map(|(name, tally)| row(name, tally)).collect(),
            total: Some(row("together", &all)),
            words: 1,
        }
    }

    /// Prints the table.
    pub fn print(&self) -> Result<()> {
        let mut table = Table::new();
        table.load_style(LOOK).set_header(&self.header).add_rows(&self.rows);
        if let Some(total) = &self.total {
            table.add_row(total);
        }
        for column in table.column_iter_mut().skip(self.words) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let last = self.rows.len();
        let mut text = String::new();
        let mut body = 0;
        for line in table.lines() {
            let line = line.trim_end();
            let border = line.starts_with('─');
            let bold = !border && (body == 0 || (self.total.is_some() && body > last));
            body += usize::from(!border);
            let line = match (border, bold) {
                (true, _) => style(line).dim(),
                (_, true) => style(line).bold(),
                _ => style(line),
            };
            writeln!(text, "{INDENT}{line}").context("lay out a table")?;
        }
        print(text)
    }
}
