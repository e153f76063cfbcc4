//! The sums of a sale at the end: its numbers, its orders and its stream must tell the same story.

use std::collections::{BTreeMap, BTreeSet};

use super::Verdict;
use crate::history::{AboutOrder, Op, Outcome, SaleAnswer, SaleCall, SaleOp, Seen, Time};

/// An event, as it stands in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub seq: i64,
    pub kind: String,
    pub id: String,
    pub units: i64,
    /// Only in the stream of a sale that tells deadlines; -1: none.
    pub deadline: Option<i64>,
}

/// Everything that is known of a sale at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Books {
    pub sale: String,
    /// The units that it began with.
    pub total: i64,
    /// `total`, `remaining`, `held`, `sold`, `seq` of `STOCK.INFO`.
    pub info: BTreeMap<String, i64>,
    pub orders: BTreeMap<String, Seen>,
    pub events: Vec<Event>,
    /// When they were read.
    pub read: (Time, Time),
}

impl Books {
    /// The state of each order that a client asked for, in the books, as if it had been read last: so every order that was
    /// acknowledged is looked for.
    pub fn last_looks(&self, asked: &[SaleOp]) -> Vec<SaleOp> {
        let ids = asked.iter().filter(|op| op.call.sale == self.sale).map(|op| op.call.id.as_str());
        let look = |id: &str| {
            let (sale, id, (invoked, returned)) = (self.sale.clone(), id.to_owned(), self.read);
            let outcome = Outcome::Done(SaleAnswer::Order(self.orders.get(&id).cloned()));
            let call = AboutOrder { sale, id, call: SaleCall::See, replicated: false };
            Op { client: usize::MAX, line: u64::MAX, server: 0, redirected: false, invoked, returned, call, outcome }
        };
        ids.collect::<BTreeSet<_>>().into_iter().map(look).collect()
    }

    /// Judges them.
    pub fn check(&self, verdict: &mut Verdict) {
        let number = |name: &str| self.info.get(name).copied().unwrap_or(-1);
        let units = |state: &str| -> i64 {
            self.orders.values().filter(|order| order.state == state).map(|order| order.units).sum()
        };
        let mut blame = |what: String| verdict.blame("conservation", format!("{}: {what}", self.sale), vec![]);
        let [total, remaining, held, sold] = ["total", "remaining", "held", "sold"].map(number);
        let added: i64 = self.events.iter().filter(|event| event.kind == "adjust").map(|event| event.units).sum();
        if total != self.total + added || total != remaining + held + sold || remaining < 0 || held < 0 || sold < 0 {
            blame(format!("of {} units there are {:?}", self.total + added, self.info));
        }
        if (held, sold) != (units("held"), units("sold")) {
            blame(format!(
                "{} held and {} sold units in its orders, but {:?}",
                units("held"),
                units("sold"),
                self.info
            ));
        }
        if let Some(what) = self.replay() {
            verdict.blame("stream", format!("{}: {what}", self.sale), vec![]);
        }
    }

    /// What does not agree when the events are replayed.
    fn replay(&self) -> Option<String> {
        let mut orders: BTreeMap<&str, (&Event, i64)> = BTreeMap::new();
        let (mut taken, mut total) = (0, self.total);
        for (event, seq) in self.events.iter().zip(1..) {
            if event.kind == "adjust" && event.seq == seq {
                total += event.units;
                continue;
            }
            let before = orders.get(event.id.as_str());
            let has = before.map_or(0, |(_, has)| *has);
            let waits = before.is_some_and(|(last, _)| last.kind == "wait" && last.units == event.units);
            let fits = match event.kind.as_str() {
                "wait" => before.is_none(),
                "ok" => before.is_none() || waits,
                "cancel" if waits => true,
                "confirm" => has == event.units || (has == 0 && before.is_some() && !waits),
                "cancel" | "expire" => has == event.units,
                "keep" => (1..has).contains(&event.units),
                "extend" => has == event.units && event.deadline.is_some(),
                _ => false,
            };
            let left = if matches!(event.kind.as_str(), "cancel" | "expire" | "wait") { 0 } else { event.units };
            taken += left - has;
            if event.seq != seq || !fits || taken > total {
                return Some(format!("event {seq} is {event:?}, of an order with {has} units, {taken} taken in all"));
            }
            orders.insert(&event.id, (event, left));
        }
        if self.info.get("seq").copied() != i64::try_from(self.events.len()).ok() {
            return Some(format!("{} events, but {:?}", self.events.len(), self.info));
        }
        let wrong = self.orders.iter().find(|(id, order)| {
            let Some((event, units)) = orders.get(id.as_str()) else { return true };
            let fits = match order.state.as_str() {
                "held" => ["ok", "extend", "keep"].contains(&event.kind.as_str()),
                "sold" => ["ok", "confirm", "keep"].contains(&event.kind.as_str()),
                "cancelled" => event.kind == "cancel",
                "waiting" => event.kind == "wait",
                state => state == "expired" && event.kind == "expire",
            };
            !fits || *units != order.units || event.deadline.is_some_and(|deadline| deadline != order.deadline)
        });
        match wrong {
            Some((id, order)) => Some(format!("{id} is {order:?}, but in the stream {:?}", orders.get(id.as_str()))),
            None => (orders.len() != self.orders.len())
                .then(|| format!("{} orders, but {} in the stream", self.orders.len(), orders.len())),
        }
    }
}
