//! A sale as one would write it on a napkin: a list of orders, everything summed up anew each time, holds returned
//! the moment they are due. What it answers is right because there is hardly anything in it that could be wrong.

use crate::core::sale::{AdjustError, Alteration, Answer, MAX_UNITS, Name, State, Status, Take, Terms};
use crate::core::time::UnixMs;

#[derive(Clone, Debug)]
pub struct Entry {
    pub id: String,
    pub state: State,
    pub units: u64,
    pub buyer: String,
    pub reference: String,
    pub deadline: UnixMs,
}

pub struct Model {
    pub terms: Terms,
    pub orders: Vec<Entry>,
}

impl Entry {
    pub fn now(&self) -> u64 {
        if matches!(self.state, State::Held | State::Sold) { self.units } else { 0 }
    }
}

impl Model {
    pub fn new(terms: Terms) -> Self {
        Self { terms, orders: Vec::new() }
    }

    pub fn pass(&mut self, now: UnixMs) {
        for order in &mut self.orders {
            if order.state == State::Held && order.deadline <= now {
                order.state = State::Expired;
            }
        }
    }

    pub fn amount(&self, state: State) -> u64 {
        self.orders.iter().filter(|order| order.state == state).map(|order| order.units).sum()
    }

    pub fn remaining(&self) -> u64 {
        self.terms.total - self.amount(State::Held) - self.amount(State::Sold)
    }

    pub fn buyer(&self, buyer: &str) -> u64 {
        self.orders.iter().filter(|order| order.buyer == buyer).map(Entry::now).sum()
    }

    pub fn buyers(&self) -> usize {
        let mut buyers: Vec<_> = self.orders.iter().filter(|order| order.now() > 0).map(|order| &order.buyer).collect();
        buyers.sort();
        buyers.dedup();
        buyers.len()
    }

    pub fn find(&self, id: &[u8]) -> Option<usize> {
        self.orders.iter().position(|order| order.id.as_bytes() == id)
    }

    pub fn take(&mut self, now: UnixMs, take: &Take<'_>) -> Answer<'static> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let buyer = text(take.buyer.unwrap_or(take.id));
        let known = self.find(take.id);
        let stored = known.map(|at| self.orders[at].reference.clone()).unwrap_or_default();
        if let Some(at) = known {
            match self.orders[at].state {
                State::Held | State::Sold => return self.answer(Status::Duplicate, Some(at)),
                State::Cancelled if !self.terms.rebuy => return self.answer(Status::Cancelled, Some(at)),
                State::Expired if !self.terms.rebuy => return self.answer(Status::Expired, Some(at)),
                State::Cancelled | State::Expired => {}
            }
        }
        let remaining = self.remaining();
        let mut deadline = None;
        let status = if self.terms.limit > 0 && self.buyer(&buyer) + take.units > self.terms.limit {
            Status::Limit
        } else if self.terms.start.is_some_and(|start| now < start) {
            deadline = self.terms.start;
            Status::NotStarted
        } else if self.terms.end.is_some_and(|end| now >= end) {
            Status::Ended
        } else if remaining == 0 {
            Status::SoldOut
        } else if remaining < take.units {
            Status::Insufficient
        } else {
            let order = Entry {
                id: text(take.id),
                state: if take.deadline.is_some() { State::Held } else { State::Sold },
                units: take.units,
                buyer,
                reference: text(take.reference),
                deadline: take.deadline.unwrap_or(UnixMs(0)),
            };
            let at = known.unwrap_or(self.orders.len());
            if at == self.orders.len() {
                self.orders.push(order);
            } else {
                self.orders[at] = order;
            }
            self.pass(now);
            let mut answer = self.answer(Status::Ok, Some(at));
            (answer.units, answer.deadline) = (take.units, take.deadline);
            answer.remaining = remaining - take.units;
            return answer;
        };
        Answer { status, units: 0, remaining, deadline, reference: Name::from(stored.as_bytes()).detach() }
    }

    pub fn confirm(&mut self, id: &[u8]) -> Answer<'static> {
        let Some(at) = self.find(id) else { return self.answer(Status::NoOrder, None) };
        let (remaining, order) = (self.remaining(), self.orders[at].clone());
        let status = match order.state {
            State::Sold => Status::Duplicate,
            State::Cancelled => Status::Cancelled,
            State::Expired if self.terms.limit > 0 && self.buyer(&order.buyer) + order.units > self.terms.limit => {
                Status::Limit
            }
            State::Expired if remaining < order.units => Status::Expired,
            State::Held | State::Expired => Status::Ok,
        };
        if status == Status::Ok {
            self.orders[at].state = State::Sold;
        }
        self.answer(status, Some(at))
    }

    pub fn cancel(&mut self, id: &[u8]) -> Answer<'static> {
        let Some(at) = self.find(id) else { return self.answer(Status::NoOrder, None) };
        let status = match self.orders[at].state {
            State::Cancelled => Status::Duplicate,
            State::Expired => Status::Expired,
            State::Held | State::Sold => Status::Ok,
        };
        if status == Status::Ok {
            self.orders[at].state = State::Cancelled;
        }
        self.answer(status, Some(at))
    }

    pub fn extend(&mut self, id: &[u8], deadline: UnixMs) -> Answer<'static> {
        let Some(at) = self.find(id) else { return self.answer(Status::NoOrder, None) };
        let status = match self.orders[at].state {
            State::Sold => Status::Duplicate,
            State::Cancelled => Status::Cancelled,
            State::Expired => Status::Expired,
            State::Held => {
                self.orders[at].deadline = deadline;
                Status::Ok
            }
        };
        self.answer(status, Some(at))
    }

    pub fn adjust(&mut self, delta: i64) -> Result<u64, AdjustError> {
        let (remaining, total) = (self.remaining(), self.terms.total);
        if i128::from(remaining) + i128::from(delta) < 0 {
            return Err(AdjustError::TooFew { remaining });
        }
        if i128::from(total) + i128::from(delta) > i128::from(MAX_UNITS) {
            return Err(AdjustError::TooMany { total });
        }
        self.terms.total = total.strict_add_signed(delta);
        Ok(self.remaining())
    }

    pub fn alter(&mut self, alteration: &Alteration) {
        self.terms.limit = alteration.limit.unwrap_or(self.terms.limit);
        self.terms.start = alteration.start.unwrap_or(self.terms.start);
        self.terms.end = alteration.end.unwrap_or(self.terms.end);
        self.terms.rebuy = alteration.rebuy.unwrap_or(self.terms.rebuy);
    }

    fn answer(&self, status: Status, at: Option<usize>) -> Answer<'static> {
        let order = at.map(|at| &self.orders[at]);
        Answer {
            status,
            units: order.map_or(0, Entry::now),
            remaining: self.remaining(),
            deadline: order.filter(|order| order.state == State::Held).map(|order| order.deadline),
            reference: order.map_or(Name::NONE, |order| Name::from(order.reference.as_bytes()).detach()),
        }
    }
}
