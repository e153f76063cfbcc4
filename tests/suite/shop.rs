//! A sale as its seller sees it: what it amounts to, its orders page by page, and the events in its stream.

use std::collections::BTreeMap;

use crate::harness::{ANY, Client, Reply};

/// One order, as `STOCK.ORDERS` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub state: String,
    pub units: i64,
    pub buyer: String,
    pub reference: String,
    pub deadline: i64,
}

/// One event, as it stands in the stream.
#[expect(clippy::struct_field_names, reason = "the field of the stream's entry is called event")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub seq: i64,
    pub event: String,
    pub id: String,
    pub units: i64,
    pub buyer: String,
    pub reference: String,
}

/// What a sale amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Books {
    pub total: i64,
    pub remaining: i64,
    pub held: i64,
    pub sold: i64,
}

/// What the sale `key` amounts to; fails the test unless every unit is in exactly one place.
#[track_caller]
pub fn books(client: &mut Client, key: &str) -> Books {
    let info = client.expect(["STOCK.INFO", key], ANY).fields();
    let number = |name: &str| info.get(name).unwrap_or_else(|| panic!("no {name} in {info:?}")).int();
    let books =
        Books { total: number("total"), remaining: number("remaining"), held: number("held"), sold: number("sold") };
    assert_eq!(books.total, books.remaining + books.held + books.sold, "{books:?}");
    assert!(books.remaining >= 0 && books.held >= 0 && books.sold >= 0, "{books:?}");
    books
}

/// Every order of the sale `key`, by id; fails the test when a page repeats one.
#[track_caller]
pub fn orders(client: &mut Client, key: &str) -> BTreeMap<String, Order> {
    let (mut found, mut cursor) = (BTreeMap::new(), "0".to_owned());
    loop {
        let page = client.expect(["STOCK.ORDERS", key, &cursor, "COUNT", "100"], ANY);
        for row in page.at(1).items() {
            let (id, order) = order(row);
            assert_eq!(found.insert(id.clone(), order), None, "{id} came twice");
        }
        cursor = page.at(0).text();
        if cursor == "0" {
            return found;
        }
    }
}

#[track_caller]
fn order(row: &Reply) -> (String, Order) {
    let order = Order {
        state: row.at(1).text(),
        units: row.at(2).int(),
        buyer: row.at(3).text(),
        reference: row.at(4).text(),
        deadline: row.at(5).int(),
    };
    (row.at(0).text(), order)
}

/// The events of `stream`, the oldest first.
#[track_caller]
pub fn events(client: &mut Client, stream: &str) -> Vec<Event> {
    let (mut found, mut after) = (vec![], "-".to_owned());
    loop {
        let page = client.expect(["XRANGE", stream, &after, "+", "COUNT", "1000"], ANY);
        let Some(last) = page.items().last() else { return found };
        after = format!("({}", last.at(0).text());
        found.extend(page.items().iter().map(|entry| event(entry.at(1))));
    }
}

#[track_caller]
fn event(fields: &Reply) -> Event {
    let names: Vec<String> = fields.items().iter().step_by(2).map(Reply::text).collect();
    assert_eq!(names, ["seq", "event", "id", "units", "buyer", "ref"]);
    let text = |name: &str| fields.field(name).text();
    let number = |name: &str| text(name).parse::<i64>().expect("a number");
    Event {
        seq: number("seq"),
        event: text("event"),
        id: text("id"),
        units: number("units"),
        buyer: text("buyer"),
        reference: text("ref"),
    }
}

/// What the events of a sale say it amounts to. Fails the test when they skip a number or tell of something impossible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    pub seq: i64,
    pub total: i64,
    /// Units held or sold.
    pub taken: i64,
    /// What each id has now: its last event, units, buyer, reference.
    pub orders: BTreeMap<String, (String, i64, String, String)>,
}

impl Replay {
    /// Replays `events` of a sale that began with `total` units, of which never more are taken than there are.
    #[track_caller]
    pub fn of(total: i64, events: &[Event]) -> Self {
        let mut replay = Self { total, ..Self::default() };
        for event in events {
            replay.follow(event);
            assert!(replay.taken <= replay.total, "{event:?} oversells");
        }
        replay
    }

    /// Replays `events` of a sale in which an order needed the units of more due holds than it could let lapse itself: more may
    /// seem to be taken than there is, until their events have come.
    #[track_caller]
    pub fn of_all(total: i64, events: &[Event]) -> Self {
        let mut replay = Self { total, ..Self::default() };
        for event in events {
            replay.follow(event);
        }
        assert!(replay.taken <= replay.total, "oversold: {} of {}", replay.taken, replay.total);
        replay
    }

    #[track_caller]
    fn follow(&mut self, event: &Event) {
        assert_eq!(event.seq, self.seq + 1, "a gap before {event:?}");
        self.seq = event.seq;
        let has = self.orders.get(&event.id).map_or(0, |order| order.1);
        let units = match event.event.as_str() {
            "adjust" => {
                self.total += event.units;
                return;
            }
            "ok" => {
                assert_eq!(has, 0, "{event:?} takes twice");
                event.units
            }
            // Of a hold, or of an order that lapsed and takes its units again.
            "confirm" => event.units,
            "cancel" | "expire" => {
                assert_eq!(has, event.units, "{event:?} gives back something else than it has");
                0
            }
            other => panic!("no event is called {other}"),
        };
        self.taken += units - has;
        let order = (event.event.clone(), units, event.buyer.clone(), event.reference.clone());
        self.orders.insert(event.id.clone(), order);
    }

    /// Fails the test unless this is what the sale `key` amounts to.
    #[track_caller]
    pub fn agrees_with(&self, client: &mut Client, key: &str) {
        let orders = orders(client, key);
        let books = books(client, key);
        let seq = client.expect(["STOCK.INFO", key], ANY).field("seq").int();
        assert_eq!((self.seq, self.total, self.taken), (seq, books.total, books.held + books.sold));
        assert_eq!(self.orders.len(), orders.len());
        for (id, (event, units, buyer, reference)) in &self.orders {
            let order = &orders[id];
            assert_eq!((*units, buyer, reference), (order.units, &order.buyer, &order.reference), "{id}");
            let fits = match order.state.as_str() {
                "held" => event == "ok",
                "sold" => event == "ok" || event == "confirm",
                "cancelled" => event == "cancel",
                state => event == "expire" && state == "expired",
            };
            assert!(fits, "{id} is {} and its last event is {event}", order.state);
        }
    }
}
