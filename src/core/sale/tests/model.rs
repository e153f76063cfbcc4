//! A sale as one would write it on a napkin: a list of orders, everything summed up anew each time, holds returned
//! the moment they are due. What it answers is right because there is hardly anything in it that could be wrong.
//!
//! Which holds are over for good, and which waiting orders the timer serves, is not the model's choice: it is told, and
//! says whether it may be so.

use std::collections::BTreeSet;

use crate::core::id::IdText;
use crate::core::sale::budget::{MOST_SERVED, SERVICES_OF_AN_END};
use crate::core::sale::{
    AdjustError, Alteration, Answer, Change, EmptyWindow, KeepError, MAX_UNITS, State, Status, Take, TakeError, Terms,
};
use crate::core::time::UnixMs;

#[derive(Clone, Debug)]
pub struct Entry {
    pub id: String,
    pub state: State,
    pub units: u64,
    pub buyer: String,
    pub reference: String,
    pub deadline: UnixMs,
    /// How long it will be held, from when it is served; 0: it will be sold.
    hold: i64,
    /// A cutoff ended it, and its expiration is still to come.
    over: bool,
    /// Its confirmation came too late, and that is its last word.
    refused: bool,
}

#[derive(Clone, Debug)]
pub struct Model {
    pub terms: Terms,
    pub orders: Vec<Entry>,
    /// The ids of adjustments.
    pub adjusted: BTreeSet<Vec<u8>>,
    /// The waiting orders, in line.
    pub line: Vec<usize>,
    /// Whether orders waited when the last command came.
    had_line: bool,
    /// How many the next command may serve.
    pub most_served: usize,
    /// The orders that the model has served in the last command, and until when they are held.
    pub served: Vec<(String, Option<UnixMs>)>,
    now: UnixMs,
    /// Where the last cutoff was, while a hold that it ended was to expire yet when the last command came.
    cutoff: Option<UnixMs>,
}

impl Model {
    pub fn new(terms: Terms) -> Self {
        let (orders, line, served) = (Vec::new(), Vec::new(), Vec::new());
        let adjusted = BTreeSet::new();
        Self {
            terms,
            orders,
            adjusted,
            line,
            had_line: false,
            most_served: MOST_SERVED,
            served,
            now: UnixMs(0),
            cutoff: None,
        }
    }

    /// Sets the clock, which can also go back.
    pub fn pass(&mut self, now: UnixMs) {
        self.now = now;
    }

