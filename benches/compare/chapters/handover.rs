//! Handing a lock over, to the next of few and of many.

use std::time::Duration;

use super::{curves, table};
use crate::bars::Limit::AtLeast;
use crate::contest::{Figures, Load, Outcome, contest};
use crate::lab::Lab;
use crate::plot::Line;
use crate::ways::{Hold, poll, queue, redisson};

pub fn run(lab: &mut Lab) {
    let hold = Hold::Works { time: Duration::ZERO };
    let mut lines: Vec<Line> = vec![];
    for contenders in [2, 25] {
        let title = format!("Handing over among {contenders} contenders, no hold time");
        let mut ways = vec![queue::lock(hold), queue::list(hold)];
        ways.extend([redisson::contended(false, hold), redisson::contended(true, hold)]);
        ways.extend([1, 10, 100].map(|every| poll::contended(Duration::from_millis(every), hold)));
        let load = Load { members: contenders, warm: 500, goal: 20_000, drains: false, whole: false };
        let outcomes = contest(lab, &title, &ways, load);
        table(lab, &title, &outcomes);
        keep(&mut lines, contenders, &outcomes);
        let ratio = outcomes[0].ratio(&outcomes[1], Figures::rate);
        lab.paper.found(&format!("hand-overs a second against BLPOP, {contenders} contenders"), AtLeast(1.0), ratio);
    }
    curves(lab, "handover", "Server CPU for a hand-over", ["contenders", "µs"], &lines);
}

fn keep(lines: &mut Vec<Line>, contenders: usize, outcomes: &[Outcome]) {
    for outcome in outcomes {
        let point = (contenders as f64, outcome.median(|turn| turn.cpu));
        match lines.iter_mut().find(|line| line.0 == outcome.name) {
            Some(line) => line.1.push(point),
            None => lines.push((outcome.name.clone(), vec![point])),
        }
    }
}
