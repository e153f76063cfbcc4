//! A sale rebuilt from its stream: from the total it was created with and the fields of its events, and nothing else.
//!
//! This is what a reader of a sale with `STREAM … DEADLINES` has to do, and all of it: each event of an order tells everything
//! about that order, so the last one is what it is now. Random schedules are rebuilt so in the core, and the streams of
//! real servers in the suite, which has this file, too.

use std::collections::BTreeMap;

/// An entry of the stream, with the names of its fields.
#[expect(clippy::struct_field_names, reason = "the field of the stream's entry is called event")]
#[derive(Clone, Debug)]
pub struct Event {
    pub seq: u64,
    pub event: String,
    pub id: String,
    pub units: i64,
    pub buyer: String,
    pub reference: String,
    /// In Unix milliseconds; -1: none.
    pub deadline: i64,
}

/// An order, as `STOCK.ORDER` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub state: &'static str,
    pub units: i64,
    pub buyer: String,
    pub reference: String,
    pub deadline: i64,
}

/// The sale as the events tell it. A hold that is due is returned from that millisecond on, and still held here until its
/// `expire` is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    pub seq: u64,
    pub total: i64,
    pub orders: BTreeMap<String, Order>,
    /// The waiting orders, in the order in which they will be served, and the units of each.
    pub line: Vec<(String, i64)>,
}

impl Rebuilt {
    /// The sale before its first event.
    pub fn new(total: i64) -> Self {
        Self { seq: 0, total, orders: BTreeMap::new(), line: Vec::new() }
    }

    /// Reads the next event.
    pub fn read(&mut self, event: &Event) {
        assert_eq!(event.seq, self.seq + 1, "an event is missing before {event:?}");
        self.seq = event.seq;
        // A waiting order is served in its turn, or leaves the line.
        let place = self.line.iter().position(|(id, _)| *id == event.id);
        assert!(event.event != "ok" || place.is_none_or(|place| place == 0), "{event:?} passes somebody over");
        self.line.retain(|(id, _)| *id != event.id);
        let (state, units) = match (event.event.as_str(), event.deadline) {
            // Of the sale, not of an order: restocked, or withdrawn if it is below zero.
            ("adjust", -1) => {
                self.total += event.units;
                return;
            }
            // It came too late, and waits behind the others.
            ("wait", -1) => {
                self.line.push((event.id.clone(), event.units));
                ("waiting", 0)
            }
            // Sold at once, or paid for: in time, or late and taken again. Or some of what was sold came back, and these are left.
            ("ok" | "confirm" | "keep", -1) => ("sold", event.units),
            // Reserved until then, or now until then. Or some came back, and these are reserved as before.
            ("ok" | "extend" | "keep", 0..) => ("held", event.units),
            // The order gave its units back or left the line. `units` is how many: nothing is left.
            ("cancel", -1) => ("cancelled", 0),
            ("expire", -1) => ("expired", 0),
            _ => panic!("there is no such event: {event:?}"),
        };
        let Event { id, buyer, reference, deadline, .. } = event.clone();
        self.orders.insert(id, Order { state, units, buyer, reference, deadline });
    }

    /// Units that are reserved.
    pub fn held(&self) -> i64 {
        self.units(|order| order.state == "held")
    }

    /// Units that are sold.
    pub fn sold(&self) -> i64 {
        self.units(|order| order.state == "sold")
    }

    /// Units that can be sold.
    pub fn remaining(&self) -> i64 {
        self.total - self.held() - self.sold()
    }

    /// Units that a buyer has reserved and bought, and those that it waits for.
    pub fn of_buyer(&self, buyer: &str) -> i64 {
        let waits = self.line.iter().filter(|(id, _)| self.orders.get(id).is_some_and(|order| order.buyer == buyer));
        self.units(|order| order.buyer == buyer) + waits.map(|(_, units)| units).sum::<i64>()
    }

    fn units(&self, of: impl Fn(&Order) -> bool) -> i64 {
        self.orders.values().filter(|order| of(order)).map(|order| order.units).sum()
    }
}
