//! The books of a train: no leg is oversold, no passenger is passed over, and every passenger has the seats that they were told of.

use std::collections::BTreeMap;

use anyhow::Result;
use lockstock_railway::{Leg, Standing, Train, passed_over};
use redis::Connection;

use super::Findings;
use crate::client::Client;
use crate::wire::Trip;

/// A train when nobody gets any further.
pub struct Books<'a> {
    /// The train.
    pub train: &'a Train,
    /// Its seats.
    pub seats: u64,
    /// The journey of every passenger, and how it stands; `None` if the passenger stayed at home.
    pub journeys: &'a [(Trip, Option<Standing>)],
}

impl Books<'_> {
    /// Checks all rules, and returns what is left of each leg.
    pub fn audit(&self, redis: &mut Connection, client: &mut Client) -> Result<(Findings, Vec<Leg>)> {
        let (mut findings, mut legs) = (Findings::default(), vec![]);
        for leg in self.train.legs() {
            let look = self.train.look(redis, leg)?;
            let Leg { seats, free, held, sold, waiting } = look;
            let seen = || format!("leg {leg}: {look:?}");
            findings.check("no leg is oversold", seats == self.seats && free + held + sold == seats, seen);
            findings.check("no seat is free while somebody waits for it", free == 0 || waiting == 0, seen);
            let first = passed_over(&self.train.story(redis, leg)?);
            findings.check("nobody was passed over", first.is_none(), || format!("leg {leg}: by {first:?}"));
            self.seats_are_as_told(leg, client, &mut findings)?;
            legs.push(look);
        }
        Ok((findings, legs))
    }

    fn seats_are_as_told(&self, leg: usize, client: &mut Client, findings: &mut Findings) -> Result<()> {
        let ids: Vec<&str> = self.journeys.iter().map(|(trip, _)| trip.id.as_str()).collect();
        let orders: BTreeMap<&str, _> = client.orders(&self.train.leg(leg), &ids)?.into_iter().collect();
        let wrong = self.journeys.iter().filter_map(|(trip, standing)| {
            let state = orders.get(trip.id.as_str()).and_then(|order| Some(order.as_ref()?.state.as_str()));
            let wanted = match standing {
                _ if !(trip.from..trip.to).contains(&leg) => state.is_none(),
                Some(Standing::Booked) => state == Some("sold"),
                Some(Standing::Waits(at)) if leg < *at => state == Some("held"),
                Some(Standing::Waits(at)) if leg == *at => state == Some("waiting"),
                Some(Standing::Waits(_)) | None => state.is_none_or(|state| state == "cancelled"),
            };
            (!wanted).then(|| format!("{} on leg {leg} is {state:?}, told {standing:?}", trip.id))
        });
        findings.none("everybody has the seats that they were told of, and no others", wrong);
        Ok(())
    }
}
