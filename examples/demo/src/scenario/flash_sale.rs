//! Scenario 2: orders over several units, and two different ways to come too late.

use anyhow::Result;

use super::sale::{Rush, Sold, crowd};
use crate::books::Tally;
use crate::show::{Sheet, count};
use crate::stage::{Act, Stage, by_process};
use crate::wire::{Outcome, Request};

/// Buyers.
const BUYERS: u64 = 120_000;
/// Units; one more is put up. Every buyer asks for an even number, so at the odd last one a buyer gets INSUFFICIENT.
const STOCK: u64 = 400_000;

/// Plays the scene.
pub fn play(stage: &mut Stage<'_>) -> Result<Act> {
    let (buyers, total) = (stage.scaled(BUYERS), stage.scaled(STOCK) + 1);
    let key = stage.fresh_key("flash-sale");
    let mut chance = stage.chance();
    let requests: Vec<_> = (0..buyers)
        .map(|buyer| Request { id: format!("buyer-{buyer:06}"), units: 2 * chance.u64(1..=3), lose: false })
        .collect();
    let workers = crowd(requests, &mut chance);

    let bar = stage.bar(buyers)?;
    let mut sold = Sold::default();
    let rush = Rush { key, total, left: 0, settle: true, workers };
    let mut after = rush.play(stage, |answer| {
        bar.inc(u64::from(answer.outcome != Outcome::Insufficient));
        bar.set_message(format!("buyers, sold {} of {}", count(sold.after(answer)), count(total)));
    })?;
    bar.finish_and_clear();

    let tallies = by_process(&after.answers);
    let all = Tally::together(&tallies);
    let (few, none) = (all.of(Outcome::Insufficient), all.of(Outcome::Soldout));
    after.findings.check("both ways to come too late were seen", few > 0 && none > 0, || {
        format!("{few} INSUFFICIENT, {none} SOLDOUT")
    });
    let columns = [Outcome::Ok, Outcome::Insufficient, Outcome::Soldout];
    Ok(Act {
        sheet: Sheet::of_tallies("worker", "requests", &columns, &tallies),
        notes: vec![
            after.pace("requests"),
            format!("not enough stock: {} times; no stock: {} times", count(few), count(none)),
        ],
        verdict: after.verdict(),
        answers: all.answers(),
        findings: after.findings,
    })
}
