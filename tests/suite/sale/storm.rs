//! The storm: many buyers, few units, lost replies, and the server struck down in the middle of it.
//!
//! Every buyer keeps a record of what it was told. Afterwards these records, the orders of the sale and its stream must tell
//! the same story.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering::Relaxed};
use std::thread;

use harness::shop::{Order, Replay, books, events, orders};
use harness::{ANY, Client, OK, Reply, Server, eventually, eventually_some, random};

const BUYERS: usize = 400;
const UNITS: i64 = 100;
const LIMIT: i64 = 4;

/// What a buyer was told last about each of its orders: `sold`, `held`, `cancelled` or `expired`, and how many units.
type Record = BTreeMap<String, (&'static str, i64)>;

/// Where the sale takes place, and what the buyers have seen of it.
struct Square {
    /// The server to ask.
    port: AtomicU16,
    /// Whether an answer only counts once a replica has what it is about.
    replicated: bool,
    /// The seller has seen everything sold.
    over: AtomicBool,
    answers: AtomicUsize,
}

/// One buyer at its work.
struct Buyer<'a> {
    square: &'a Square,
    number: usize,
    random: fastrand::Rng,
    line: Option<Client>,
    record: Record,
}

impl Buyer<'_> {
    /// Asks until there is an answer, of which three in ten are lost on the way.
    fn ask(&mut self, call: &str) -> Reply {
        eventually_some(call, || {
            let port = self.square.port.load(Relaxed);
            let mut line = self.line.take().or_else(|| Client::try_connect(port).ok())?;
            if self.random.u8(..10) < 3 {
                line.send_and_leave(call);
                return None;
            }
            let answer = line.attempt(call)?;
            // The server is starting, or not in charge any more (LOADING, READONLY, MASTERDOWN).
            if answer.is_error() {
                return None;
            }
            if self.square.replicated && line.attempt("WAIT 1 1000")? != Reply::Int(1) {
                return None;
            }
            self.line = Some(line);
            self.square.answers.fetch_add(1, Relaxed);
            Some(answer)
        })
    }

    /// Orders until it has bought something or everything is sold.
    fn shop(mut self) -> Record {
        for attempt in 0.. {
            let id = format!("order-{}-{attempt}", self.number);
            if self.square.over.load(Relaxed) || self.order(&id) {
                break;
            }
        }
        self.record
    }

    /// One order, from its beginning to its end; whether it bought something.
    fn order(&mut self, id: &str) -> bool {
        let plan = self.random.u8(..6);
        let hold = match plan {
            0..2 => "",
            // It will lapse before it is confirmed, or never is.
            2..4 => "HOLD 20",
            _ => "HOLD 60000",
        };
        // A buyer that buys only to give the units back says so, for the seller to know when all is sold for good.
        let wavers = plan == 0 && self.number.is_multiple_of(3);
        let reference = if wavers { "wavers" } else { "keeps" };
        let mut units = self.random.i64(1..=4);
        let answer = loop {
            let call =
                format!("STOCK.DECR_ONCE sale {id} QTY {units} BUYER buyer-{} REF {reference} {hold}", self.number);
            let answer = self.ask(&call);
            match answer.at(0).text().as_str() {
                // Fewer are better than none, and what lapses or is cancelled comes back.
                "SOLDOUT" | "INSUFFICIENT" if !self.square.over.load(Relaxed) => units = 1,
                _ => break answer,
            }
        };
        let got = answer.at(1).int();
        match answer.at(0).text().as_str() {
            "OK" | "DUPLICATE" if hold.is_empty() => {
                self.record.insert(id.into(), ("sold", got));
                if plan == 0 && self.number.is_multiple_of(3) {
                    return self.change_its_mind(id);
                }
                true
            }
            // The reply that told of the hold was lost, and it has lapsed since.
            "EXPIRED" => self.pay(id),
            "OK" | "DUPLICATE" => {
                self.record.insert(id.into(), ("held", got));
                match plan {
                    2 => false,
                    3 => {
                        let call = format!("STOCK.ORDER sale {id}");
                        while self.ask(&call).field("state").text() == "held" {}
                        self.pay(id)
                    }
                    _ if self.number.is_multiple_of(5) => self.change_its_mind(id),
                    4 => {
                        let answer = self.ask(&format!("STOCK.EXTEND sale {id} PX 90000"));
                        assert_eq!(answer.at(0).text(), "OK", "{id}: {answer:?}");
                        self.pay(id)
                    }
                    _ => self.pay(id),
                }
            }
            "SOLDOUT" | "INSUFFICIENT" | "LIMIT" => true,
            other => panic!("{id}: {other}"),
        }
    }

    fn pay(&mut self, id: &str) -> bool {
        let answer = self.ask(&format!("STOCK.CONFIRM sale {id}"));
        match answer.at(0).text().as_str() {
            "OK" | "DUPLICATE" => {
                self.record.insert(id.into(), ("sold", answer.at(1).int()));
                true
            }
            "EXPIRED" => {
                self.record.insert(id.into(), ("expired", 0));
                false
            }
            other => panic!("{id}: {other}"),
        }
    }

    fn change_its_mind(&mut self, id: &str) -> bool {
        let answer = self.ask(&format!("STOCK.CANCEL sale {id}"));
        assert!(["OK", "DUPLICATE"].contains(&answer.at(0).text().as_str()), "{id}: {answer:?}");
        self.record.insert(id.into(), ("cancelled", 0));
        false
    }
}

