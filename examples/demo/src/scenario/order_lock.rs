//! Scenario 1 with a lock: an order is several steps in a database that knows nothing of other workers, so only one
//! worker at a time may take them.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::{Context, Result};

use super::sale::{Sold, pace};
use crate::books::Tally;
use crate::books::guarded::Books;
use crate::client::Client;
use crate::show::{Sheet, count};
use crate::stage::{Act, PROCESSES, Stage, by_process, deal};
use crate::wire::{Answer, Guard, Job, Outcome, Person};

/// The people who want a unit.
const PEOPLE: u64 = 4_500;
/// Units there are.
const STOCK: u64 = 3_000;
/// How often each of them orders.
const CLICKS: u64 = 2;
/// Every so many people a payment fails, and the lock must come back all the same.
const DECLINED: u64 = 27;

/// Plays the scene.
pub fn play(stage: &mut Stage<'_>) -> Result<Act> {
    let (people, total) = (stage.scaled(PEOPLE), stage.scaled(STOCK));
    let requests = people * CLICKS;
    let shop = Shop::open(stage, total, true)?;
    let lock = shop.lock.clone().context("this shop has a lock")?;
    let bar = stage.bar(requests)?;
    let start = Instant::now();
    let after = shop.play(stage, people, |sold| {
        bar.inc(1);
        bar.set_message(format!("orders, sold {} of {}", count(sold), count(total)));
    })?;
    let took = start.elapsed();
    bar.finish_and_clear();

    let bar = stage.bar(requests)?;
    let mut unguarded = 0;
    Shop::open(stage, total, false)?.play(stage, people, |sold| {
        bar.inc(1);
        bar.set_message(format!("orders without the lock, sold {} of {}", count(sold), count(total)));
        unguarded = sold;
    })?;
    bar.finish_and_clear();

    let Closed { answers, stock, orders } = after;
    let mut findings = Books { total, requests, answers: &answers, stock, orders: &orders }.audit();
    let free = stage.client()?.is_free(&lock)?;
    findings.check("a free lock leaves nothing behind", free, || "LOCK.INFO still has something to say".to_owned());

    let groups = by_process(&answers);
    let all = Tally::together(&groups);
    let columns = [Outcome::Ok, Outcome::Duplicate, Outcome::Declined, Outcome::Soldout];
    Ok(Act {
        sheet: Sheet::of_tallies("worker", "orders", &columns, &groups),
        notes: vec![
            pace(all.answers(), "orders", took),
            format!("{} times the work failed under the lock, and the next in line went on", all.of(Outcome::Declined)),
            format!("the same work without the lock, for comparison: {} of {} sold", count(unguarded), count(total)),
        ],
        verdict: format!("sold {} of {}, nobody twice, nothing left over", count(all.units), count(total)),
        answers: all.answers(),
        findings,
    })
}

/// A shop whose database is a handful of plain keys.
struct Shop {
    name: String,
    lock: Option<String>,
}

/// What is in the shop's database in the evening, and what the workers say.
struct Closed {
    answers: Vec<(usize, Answer)>,
    stock: u64,
    orders: BTreeSet<String>,
}

impl Shop {
    fn open(stage: &mut Stage<'_>, stock: u64, locked: bool) -> Result<Self> {
        let name = stage.fresh_key("shop");
        stage.client()?.ask::<()>(redis::cmd("SET").arg(format!("{name}:stock")).arg(stock))?;
        let lock = locked.then(|| format!("{name}:lock"));
        Ok(Self { name, lock })
    }

    /// Lets every person order, on different processes at the same time.
    fn play(self, stage: &mut Stage<'_>, people: u64, mut progress: impl FnMut(u64)) -> Result<Closed> {
        let Self { name, lock } = self;
        let person =
            |number: u64| Person { id: format!("person-{number:04}"), declined: number.is_multiple_of(DECLINED) };
        let clicks = (0..people * CLICKS).map(|click| person(click / CLICKS));
        let hands = deal(clicks, PROCESSES, &mut stage.chance());
        let job = |people| Job::Guard(Guard { lock: lock.clone(), shop: name.clone(), people });
        let jobs: Vec<_> = hands.into_iter().map(job).collect();

        let mut sold = Sold::default();
        let answers = stage.play(&jobs, |answer| progress(sold.after(answer)))?;

        let mut client = stage.client()?;
        let stock = client.ask(redis::cmd("GET").arg(format!("{name}:stock")))?;
        let orders = stored_orders(&mut client, &name)?;
        Ok(Closed { answers, stock, orders })
    }
}

fn stored_orders(client: &mut Client, shop: &str) -> Result<BTreeSet<String>> {
    let prefix = format!("{shop}:order:");
    let keys: Vec<String> = client.ask(redis::cmd("KEYS").arg(format!("{prefix}*")))?;
    Ok(keys.iter().map(|key| key.trim_start_matches(&prefix).to_owned()).collect())
}
