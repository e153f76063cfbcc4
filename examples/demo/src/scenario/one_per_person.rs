//! Scenario 1, with one command: every person clicks several times, and gets one order at most.

use anyhow::Result;

use super::sale::{Rush, Sold, crowd};
use crate::show::{Sheet, count};
use crate::stage::{Act, Stage, by_process};
use crate::wire::{Outcome, Request};

/// The people who want a unit.
const PEOPLE: u64 = 60_000;
/// Units there are.
const STOCK: u64 = 40_000;
/// How often each of them clicks.
const CLICKS: u64 = 4;

/// Plays the scene.
pub fn play(stage: &mut Stage<'_>) -> Result<Act> {
    let (people, total) = (stage.scaled(PEOPLE), stage.scaled(STOCK));
    let key = stage.fresh_key("one-per-person");
    let clicks = (0..people * CLICKS).map(|click| Request {
        id: format!("person-{:05}", click / CLICKS),
        units: 1,
        lose: false,
    });
    let workers = crowd(clicks, &mut stage.chance());

    let bar = stage.bar(people * CLICKS)?;
    let mut sold = Sold::default();
    let rush = Rush { key, total, left: 0, settle: false, workers };
    let after = rush.play(stage, |answer| {
        bar.inc(1);
        bar.set_message(format!("clicks, sold {} of {}", count(sold.after(answer)), count(total)));
    })?;
    bar.finish_and_clear();

    let columns = [Outcome::Ok, Outcome::Duplicate, Outcome::Soldout];
    let winners = u64::try_from(after.orders.values().flatten().count())?;
    Ok(Act {
        sheet: Sheet::of_tallies("worker", "clicks", &columns, &by_process(&after.answers)),
        notes: vec![
            after.pace("clicks"),
            format!(
                "{} people clicked {CLICKS} times each, here and there; {} have an order",
                count(people),
                count(winners)
            ),
        ],
        verdict: after.verdict(),
        answers: after.heard(),
        findings: after.findings,
    })
}
