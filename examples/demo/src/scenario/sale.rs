//! What every scene with a sale does: play the requests, read everything back, check the books.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::books::Findings;
use crate::books::sale::Books;
use crate::client::{Order, Sale};
use crate::show::count;
use crate::stage::{PROCESSES, Stage, deal};
use crate::wire::{Answer, Buy, Job, Outcome, Request};

/// A sale and all its customers.
pub struct Rush {
    /// The sale's key.
    pub key: String,
    /// Units for sale.
    pub total: u64,
    /// Units that nobody can want at the end; 0 where buyers are many and take what they get.
    pub left: u64,
    /// Whether a buyer who hears INSUFFICIENT asks again for what is left.
    pub settle: bool,
    /// For each worker process, for each of its threads: what it asks for.
    pub workers: Vec<Vec<Vec<Request>>>,
}

/// The sale afterwards.
pub struct Aftermath {
    /// What the workers heard.
    pub answers: Vec<(usize, Answer)>,
    /// How long they asked.
    pub took: Duration,
    /// What the server says of the sale.
    pub sale: Sale,
    /// What it says of each id.
    pub orders: BTreeMap<String, Option<Order>>,
    /// Whether all of this fits together.
    pub findings: Findings,
}

impl Rush {
    /// Opens the sale, lets all customers in, and audits the outcome.
    pub fn play(self, stage: &mut Stage<'_>, progress: impl FnMut(&Answer)) -> Result<Aftermath> {
        let Self { key, total, left, settle, workers } = self;
        let mut client = stage.client()?;
        client.create(&key, total)?;

        let everything: Vec<&Request> = workers.iter().flatten().flatten().collect();
        let requests = u64::try_from(everything.len())?;
        let ids: BTreeSet<String> = everything.iter().map(|request| request.id.clone()).collect();
        let job = |lanes| Job::Buy(Buy { sale: key.clone(), settle, lanes });
        let jobs: Vec<_> = workers.into_iter().map(job).collect();

        let start = Instant::now();
        let answers = stage.play(&jobs, progress)?;
        let took = start.elapsed();

        let sale = client.sale(&key)?;
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        let orders: BTreeMap<&str, Option<Order>> = client.orders(&key, &ids)?.into_iter().collect();
        let books = Books { total, requests, settle, left, answers: &answers, sale: &sale, orders: &orders };
        let findings = books.audit();
        let orders = orders.into_iter().map(|(id, order)| (id.to_owned(), order)).collect();
        Ok(Aftermath { answers, took, sale, orders, findings })
    }
}

impl Aftermath {
    /// "sold 20 of 20, nobody twice, nothing left over".
    pub fn verdict(&self) -> String {
        let Sale { total, remaining, sold, .. } = self.sale;
        let left = match remaining {
            0 => "nothing left over".to_owned(),
            _ => format!("{} left over, too few for anybody", count(remaining)),
        };
        format!("sold {} of {}, nobody twice, {left}", count(sold), count(total))
    }

    /// How many answers were heard.
    pub fn heard(&self) -> u64 {
        self.answers.len() as u64
    }

    /// "120,000 clicks in 3.9 s: 30,769 a second".
    pub fn pace(&self, clicks: &str) -> String {
        pace(self.heard(), clicks, self.took)
    }
}

/// How many of something the processes did, and how fast.
pub fn pace(number: u64, what: &str, took: Duration) -> String {
    let millis = took.as_millis().max(1);
    let each_second = u64::try_from(u128::from(number) * 1000 / millis).unwrap_or(u64::MAX);
    format!("{} {what} in {:.1} s: {} a second", count(number), took.as_secs_f64(), count(each_second))
}

/// Deals `requests` to the ten processes, one thread each.
pub fn crowd(requests: impl IntoIterator<Item = Request>, chance: &mut fastrand::Rng) -> Vec<Vec<Vec<Request>>> {
    deal(requests, PROCESSES, chance).into_iter().map(|hand| vec![hand]).collect()
}

/// Counts what a bar shows beside it.
#[derive(Default)]
pub struct Sold(u64);

impl Sold {
    /// Counts `answer`, and returns the units sold up to it.
    pub fn after(&mut self, answer: &Answer) -> u64 {
        if answer.outcome == Outcome::Ok {
            self.0 += answer.units;
        }
        self.0
    }
}
