//! A client that is a process of its own, as it sees itself: this program, started by itself (`process.rs`).

use std::io::{Lines, StdinLock, Write as _, stdin, stdout};

use anyhow::{Context as _, Result};

use super::Worker;
use super::notes::{Note, Record};
use super::process::Job;
use crate::route::Route;

/// Lives as a client until it is told that the run is over.
pub fn live() -> Result<()> {
    let mut told = stdin().lines();
    let job: Job = serde_json::from_str(&told.next().context("no job")??)?;
    let route = Route::to(job.clock, vec![job.server], job.number);
    let mut parent = Parent { route: &route, told };
    let mut worker = Worker::new(&route, &mut parent, job.number, fastrand::Rng::with_seed(job.seed));
    worker.mortal = true;
    worker.work(job.trade);
    Ok(())
}

/// Keeps this client's notes, so that they outlive it.
struct Parent<'a> {
    route: &'a Route,
    /// After each note but [`Note::Asks`] and [`Note::AsksCart`]: whether the run is over.
    told: Lines<StdinLock<'static>>,
}

impl Parent<'_> {
    /// Tells it; whether the run goes on.
    fn tell(&mut self, note: &Note) -> Result<bool> {
        let mut line = serde_json::to_vec(note)?;
        line.push(b'\n');
        // In one piece: a killed client has told all of it or nothing.
        stdout().write_all(&line)?;
        if matches!(note, Note::Asks(_) | Note::AsksCart(_)) {
            return Ok(true);
        }
        let over: bool = serde_json::from_str(&self.told.next().context("the parent is gone")??)?;
        Ok(!over)
    }
}

impl Record for Parent<'_> {
    fn note(&mut self, note: Note) {
        if !self.tell(&note).unwrap_or(false) {
            self.route.stop();
        }
    }
}
