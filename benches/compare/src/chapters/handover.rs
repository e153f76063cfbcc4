//! Handing a lock over: to the next of few and of many waiters, and from a holder that died.

use std::time::Duration;

use lockstock_bench::plot::Line;

use super::{cpu, curves, table};
use crate::contest::{Figures, Load, Outcome, Way, contest};
use crate::goals::Limit::{AtLeast, AtMost};
use crate::lab::Lab;
use crate::ways::{Hold, poll, queue, redisson};

/// Numbers of contenders. The goal of hand-overs is a multiple of each, so that a fair lock can give all the same.
const CROWDS: [usize; 6] = [2, 25, 200, 1_000, 5_000, 10_000];

pub fn run(lab: &mut Lab) {
    let mut lines: Vec<Line> = vec![];
    let mut rates = vec![];
    for contenders in CROWDS {
        let outcomes = no_hold_time(lab, contenders);
        keep(&mut lines, contenders, &outcomes);
        rates.push(outcomes[0].median(Figures::rate));
    }
    let flat = rates[CROWDS.len() - 1] / rates[1];
    lab.paper.found("hand-overs a second at 10 000 contenders, of those at 25 (flat)", AtLeast(0.8), flat);
    relate(&mut lines);
    let axes = ["contenders", "server CPU for a hand-over; ours at 2 is 1"];
    curves(lab, "handover", "Handing a lock over, no hold time", axes, &lines);
    hold_time(lab);
    expiry(lab);
}

/// All ways that can be waited in by so many. The ways that wake or ask all waiters are not driven beyond what they are made for.
fn ways(hold: Hold, contenders: usize) -> Vec<Way> {
    let mut ways = vec![queue::lock(hold), queue::list(hold)];
    if contenders <= 1_000 {
        ways.extend([redisson::contended(false, hold), redisson::contended(true, hold)]);
        ways.extend([1, 10, 100].map(|every| poll::contended(Duration::from_millis(every), hold)));
    }
    ways
}

/// So many that each has its turn once or twice take a while; the ways that nobody can wait for are not among them.
fn patience(lab: &Lab, contenders: usize) -> Duration {
    if contenders > 1_000 { Duration::from_secs(4) } else { lab.plan.patience() }
}

fn no_hold_time(lab: &mut Lab, contenders: usize) -> Vec<Outcome> {
    let hold = Hold::Works { time: Duration::ZERO };
    let title = format!("Handing over among {contenders} contenders, no hold time");
    let load = Load {
        members: contenders,
        warm: contenders.max(500) as u64,
        goal: lab.plan.either(20_000, 10_000),
        drains: false,
        rounds: 3,
        patience: patience(lab, contenders),
    };
    let outcomes = contest(lab, &title, &ways(hold, contenders), load);
    table(lab, &title, &outcomes);
    if contenders <= 200 {
        let ratio = outcomes[0].ratio(&outcomes[1], Figures::rate);
        lab.paper.found(&format!("hand-overs a second against BLPOP, {contenders} contenders"), AtLeast(1.0), ratio);
    }
    if [25, 200].contains(&contenders) {
        for theirs in [2, 3] {
            let name = &outcomes[theirs].name;
            let commands = outcomes[theirs].ratio(&outcomes[0], |turn| turn.executed);
            let what = format!("commands for a hand-over, {name} ÷ ours, {contenders} contenders");
            lab.paper.found(&what, AtLeast(10.0), commands);
            let what = format!("server CPU for a hand-over, {name} ÷ ours, {contenders} contenders");
            lab.paper.found(&what, AtLeast(5.0), 1.0 / cpu(&outcomes, theirs));
        }
    }
    if [25, 10_000].contains(&contenders) {
        let jain = outcomes[0].median(|turn| turn.jain);
        lab.paper.found(&format!("Jain's index of our grants, {contenders} contenders"), AtLeast(0.99), jain);
    }
    let shares: Vec<String> =
        outcomes.iter().map(|outcome| format!("{} {:.2}", outcome.name, outcome.median(|turn| turn.jain))).collect();
    lab.show(&format!("\nJain's index of the contenders' shares: {}.", shares.join("; ")));
    outcomes
}

fn hold_time(lab: &mut Lab) {
    for contenders in lab.plan.either(&[25, 1_000][..], &[25]) {
        let contenders = *contenders;
        let hold = Hold::Works { time: Duration::from_millis(1) };
        let title = format!("Handing over among {contenders} contenders, each works 1 ms");
        let patience = patience(lab, contenders);
        // All have asked when the meters are read.
        let load = Load { members: contenders, warm: 50, goal: 1_000, drains: false, rounds: 3, patience };
        let outcomes = contest(lab, &title, &ways(hold, contenders), load);
        table(lab, &title, &outcomes);
    }
}

/// The holder dies with the lock. The times are those from the end of the lease to the next grant.
fn expiry(lab: &mut Lab) {
    let hold = Hold::Dies { lease: Duration::from_millis(50) };
    let title = "Handing over at the end of a lease of 50 ms, 25 contenders";
    let ways = [
        queue::lock(hold),
        redisson::contended(false, hold),
        redisson::contended(true, hold),
        poll::contended(Duration::from_millis(1), hold),
        poll::contended(Duration::from_millis(10), hold),
        poll::contended(Duration::from_millis(100), hold),
    ];
    let patience = lab.plan.patience() * 2;
    let load = Load { members: 25, warm: 2, goal: 1_000, drains: false, rounds: 3, patience };
    let outcomes = contest(lab, title, &ways, load);
    table(lab, title, &outcomes);
    let late = outcomes[0].median(|turn| turn.p99) / 1e3;
    lab.paper.found("milliseconds from the end of a lease to the next grant, p99", AtMost(5.0), late);
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

/// Makes everything a multiple of the first point of the first line.
pub fn relate(lines: &mut [Line]) {
    let Some(unit) = lines.first().and_then(|line| line.1.first()).map(|point| point.1) else { return };
    for (_, points) in lines {
        for point in points {
            point.1 /= unit;
        }
    }
}
