//! Buyers: one command each, and nothing else to get right.

use std::mem;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::{Ears, tell};
use crate::client::Client;
use crate::wire::{Answer, Buy, Event, Outcome, Request};

/// How long answers are kept back, so that telling them does not slow the rush down.
const TELL_EVERY: Duration = Duration::from_millis(40);
/// What a command whose sender hangs up gets to arrive; every second one gets none.
const GRACE: Duration = Duration::from_millis(1);

/// Runs every lane on a thread of its own, all from the same moment on.
pub fn run(address: &str, job: &Buy, ears: &mut Ears) -> Result<()> {
    let lanes = job.lanes.iter().map(|requests| Ok((Lane::open(address, job)?, requests)));
    let lanes: Vec<_> = lanes.collect::<Result<_>>()?;
    ears.wait_for_go()?;
    thread::scope(|scope| {
        let lanes: Vec<_> = lanes.into_iter().map(|(lane, requests)| scope.spawn(|| lane.run(requests))).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().map_err(|_| anyhow!("a buyer's thread panicked"))?)
    })
}

struct Lane<'a> {
    address: &'a str,
    job: &'a Buy,
    client: Client,
    untold: Vec<Answer>,
    told: Instant,
    hang_ups: usize,
}

impl<'a> Lane<'a> {
    fn open(address: &'a str, job: &'a Buy) -> Result<Self> {
        let client = Client::connect(address)?;
        Ok(Self { address, job, client, untold: Vec::new(), told: Instant::now(), hang_ups: 0 })
    }

    fn run(mut self, requests: &[Request]) -> Result<()> {
        for request in requests {
            if request.lose {
                self.lose(request)?;
            }
            self.buy(request)?;
            if self.told.elapsed() >= TELL_EVERY {
                self.tell()?;
            }
        }
        self.tell()
    }

    /// Asks once and, where the job says so, again for what is left.
    fn buy(&mut self, request: &Request) -> Result<()> {
        let mut request = request.clone();
        loop {
            let answer = self.client.decr_once(&self.job.sale, &request)?;
            let again = self.job.settle && answer.outcome == Outcome::Insufficient;
            request.units = answer.remaining;
            self.untold.push(answer);
            if !again {
                return Ok(());
            }
        }
    }

    /// Asks, and never hears the answer. Whether the units were taken is unknown, which is what the next click is for.
    fn lose(&mut self, request: &Request) -> Result<()> {
        let doomed = mem::replace(&mut self.client, Client::connect(self.address)?);
        let grace = if self.hang_ups.is_multiple_of(2) { GRACE } else { Duration::ZERO };
        self.hang_ups += 1;
        doomed.decr_once_and_hang_up(&self.job.sale, request, grace)?;
        self.untold.push(Answer {
            id: request.id.clone(),
            asked: request.units,
            outcome: Outcome::Lost,
            units: 0,
            remaining: 0,
            fence: None,
        });
        Ok(())
    }

    fn tell(&mut self) -> Result<()> {
        self.told = Instant::now();
        tell(&Event::Answers(mem::take(&mut self.untold)))
    }
}