impl Square {
    fn at(server: &Server, replicated: bool) -> Self {
        server.expect(format!("STOCK.CREATE sale {UNITS} LIMIT {LIMIT} STREAM events DEADLINES"), OK);
        Self {
            port: AtomicU16::new(server.port()),
            replicated,
            over: AtomicBool::new(false),
            answers: AtomicUsize::new(0),
        }
    }

    /// Lets all buyers loose, strikes in the middle, and returns their records when everything is sold.
    fn storm(&self, strike: impl FnOnce()) -> Vec<Record> {
        let mut random = random();
        thread::scope(|scope| {
            let buyers: Vec<_> = (0..BUYERS)
                .map(|number| {
                    let random = random.fork();
                    let buyer = Buyer { square: self, number, random, line: None, record: Record::new() };
                    let name = thread::Builder::new().stack_size(256 * 1024);
                    name.spawn_scoped(scope, move || buyer.shop()).expect("a thread")
                })
                .collect();
            eventually("the storm is at its height", || self.answers.load(Relaxed) > BUYERS / 10);
            strike();
            // At every instant, and so at each of these, every unit is in one place.
            eventually("everything is sold for good", || {
                let Ok(mut line) = Client::try_connect(self.port.load(Relaxed)) else { return false };
                books(&mut line, "sale");
                let kept = orders(&mut line, "sale").into_values();
                let kept = kept.filter(|order| order.state == "sold" && order.reference == "keeps");
                kept.map(|order| order.units).sum::<i64>() == UNITS
            });
            self.over.store(true, Relaxed);
            buyers.into_iter().map(|buyer| buyer.join().expect("a buyer")).collect()
        })
    }
}

/// Compares the buyers' records, the orders and the stream.
#[track_caller]
fn everybody_agrees(server: &Server, records: Vec<Record>) {
    let mut client = server.client();
    let orders = orders(&mut client, "sale");
    let events = events(&mut client, "events");
    Replay::of(UNITS, &events).agrees_with(&mut client, "sale");
    let books = books(&mut client, "sale");
    assert_eq!((books.total, books.sold), (UNITS, UNITS), "all is sold, and not more");

    let mut bought = BTreeMap::<&str, i64>::new();
    for Order { units, buyer, .. } in orders.values() {
        *bought.entry(buyer).or_default() += units;
    }
    for (buyer, units) in bought {
        assert!(units <= LIMIT, "{buyer} has {units}");
        client.expect(format!("STOCK.BUYER sale {buyer}"), (units, LIMIT));
    }
    let mut told = 0;
    for (id, (state, units)) in records.into_iter().flatten() {
        let order = orders.get(&id).unwrap_or_else(|| panic!("{id} was acknowledged and is missing"));
        let stands = match state {
            // It was not confirmed, so by now it may have lapsed.
            "held" => ["held", "expired"].contains(&order.state.as_str()),
            "sold" => order.state == "sold" && order.units == units,
            state => order.state == state,
        };
        assert!(stands, "{id} was told {state} {units}, and is {order:?}");
        if state == "sold" {
            told += units;
        }
    }
    assert_eq!(told, UNITS, "every unit that is sold was sold to somebody who knows");
}

#[test]
fn a_storm_with_a_power_cut_in_it() {
    let mut server = Server::builder().aof("always").start();
    let square = Square::at(&server, false);
    let records = square.storm(|| {
        server.kill9();
        server.start_again();
    });
    everybody_agrees(&server, records);
}

#[test]
fn a_storm_with_a_failover_in_it() {
    let mut primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    replica.wait_in_sync(&primary);
    let third = Server::builder().replica_of(&replica).start();
    let square = Square::at(&primary, true);
    let records = square.storm(|| {
        primary.kill9();
        replica.promote();
        // From here on the third server is the replica that answers wait for.
        square.port.store(replica.port(), Relaxed);
    });
    everybody_agrees(&replica, records);
    let digest = |server: &Server| server.expect("DEBUG DIGEST", ANY).text();
    // The last holds may still lapse.
    eventually("the new replica has the same", || {
        third.wait_in_sync(&replica);
        digest(&third) == digest(&replica)
    });
    assert_eq!(orders(&mut third.client(), "sale"), orders(&mut replica.client(), "sale"));
}
