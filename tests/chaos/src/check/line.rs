//! Waitlists: orders are served strictly in line, with the first units that are enough, and no other order is sold anything meanwhile. And
//! restocks: each happened once, however often it was asked for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Books, Event, Verdict};
use crate::history::{History, RestockOp, SaleCall, SaleOp, Time};

/// Judges the lines of all sales.
pub fn check(history: &History, books: &[Books], verdict: &mut Verdict) {
    for books in books {
        let mut blame = |what: String| verdict.blame("waitlist", format!("{}: {what}", books.sale), vec![]);
        if let Some(what) = Line::new(books.total).replay(books) {
            blame(what);
        }
        // An order that was lost and asked for again stands further behind than its client knows.
        if history.faults.losses.is_empty()
            && let Some(what) = overtaken(history, books)
        {
            blame(what);
        }
        if let Some(what) = restocked(history, books) {
            blame(what);
        }
    }
}

/// A line, as the stream tells it.
struct Line<'a> {
    total: i64,
    taken: i64,
    /// The units that each order has.
    has: BTreeMap<&'a str, i64>,
    /// The waiting orders, and the units of each.
    waiting: VecDeque<(&'a str, i64)>,
}

impl<'a> Line<'a> {
    fn new(total: i64) -> Self {
        Self { total, taken: 0, has: BTreeMap::new(), waiting: VecDeque::new() }
    }

    /// The faults of the line.
    fn replay(mut self, books: &'a Books) -> Option<String> {
        for event in &books.events {
            if let Some(what) = self.next(event) {
                return Some(format!("{what}, at {event:?}"));
            }
        }
        if let Some(id) = self.passed_over() {
            return Some(format!("{id} waits at the end, and there is enough"));
        }
        let told: BTreeSet<&str> = self.waiting.iter().map(|(id, _)| *id).collect();
        let orders = books.orders.iter().filter(|(_, order)| order.state == "waiting");
        let orders: BTreeSet<&str> = orders.map(|(id, _)| id.as_str()).collect();
        let count = books.info.get("waiting").copied().unwrap_or_default();
        let fits = told == orders && usize::try_from(count) == Ok(told.len());
        (!fits).then(|| format!("{orders:?} wait, {count} in all, but {told:?} in the stream"))
    }

    /// An order that could be served, and has not been.
    fn passed_over(&self) -> Option<&'a str> {
        let (id, units) = self.waiting.front()?;
        (self.taken + units <= self.total).then_some(*id)
    }

    fn next(&mut self, event: &'a Event) -> Option<String> {
        let id = event.id.as_str();
        let place = self.waiting.iter().position(|(waiting, _)| *waiting == id);
        let served = event.kind == "ok" && place == Some(0);
        if let Some(first) = self.passed_over()
            && !served
        {
            return Some(format!("{first} is passed over"));
        }
        let has = self.has.get(id).copied().unwrap_or_default();
        let now = match (event.kind.as_str(), place) {
            ("wait", _) => {
                self.waiting.push_back((id, event.units));
                return None;
            }
            ("adjust", _) => {
                self.total += event.units;
                return None;
            }
            ("cancel", Some(place)) => {
                self.waiting.remove(place);
                return None;
            }
            ("ok", Some(0)) => {
                self.waiting.pop_front();
                event.units
            }
            (_, Some(_)) => return Some(format!("{id} is served out of turn")),
            ("ok" | "confirm", None) if has == 0 && !self.waiting.is_empty() => {
                return Some(format!("{id} is sold what others wait for"));
            }
            ("cancel" | "expire", None) => 0,
            _ => event.units,
        };
        self.taken += now - has;
        self.has.insert(id, now);
        None
    }
}

/// Whether an order stands in front of one that surely had joined before.
fn overtaken(history: &History, books: &Books) -> Option<String> {
    let mut asked: BTreeMap<&str, (Time, Time)> = BTreeMap::new();
    let joins = |op: &&SaleOp| op.call.sale == books.sale && matches!(op.call.call, SaleCall::Join { .. });
    for op in history.orders.iter().filter(joins) {
        // It joined after its first request, and before the first answer.
        let (first, answered) = asked.entry(&op.call.id).or_insert((op.invoked, Time::MAX));
        *first = op.invoked.min(*first);
        if op.answer().is_some() {
            *answered = op.returned.min(*answered);
        }
    }
    let mut last: Option<(&str, Time)> = None;
    for event in books.events.iter().filter(|event| event.kind == "wait") {
        let (first, answered) = *asked.get(event.id.as_str())?;
        if let Some((other, began)) = last.filter(|(_, began)| *began > answered) {
            return Some(format!(
                "{other} asked at {began} and stands before {}, which waited at {answered}",
                event.id
            ));
        }
        if last.is_none_or(|(_, began)| first > began) {
            last = Some((&event.id, first));
        }
    }
    None
}

/// Whether the restocks in the stream are those that were asked for, each once.
fn restocked(history: &History, books: &Books) -> Option<String> {
    let mut asked: BTreeMap<&str, Vec<&RestockOp>> = BTreeMap::new();
    for op in history.restocks.iter().filter(|op| op.call.sale == books.sale) {
        asked.entry(&op.call.id).or_default().push(op);
    }
    let sum = |surely: bool| -> i64 {
        let done = |ops: &&Vec<&RestockOp>| ops.iter().any(|op| op.answer().is_some() || (!surely && op.is_unknown()));
        asked.values().filter(done).map(|ops| ops[0].call.units).sum()
    };
    let told: i64 = books.events.iter().filter(|event| event.kind == "adjust").map(|event| event.units).sum();
    let least = if history.faults.losses.is_empty() { sum(true) } else { 0 };
    let fits = (least..=sum(false)).contains(&told);
    (!fits).then(|| format!("{told} units were added, not between {least} and {}", sum(false)))
}
