//! Every order by itself: is there an order of events in which all answers about this id are right? (Linearizability, by search.)
//!
//! A loss is an event of its own: the order becomes what it was at a moment since when everything may be lost.

use std::collections::{BTreeMap, HashSet};

use super::sale::{Span, State, after, blame};
use super::{Books, Verdict};
use crate::history::{Faults, History, Loss, SaleOp, Time};

/// The servers' milliseconds are whole ones, and their clock and ours are read at different moments.
const BLUR_MS: i64 = 3;

/// Judges all orders.
pub fn check(history: &History, books: &[Books], verdict: &mut Verdict) {
    let last: Vec<SaleOp> = books.iter().flat_map(|books| books.last_looks(&history.orders)).collect();
    let mut orders: BTreeMap<(&str, &str), Vec<&SaleOp>> = BTreeMap::new();
    for op in history.orders.iter().chain(&last) {
        orders.entry((&op.call.sale, &op.call.id)).or_default().push(op);
    }
    for ((sale, id), ops) in orders {
        let search = |ops: &[&SaleOp]| Search::of(history, ops).lost();
        if let Some(lost) = search(&ops) {
            verdict.orders_lost += lost;
            continue;
        }
        let shortest = (1..=ops.len()).find(|end| search(&ops[..*end]).is_none()).unwrap_or(ops.len());
        verdict.violations.push(blame(sale, id, &ops[..shortest], "no order of events explains the last answer"));
    }
}

/// Something that happened to one order.
enum Event<'a> {
    Asked(&'a SaleOp),
    Lost(&'a Loss),
}

impl Event<'_> {
    fn invoked(&self) -> Time {
        match self {
            Self::Asked(op) => op.invoked,
            Self::Lost(loss) => loss.at,
        }
    }

    /// When it certainly had happened, if it did.
    fn returned(&self) -> Time {
        match self {
            Self::Asked(op) if op.is_unknown() => Time::MAX,
            Self::Asked(op) => op.returned,
            Self::Lost(loss) => loss.until,
        }
    }
}

/// What is so far: which events have happened, what the order is, and what it was before the requests that changed it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Point {
    /// All events before this one have happened, or never will.
    base: usize,
    /// Those after it that have.
    ahead: Vec<usize>,
    state: State,
    past: Vec<(State, usize)>,
}

/// How an event came to make what it made of an order.
#[derive(Clone, Copy)]
enum Effect {
    /// As it was meant to.
    Done,
    /// It was a loss, which undid so many acknowledged changes.
    Undone { lost: usize },
    /// It was asked of a server whose word did not count any more.
    Void { lost: usize },
}

impl Effect {
    /// How many acknowledged changes were lost by it.
    fn lost(self) -> usize {
        match self {
            Self::Done => 0,
            Self::Undone { lost } | Self::Void { lost } => lost,
        }
    }
}

struct Search<'a> {
    events: Vec<Event<'a>>,
    faults: &'a Faults,
    began_unix_ms: i64,
    seen: HashSet<Point>,
}

impl<'a> Search<'a> {
    fn of(history: &'a History, ops: &[&'a SaleOp]) -> Self {
        let last = ops.last().map_or(0, |op| op.returned);
        let first = ops.first().map_or(0, |op| op.invoked);
        let losses = history.faults.losses.iter().filter(|loss| loss.at <= last && loss.until >= first);
        let asked = ops.iter().filter(|op| op.is_unknown() || op.answer().is_some());
        let mut events: Vec<_> = asked.map(|op| Event::Asked(op)).chain(losses.map(Event::Lost)).collect();
        events.sort_by_key(Event::invoked);
        Self { events, faults: &history.faults, began_unix_ms: history.began_unix_ms, seen: HashSet::new() }
    }

    /// How many acknowledged changes were lost, in the first explanation that is found; `None` if there is none.
    fn lost(mut self) -> Option<usize> {
        self.from(&Point { base: 0, ahead: vec![], state: State::None, past: vec![] })
    }

    fn from(&mut self, point: &Point) -> Option<usize> {
        // What is left has no answer: it may never happen.
        let is_left = |place: &usize| !point.ahead.contains(place);
        if (point.base..self.events.len()).filter(is_left).all(|place| self.events[place].returned() == Time::MAX) {
            return Some(0);
        }
        if !self.seen.insert(point.clone()) {
            return None;
        }
        // Nothing can have happened after something that was not even asked for when that had returned.
        let bound = (point.base..self.events.len()).filter(is_left).map(|place| self.events[place].returned()).min()?;
        for place in (point.base..self.events.len()).filter(is_left) {
            if self.events[place].invoked() > bound {
                break;
            }
            for (state, effect) in self.outcomes(place, point) {
                if let Some(more) = self.from(&self.next(point, place, state, effect)) {
                    return Some(more + effect.lost());
                }
            }
        }
        None
    }

    /// What the order may be after an event, and how that came about.
    fn outcomes(&self, place: usize, point: &Point) -> Vec<(State, Effect)> {
        match &self.events[place] {
            Event::Asked(op) => {
                let states = after(point.state, op, self.span(op));
                let mut found: Vec<_> = states.into_iter().map(|state| (state, Effect::Done)).collect();
                if self.faults.losses.iter().any(|loss| loss.voids(op) && !spared(loss, op)) {
                    found.push((point.state, Effect::Void { lost: usize::from(op.changed()) }));
                }
                found
            }
            Event::Lost(loss) => {
                let mut found = vec![(point.state, Effect::Done)];
                let mut lost = 0;
                for (state, by) in point.past.iter().rev() {
                    let Event::Asked(op) = &self.events[*by] else { break };
                    if spared(loss, op) || !(op.is_unknown() || loss.takes(op)) {
                        break;
                    }
                    lost += usize::from(op.changed());
                    found.push((*state, Effect::Undone { lost }));
                }
                found
            }
        }
    }

    fn next(&self, point: &Point, place: usize, state: State, effect: Effect) -> Point {
        let mut next = point.clone();
        match (effect, &self.events[place]) {
            // Most requests change nothing, and are in no other request's way.
            (Effect::Done, Event::Asked(op)) if state != point.state || op.is_unknown() || op.call.replicated => {
                next.past.push((point.state, place));
            }
            // From here on nothing older can be lost.
            (Effect::Undone { .. }, _) => next.past.clear(),
            _ => {}
        }
        next.state = state;
        next.ahead.push(place);
        next.ahead.sort_unstable();
        while next.ahead.first() == Some(&next.base) {
            next.ahead.remove(0);
            next.base += 1;
        }
        next
    }

    /// When the request was carried out, by the servers' clock.
    fn span(&self, op: &SaleOp) -> Span {
        let unix = |time: Time| self.began_unix_ms + i64::try_from(time / 1_000).expect("a run that ends");
        let least = unix(op.invoked) - BLUR_MS;
        let most = if op.is_unknown() { i64::MAX } else { unix(op.returned) + BLUR_MS };
        // With a clock that is set, any of its times may be the one.
        let (back, ahead) = self
            .faults
            .steps
            .iter()
            .fold((0, 0), |(back, ahead), step| (back + step.by_ms.min(0).abs(), ahead + step.by_ms.max(0)));
        Span { least: least - back, most: most.saturating_add(ahead) }
    }
}

/// Whether `WAIT` has counted this request on the replica that took over.
fn spared(loss: &Loss, op: &SaleOp) -> bool {
    loss.spares_replicated && op.call.replicated
}
