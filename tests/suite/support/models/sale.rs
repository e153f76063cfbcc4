//! A sale as one would write it on a napkin: a list of orders, everything summed up anew each time.

use std::collections::{BTreeMap, BTreeSet};

/// What has become of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Held,
    Sold,
    Cancelled,
    Expired,
    Waiting,
}

/// One order.
#[derive(Clone, Debug)]
pub struct Order {
    pub state: State,
    pub units: i64,
    pub buyer: String,
    pub reference: String,
    pub deadline: i64,
    /// How long it will be held, from when it is served; 0: it will be sold.
    pub hold: i64,
    /// Its confirmation came too late, and that is its last word.
    pub refused: bool,
}

/// A sale. Its window is a matter of yes and no: nothing happens near its ends.
#[derive(Clone, Debug, Default)]
pub struct Sale {
    pub total: i64,
    pub limit: i64,
    pub start: i64,
    pub end: i64,
    pub rebuy: bool,
    /// Whether its events tell deadlines, so that EXTEND makes one.
    pub deadlines: bool,
    pub orders: BTreeMap<String, Order>,
    /// The waiting orders, in line.
    pub line: Vec<String>,
    /// The orders that were served since the last look; their deadlines have still to be learnt from the server.
    pub served: Vec<String>,
    /// The ids of adjustments.
    pub adjusted: BTreeSet<String>,
    pub seq: i64,
    /// Counted since the sale was loaded, by the names that `STOCK.INFO` has for them.
    pub counters: BTreeMap<&'static str, i64>,
    /// How often each status was answered, since ever.
    pub answers: BTreeMap<&'static str, i64>,
}

/// `[status, units, remaining, deadline, ref]`; a deadline of `None` has still to be learnt from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: &'static str,
    pub units: i64,
    pub remaining: i64,
    pub deadline: Option<i64>,
    pub reference: String,
}

impl State {
    /// The word of `STOCK.ORDER`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Sold => "sold",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Waiting => "waiting",
        }
    }
}

impl Order {
    /// What it has now.
    pub fn has(&self) -> i64 {
        if matches!(self.state, State::Held | State::Sold) { self.units } else { 0 }
    }
}

impl Sale {
    /// Units of the orders in `state`.
    pub fn amount(&self, state: State) -> i64 {
        self.orders.values().filter(|order| order.state == state).map(|order| order.units).sum()
    }

    /// Units that can be sold.
    pub fn remaining(&self) -> i64 {
        self.total - self.amount(State::Held) - self.amount(State::Sold)
    }

    /// The units that a buyer has and waits for.
    pub fn has(&self, buyer: &str) -> i64 {
        let orders = self.orders.values().filter(|order| order.buyer == buyer);
        orders.map(|order| if order.state == State::Waiting { order.units } else { order.has() }).sum()
    }

    /// How many buyers have something.
    pub fn buyers(&self) -> usize {
        let mut buyers: Vec<_> =
            self.orders.values().filter(|order| order.has() > 0).map(|order| &order.buyer).collect();
        buyers.sort();
        buyers.dedup();
        buyers.len()
    }

    /// Every hold lapses that ends at `time` or before.
    pub fn lapse(&mut self, time: i64) {
        let due = self.orders.values_mut().filter(|order| order.state == State::Held && order.deadline <= time);
        let lapsed = due.map(|order| order.state = State::Expired).count();
        self.count("expired", i64::try_from(lapsed).expect("few"));
        self.seq += i64::try_from(lapsed).expect("few");
    }

    /// Serves waiting orders while there is enough, at `now`.
    pub fn serve(&mut self, now: i64) {
        let open = now >= self.start && (self.end == 0 || now < self.end);
        while open
            && let Some(first) = self.line.first()
            && self.orders[first].units <= self.remaining()
        {
            let first = self.line.remove(0);
            let order = self.orders.get_mut(&first).expect("who waits is an order");
            order.state = if order.hold > 0 { State::Held } else { State::Sold };
            order.deadline = i64::MAX;
            self.served.push(first);
            self.seq += 1;
            self.count("ok", 1);
        }
    }