    /// Makes the changes that come before the changes of a command. The units of each hold that expires go to the line.
    pub fn hear(&mut self, changes: &[Change<'_>], most: usize) {
        (self.had_line, self.served) = (!self.line.is_empty(), Vec::new());

        if !self.orders.iter().any(|order| order.over) {
            self.cutoff = None;
        }
        for change in changes {
            match change {
                Change::Expire { id } => self.expired(id),
                Change::Cutoff { at } => self.cut_off(*at),
                Change::Serve { id, deadline } => {
                    let before = self.served.len();
                    assert!(self.can_serve(), "{id:?} cannot be served");
                    self.serve_next();
                    let (served, until) = &self.served[before];
                    assert_eq!((served.as_bytes(), until), (&**id, deadline));
                }
                other => panic!("{other:?} comes first"),
            }
        }
        let ended = changes.iter().filter(|change| !matches!(change, Change::Serve { .. })).count();
        let done = self.served.len() + ended * SERVICES_OF_AN_END;
        assert!(changes.is_empty() || !self.can_serve() || done >= most, "a waiting order is passed over");
        self.served.clear();
    }

    /// The orders that hold or have bought units by the books: due holds among them until they have expired.
    fn taken(&self) -> impl Iterator<Item = &Entry> {
        self.orders.iter().filter(|order| order.over || matches!(order.state, State::Held | State::Sold))
    }

    /// Units that no hold has, whether its time is over or not.
    fn free(&self) -> u64 {
        self.terms.total.saturating_sub(self.taken().map(|order| order.units).sum())
    }

    fn is_open(&self) -> bool {
        self.terms.start.is_none_or(|start| self.now >= start) && self.terms.end.is_none_or(|end| self.now < end)
    }

    /// Whether there is enough for the first in line.
    pub fn can_serve(&self) -> bool {
        self.is_open() && self.line.first().is_some_and(|first| self.orders[*first].units <= self.free())
    }

    fn serve_next(&mut self) {
        let first = self.line.remove(0);
        let hold = self.orders[first].hold;
        let until = (hold > 0).then(|| self.deadline(UnixMs(self.now.0 + hold)));
        let order = &mut self.orders[first];
        order.state = if hold > 0 { State::Held } else { State::Sold };
        order.deadline = until.unwrap_or(UnixMs(0));
        self.served.push((order.id.clone(), until));
    }

    /// Serves the next in line with the units that have come back.
    fn serve(&mut self) {
        while self.can_serve() && self.served.len() < self.most_served {
            self.serve_next();
        }
    }

    /// What remains when all that is due has happened, in however many steps.
    fn left_by_line(&self) -> u64 {
        let mut later = Self { most_served: usize::MAX, ..self.clone() };
        later.serve();
        let due = |at: &usize| self.orders[*at].over || self.state(&self.orders[*at]) != self.orders[*at].state;
        let mut due: Vec<_> = (0..self.orders.len()).filter(due).collect();
        due.sort_by_key(|at| self.orders[*at].deadline);
        for at in &due {
            (later.orders[*at].state, later.orders[*at].over) = (State::Expired, false);
            later.serve();
        }
        later.free()
    }

    /// A hold has expired: it stays so, whatever the time is.
    fn expired(&mut self, id: &[u8]) {
        let at = self.find(id).unwrap();
        assert_eq!(self.state(&self.orders[at]), State::Expired, "{:?} is not due", self.orders[at]);
        assert!(self.orders[at].over || self.orders[at].state == State::Held, "it expires once");
        (self.orders[at].state, self.orders[at].over) = (State::Expired, false);
    }

    /// Holds up to an instant that has come are over: they stay so, too.
    fn cut_off(&mut self, at: UnixMs) {
        assert!(at <= self.now && self.cutoff.is_none_or(|cutoff| cutoff < at));
        self.cutoff = Some(at);
        for order in self.orders.iter_mut().filter(|order| order.state == State::Held && order.deadline <= at) {
            (order.state, order.over) = (State::Expired, true);
        }
    }

    pub fn state(&self, order: &Entry) -> State {
        if order.state == State::Held && order.deadline <= self.now { State::Expired } else { order.state }
    }

    pub fn has(&self, order: &Entry) -> u64 {
        if matches!(self.state(order), State::Held | State::Sold) { order.units } else { 0 }
    }

    /// A deadline for a hold that begins now. While holds wait for their expirations it is behind all of theirs.
    fn deadline(&self, deadline: UnixMs) -> UnixMs {
        self.cutoff.map_or(deadline, |cutoff| deadline.max(UnixMs(cutoff.0 + 1)))
    }

    pub fn amount(&self, state: State) -> u64 {
        self.orders.iter().filter(|order| self.state(order) == state).map(|order| order.units).sum()
    }

    pub fn remaining(&self) -> u64 {
        self.terms.total - self.amount(State::Held) - self.amount(State::Sold)
    }

    /// What the buyer has, and what it waits for.
    pub fn buyer(&self, buyer: &str) -> u64 {
        let wants = |order: &Entry| if order.state == State::Waiting { order.units } else { 0 };
        let orders = self.orders.iter().filter(|order| order.buyer == buyer);
        orders.map(|order| self.has(order) + wants(order)).sum()
    }

    /// How many buyers hold or have bought units by the books.
    pub fn buyers(&self) -> usize {
        let mut buyers: Vec<_> = self.taken().map(|order| &order.buyer).collect();
        buyers.sort();
        buyers.dedup();
        buyers.len()
    }

    pub fn find(&self, id: &[u8]) -> Option<usize> {
        self.orders.iter().position(|order| order.id.as_bytes() == id)
    }

    pub fn take(&mut self, take: &Take<'_>, waitlist: bool) -> Result<Answer<'static>, TakeError> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let buyer = text(take.buyer.unwrap_or(take.id));
        let known = self.find(take.id);
        let stored = known.map(|at| self.orders[at].reference.clone()).unwrap_or_default();
        if let Some(at) = known {
            match self.state(&self.orders[at]) {
                State::Held | State::Sold | State::Waiting
                    if take.buyer.is_some() && buyer != self.orders[at].buyer =>
                {
                    return Err(TakeError::OtherBuyer);
                }
                State::Held | State::Sold => return Ok(self.answer(Status::Duplicate, Some(at))),
                State::Waiting => return Ok(self.answer(Status::Queued, Some(at))),
                State::Cancelled if !self.terms.rebuy => return Ok(self.answer(Status::Cancelled, Some(at))),
                State::Expired if !self.terms.rebuy => return Ok(self.answer(Status::Expired, Some(at))),
                State::Cancelled | State::Expired => {}
            }
        }
        let remaining = self.remaining();
        let (now, mut deadline) = (self.now, None);
        let status = if self.terms.limit > 0 && self.buyer(&buyer) + take.units > self.terms.limit {
            Status::Limit
        } else if self.terms.start.is_some_and(|start| now < start) {
            deadline = self.terms.start;
            Status::NotStarted
        } else if self.terms.end.is_some_and(|end| now >= end) {
            Status::Ended
        } else if waitlist && take.units > self.terms.total {
            Status::Insufficient
        } else if !waitlist && (self.had_line || remaining == 0) {
            Status::SoldOut
        } else if !waitlist && remaining < take.units {
            Status::Insufficient
        } else {
            let waits = self.had_line || remaining < take.units;
            let order = Entry {
                id: text(take.id),
                state: match take.deadline {
                    _ if waits => State::Waiting,
                    Some(_) => State::Held,
                    None => State::Sold,
                },
                units: take.units,
                buyer,
                reference: text(take.reference),
                deadline: take.deadline.map_or(UnixMs(0), |deadline| self.deadline(deadline)),
                hold: take.deadline.map_or(0, |deadline| deadline.0 - now.0),
                over: false,
                refused: false,
            };
            let at = known.unwrap_or(self.orders.len());
            if at == self.orders.len() {
                self.orders.push(order);
            } else {
                self.orders[at] = order;
            }
            if waits {
                self.line.push(at);
            }
            return Ok(self.answer(if waits { Status::Queued } else { Status::Ok }, Some(at)));
        };
        Ok(Answer { status, units: 0, remaining, deadline, reference: IdText::from(stored.as_bytes()).detach() })
    }

    pub fn confirm(&mut self, id: &[u8], keep: Option<u64>) -> Result<Answer<'static>, KeepError> {
        let Some(at) = self.find(id) else { return Ok(self.answer(Status::NoOrder, None)) };
        let (remaining, order) = (self.remaining(), self.orders[at].clone());
        let units = keep.unwrap_or(order.units);
        let status = match self.state(&order) {
            State::Held | State::Expired if units > order.units && !order.refused => {
                return Err(KeepError { units: order.units });
            }
            State::Sold => Status::Duplicate,
            State::Cancelled => Status::Cancelled,
            State::Expired if order.refused => Status::Expired,
            State::Expired if self.terms.limit > 0 && self.buyer(&order.buyer) + units > self.terms.limit => {
                Status::Limit
            }
            State::Expired if self.had_line || remaining < units => Status::Expired,
            State::Waiting => Status::Queued,
            State::Held | State::Expired => Status::Ok,
        };
        match status {
            Status::Ok => {
                (self.orders[at].state, self.orders[at].units) = (State::Sold, units);
                if units < order.units && self.state(&order) == State::Held {
                    self.serve();
                }
            }
            Status::Limit | Status::Expired => self.orders[at].refused = true,
            _ => {}
        }
        Ok(self.answer(status, Some(at)))
    }

