//! The books: what must be true after a scenario, checked from three sides that know nothing of each other: what the
//! workers heard, what the server's totals say, and what it says of every single order.

pub mod guarded;
pub mod sale;
#[cfg(test)]
mod tests;
pub mod train;

use std::collections::BTreeMap;

use crate::wire::{Answer, Outcome};

/// Examples of a broken rule worth showing.
const EXAMPLES: usize = 3;

/// Which rules held, and which did not.
#[derive(Default)]
pub struct Findings {
    held: usize,
    broken: Vec<String>,
}

impl Findings {
    /// Notes whether `rule` held; `why` says what was found instead.
    pub fn check(&mut self, rule: &str, holds: bool, why: impl FnOnce() -> String) {
        if holds {
            self.held += 1;
        } else {
            self.broken.push(format!("{rule}: {}", why()));
        }
    }

    /// Notes `rule` as broken if there are any `offenders`.
    pub fn none<T: ToString>(&mut self, rule: &str, offenders: impl IntoIterator<Item = T>) {
        let offenders: Vec<_> = offenders.into_iter().map(|offender| offender.to_string()).collect();
        self.check(rule, offenders.is_empty(), || {
            let shown: Vec<_> = offenders.iter().take(EXAMPLES).map(String::as_str).collect();
            let more = offenders.len() - shown.len();
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            shown.join("; ") + &more
        });
    }

    /// Adds the findings of another audit.
    pub fn add(&mut self, other: Self) {
        self.held += other.held;
        self.broken.extend(other.broken);
    }

    /// How many rules held.
    pub fn held(&self) -> usize {
        self.held
    }

    /// The rules that did not.
    pub fn broken(&self) -> &[String] {
        &self.broken
    }
}

/// Answers counted.
#[derive(Clone, Default)]
pub struct Tally {
    counts: BTreeMap<Outcome, u64>,
    /// Units of the answers that are OK.
    pub units: u64,
}

impl Tally {
    /// Counts one answer.
    pub fn note(&mut self, answer: &Answer) {
        *self.counts.entry(answer.outcome).or_default() += 1;
        if answer.outcome == Outcome::Ok {
            self.units += answer.units;
        }
    }

    /// How many answers there were.
    pub fn answers(&self) -> u64 {
        self.counts.values().sum()
    }

    /// How many of them said `outcome`.
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.counts.get(&outcome).copied().unwrap_or_default()
    }

    /// What was heard at all.
    pub fn outcomes(&self) -> impl Iterator<Item = Outcome> {
        self.counts.keys().copied()
    }

    /// All of `groups` together.
    pub fn together(groups: &[(String, Self)]) -> Self {
        let mut all = Self::default();
        for (_, tally) in groups {
            for (outcome, count) in &tally.counts {
                *all.counts.entry(*outcome).or_default() += count;
            }
            all.units += tally.units;
        }
        all
    }
}