    /// The most units that a single order waits for.
    pub fn wanted(&self) -> i64 {
        self.line.iter().map(|id| self.orders[id].units).max().unwrap_or(0)
    }

    fn count(&mut self, counter: &'static str, by: i64) {
        *self.counters.entry(counter).or_default() += by;
    }

    fn over(&self, buyer: &str, units: i64) -> bool {
        self.limit > 0 && self.has(buyer) + units > self.limit
    }

    /// Whether two callers chose the same `id`, and this `buyer` is the second.
    pub fn is_anothers(&self, id: &str, buyer: Option<&str>) -> bool {
        let taken = |order: &Order| order.has() > 0 || order.state == State::Waiting;
        self.orders.get(id).is_some_and(|order| taken(order) && buyer.is_some_and(|buyer| buyer != order.buyer))
    }

    /// `STOCK.DECR_ONCE … WAITLIST` at `now`, with this HOLD, or none.
    pub fn take_or_wait(
        &mut self,
        id: &str,
        units: i64,
        buyer: Option<&str>,
        hold: Option<i64>,
        reference: &str,
        now: i64,
    ) -> Answer {
        let before = (self.counters.clone(), self.answers.clone());
        let answer = self.take(id, units, buyer, hold.is_some(), reference, now);
        if !["SOLDOUT", "INSUFFICIENT"].contains(&answer.status) {
            return answer;
        }
        (self.counters, self.answers) = before;
        if units > self.total {
            self.tell("INSUFFICIENT");
            return Answer { status: "INSUFFICIENT", ..answer };
        }
        let (buyer, reference) = (buyer.unwrap_or(id).to_owned(), reference.to_owned());
        let hold = hold.unwrap_or(0);
        let order = Order { state: State::Waiting, units, buyer, reference, deadline: -1, hold, refused: false };
        self.orders.insert(id.into(), order);
        self.line.push(id.into());
        self.seq += 1;
        self.about(id, "QUEUED")
    }

    /// `STOCK.DECR_ONCE` at `now`.
    pub fn take(&mut self, id: &str, units: i64, buyer: Option<&str>, hold: bool, reference: &str, now: i64) -> Answer {
        let buyer = buyer.unwrap_or(id);
        let known = self.orders.get(id).map(|order| order.state);
        let nothing = |status, remaining| (status, 0, remaining, -1);
        let remaining = self.remaining();
        let (status, units, remaining, deadline) = match known {
            Some(State::Held | State::Sold) => return self.about(id, "DUPLICATE"),
            Some(State::Waiting) => return self.about(id, "QUEUED"),
            Some(State::Cancelled) if !self.rebuy => return self.about(id, "CANCELLED"),
            Some(State::Expired) if !self.rebuy => return self.about(id, "EXPIRED"),
            _ if self.over(buyer, units) => nothing("LIMIT", remaining),
            _ if now < self.start => ("NOTSTARTED", 0, remaining, self.start),
            _ if self.end > 0 && now >= self.end => nothing("ENDED", remaining),
            _ if remaining == 0 || !self.line.is_empty() => nothing("SOLDOUT", remaining),
            _ if remaining < units => nothing("INSUFFICIENT", remaining),
            _ => {
                let state = if hold { State::Held } else { State::Sold };
                let (buyer, reference) = (buyer.to_owned(), reference.to_owned());
                let order = Order { state, units, buyer, reference, deadline: i64::MAX, hold: 0, refused: false };
                self.orders.insert(id.into(), order);
                self.seq += 1;
                self.count("ok", 1);
                let answer = self.about(id, "OK");
                return Answer { deadline: (!hold).then_some(-1), ..answer };
            }
        };
        self.tell(status);
        let reference = self.orders.get(id).map(|order| order.reference.clone()).unwrap_or_default();
        Answer { status, units, remaining, deadline: Some(deadline), reference }
    }

    /// Whether a confirmation with this KEEP is an error: of more than the order holds, or held.
    pub fn is_too_many(&self, id: &str, keep: Option<i64>) -> bool {
        let confirmable = |order: &&Order| matches!(order.state, State::Held | State::Expired) && !order.refused;
        self.orders.get(id).filter(confirmable).is_some_and(|order| keep.is_some_and(|keep| keep > order.units))
    }

