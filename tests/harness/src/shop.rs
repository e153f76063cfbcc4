//! A sale as its seller sees it: what it amounts to, its orders page by page, and the events in its stream.

use std::collections::{BTreeMap, BTreeSet};

use super::rebuilt::{self, Rebuilt};
use super::{ANY, Client, INT, Reply};

/// One order, as `STOCK.ORDERS` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// `held`, `sold`, `cancelled`, `expired` or `waiting`.
    pub state: String,
    /// How many.
    pub units: i64,
    /// Whose it is; empty: nobody said.
    pub buyer: String,
    /// What its caller remembers with it.
    pub reference: String,
    /// Until when the units are held; -1: they are not.
    pub deadline: i64,
}

/// One event, as it stands in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number, without gaps.
    pub seq: i64,
    /// What has happened: `ok`, `confirm`, …
    pub event: String,
    /// The id of the order.
    pub id: String,
    /// How many.
    pub units: i64,
    /// Whose the order is.
    pub buyer: String,
    /// What its caller remembers with it.
    pub reference: String,
    /// Only where the sale was created with DEADLINES; -1: none.
    pub deadline: Option<i64>,
}

/// The sums of a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Books {
    /// All there is.
    pub total: i64,
    /// Left to sell.
    pub remaining: i64,
    /// Reserved.
    pub held: i64,
    /// Sold.
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
    let all = ["seq", "event", "id", "units", "buyer", "ref", "deadline"];
    assert!(names == all || names == all[..6], "{names:?}");
    let text = |name: &str| fields.field(name).text();
    let number = |name: &str| text(name).parse::<i64>().expect("a number");
    Event {
        seq: number("seq"),
        event: text("event"),
        id: text("id"),
        units: number("units"),
        buyer: text("buyer"),
        reference: text("ref"),
        deadline: (names == all).then(|| number("deadline")),
    }
}

/// What the events of a sale say it amounts to. Fails the test when they skip a number or tell of something impossible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// The number of the last event.
    pub seq: i64,
    /// All there is.
    pub total: i64,
    /// Units held or sold.
    pub taken: i64,
    /// What each id has now: its last event, units, buyer, reference.
    pub orders: BTreeMap<String, (String, i64, String, String)>,
    /// What those in line wait for.
    pub waiting: BTreeMap<String, i64>,
    /// The whole sale, where the events tell deadlines.
    pub rebuilt: Option<Rebuilt>,
}

impl Replay {
    /// Replays `events` of a sale that began with `total` units, of which never more are taken than there are.
    #[track_caller]
    pub fn of(total: i64, events: &[Event]) -> Self {
        let mut replay = Self::begin(total, events);
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
        let mut replay = Self::begin(total, events);
        for event in events {
            replay.follow(event);
        }
        assert!(replay.taken <= replay.total, "oversold: {} of {}", replay.taken, replay.total);
        replay
    }

    fn begin(total: i64, events: &[Event]) -> Self {
        let tells = events.first().is_some_and(|event| event.deadline.is_some());
        Self { total, rebuilt: tells.then(|| Rebuilt::new(total)), ..Self::default() }
    }

    #[track_caller]
    fn follow(&mut self, event: &Event) {
        assert_eq!(event.seq, self.seq + 1, "a gap before {event:?}");
        self.seq = event.seq;
        assert_eq!(event.deadline.is_some(), self.rebuilt.is_some(), "{event:?}");
        if let (Some(rebuilt), Some(deadline)) = (&mut self.rebuilt, event.deadline) {
            let Event { seq, event, id, units, buyer, reference, .. } = event.clone();
            rebuilt.read(&rebuilt::Event { seq: seq.cast_unsigned(), event, id, units, buyer, reference, deadline });
        }
        let has = self.orders.get(&event.id).map_or(0, |order| order.1);
        let units = match event.event.as_str() {
            "adjust" => {
                self.total += event.units;
                return;
            }
            "wait" => {
                assert_eq!(has, 0, "{event:?} waits for what it has");
                self.waiting.insert(event.id.clone(), event.units);
                0
            }
            "ok" | "cancel" if self.waiting.contains_key(&event.id) => {
                assert_eq!(self.waiting.remove(&event.id), Some(event.units), "{event:?} is of something else");
                if event.event == "ok" { event.units } else { 0 }
            }
            "ok" => {
                assert_eq!(has, 0, "{event:?} takes twice");
                event.units
            }
            // Of a hold, or of an order that lapsed and takes its units again.
            "confirm" => event.units,
            "keep" => {
                assert!(event.units < has, "{event:?} keeps more than it has");
                event.units
            }
            "cancel" | "expire" => {
                assert_eq!(has, event.units, "{event:?} gives back something else than it has");
                0
            }
            "extend" if event.deadline.is_some() => {
                assert_eq!(has, event.units, "{event:?} extends something else than it has");
                has
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
        let info = client.expect(["STOCK.INFO", key], ANY);
        let [seq, waiting] = ["seq", "waiting"].map(|name| info.field(name).int());
        assert_eq!((self.seq, self.total, self.taken), (seq, books.total, books.held + books.sold));
        assert_eq!(i64::try_from(self.waiting.len()), Ok(waiting));
        assert_eq!(self.orders.len(), orders.len());
        for (id, (event, units, buyer, reference)) in &self.orders {
            let order = &orders[id];
            assert_eq!((*units, buyer, reference), (order.units, &order.buyer, &order.reference), "{id}");
            let fits = match order.state.as_str() {
                "held" => ["ok", "extend", "keep"].contains(&event.as_str()),
                "sold" => ["ok", "confirm", "keep"].contains(&event.as_str()),
                "cancelled" => event == "cancel",
                "waiting" => event == "wait",
                state => event == "expire" && state == "expired",
            };
            assert!(fits, "{id} is {} and its last event is {event}", order.state);
        }
        if let Some(rebuilt) = &self.rebuilt {
            is_all_there_is(rebuilt, client, key, &orders, books);
        }
    }
}

/// Fails the test unless the sale `key` with these orders and books is the one that was rebuilt, to the last field.
#[track_caller]
fn is_all_there_is(rebuilt: &Rebuilt, client: &mut Client, key: &str, orders: &BTreeMap<String, Order>, books: Books) {
    let amounts = (rebuilt.total, rebuilt.remaining(), rebuilt.held(), rebuilt.sold());
    assert_eq!(amounts, (books.total, books.remaining, books.held, books.sold), "{rebuilt:?}");
    for (id, order) in &rebuilt.orders {
        let rebuilt::Order { state, units, buyer, reference, deadline } = order.clone();
        assert_eq!(orders.get(id), Some(&Order { state: state.into(), units, buyer, reference, deadline }), "{id}");
    }
    assert_eq!(rebuilt.orders.len(), orders.len());
    for (place, (id, _)) in rebuilt.line.iter().enumerate() {
        client.expect(["STOCK.ORDER", key, id], ANY).field("place").is(i64::try_from(place + 1).expect("few"));
    }
    for buyer in orders.values().map(|order| &order.buyer).collect::<BTreeSet<_>>() {
        client.expect(["STOCK.BUYER", key, buyer], (rebuilt.of_buyer(buyer), INT));
    }
}
