//! Orders, duplicates, and a sale that is over.

use std::time::Duration;

use super::{DEEP, cpu, depth_name, picture, table};
use crate::contest::{Load, Outcome, Way, contest};
use crate::goals::Limit::AtMost;
use crate::lab::Lab;
use crate::pump::CONNECTIONS;
use crate::ways::{sale, watch};

pub fn run(lab: &mut Lab) {
    for depth in [1, DEEP] {
        let load = Load::plain(&lab.plan, depth);
        orders(lab, depth, load);
        with_stream(lab, depth, load);
        refusals(lab, depth, load);
        reservations(lab, depth, load);
    }
    attack(lab);
}

fn orders(lab: &mut Lab, depth: usize, load: Load) {
    let how = depth_name(depth);
    let title = format!("Orders, {how}");
    let mut ways = vec![
        sale::decr_once(depth, sale::everybody, sale::PLENTY, false),
        sale::seckill(depth, sale::everybody, sale::PLENTY, false),
        sale::sadd_decr(depth, sale::everybody),
    ];
    if depth == 1 {
        ways.push(watch::tickets());
    }
    let outcomes = contest(lab, &title, &ways, load);
    table(lab, &title, &outcomes);
    picture(lab, if depth == 1 { "order" } else { "order-pipelined" }, &title, &outcomes);
    cost(lab, depth, "order", &outcomes[0]);
    // In pipelines as for instructions.
    let [seckill, sadd_decr] = if depth == 1 { [0.3, 0.85] } else { [0.28, 1.15] };
    lab.paper.found(&format!("an order against the seckill script, {how}"), AtMost(seckill), cpu(&outcomes, 1));
    lab.paper.found(&format!("an order against SADD + DECR, {how}"), AtMost(sadd_decr), cpu(&outcomes, 2));
}

fn with_stream(lab: &mut Lab, depth: usize, load: Load) {
    let title = format!("Orders with an event for each, {}", depth_name(depth));
    let ways = [
        sale::decr_once(depth, sale::everybody, sale::PLENTY, true),
        sale::seckill(depth, sale::everybody, sale::PLENTY, true),
    ];
    let outcomes = contest(lab, &title, &ways, load);
    table(lab, &title, &outcomes);
}

/// The way, after its client has bought.
fn bought(mut way: Way, order: &'static str) -> Way {
    let prepare = way.prepare;
    way.prepare = Box::new(move |stand| {
        prepare(stand);
        stand.cmd(order);
    });
    way
}

/// Our way, of a buyer that has bought.
pub fn duplicate(depth: usize) -> Way {
    bought(sale::decr_once(depth, sale::ann, 1_000, false), "STOCK.DECR_ONCE sale 1000000000")
}

fn refusals(lab: &mut Lab, depth: usize, load: Load) {
    let how = depth_name(depth);
    let title = format!("Who has bought asks again, {how}");
    let ways = [
        duplicate(depth),
        bought(sale::seckill(depth, sale::ann, 1_000, false), "SADD buyers 1000000000"),
        sale::lookup("SISMEMBER", depth),
    ];
    let outcomes = contest(lab, &title, &ways, load);
    table(lab, &title, &outcomes);
    cost(lab, depth, "duplicate", &outcomes[0]);
    let limit = if depth == 1 { 1.2 } else { 1.5 };
    lab.paper.found(&format!("a duplicate against SISMEMBER, {how}"), AtMost(limit), cpu(&outcomes, 2));

    let title = format!("Nothing is left, {how}");
    let ways = [
        sale::decr_once(depth, sale::everybody, 0, false),
        sale::seckill(depth, sale::everybody, 0, false),
        sale::lookup("GET", depth),
    ];
    let outcomes = contest(lab, &title, &ways, load);
    table(lab, &title, &outcomes);
    cost(lab, depth, "sold out", &outcomes[0]);
    lab.paper.found(&format!("sold out against GET, {how}"), AtMost(1.2), cpu(&outcomes, 2));
}

fn reservations(lab: &mut Lab, depth: usize, load: Load) {
    let title = format!("Reserving and paying, {}", depth_name(depth));
    let outcomes = contest(lab, &title, &[sale::holds(depth), sale::reservations(depth)], load);
    table(lab, &title, &outcomes);
}

/// Keeps what an operation costs whose client waits for each reply, as most do.
fn cost(lab: &mut Lab, depth: usize, what: &'static str, ours: &Outcome) {
    if depth == 1 {
        lab.paper.costs.insert(what, ours.median(|turn| turn.cpu));
    }
}

/// Far more attempts than units, by buyers that try again and again.
fn attack(lab: &mut Lab) {
    let (units, attempts) = lab.plan.either((10_000, 1_000_000), (1_000, 100_000));
    let title = format!("A sale of {units} units, {attempts} attempts, {}", depth_name(DEEP));
    let ways = [
        sale::decr_once(DEEP, sale::anybody, units, false).checked(sale::exactly(units)),
        sale::seckill(DEEP, sale::anybody, units, false).checked(sale::exactly(units)),
    ];
    let load = Load {
        members: CONNECTIONS,
        warm: 0,
        goal: attempts,
        drains: true,
        rounds: lab.plan.rounds(),
        patience: Duration::from_mins(1),
    };
    let outcomes = contest(lab, &title, &ways, load);
    table(lab, &title, &outcomes);
    let answers = &outcomes[0].turns[0].answers;
    let list: Vec<String> = answers.iter().map(|(answer, count)| format!("{count} {answer}")).collect();
    lab.show(&format!("\nAnswers of the first turn: {}.", list.join(", ")));
    picture(lab, "attack", &title, &outcomes);
}
