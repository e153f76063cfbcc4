//! Passengers: they book journeys, stay at home now and then, and ask again while they wait.

use anyhow::{Context, Result};
use lockstock_railway::{Journey, Standing, Train};
use redis::Connection;

use super::{Ears, tell};
use crate::wire::{Answer, Event, Outcome, Ride, Trip};

/// How many of its own journeys a worker has begun when it asks for the first time again what has become of them.
const LATER: usize = 8;

/// Books every journey. Some passengers stay at home a little later; others, who wait, ask again.
pub(super) fn run(address: &str, job: &Ride, ears: &mut Ears) -> Result<()> {
    let client = redis::Client::open(format!("redis://{address}/")).context("open the client")?;
    let mut redis = client.get_connection().context("connect")?;
    let train = Train { name: job.train.clone(), stops: job.stops };
    ears.wait_for_go()?;
    for (number, trip) in job.trips.iter().enumerate() {
        let mut answers = vec![book(&train, &mut redis, trip)?];
        if let Some(earlier) = number.checked_sub(LATER).and_then(|number| job.trips.get(number)) {
            answers.push(if earlier.stays_at_home {
                train.cancel(&mut redis, &journey(earlier)).context("cancel")?;
                answer(earlier, Outcome::Cancelled)
            } else {
                book(&train, &mut redis, earlier)?
            });
        }
        tell(&Event::Answers(answers))?;
    }
    Ok(())
}

fn book(train: &Train, redis: &mut Connection, trip: &Trip) -> Result<Answer> {
    let outcome = match train.book(redis, &journey(trip)).context("book")? {
        Standing::Booked => Outcome::Ok,
        Standing::Waits(_) => Outcome::Queued,
    };
    Ok(answer(trip, outcome))
}

/// The journey of this trip.
pub fn journey(trip: &Trip) -> Journey {
    Journey { id: trip.id.clone(), from: trip.from, to: trip.to }
}

fn answer(trip: &Trip, outcome: Outcome) -> Answer {
    let legs = u64::try_from(trip.to.saturating_sub(trip.from)).unwrap_or_default();
    let units = if outcome == Outcome::Ok { legs } else { 0 };
    Answer { id: trip.id.clone(), asked: legs, outcome, units, remaining: 0, fence: None }
}
