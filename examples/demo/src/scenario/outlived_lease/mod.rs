//! Scenario 4: a lock that outlives its work, or does not. What happens when the holder crashes, when it freezes, and
//! when its work takes longer than the lease.

pub mod crash;
pub mod extend;
pub mod freeze;

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use crate::crew::Crew;
use crate::wire::{Event, Released, Word};

/// How long each worker is willing to wait for the lock, in milliseconds: less than the lease of a holder that crashes.
const WAIT: u64 = 15_000;

/// A worker's word that it holds the lock.
struct Granted {
    worker: usize,
    fence: u64,
    /// When it sent the command, in unix microseconds.
    asked_at: u64,
    /// When it read the reply, in unix microseconds.
    at: u64,
}

/// A resource that protects itself: it takes no write under a fence lower than the highest it has seen.
#[derive(Default)]
struct Resource {
    highest: u64,
    accepted: u64,
    refused: u64,
}

impl Resource {
    fn write(&mut self, fence: u64) -> Word {
        if fence < self.highest {
            self.refused += 1;
            return Word::Refused;
        }
        self.highest = fence;
        self.accepted += 1;
        Word::Accepted
    }
}

/// Holders at work, and the resource they write to.
struct Site {
    crew: Crew,
    resource: Resource,
    /// The workers whose writes were judged.
    writers: BTreeSet<usize>,
}

impl Site {
    fn new(crew: Crew) -> Self {
        Self { crew, resource: Resource::default(), writers: BTreeSet::new() }
    }

    /// One step further: a write gets its verdict here, anything else that tells something is returned.
    fn step(&mut self) -> Result<Option<(usize, Event)>> {
        match self.crew.next()? {
            (worker, Event::Write { fence }) => {
                let verdict = self.resource.write(fence);
                self.writers.insert(worker);
                self.crew.say(worker, &verdict)?;
                Ok(None)
            }
            (_, Event::Done) => Ok(None),
            other => Ok(Some(other)),
        }
    }

    /// The next thing that happens besides writes.
    fn next(&mut self) -> Result<(usize, Event)> {
        loop {
            if let Some(told) = self.step()? {
                return Ok(told);
            }
        }
    }

    /// Waits until `worker` is at work: it has written for the first time and heard the verdict.
    fn at_work(&mut self, worker: usize) -> Result<()> {
        while !self.writers.contains(&worker) {
            if let Some((other, _)) = self.step()? {
                bail!("worker {} did something while worker {} was to write", other + 1, worker + 1);
            }
        }
        Ok(())
    }

    /// Waits until the next worker holds the lock.
    fn granted(&mut self) -> Result<Granted> {
        match self.next()? {
            (worker, Event::Granted { fence, asked_at, at }) => Ok(Granted { worker, fence, asked_at, at }),
            (worker, _) => bail!("worker {} ended before the next one was granted the lock", worker + 1),
        }
    }

    /// Waits until `expected` has given the lock back.
    fn released(&mut self, expected: usize) -> Result<Released> {
        match self.next()? {
            (worker, Event::Released(released)) if worker == expected => Ok(released),
            (worker, _) => bail!("worker {} did something before worker {} was done", worker + 1, expected + 1),
        }
    }
}

/// Microseconds as milliseconds, for people.
fn millis(micros: u64) -> String {
    format!("{}.{} ms", micros / 1000, micros % 1000 / 100)
}
