//! Orders that are settled for less: a budget that reserves an estimate for each call, and tickets that are given back one by one.

use std::collections::VecDeque;
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};

use super::sale::pace;
use crate::books::Findings;
use crate::client::Client;
use crate::show::{Sheet, count};
use crate::stage::{Act, Stage};

/// The reply of every command on an order: status, units, remaining, deadline, ref.
type Reply = (String, u64, u64, i64, String);

/// Programs that use the API at the same time.
const CALLERS: usize = 4;
/// What a call may cost at most.
const ESTIMATE: u64 = 100;

/// The fate of the calls of one program.
#[derive(Default)]
struct Calls {
    settled: u64,
    used: u64,
    refused: u64,
}

/// Plays the budget of an API. Each call reserves what it may cost at most, and pays what it has cost.
pub fn budget(stage: &mut Stage<'_>) -> Result<Act> {
    let (total, calls) = (stage.scaled(100_000), stage.scaled(4_000));
    let budget = stage.fresh_key("budget");
    let mut client = stage.client()?;
    client.create(&budget, total)?;
    let callers: Vec<Client> = (0..CALLERS).map(|_| stage.client()).collect::<Result<_>>()?;
    let bar = stage.bar(calls)?;
    let (start, budget) = (Instant::now(), budget.as_str());
    let outcomes = thread::scope(|scope| {
        let works = callers.into_iter().zip(0..).map(|(client, caller)| {
            let bar = bar.clone();
            scope.spawn(move || call_the_api(client, budget, (caller..calls).step_by(CALLERS), &bar))
        });
        let works: Vec<_> = works.collect();
        works.into_iter().map(|work| work.join().map_err(|_| anyhow!("a caller died"))?).collect::<Result<Vec<_>>>()
    })?;
    let took = start.elapsed();
    bar.finish_and_clear();

    let sum = |of: fn(&Calls) -> u64| outcomes.iter().map(of).sum::<u64>();
    let (settled, used, refused) = (sum(|calls| calls.settled), sum(|calls| calls.used), sum(|calls| calls.refused));
    let sale = client.sale(budget)?;
    let seen = || format!("{used} used, {} sold, {} held, {} remaining", sale.sold, sale.held, sale.remaining);
    let mut findings = Findings::default();
    findings.check("what was used is what was paid", sale.sold == used, seen);
    findings.check("nothing stays reserved", sale.held == 0 && sale.remaining == total - sale.sold, seen);
    findings.check("a call is refused only when no estimate fits", refused > 0 && sale.remaining < ESTIMATE, seen);
    findings.check("every call is settled or refused", settled + refused == calls, || format!("{settled} + {refused}"));
    let mut sheet = Sheet::new(["", "calls", "units"], 1);
    sheet.row(vec!["settled".into(), count(settled), count(used)]);
    sheet.row(vec!["refused".into(), count(refused), String::new()]);
    sheet.row(vec!["left".into(), String::new(), count(sale.remaining)]);
    let without = total / ESTIMATE;
    Ok(Act {
        sheet,
        notes: vec![
            pace(calls, "calls", took),
            format!("without settling, the budget would have been spent after {} calls", count(without)),
        ],
        verdict: format!("{} of {} units used, not one more", count(used), count(total)),
        findings,
        answers: calls + settled,
    })
}

/// Makes the calls `numbers` until each is settled or refused.
fn call_the_api(
    mut client: Client,
    budget: &str,
    numbers: impl Iterator<Item = u64>,
    bar: &indicatif::ProgressBar,
) -> Result<Calls> {
    let mut calls = Calls::default();
    for number in numbers {
        let mut chance = fastrand::Rng::with_seed(number);
        let id = format!("call-{number:05}");
        let mut reserve = redis::cmd("STOCK.DECR_ONCE");
        reserve.arg(budget).arg(&id).arg("QTY").arg(ESTIMATE).arg("HOLD").arg(60_000);
        let (status, ..): Reply = client.ask(&reserve)?;
        if status == "OK" {
            let used = chance.u64(1..=ESTIMATE);
            let mut settle = redis::cmd("STOCK.CONFIRM");
            settle.arg(budget).arg(&id).arg("KEEP").arg(used);
            let (status, units, ..): Reply = client.ask(&settle)?;
            ensure!(status == "OK" && units == used, "{id} settled {used} and heard {status} {units}");
            calls.settled += 1;
            calls.used += used;
        } else {
            calls.refused += 1;
        }
        bar.inc(1);
    }
    Ok(calls)
}

