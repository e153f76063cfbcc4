//! A railway in miniature: ten stops make nine legs, and a journey needs a seat on each of its legs. Ten processes book random
//! journeys, and passengers who come too late wait for seats of passengers who stay at home.

use anyhow::{Context, Result};
use lockstock_railway::{Standing, Train};

use super::sale::pace;
use crate::books::train::Books;
use crate::show::{Sheet, count};
use crate::stage::{Act, PROCESSES, Stage, deal};
use crate::wire::{Job, Outcome, Ride, Trip};
use crate::worker::ride::journey;

/// Stops of the train.
const STOPS: usize = 10;
/// Seats of the train.
const SEATS: u64 = 400;
/// The journeys that passengers want to make.
const JOURNEYS: u64 = 5_000;
/// One passenger in so many stays at home.
const AT_HOME: u64 = 3;

/// Plays the scene.
pub fn play(stage: &mut Stage<'_>) -> Result<Act> {
    let (seats, journeys) = (stage.scaled(SEATS), stage.scaled(JOURNEYS));
    let train = Train { name: stage.fresh_key("train"), stops: STOPS };
    let mut client = stage.client()?;
    let mut redis = stage.connection()?;
    train.open(&mut redis, seats).context("open the train")?;

    let mut chance = stage.chance();
    let trips = (0..journeys).map(|number| {
        let from = chance.usize(1..STOPS);
        let to = chance.usize(from + 1..=STOPS);
        Trip { id: format!("journey-{number:05}"), from, to, stays_at_home: number % AT_HOME == 0 }
    });
    let trips: Vec<Trip> = trips.collect();
    let hands = deal(trips.iter().cloned(), PROCESSES, &mut stage.chance());
    let job = |trips| Job::Ride(Ride { train: train.name.clone(), stops: STOPS, trips });
    let jobs: Vec<_> = hands.into_iter().map(job).collect();

    let bar = stage.bar(journeys)?;
    let start = std::time::Instant::now();
    let answers = stage.play(&jobs, |answer| {
        bar.inc(u64::from(answer.outcome != Outcome::Cancelled));
        bar.set_message("requests for seats on a train");
    })?;
    let took = start.elapsed();
    bar.finish_and_clear();

    // Passengers who have not left yet stay at home now, and the others go on for as long as one of them gets any further.
    for trip in trips.iter().filter(|trip| trip.stays_at_home) {
        train.cancel(&mut redis, &journey(trip)).context("cancel")?;
    }
    let mut standing: Vec<(Trip, Option<Standing>)> = trips.into_iter().map(|trip| (trip, None)).collect();
    loop {
        let mut changed = false;
        for (trip, standing) in standing.iter_mut().filter(|(trip, _)| !trip.stays_at_home) {
            let now = Some(train.book(&mut redis, &journey(trip)).context("book")?);
            changed |= *standing != now;
            *standing = now;
        }
        if !changed {
            break;
        }
    }

    let books = Books { train: &train, seats, journeys: &standing };
    let (findings, legs) = books.audit(&mut redis, &mut client)?;
    let mut sheet = Sheet::new(["leg", "seats", "sold", "held", "free", "waiting"], 1);
    for (number, leg) in (1..).zip(&legs) {
        let numbers = [leg.seats, leg.sold, leg.held, leg.free, leg.waiting].map(count);
        sheet.row([format!("{number} to {}", number + 1)].into_iter().chain(numbers).collect());
    }
    let booked = standing.iter().filter(|(_, standing)| *standing == Some(Standing::Booked)).count() as u64;
    let waiting = standing.iter().filter(|(_, standing)| matches!(standing, Some(Standing::Waits(_)))).count() as u64;
    let first = answers.iter().filter(|(_, answer)| answer.outcome == Outcome::Queued).count() as u64;
    Ok(Act {
        sheet,
        notes: vec![
            pace(answers.len() as u64, "requests", took),
            format!("\"you are in line\" was the answer to {} of them", count(first)),
        ],
        verdict: format!(
            "{} journeys booked, {} wait, no leg oversold, nobody passed over",
            count(booked),
            count(waiting)
        ),
        findings,
        answers: answers.len() as u64,
    })
}