    /// `STOCK.CONFIRM` at `now`.
    pub fn confirm(&mut self, id: &str, keep: Option<i64>, now: i64) -> Answer {
        let remaining = self.remaining();
        let Some(order) = self.orders.get(id) else { return self.about(id, "NOORDER") };
        let units = keep.unwrap_or(order.units);
        let status = match order.state {
            State::Sold => "DUPLICATE",
            State::Cancelled => "CANCELLED",
            State::Expired if order.refused => "EXPIRED",
            State::Expired if self.over(&order.buyer, units) => "LIMIT",
            State::Expired if remaining < units || !self.line.is_empty() => "EXPIRED",
            State::Waiting => "QUEUED",
            State::Held | State::Expired => "OK",
        };
        if let ("LIMIT" | "EXPIRED", Some(order)) = (status, self.orders.get_mut(id)) {
            order.refused = true;
        }
        if let ("OK", Some(order)) = (status, self.orders.get_mut(id)) {
            // Of an order that lapsed they have gone back before.
            self.seq += i64::from(order.state == State::Held && units < order.units);
            order.units = units;
        }
        let answer = self.turn(id, status, State::Sold, "confirmed");
        self.serve(now);
        Answer { remaining: self.remaining(), ..answer }
    }

    /// `STOCK.CANCEL`.
    pub fn cancel(&mut self, id: &str, keep: Option<i64>, now: i64) -> Answer {
        let Some(order) = self.orders.get_mut(id) else { return self.about(id, "NOORDER") };
        let status = match order.state {
            State::Cancelled => "DUPLICATE",
            State::Expired => "EXPIRED",
            State::Waiting if keep.is_some() => "QUEUED",
            State::Held | State::Sold if let Some(keep) = keep => {
                let less = keep < order.units;
                order.units = keep.min(order.units);
                self.seq += i64::from(less);
                self.serve(now);
                return self.about(id, if less { "OK" } else { "DUPLICATE" });
            }
            State::Held | State::Sold | State::Waiting => "OK",
        };
        let answer = self.turn(id, status, State::Cancelled, "cancelled");
        self.line.retain(|other| status != "OK" || other != id);
        self.serve(now);
        Answer { remaining: self.remaining(), ..answer }
    }

    /// `STOCK.EXTEND`. The new deadline is the server's to tell.
    pub fn extend(&mut self, id: &str) -> Answer {
        let Some(order) = self.orders.get(id) else { return self.about(id, "NOORDER") };
        let status = match order.state {
            State::Sold => "DUPLICATE",
            State::Cancelled => "CANCELLED",
            State::Expired => "EXPIRED",
            State::Waiting => "QUEUED",
            State::Held => "OK",
        };
        let answer = self.about(id, status);
        if status == "OK" {
            self.seq += i64::from(self.deadlines);
            return Answer { deadline: None, ..answer };
        }
        answer
    }

    fn turn(&mut self, id: &str, status: &'static str, to: State, counter: &'static str) -> Answer {
        if status == "OK"
            && let Some(order) = self.orders.get_mut(id)
        {
            order.state = to;
            self.seq += 1;
            self.count(counter, 1);
        }
        self.about(id, status)
    }

    /// What is said of an order as it is now.
    fn about(&mut self, id: &str, status: &'static str) -> Answer {
        self.tell(status);
        let order = self.orders.get(id);
        Answer {
            status,
            units: order.map_or(0, Order::has),
            remaining: self.remaining(),
            deadline: Some(order.filter(|order| order.state == State::Held).map_or(-1, |order| order.deadline)),
            reference: order.map(|order| order.reference.clone()).unwrap_or_default(),
        }
    }

    /// Counts an answer.
    pub fn tell(&mut self, status: &'static str) {
        *self.answers.entry(status).or_default() += 1;
        match status {
            "DUPLICATE" => self.count("duplicate", 1),
            "SOLDOUT" | "INSUFFICIENT" => self.count("soldout", 1),
            "LIMIT" => self.count("limited", 1),
            _ => {}
        }
    }
}
