//! The judge: reads a history afterwards and says what in it should not have been possible.
//!
//! It assumes nothing but the contract and what is known for certain. A request took effect at some moment between its
//! invocation and its return, or later or never if no reply came; so a hold is only counted as surely held between moments that
//! no reading of the history can move. What a fault may cost is in the history too ([`Loss`]), and nothing beyond it is forgiven.

mod books;
mod bounds;
mod carts;
mod exclusion;
mod fences;
mod free;
mod holds;
mod holes;
mod journal;
mod line;
mod order;
mod orders;
mod patience;
mod sale;
mod standstill;
mod succession;
#[cfg(test)]
mod tests;
mod waiting;

use std::fmt;

use crate::history::{Fault, Faults, History, KILLED, LockAnswer, LockCall, Op, Outcome, Time, millis};

pub use books::{Books, Event};
pub use standstill::find as standstills;

/// How late the servers may be before a request counts as forgotten. A hand-over takes a millisecond; the rest is for the threads
/// of a busy machine.
const GRACE: Time = millis(1_000);

/// Something that should not have happened, with the requests that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub rule: &'static str,
    pub what: String,
    pub story: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)?;
        self.story.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

/// The findings of the judge.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    pub violations: Vec<Violation>,
    /// Holds that ended within their promised lease because a server forgot them, or its clock was set, as that fault allows.
    pub holds_lost: usize,
    /// Orders that were acknowledged and forgotten, as a fault allows.
    pub orders_lost: usize,
    /// Writes that came after the lease and that the fence stopped.
    pub stale_caught: usize,
    /// Writes within the promised lease, of holds that a fault had ended, and that the fence stopped.
    pub lost_caught: usize,
    /// Locks that another token got at the end of the lease, while the holder was stopped.
    pub outlived: usize,
    /// The same of those that had got it while they were stopped.
    pub unheard: usize,
    /// Of both, those whose holder went on to write, and was refused.
    pub refused: usize,
    /// Locks that went on because their holder was killed, and how long that took at most.
    pub inherited: usize,
    pub longest_inheritance: Time,
}

impl Verdict {
    fn blame(&mut self, rule: &'static str, what: String, story: Vec<String>) {
        self.violations.push(Violation { rule, what, story });
    }
}

/// Judges a history and the books at its end.
pub fn judge(history: &History, books: &[Books]) -> Verdict {
    let mut verdict = Verdict::default();
    let holds = holds::holds(history);
    bounds::check(history, &mut verdict);
    exclusion::check(history, &holds, &mut verdict);
    fences::check(history, &mut verdict);
    journal::check(history, &mut verdict);
    order::check(history, &mut verdict);
    free::check(history, &mut verdict);
    waiting::check(history, &mut verdict);
    patience::check(history, &holds, &mut verdict);
    succession::check(history, &holds, &mut verdict);
    standstill::check(history, &mut verdict);
    orders::check(history, books, &mut verdict);
    carts::check(history, books, &mut verdict);
    holes::check(history, books, &mut verdict);
    line::check(history, books, &mut verdict);
    for books in books {
        books.check(&mut verdict);
    }
    verdict
}

/// The numbers of a history that are worth a place in a table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub operations: usize,
    pub refused: usize,
    pub unknown: usize,
    pub granted: usize,
    pub orders: usize,
    pub longest_wait: Time,
}

impl Figures {
    /// Counts.
    pub fn of(history: &History) -> Self {
        let mut figures = Self { operations: history.locks.len() + history.orders.len(), ..Self::default() };
        for op in &history.locks {
            figures.count(&op.outcome);
            if let (LockCall::Acquire { .. }, Some(LockAnswer::Granted(_))) = (&op.call.call, op.answer()) {
                figures.granted += 1;
                // A stopped client learnt of it late because of the stop.
                let waited = if history.faults.hit(op) { 0 } else { op.returned - op.invoked };
                figures.longest_wait = figures.longest_wait.max(waited);
            }
        }
        for op in &history.orders {
            figures.count(&op.outcome);
            figures.orders += usize::from(op.changed());
        }
        figures
    }

    fn count<A>(&mut self, outcome: &Outcome<A>) {
        self.refused += usize::from(matches!(outcome, Outcome::Refused(_)));
        self.unknown += usize::from(matches!(outcome, Outcome::Unknown(_)));
    }
}

impl Faults {
    /// The end of the last fault that a span overlaps, if there is one: until then, answers may be missing.
    fn disturbed_until(&self, from: Time, to: Time) -> Option<Time> {
        let overlapping =
            self.all.iter().filter(|fault| fault.client.is_none() && fault.from <= to && fault.to >= from);
        overlapping.map(|fault| fault.to).max()
    }

    /// Whether something was done to the client of this request that it may have noticed while it waited for its answer.
    fn hit<C, A>(&self, op: &Op<C, A>) -> bool {
        let mut hits = self.all.iter().filter(|fault| fault.client == Some(op.client));
        hits.any(|fault| fault.from < op.returned && fault.to > op.invoked)
    }

    /// When the client was killed, if it was.
    fn death(&self, client: usize) -> Option<&Fault> {
        self.all.iter().find(|fault| fault.client == Some(client) && fault.kind == KILLED)
    }

    /// By how much the clock may have been set back in all.
    fn set_back(&self) -> Time {
        self.steps.iter().map(|step| Time::try_from(step.by_ms.min(0).unsigned_abs() * 1_000).unwrap_or(0)).sum()
    }
}
