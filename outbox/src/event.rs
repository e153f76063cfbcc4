//! The entries of a sale's stream, and the orders after them.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use redis::Value;
use serde::Serialize;

use crate::name::{shown, stored};

/// The name of an entry in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct EntryId {
    /// When it was appended, by the server's clock in Unix milliseconds.
    pub ms: u64,
    pub number: u64,
}

impl EntryId {
    /// The one after it.
    pub fn next(self) -> Self {
        match self.number.checked_add(1) {
            Some(number) => Self { number, ..self },
            None => Self { ms: self.ms.saturating_add(1), number: 0 },
        }
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.number)
    }
}

impl FromStr for EntryId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('-').and_then(|(ms, number)| Some((ms.parse().ok()?, number.parse().ok()?)));
        parts.map(|(ms, number)| Self { ms, number }).ok_or_else(|| format!("{text} is no id of a stream's entry"))
    }
}

/// One change of a sale. Names are as they are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub entry: EntryId,
    pub seq: i64,
    pub kind: String,
    /// The order; as bytes, too, for asking the sale.
    pub id: Vec<u8>,
    pub units: i64,
    pub buyer: String,
    pub reference: String,
    /// `None`: the sale was created without DEADLINES and does not tell.
    pub deadline: Option<i64>,
}

/// The reply of XRANGE.
pub fn events(reply: Value) -> Result<Vec<Event>, String> {
    type Entry = (String, Vec<(String, Vec<u8>)>);

    let entries: Vec<Entry> =
        redis::from_redis_value(reply).map_err(|error| format!("the stream cannot be read: {error}"))?;
    entries.into_iter().map(|(entry, fields)| event(&entry, fields)).collect()
}

fn event(entry: &str, fields: Vec<(String, Vec<u8>)>) -> Result<Event, String> {
    let foreign = || format!("the entry {} of its stream is no event of a sale", shown(entry.as_bytes()));
    let mut found: HashMap<String, Vec<u8>> = fields.into_iter().collect();
    let number = |bytes: &[u8]| str::from_utf8(bytes).ok().and_then(|text| text.parse::<i64>().ok());
    let mut take = |name: &str| found.remove(name).ok_or_else(foreign);
    Ok(Event {
        entry: entry.parse()?,
        seq: number(&take("seq")?).ok_or_else(foreign)?,
        kind: String::from_utf8(take("event")?).map_err(|_| foreign())?,
        id: take("id")?,
        units: number(&take("units")?).ok_or_else(foreign)?,
        buyer: stored(&take("buyer")?),
        reference: stored(&take("ref")?),
        deadline: found.remove("deadline").map(|text| number(&text).ok_or_else(foreign)).transpose()?,
    })
}

/// The state of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Held,
    Sold,
    Cancelled,
    Expired,
    Waiting,
}

impl State {
    /// The units that an order has in this state.
    pub fn units(self, told: i64) -> i64 {
        if matches!(self, Self::Held | Self::Sold) { told } else { 0 }
    }
}

impl FromStr for State {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "held" => Self::Held,
            "sold" => Self::Sold,
            "cancelled" => Self::Cancelled,
            "expired" => Self::Expired,
            "waiting" => Self::Waiting,
            _ => return Err(format!("an order is {}, which this version does not know", shown(text.as_bytes()))),
        })
    }
}

/// A row of the orders' table, as it is sent to the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OrderRow {
    pub id: String,
    pub state: State,
    pub units: i64,
    pub buyer: String,
    #[serde(rename = "ref")]
    pub reference: String,
    pub deadline: Option<i64>,
    pub seq: i64,
    /// When it became so, in Unix milliseconds.
    pub at: u64,
}

/// A row of the events' table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventRow {
    pub seq: i64,
    pub event: String,
    pub id: String,
    pub units: i64,
    pub buyer: String,
    #[serde(rename = "ref")]
    pub reference: String,
    pub deadline: Option<i64>,
}

/// The last time that every database can store: the end of the year 9999.
const LATEST: u64 = 253_402_300_799_999;

/// The state of orders, and the deadlines of holds.
pub type Known = HashMap<Vec<u8>, (State, Option<i64>)>;

/// A time that every database can store.
pub fn storable(ms: u64) -> u64 {
    ms.min(LATEST)
}

impl Event {
    /// The order after this event. `known` has what the sale says of orders, where the events do not tell: their state, and the deadline
    /// of a hold. The sale may be ahead of the event, but an order is never sold that is not.
    pub fn row(&self, known: &Known) -> Option<OrderRow> {
        let (taken, deadline) = match self.deadline {
            Some(deadline) if deadline >= 0 => (State::Held, Some(deadline)),
            Some(_) => (State::Sold, None),
            None => known.get(&self.id).copied().unwrap_or((State::Held, None)),
        };
        let state = match self.kind.as_str() {
            // An order that keeps some of its units is held or sold, as it was.
            "ok" | "extend" | "keep" => taken,
            "confirm" => State::Sold,
            "wait" => State::Waiting,
            "cancel" => State::Cancelled,
            "expire" => State::Expired,
            // "adjust" is about the sale and not about an order.
            _ => return None,
        };
        Some(OrderRow {
            id: stored(&self.id),
            state,
            units: state.units(self.units),
            buyer: self.buyer.clone(),
            reference: self.reference.clone(),
            deadline: deadline.filter(|_| state == State::Held),
            seq: self.seq,
            at: storable(self.entry.ms),
        })
    }

