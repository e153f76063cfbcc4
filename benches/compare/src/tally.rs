//! The counters of a crowd.

use std::collections::BTreeMap;
use std::time::Instant;

/// The accounts of a load while it runs.
#[derive(Debug)]
pub struct Tally {
    /// Commands that were sent, and replies that came.
    pub sent: u64,
    pub heard: u64,
    /// Operations that are done: by all, and by each member.
    pub done: u64,
    pub shares: Vec<u32>,
    /// How long each took, in nanoseconds.
    pub waits: Vec<u32>,
    /// How often each answer was heard.
    pub answers: BTreeMap<&'static str, u64>,
    /// When the last holder let go.
    pub passed: Instant,
}

impl Tally {
    pub fn of(members: usize) -> Self {
        Self {
            sent: 0,
            heard: 0,
            done: 0,
            shares: vec![0; members],
            waits: vec![],
            answers: BTreeMap::new(),
            passed: Instant::now(),
        }
    }

    /// An operation of a member is done that began at `since`.
    pub fn finish(&mut self, member: usize, since: Instant) {
        self.done += 1;
        self.shares[member] += 1;
        self.waits.push(u32::try_from(since.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }

    /// An answer was heard.
    pub fn count(&mut self, answer: &'static str) {
        *self.answers.entry(answer).or_default() += 1;
    }

    /// Forgets the operations so far, not what is on its way.
    pub fn restart(&mut self) {
        self.done = 0;
        self.shares.fill(0);
        self.waits.clear();
        self.answers.clear();
    }

    /// Jain's index of the members' shares: 1 if all got the same, 1/n if one got all.
    pub fn jain(&self) -> f64 {
        let shares = || self.shares.iter().map(|share| f64::from(*share));
        let squares: f64 = shares().map(|share| share * share).sum();
        shares().sum::<f64>().powi(2) / (squares * self.shares.len() as f64)
    }
}
