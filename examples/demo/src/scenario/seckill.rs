//! Scenario 5: 20 units, 25 buyers, each a thread, and each with impatient fingers on other devices too. Replies get
//! lost, clicks are repeated, and still exactly 20 buy, sale after sale.

use anyhow::Result;

use super::sale::{Aftermath, Rush};
use crate::books::{Findings, Tally};
use crate::client::Client;
use crate::show::{Sheet, count};
use crate::stage::{Act, PROCESSES, Stage};
use crate::wire::{Outcome, Request};

/// Sales, one after another.
const SALES: u64 = 100;
/// Units of each.
const STOCK: u64 = 20;
/// Buyers of each.
const BUYERS: usize = 25;
/// Clicks of each buyer's thread.
const CLICKS: usize = 3;
/// One reply in so many is lost.
const LOST: usize = 4;

/// Plays the scene.
pub fn play(stage: &mut Stage<'_>) -> Result<Act> {
    let sales = stage.scaled(SALES);
    let bar = stage.bar(sales)?;
    let mut findings = Findings::default();
    let (mut threads, mut processes) = (Tally::default(), Tally::default());
    let (mut sold, mut last) = (0, String::new());
    for _ in 0..sales {
        let key = stage.fresh_key("seckill");
        let workers = crowd(&mut stage.chance());
        let rush = Rush { key: key.clone(), total: STOCK, left: 0, settle: false, workers };
        let mut after = rush.play(stage, |_| ())?;
        for (worker, answer) in &after.answers {
            let tally = if *worker == 0 { &mut threads } else { &mut processes };
            tally.note(answer);
        }
        ask_once_more(&mut stage.client()?, &key, &mut after)?;
        last = who_bought(&after);
        sold += after.sale.sold;
        bar.inc(1);
        bar.set_message(format!("sales, sold {} of {STOCK}", after.sale.sold));
        findings.add(after.findings);
        if !findings.broken().is_empty() {
            break;
        }
    }
    bar.finish_and_clear();

    let heard = threads.units + processes.units;
    let answers = threads.answers() + processes.answers();
    let columns = [Outcome::Ok, Outcome::Duplicate, Outcome::Soldout, Outcome::Lost];
    let groups = [("25 threads".to_owned(), threads), (format!("{} processes", PROCESSES - 1), processes)];
    Ok(Act {
        sheet: Sheet::of_tallies("clicks of", "clicks", &columns, &groups),
        notes: vec![
            format!(
                "{} units: {} heard OK, {} lost that reply and heard DUPLICATE",
                count(sold),
                count(heard),
                count(sold - heard)
            ),
            last,
        ],
        verdict: format!("{} sales: {STOCK} of {STOCK} sold each time, nobody twice, nothing left over", count(sales)),
        findings,
        answers,
    })
}

/// The first process has a thread for every buyer; the others click for all of them, each in another order.
fn crowd(chance: &mut fastrand::Rng) -> Vec<Vec<Vec<Request>>> {
    let mut click =
        |buyer| Request { id: format!("buyer-{:02}", buyer + 1), units: 1, lose: chance.usize(..LOST) == 0 };
    let threads: Vec<Vec<_>> = (0..BUYERS).map(|buyer| (0..CLICKS).map(|_| click(buyer)).collect()).collect();
    let mut everybody = || (0..BUYERS).map(&mut click).collect::<Vec<_>>();
    let mut processes: Vec<_> = (1..PROCESSES).map(|_| vec![everybody()]).collect();
    processes.iter_mut().flatten().for_each(|lane| chance.shuffle(lane));
    processes.insert(0, threads);
    processes
}

/// Long after the sale every buyer asks again: the winners must hear that their order stands, the others that all is gone.
fn ask_once_more(client: &mut Client, key: &str, after: &mut Aftermath) -> Result<()> {
    let mut wrong = Vec::new();
    for (id, order) in &after.orders {
        let heard = client.decr_once(key, &Request { id: id.clone(), units: 1, lose: false })?.outcome;
        let due = if order.is_some() { Outcome::Duplicate } else { Outcome::Soldout };
        if heard != due {
            wrong.push(format!("{id} heard {heard}, not {due}"));
        }
    }
    after.findings.none("asked once more, everyone hears how it stands", wrong);
    Ok(())
}

fn who_bought(after: &Aftermath) -> String {
    let left_out = after.orders.iter().filter(|(_, order)| order.is_none());
    let left_out: Vec<_> = left_out.map(|(id, _)| id.trim_start_matches("buyer-")).collect();
    let bought = after.orders.len() - left_out.len();
    format!("last sale: {bought} buyers have one each; {} came too late", left_out.join(", "))
}
