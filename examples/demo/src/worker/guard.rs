//! Orders under a lock: for work that is more than one command, and would go wrong if two did it at once.

use std::mem;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::{Ears, tell};
use crate::client::{Acquire, Client, Grant};
use crate::wire::{Answer, Event, Guard, Outcome, Person};

/// The lease: far more than the work needs.
const LEASE: u64 = 10_000;
/// How long to wait for the lock.
const WAIT: u64 = 10_000;
/// What the work between reading the stock and writing it takes: a payment, a row in a database.
const WORK: Duration = Duration::from_micros(700);
/// How long answers are kept back.
const TELL_EVERY: Duration = Duration::from_millis(40);

/// Takes every order in turn.
pub fn run(address: &str, job: &Guard, ears: &mut Ears) -> Result<()> {
    let mut client = Client::connect(address)?;
    let mut untold = Vec::new();
    let mut told = Instant::now();
    ears.wait_for_go()?;
    for person in &job.people {
        untold.push(order(&mut client, job, person)?);
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            tell(&Event::Answers(mem::take(&mut untold)))?;
        }
    }
    tell(&Event::Answers(untold))
}

/// One order: lock, work, and the lock back however the work ended.
fn order(client: &mut Client, job: &Guard, person: &Person) -> Result<Answer> {
    let Some(lock) = &job.lock else {
        return process(client, job, person);
    };
    let wanted = Acquire { lock, lease: LEASE, wait: WAIT, session: false };
    let Some(Grant { token, fence }) = client.acquire(&wanted)? else {
        return Ok(answer(person, Outcome::Busy, 0));
    };
    let processed = process(client, job, person);
    if !client.release(lock, &token)? {
        bail!("the lock was gone before the work was done");
    }
    Ok(Answer { fence: Some(fence), ..processed? })
}

/// The guarded work: read, think, write. Right only as long as nobody else does the same meanwhile.
fn process(client: &mut Client, job: &Guard, person: &Person) -> Result<Answer> {
    let order = format!("{}:order:{}", job.shop, person.id);
    let stock = format!("{}:stock", job.shop);
    if client.ask(redis::cmd("EXISTS").arg(&order))? {
        return Ok(answer(person, Outcome::Duplicate, 0));
    }
    let left: u64 = client.ask(redis::cmd("GET").arg(&stock))?;
    if left == 0 {
        return Ok(answer(person, Outcome::Soldout, 0));
    }
    thread::sleep(WORK);
    if person.declined {
        return Ok(answer(person, Outcome::Declined, left));
    }
    client.ask::<()>(redis::cmd("SET").arg(&stock).arg(left - 1))?;
    client.ask::<()>(redis::cmd("SET").arg(&order).arg(1))?;
    Ok(answer(person, Outcome::Ok, left - 1))
}

fn answer(person: &Person, outcome: Outcome, remaining: u64) -> Answer {
    let units = u64::from(outcome == Outcome::Ok);
    Answer { id: person.id.clone(), asked: 1, outcome, units, remaining, fence: None }
}