    /// Whether only the sale itself knows what the order is.
    pub fn is_silent(&self) -> bool {
        self.deadline.is_none() && matches!(self.kind.as_str(), "ok" | "keep")
    }

    pub fn event_row(&self) -> EventRow {
        EventRow {
            seq: self.seq,
            event: self.kind.clone(),
            id: stored(&self.id),
            units: self.units,
            buyer: self.buyer.clone(),
            reference: self.reference.clone(),
            deadline: self.deadline.filter(|deadline| *deadline >= 0),
        }
    }
}

/// The orders after some events: for each order its last row.
pub fn rows(events: &[Event], known: &Known) -> Vec<OrderRow> {
    let mut place: HashMap<&[u8], usize> = HashMap::new();
    let mut rows: Vec<OrderRow> = Vec::with_capacity(events.len());
    for event in events {
        let Some(row) = event.row(known) else { continue };
        if let Some(before) = place.get(event.id.as_slice()).and_then(|place| rows.get_mut(*place)) {
            *before = row;
        } else {
            place.insert(&event.id, rows.len());
            rows.push(row);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn happened(seq: i64, kind: &str, id: &str, units: i64, deadline: Option<i64>) -> Event {
        let entry = EntryId { ms: 1000, number: seq.unsigned_abs() };
        let (kind, id) = (kind.to_owned(), id.as_bytes().to_vec());
        Event { entry, seq, kind, id, units, buyer: "b".into(), reference: String::new(), deadline }
    }

    #[test]
    fn the_last_event_of_an_order_says_what_it_is() {
        let told = [
            happened(1, "ok", "a", 2, Some(50)),
            happened(2, "ok", "b", 1, Some(-1)),
            happened(3, "adjust", "", 5, Some(-1)),
            happened(4, "keep", "a", 1, Some(50)),
            happened(5, "wait", "c", 3, Some(-1)),
            happened(6, "cancel", "b", 1, Some(-1)),
            happened(7, "expire", "a", 1, Some(-1)),
            happened(8, "confirm", "a", 1, Some(-1)),
        ];
        let seen = |count: usize| {
            let rows = rows(&told[..count], &HashMap::new());
            rows.into_iter().map(|row| (row.id, row.state, row.units, row.deadline, row.seq)).collect::<Vec<_>>()
        };
        let row = |id: &str, state, units, deadline, seq| (id.to_owned(), state, units, deadline, seq);
        assert_eq!(seen(4), [row("a", State::Held, 1, Some(50), 4), row("b", State::Sold, 1, None, 2)]);
        let last = [
            row("a", State::Sold, 1, None, 8),
            row("b", State::Cancelled, 0, None, 6),
            row("c", State::Waiting, 0, None, 5),
        ];
        assert_eq!(seen(8), last);
        assert_eq!(seen(7)[0], row("a", State::Expired, 0, None, 7));
    }

    #[test]
    fn where_events_tell_no_deadline_the_sale_does() {
        let told = ["a", "b", "c", "d"].map(|id| happened(1, "ok", id, 2, None));
        assert!(told.iter().all(Event::is_silent));
        let known = [("a", State::Held, Some(70)), ("b", State::Sold, None), ("c", State::Expired, None)];
        let rows = rows(&told, &known.map(|(id, state, deadline)| (id.into(), (state, deadline))).into());
        let rows: Vec<_> = rows.iter().map(|row| (row.state, row.units, row.deadline)).collect();
        let expected = [(State::Held, 2, Some(70)), (State::Sold, 2, None), (State::Expired, 0, None)];
        assert_eq!(rows[..3], expected);
        // The sale does not know it: nothing says that it is sold.
        assert_eq!(rows[3], (State::Held, 2, None));
    }

    #[test]
    fn ids_of_entries_are_pairs_of_numbers() {
        let id: EntryId = "17-18446744073709551615".parse().unwrap();
        assert_eq!(id.next().to_string(), "18-0");
        assert_eq!("5-1".parse::<EntryId>().unwrap().next().to_string(), "5-2");
        for wrong in ["", "5", "a-1", "1-", "-1"] {
            assert!(wrong.parse::<EntryId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_entry_of_somebody_else_is_named() {
        let text = |text: &str| Value::BulkString(text.into());
        let entry = |fields: &[&str]| {
            Value::Array(vec![Value::Array(vec![
                text("5-1"),
                Value::Array(fields.iter().map(|field| text(field)).collect()),
            ])])
        };
        let fields = ["seq", "3", "event", "ok", "id", "a", "units", "2", "buyer", "b", "ref", "", "deadline", "-1"];
        let read = events(entry(&fields)).unwrap();
        assert_eq!((read[0].seq, read[0].deadline, read[0].entry.to_string()), (3, Some(-1), "5-1".into()));
        assert_eq!(events(entry(&fields[..12])).unwrap()[0].deadline, None);
        for wrong in [&["some", "thing"][..], &fields[2..]] {
            assert!(events(entry(wrong)).unwrap_err().contains("the entry 5-1"));
        }
    }
}
