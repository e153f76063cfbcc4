//! Scenario 3: a user asks for n tickets and hears yes or no; what each has bought is read back.

use std::collections::BTreeMap;

use anyhow::Result;

use super::sale::{Aftermath, Rush, Sold, crowd};
use crate::books::Tally;
use crate::show::{Sheet, count};
use crate::stage::{Act, Stage};
use crate::wire::{Outcome, Request};

/// Users.
const USERS: u64 = 80_000;
/// Tickets; one more is put up. All users come in pairs, and one ticket alone is too few for a pair.
const TICKETS: u64 = 200_000;

/// Plays the scene.
pub fn play(stage: &mut Stage<'_>) -> Result<Act> {
    let (users, total) = (stage.scaled(USERS), stage.scaled(TICKETS) + 1);
    let key = stage.fresh_key("tickets");
    let mut chance = stage.chance();
    let requests: Vec<_> = (0..users)
        .map(|user| Request { id: format!("user-{user:05}"), units: 2 * chance.u64(1..=3), lose: false })
        .collect();
    let workers = crowd(requests, &mut chance);

    let bar = stage.bar(users)?;
    let mut sold = Sold::default();
    let rush = Rush { key, total, left: 1, settle: false, workers };
    let after = rush.play(stage, |answer| {
        bar.inc(1);
        bar.set_message(format!("users, sold {} of {}", count(sold.after(answer)), count(total)));
    })?;
    bar.finish_and_clear();

    let columns = [Outcome::Ok, Outcome::Insufficient, Outcome::Soldout];
    let mut notes = vec![after.pace("users")];
    notes.extend(examples(&after));
    Ok(Act {
        sheet: Sheet::of_tallies("users who asked for", "users", &columns, &by_wish(&after)),
        notes,
        verdict: after.verdict(),
        answers: after.heard(),
        findings: after.findings,
    })
}

/// Answers counted by the number of tickets asked for.
fn by_wish(after: &Aftermath) -> Vec<(String, Tally)> {
    let mut tallies: BTreeMap<u64, Tally> = BTreeMap::new();
    for (_, answer) in &after.answers {
        tallies.entry(answer.asked).or_default().note(answer);
    }
    tallies.into_iter().map(|(tickets, tally)| (format!("{tickets} tickets"), tally)).collect()
}

/// The first user who got tickets and the first who did not, as the workers and the server have it.
fn examples(after: &Aftermath) -> impl Iterator<Item = String> {
    let first = |got: bool| after.answers.iter().map(|(_, answer)| answer).find(|answer| (answer.units > 0) == got);
    [true, false].into_iter().filter_map(move |got| {
        let answer = first(got)?;
        let order = after.orders.get(&answer.id)?;
        let order = order.as_ref().map_or("no order".to_owned(), |order| format!("{} {}", order.state, order.units));
        Some(format!(
            "{} asked for {} and heard {got} ({}); STOCK.ORDER: {order}",
            answer.id, answer.asked, answer.outcome
        ))
    })
}
