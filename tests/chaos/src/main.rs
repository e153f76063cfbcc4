//! lockstock under attack: clients keep a record of every request while servers are killed, frozen, cut off and replaced, and a
//! judge reads the record afterwards.
//!
//! ```text
//! cargo run -p lockstock-chaos -- --seconds 60
//! cargo run -p lockstock-chaos -- --list
//! cargo run -p lockstock-chaos -- --seconds 30 --scenes kill-always,nuisance --seed 7
//! ```
//!
//! Reading order: [`history`] (what is recorded), [`route`] and [`wire`] (how a client asks), [`work`] (what clients do),
//! [`scene`] (what is done to the servers), [`play`] (one scene from beginning to end), [`check`] (the judge), [`show`].
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test may stop at the first surprise"
)]

mod check;
mod history;
mod play;
mod route;
mod scene;
mod show;
mod wire;
mod work;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use lexopt::prelude::{Long, Short, ValueExt};

use crate::scene::{BROKEN, PLANS, Plan};

const HELP: &str = "\
Attacks servers of its own and judges what their clients were told.

usage: chaos [--seconds N] [--scenes LIST] [--seed N] [--prove] [--list]

  --seconds N     how long, all scenes together (60); some take longer, to wait for an election
  --scenes LIST   only these, separated by commas
  --seed N        the same choices again, as far as threads and processes let it
  --prove         only this: with a server that breaks its word, is the judge's verdict that it does?
  --list          the scenes";

fn main() -> ExitCode {
    let judged = Options::parse().map(|options| match options {
        None => true,
        Some(options) if options.prove => options.prove(),
        Some(options) => options.run(),
    });
    match judged {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("chaos: {why:#}");
            ExitCode::FAILURE
        }
    }
}

/// The options of the command line.
struct Options {
    seconds: u32,
    plans: Vec<&'static Plan>,
    seed: u64,
    prove: bool,
}

impl Options {
    /// Reads the command line; `None` when it only asked for a text.
    fn parse() -> Result<Option<Self>> {
        let seed = fastrand::u64(..1_000_000);
        let mut options = Self { seconds: 60, plans: PLANS.iter().collect(), seed, prove: false };
        let mut parser = lexopt::Parser::from_env();
        while let Some(argument) = parser.next()? {
            match argument {
                Long("seconds") => options.seconds = parser.value()?.parse()?,
                Long("scenes") => options.plans = plans(&parser.value()?.string()?)?,
                Long("seed") => options.seed = parser.value()?.parse()?,
                Long("prove") => options.prove = true,
                Long("list") => {
                    for plan in PLANS {
                        println!("{:<16} {}", plan.name, plan.about);
                    }
                    return Ok(None);
                }
                // Not for users: this is how the clients of a scene start.
                Long("client") => return work::live().map(|()| None),
                Long("help") | Short('h') => {
                    println!("{HELP}");
                    return Ok(None);
                }
                other => return Err(other.unexpected().into()),
            }
        }
        ensure!(options.seconds > 0, "--seconds must be at least 1");
        Ok(Some(options))
    }

    /// Plays the scenes; whether there was no violation.
    fn run(&self) -> bool {
        let span = Duration::from_secs(self.seconds.into()) / u32::try_from(self.plans.len()).expect("a few");
        let mut random = fastrand::Rng::with_seed(self.seed);
        println!("seed {}, {} s, {} scenes", self.seed, self.seconds, self.plans.len());
        let mut table = show::Table::default();
        for plan in &self.plans {
            println!("{}: {}", plan.name, plan.about);
            // A server that does not come back panics; the other scenes are played all the same.
            match catch_unwind(AssertUnwindSafe(|| play::play(plan, span, &mut random))) {
                Err(_) => table.fail(plan.name),
                Ok(Ok(played)) => table.add(plan.name, &played),
                Ok(Err(why)) => {
                    println!("    skipped: {why}");
                    table.skip(plan.name);
                }
            }
        }
        table.print()
    }
}

impl Options {
    /// Plays scenes that must not go well; whether the judge saw why.
    fn prove(&self) -> bool {
        let span = Duration::from_secs(self.seconds.into());
        let seen = |(plan, rules): (&Plan, &[&str])| {
            let played = play::play(plan, span, &mut fastrand::Rng::with_seed(self.seed));
            let violations = played.map(|played| played.verdict.violations).unwrap_or_default();
            let seen = |rule: &&str| violations.iter().filter(|violation| violation.rule == *rule).count();
            let counts: Vec<String> = rules.iter().map(|rule| format!("{rule}: {}", seen(rule))).collect();
            println!("{}, and what the judge saw: {}", plan.about, counts.join(", "));
            rules.iter().all(|rule| seen(rule) > 0)
        };
        BROKEN.map(seen).into_iter().all(|seen| seen)
    }
}

fn plans(names: &str) -> Result<Vec<&'static Plan>> {
    let find = |name: &str| PLANS.iter().find(|plan| plan.name == name).ok_or_else(|| anyhow!("no scene {name}"));
    names.split(',').map(find).collect()
}
