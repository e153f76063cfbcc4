//! The books of work that a lock guards.

use std::collections::{BTreeMap, BTreeSet};

use super::Findings;
use crate::wire::{Answer, Outcome};

/// Everything known after the rush.
pub struct Books<'a> {
    /// Units there were.
    pub total: u64,
    /// Orders the workers were asked to take.
    pub requests: u64,
    /// What they came to.
    pub answers: &'a [(usize, Answer)],
    /// The stock in the shop's database afterwards.
    pub stock: u64,
    /// The orders in the shop's database afterwards.
    pub orders: &'a BTreeSet<String>,
}

impl Books<'_> {
    /// Checks every rule.
    pub fn audit(&self) -> Findings {
        let mut findings = Findings::default();
        let answers = self.answers.len();
        findings.check("every request was answered", u64::try_from(answers) == Ok(self.requests), || {
            format!("{} requests, {answers} answers", self.requests)
        });
        let busy = self.answers.iter().filter(|(_, answer)| answer.outcome == Outcome::Busy);
        findings.none("everyone got the lock in time", busy.map(|(_, answer)| &answer.id));
        self.one_order_each(&mut findings);
        self.one_at_a_time(&mut findings);
        findings
    }

    fn bought(&self) -> impl Iterator<Item = &Answer> {
        self.answers.iter().map(|(_, answer)| answer).filter(|answer| answer.outcome == Outcome::Ok)
    }

    fn one_order_each(&self, findings: &mut Findings) {
        let mut buyers = BTreeSet::new();
        let twice = self.bought().filter(|answer| !buyers.insert(answer.id.clone()));
        findings.none("nobody ordered twice", twice.map(|answer| &answer.id));
        findings.check("the database has the orders the workers took", buyers == *self.orders, || {
            format!("they took {}, it has {}", buyers.len(), self.orders.len())
        });
        let sold = self.bought().count();
        findings.check("every unit was sold", u64::try_from(sold) == Ok(self.total) && self.stock == 0, || {
            format!("{sold} orders for {} units, {} left", self.total, self.stock)
        });
    }

    /// Each grant has a fence of its own. In their order, every sale must have seen the stock the one before it left.
    fn one_at_a_time(&self, findings: &mut Findings) {
        let mut by_fence = BTreeMap::new();
        let mut unfenced = Vec::new();
        for (_, answer) in self.answers {
            let first = answer.fence.is_some_and(|fence| by_fence.insert(fence, answer).is_none());
            if !first {
                unfenced.push(answer.id.as_str());
            }
        }
        findings.none("every grant has a fence of its own", unfenced);
        let sales = by_fence.values().filter(|answer| answer.outcome == Outcome::Ok);
        let expected = (0..self.total).rev();
        let skipped = sales.zip(expected).filter(|(answer, left)| answer.remaining != *left);
        findings.none(
            "in the order of the fences, each sale takes the next unit",
            skipped.map(|(answer, left)| format!("{} left {}, not {left}", answer.id, answer.remaining)),
        );
    }
}
