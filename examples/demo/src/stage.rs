//! Where a scene is played: the server, the ten worker processes, the bar, and how much of everything.

use std::collections::BTreeMap;

use anyhow::Result;
use indicatif::ProgressBar;

use crate::books::{Findings, Tally};
use crate::client::Client;
use crate::crew::Crew;
use crate::show::{self, Sheet};
use crate::wire::{Answer, Event, Job, Word};

/// How many worker processes play the scenes that need no special ones.
pub const PROCESSES: usize = 10;

/// How much is played.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// A few seconds for each scene.
    Full,
    /// A tenth of it.
    Quick,
}

/// What scenes are played with.
pub struct Stage<'a> {
    address: &'a str,
    crew: Crew,
    scale: Scale,
    live: bool,
    round: u64,
}

/// What a scene came to.
pub struct Act {
    /// What each client got.
    pub sheet: Sheet,
    /// Worth saying besides.
    pub notes: Vec<String>,
    /// The last line, if the books are right.
    pub verdict: String,
    /// Whether they are.
    pub findings: Findings,
    /// Answers heard.
    pub answers: u64,
}

impl<'a> Stage<'a> {
    /// A stage with ten workers at the server at `address`; `live` shows the bar.
    pub fn new(address: &'a str, scale: Scale, live: bool) -> Result<Self> {
        Ok(Self { address, crew: Crew::hire(PROCESSES, address)?, scale, live, round: 0 })
    }

    /// A connection of the demo's own.
    pub fn client(&self) -> Result<Client> {
        Client::connect(self.address)
    }

    /// A connection of the demo's own, for a program that speaks the client's language.
    pub fn connection(&self) -> Result<redis::Connection> {
        Ok(redis::Client::open(format!("redis://{}/", self.address))?.get_connection()?)
    }

    /// `size` workers of a scene's own, for scenes in which processes die.
    pub fn hire(&self, size: usize) -> Result<Crew> {
        Crew::hire(size, self.address)
    }

    /// `full`, or a tenth of it when quick.
    pub fn scaled(&self, full: u64) -> u64 {
        match self.scale {
            Scale::Full => full,
            Scale::Quick => full / 10,
        }
    }

    /// A key nobody has used yet. Each call begins a new round.
    pub fn fresh_key(&mut self, name: &str) -> String {
        self.round += 1;
        format!("demo:{name}:{}", self.round)
    }

    /// Chance that comes out the same in the same round of every run.
    pub fn chance(&self) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.round)
    }

    /// A bar over `length` steps.
    pub fn bar(&self, length: u64) -> Result<ProgressBar> {
        show::bar(length, self.live)
    }

    /// Gives the first workers a job each, lets them all go at once, and returns what they heard: each worker's answers
    /// in order. `progress` sees every answer as it comes in.
    pub fn play(&mut self, jobs: &[Job], mut progress: impl FnMut(&Answer)) -> Result<Vec<(usize, Answer)>> {
        for (worker, job) in jobs.iter().enumerate() {
            self.crew.give(worker, job)?;
        }
        let mut answers = Vec::new();
        let (mut ready, mut done) = (0, 0);
        while done < jobs.len() {
            match self.crew.next()? {
                (_, Event::Ready) => {
                    ready += 1;
                    if ready == jobs.len() {
                        (0..ready).try_for_each(|worker| self.crew.say(worker, &Word::Go))?;
                    }
                }
                (worker, Event::Answers(heard)) => {
                    heard.iter().for_each(&mut progress);
                    answers.extend(heard.into_iter().map(|answer| (worker, answer)));
                }
                (_, Event::Done) => done += 1,
                (worker, _) => anyhow::bail!("worker {} told something that is not part of this scene", worker + 1),
            }
        }
        Ok(answers)
    }
}

/// Deals `things` to so many `workers` like cards: the clicks of one person end up anywhere, and meet on the server.
pub fn deal<T: Clone>(things: impl IntoIterator<Item = T>, workers: usize, chance: &mut fastrand::Rng) -> Vec<Vec<T>> {
    let mut cards: Vec<T> = things.into_iter().collect();
    chance.shuffle(&mut cards);
    let mut hands = vec![Vec::new(); workers];
    for (card, worker) in cards.into_iter().zip((0..workers).cycle()) {
        if let Some(hand) = hands.get_mut(worker) {
            hand.push(card);
        }
    }
    hands
}

/// Answers counted by worker process.
pub fn by_process(answers: &[(usize, Answer)]) -> Vec<(String, Tally)> {
    let mut tallies: BTreeMap<usize, Tally> = BTreeMap::new();
    for (worker, answer) in answers {
        tallies.entry(*worker).or_default().note(answer);
    }
    tallies.into_iter().map(|(worker, tally)| (format!("process {}", worker + 1), tally)).collect()
}