    pub fn cancel(&mut self, id: &[u8], keep: Option<u64>) -> Answer<'static> {
        let Some(at) = self.find(id) else { return self.answer(Status::NoOrder, None) };
        let status = match self.state(&self.orders[at]) {
            State::Cancelled => Status::Duplicate,
            State::Expired => Status::Expired,
            State::Waiting if keep.is_some() => Status::Queued,
            State::Held | State::Sold if keep.is_some_and(|keep| keep >= self.orders[at].units) => Status::Duplicate,
            State::Held | State::Sold | State::Waiting => Status::Ok,
        };
        if let (Status::Ok, Some(keep)) = (status, keep) {
            self.orders[at].units = keep;
            self.serve();
        } else if status == Status::Ok {
            self.orders[at].state = State::Cancelled;
            self.line.retain(|other| *other != at);
            self.serve();
        }
        self.answer(status, Some(at))
    }

    pub fn extend(&mut self, id: &[u8], deadline: UnixMs) -> Answer<'static> {
        let Some(at) = self.find(id) else { return self.answer(Status::NoOrder, None) };
        let status = match self.state(&self.orders[at]) {
            State::Sold => Status::Duplicate,
            State::Cancelled => Status::Cancelled,
            State::Expired => Status::Expired,
            State::Waiting => Status::Queued,
            State::Held => {
                self.orders[at].deadline = self.deadline(deadline);
                Status::Ok
            }
        };
        self.answer(status, Some(at))
    }

    pub fn adjust(&mut self, delta: i64, id: &[u8]) -> Result<u64, AdjustError> {
        if self.adjusted.contains(id) {
            return Ok(self.remaining());
        }
        let (remaining, total) = (self.remaining(), self.terms.total);
        let free = if delta < 0 { self.left_by_line() } else { remaining };
        if i128::from(free) + i128::from(delta) < 0 {
            return Err(AdjustError::TooFew { remaining: free });
        }
        if i128::from(total) + i128::from(delta) > i128::from(MAX_UNITS) {
            return Err(AdjustError::TooMany { total });
        }
        let wanted = self.line.iter().map(|at| self.orders[*at].units).max().unwrap_or(0);
        if delta < 0 && total.strict_add_signed(delta) < wanted {
            return Err(AdjustError::Wanted { units: wanted });
        }
        self.terms.total = total.strict_add_signed(delta);
        self.remember(id);
        if delta > 0 {
            self.serve();
        }
        Ok(self.remaining())
    }

    fn remember(&mut self, id: &[u8]) {
        if !id.is_empty() {
            self.adjusted.insert(id.to_vec());
        }
    }

    pub fn alter(&mut self, alteration: &Alteration) -> Result<(), EmptyWindow> {
        let start = alteration.start.unwrap_or(self.terms.start);
        let end = alteration.end.unwrap_or(self.terms.end);
        if let (Some(start), Some(end)) = (start, end)
            && start >= end
            && (alteration.start.is_some() || alteration.end.is_some())
        {
            return Err(EmptyWindow { start, end });
        }
        let before = self.terms.clone();
        (self.terms.start, self.terms.end) = (start, end);
        self.terms.limit = alteration.limit.unwrap_or(self.terms.limit);
        self.terms.rebuy = alteration.rebuy.unwrap_or(self.terms.rebuy);
        if self.terms != before {
            self.serve();
        }
        Ok(())
    }

    /// What is said of an order, whatever was asked.
    pub fn stands(&self, status: Status, id: &[u8]) -> Answer<'static> {
        self.answer(status, self.find(id))
    }

    fn answer(&self, status: Status, at: Option<usize>) -> Answer<'static> {
        let order = at.map(|at| &self.orders[at]);
        Answer {
            status,
            units: order.map_or(0, |order| self.has(order)),
            remaining: self.remaining(),
            deadline: order.filter(|order| self.state(order) == State::Held).map(|order| order.deadline),
            reference: order.map_or(IdText::NONE, |order| IdText::from(order.reference.as_bytes()).detach()),
        }
    }
}