/// What one buyer bought, and what is left after the refund of one.
const BOUGHT: u64 = 3;
const KEPT: u64 = BOUGHT - 1;

/// Plays the refund of one ticket of three, which goes to the first in line.
pub fn refund(stage: &mut Stage<'_>) -> Result<Act> {
    let buyers = stage.scaled(1_000);
    let sale = stage.fresh_key("tickets");
    let mut client = stage.client()?;
    client.create(&sale, buyers * BOUGHT)?;
    for buyer in 0..buyers {
        let mut buy = redis::cmd("STOCK.DECR_ONCE");
        buy.arg(&sale).arg(format!("buyer-{buyer:04}")).arg("QTY").arg(BOUGHT);
        let _: Reply = client.ask(&buy)?;
    }
    let mut line: VecDeque<String> = (0..buyers).map(|late| format!("late-{late:04}")).collect();
    for late in &line {
        let (status, ..): Reply = client.ask(redis::cmd("STOCK.DECR_ONCE").arg(&sale).arg(late).arg("WAITLIST"))?;
        ensure!(status == "QUEUED", "{late} is not in line: {status}");
    }
    let mut refunds: Vec<u64> = (0..buyers).collect();
    stage.chance().shuffle(&mut refunds);

    let bar = stage.bar(buyers)?;
    let start = Instant::now();
    let (mut findings, mut wrong) = (Findings::default(), vec![]);
    for buyer in refunds {
        let id = format!("buyer-{buyer:04}");
        let mut give_back = redis::cmd("STOCK.CANCEL");
        give_back.arg(&sale).arg(&id).arg("KEEP").arg(KEPT);
        // The reply is lost, and the shop asks again: one ticket has gone back, not two.
        let answers: [Reply; 2] = [client.ask(&give_back)?, client.ask(&give_back)?];
        let heard = answers.map(|(status, units, remaining, ..)| (status, units, remaining));
        let next = line.pop_front().unwrap_or_default();
        let ids: Vec<&str> = [next.as_str()].into_iter().chain(line.front().map(String::as_str)).collect();
        let orders = client.orders(&sale, &ids)?;
        let states = orders.iter().filter_map(|(_, order)| order.as_ref().map(|order| order.state.as_str()));
        let states: Vec<&str> = states.collect();
        let expected: Vec<&str> = ["sold", "waiting"].into_iter().take(ids.len()).collect();
        if heard != [("OK".into(), KEPT, 0), ("DUPLICATE".into(), KEPT, 0)] || states != expected {
            wrong.push(format!("{id} heard {heard:?}, and {next} and the one behind are {states:?}"));
        }
        bar.inc(1);
    }
    let took = start.elapsed();
    bar.finish_and_clear();
    findings.none("a refund goes once, and to the first in line", wrong);
    let books = client.sale(&sale)?;
    findings.check("all tickets are sold", books.sold == buyers * BOUGHT && books.remaining == 0, || {
        format!("{} sold, {} remain", books.sold, books.remaining)
    });
    let mut sheet = Sheet::new(["", "orders", "tickets"], 1);
    sheet.row(vec!["bought three, gave one back".into(), count(buyers), count(buyers * KEPT)]);
    sheet.row(vec!["came too late, got one".into(), count(buyers), count(buyers)]);
    Ok(Act {
        sheet,
        notes: vec![pace(buyers, "refunds", took), "every refund was asked for twice".into()],
        verdict: format!("{} tickets changed hands, each once", count(buyers)),
        findings,
        answers: buyers * 4,
    })
}
