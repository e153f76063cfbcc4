//! The measurements, one file for each subject.

pub mod carts;
pub mod cluster;
pub mod cycles;
pub mod fed;
pub mod growth;
pub mod guard;
pub mod handover;
pub mod instructions;
pub mod memory;
pub mod persistence;
pub mod plain;
pub mod python;
pub mod sales;
pub mod waiting;
pub mod waitlist;

use lockstock_bench::plot::{self, Frame};
use lockstock_bench::table::{Sheet, number};

use crate::contest::Outcome;
use crate::lab::Lab;

/// So many commands go out in one write where pipelining is measured.
pub const DEEP: usize = 16;

/// How a table calls the depth of its pipelines.
pub fn depth_name(depth: usize) -> String {
    if depth == 1 { "one command at a time".into() } else { format!("pipelines of {depth}") }
}

/// Prints the result of a contest. The ratios say what of ours goes on one of theirs.
pub fn table(lab: &mut Lab, title: &str, outcomes: &[Outcome]) {
    let mut sheet = Sheet::new([
        "way",
        "server CPU, ours ÷ this",
        "CPU µs",
        "rate, ours ÷ this",
        "per second",
        "p50 µs",
        "p99 µs",
        "commands sent",
        "carried out",
    ]);
    let Some(ours) = outcomes.first() else { return };
    for outcome in outcomes {
        sheet.row([
            outcome.name.clone(),
            number(ours.ratio(outcome, |turn| turn.cpu)),
            number(outcome.median(|turn| turn.cpu)),
            number(ours.ratio(outcome, crate::contest::Figures::rate)),
            number(outcome.median(crate::contest::Figures::rate)),
            number(outcome.median(|turn| turn.p50)),
            number(outcome.median(|turn| turn.p99)),
            number(outcome.median(|turn| turn.sent)),
            number(outcome.median(|turn| turn.executed)),
        ]);
    }
    lab.show(&format!("\n## {title}\n\n{}", sheet.show()));
}

/// Draws the server's time for an operation, as a multiple of ours.
pub fn picture(lab: &mut Lab, name: &str, title: &str, outcomes: &[Outcome]) {
    let Some(ours) = outcomes.first() else { return };
    let rows: Vec<plot::Row> =
        outcomes.iter().map(|outcome| (outcome.name.clone(), outcome.ratio(ours, |turn| turn.cpu))).collect();
    let path = lab.paper.picture(name, title);
    let stamp = lab.paper.stamp();
    let x = "server CPU for each operation; lockstock is 1";
    plot::bars(&Frame { path: &path, title, stamp: &stamp, x, y: "" }, &rows).expect("a picture");
}

/// Draws lines.
pub fn curves(lab: &mut Lab, name: &str, title: &str, axes: [&str; 2], lines: &[plot::Line]) {
    let path = lab.paper.picture(name, title);
    let stamp = lab.paper.stamp();
    plot::lines(&Frame { path: &path, title, stamp: &stamp, x: axes[0], y: axes[1] }, lines).expect("a picture");
}

/// The server's time for ours as a part of that for another one.
pub fn cpu(outcomes: &[Outcome], other: usize) -> f64 {
    outcomes[0].ratio(&outcomes[other], |turn| turn.cpu)
}
