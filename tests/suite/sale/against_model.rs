//! Random commands on a sale of a real server, every reply compared with the model's. `LOCKSTOCK_STEPS` makes it longer, `make fuzz`
//! does so.

use std::collections::BTreeMap;

use harness::shop::{Replay, events};
use harness::{Client, NULL, OK, Reply, Server, err, eventually, random};

use crate::support::edges::edges;
use crate::support::models::sale::{Answer, Order, Sale, State};
use crate::support::models::{pass, steps, timed};

const HOUR: i64 = 3_600_000;
/// The most units.
const EXACT: i64 = (1 << 53) - 1;

/// Few names, so that everything meets; ids and buyers overlap, for an id is its own buyer.
const NAMES: [&str; 8] = ["1", "2", "bob", "67e55044-10b1-426f-9247-bb680e5fe0c8", "x", "carol", "-0", "1e9"];

struct Trial {
    server: Server,
    client: Client,
    model: Sale,
    random: fastrand::Rng,
}

impl Trial {
    fn name(&mut self) -> &'static str {
        NAMES[self.random.usize(..NAMES.len())]
    }

    /// A number at an edge.
    fn edge(&mut self, fits: impl Fn(i64) -> bool) -> i64 {
        let edges: Vec<i64> = edges(harness::unix_ms()).into_iter().filter(|edge| fits(*edge)).collect();
        edges[self.random.usize(..edges.len())]
    }

    /// Longer than this test, or as long as at an edge.
    fn long(&mut self) -> i64 {
        let most = i64::MAX - harness::unix_ms() - HOUR;
        if self.random.bool() { HOUR } else { self.edge(|edge| (HOUR..most).contains(&edge)) }
    }

    /// A number that is none of its range changes nothing.
    fn out_of_range(&mut self) {
        let id = self.name();
        let left = i64::MAX - harness::unix_ms() + HOUR;
        let (call, name, least, most) = [
            ("STOCK.DECR_ONCE sale % QTY", "QTY", 1, EXACT),
            ("STOCK.DECR_ONCE sale % HOLD", "HOLD", 1, left),
            ("STOCK.EXTEND sale % PX", "PX", 1, left),
            ("STOCK.ADJUST sale", "delta", -EXACT, EXACT),
            ("STOCK.ALTER sale LIMIT", "LIMIT", 0, EXACT),
            ("STOCK.ALTER sale START", "START", 0, i64::MAX),
            ("STOCK.ALTER sale END", "END", 0, i64::MAX),
            ("STOCK.ORDERS sale 0 COUNT", "COUNT", 1, i64::MAX),
        ][self.random.usize(..8)];
        let edge = self.edge(|edge| edge < least || edge > most);
        let range = format!("ERR {name} must be an integer from ");
        self.client.expect(format!("{} {edge}", call.replace('%', id)), err(&range));
    }

    fn some<T>(&mut self, of: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.random.bool().then(|| of(self))
    }

    /// A KEEP, or none, and how it is spelled.
    fn keep(&mut self) -> (Option<i64>, String) {
        let keep = self.some(|trial| trial.random.i64(1..5));
        (keep, keep.map(|keep| format!(" KEEP {keep}")).unwrap_or_default())
    }

    /// One random command, and whatever else happens to a server.
    fn step(&mut self) {
        match self.random.u8(..40) {
            0..16 => self.take(),
            16..20 => {
                let (id, (keep, option)) = (self.name(), self.keep());
                let call = format!("STOCK.CONFIRM sale {id}{option}");
                if self.model.is_too_many(id, keep) {
                    self.client.expect(call, err("ERR KEEP must be at most "));
                    return;
                }
                let expected = self.model.confirm(id, keep, harness::unix_ms());
                self.compare(&call, id, 0, &expected);
            }
            20..24 => {
                let (id, (keep, option)) = (self.name(), self.keep());
                let expected = self.model.cancel(id, keep, harness::unix_ms());
                self.compare(&format!("STOCK.CANCEL sale {id}{option}"), id, 0, &expected);
            }
            24..27 => {
                let (id, span) = (self.name(), [1, 2, self.long()][self.random.usize(..3)]);
                let expected = self.model.extend(id);
                self.compare(&format!("STOCK.EXTEND sale {id} PX {span}"), id, span, &expected);
            }
            27..29 => self.adjust(),
            29..31 => self.alter(),
            31 => self.create_again(),
            32 => self.missing(),
            33..35 => self.look_at_one(),
            35 => self.out_of_range(),
            36 if self.random.u8(..5) == 0 => {
                self.every_lapse_is_numbered();
                // What was counted is counted since the sale was loaded.
                self.client.expect("DEBUG RELOAD", OK);
                self.model.counters.clear();
            }
            _ => self.look_at_all(),
        }
        self.learn();
        self.let_the_short_ones_lapse();
    }

    fn take(&mut self) {
        let (id, units) = (self.name(), self.random.i64(1..5));
        // More than any sale has, now and then.
        let units = if self.random.u8(..20) == 0 { self.edge(|edge| (5..=EXACT).contains(&edge)) } else { units };
        let (buyer, reference) = (self.some(Self::name), self.some(Self::name));
        let waits = self.random.bool();
        // What a waiting order has when it is served must not end before it is looked at.
        let span = self.some(|trial| if waits { trial.long() } else { [1, 3, trial.long()][trial.random.usize(..3)] });
        let mut options = vec![];
        options.extend((units > 1 || self.random.bool()).then(|| format!("QTY {units}")));
        options.extend(buyer.map(|buyer| format!("BUYER {buyer}")));
        options.extend(reference.map(|reference| format!("REF {reference}")));
        options.extend(span.map(|span| format!("HOLD {span}")));
        options.extend(waits.then(|| "WAITLIST".to_owned()));
        self.random.shuffle(&mut options);
        if self.model.is_anothers(id, buyer) {
            let fault = "ERR the order of this id has another BUYER; two callers have chosen the same id";
            self.client.expect(format!("STOCK.DECR_ONCE sale {id} {}", options.join(" ")), err(fault));
            return;
        }
        let now = harness::unix_ms();
        let reference = reference.unwrap_or_default();
        let expected = if waits {
            self.model.take_or_wait(id, units, buyer, span, reference, now)
        } else {
            self.model.take(id, units, buyer, span.is_some(), reference, now)
        };
        let call = format!("STOCK.DECR_ONCE sale {id} {}", options.join(" "));
        self.compare(&call, id, span.unwrap_or(0), &expected);
    }

    /// Sends `call`, which gives the order `id` a deadline `span` from now if it gives one at all.
    #[track_caller]
    fn compare(&mut self, call: &str, id: &str, span: i64, expected: &Answer) {
        let (reply, when) = timed(|| self.client.cmd(call));
        let deadline = reply.at(3).int();
        if let Some(expected) = expected.deadline {
            assert_eq!(deadline, expected, "{call}: {reply:?}");
        } else {
            assert!((when.start() + span..=when.end() + span).contains(&deadline), "{call}: {reply:?}, {when:?}");
            self.model.orders.get_mut(id).expect("an order that is held").deadline = deadline;
        }
        let Answer { status, units, remaining, reference, .. } = expected;
        reply.is((*status, *units, *remaining, deadline, reference.as_str()));
    }

    /// Nothing is compared near a deadline: holds that end soon have ended before the next command.
    fn let_the_short_ones_lapse(&mut self) {
        let soon = harness::unix_ms() + HOUR / 2;
        let held = self.model.orders.values().filter(|order| order.state == State::Held && order.deadline < soon);
        if let Some(last) = held.map(|order| order.deadline).max() {
            pass(last);
            self.model.lapse(last);
            self.model.serve(harness::unix_ms());
            if !self.model.served.is_empty() {
                self.every_lapse_is_numbered();
                self.learn();
            }
        }
    }

    /// The deadlines of the orders that were served.
    fn learn(&mut self) {
        for id in std::mem::take(&mut self.model.served) {
            let order = self.model.orders.get_mut(&id).expect("an order");
            if order.state == State::Held {
                let deadline = self.client.cmd(["STOCK.ORDER", "sale", &id]).field("deadline").int();
                let from = deadline - order.hold;
                assert!((harness::unix_ms() - HOUR / 2..=harness::unix_ms()).contains(&from), "{id}: {deadline}");
                order.deadline = deadline;
            }
        }
    }

    fn adjust(&mut self) {
        let delta = self.random.i64(-8..8);
        let (mut call, remaining) = (format!("STOCK.ADJUST sale {delta}"), self.model.remaining());
        let id = self.some(Self::name);
        if let Some(id) = id {
            call = format!("{call} ID {id}");
            if self.model.adjusted.contains(id) {
                self.client.expect(call, remaining);
                return;
            }
        }
        if remaining + delta < 0 {
            let fault = match remaining {
                0 => "ERR delta must be at least 0, for no units remain unsold".into(),
                _ => format!("ERR delta must be at least -{remaining}, for no more units remain unsold"),
            };
            self.client.expect(call, err(&fault));
            return;
        }
        if delta < 0 && self.model.total + delta < self.model.wanted() {
            let fault = format!("ERR the total must be at least {}, for an order", self.model.wanted());
            self.client.expect(call, err(&fault));
            return;
        }
        self.model.adjusted.extend(id.map(str::to_owned));
        self.model.total += delta;
        self.model.seq += i64::from(delta != 0);
        self.model.serve(harness::unix_ms());
        self.client.expect(call, self.model.remaining());
        if self.model.total == 0 {
            return;
        }
        let most = ((1 << 53) - 1) - self.model.total;
        let fault = format!("ERR delta must be at most {most}, for a total is at most 9007199254740991");
        self.client.expect(format!("STOCK.ADJUST sale {}", most + 1), err(&fault));
    }

    fn alter(&mut self) {
        let now = harness::unix_ms();
        let mut words = vec!["STOCK.ALTER sale".to_owned()];
        // Mostly open: what happens outside the window is soon told.
        let start = self.some(|trial| [0, 0, 0, 1, now - HOUR, now + HOUR][trial.random.usize(..6)]);
        let end = self.some(|trial| [0, 0, 0, now + HOUR, now - HOUR][trial.random.usize(..5)]);
        words.extend(start.map(|start| format!("START {start}")));
        words.extend(end.map(|end| format!("END {end}")));
        let (from, to) = (start.unwrap_or(self.model.start), end.unwrap_or(self.model.end));
        if (start.is_some() || end.is_some()) && from > 0 && to > 0 && from >= to {
            let fault = format!("ERR START must be before END, and {from} is not before {to}");
            self.client.expect(words.join(" "), err(&fault));
            return;
        }
        (self.model.start, self.model.end) = (from, to);
        if self.random.bool() {
            self.model.limit = self.random.i64(0..9);
            words.push(format!("LIMIT {}", self.model.limit));
        }
        if self.random.bool() {
            self.model.rebuy = self.random.bool();
            words.push(if self.model.rebuy { "REBUY yes" } else { "REBUY no" }.into());
        }
        self.model.serve(now);
        self.client.expect(words.join(" "), OK);
    }

    fn create_again(&mut self) {
        self.client.expect("STOCK.CREATE sale 5", err("BUSYKEY"));
    }

    /// There is neither this sale nor, under this name, anything like it.
    fn missing(&mut self) {
        let id = self.name();
        for call in ["DECR_ONCE none {}", "CONFIRM none {}", "CANCEL none {}", "EXTEND none {} PX 5"] {
            *self.model.answers.entry("NOSTOCK").or_default() += 1;
            self.client.expect(format!("STOCK.{}", call.replace("{}", id)), ("NOSTOCK", 0, 0, -1, ""));
        }
        for call in ["ORDER none x", "BUYER none x", "INFO none"] {
            self.client.expect(format!("STOCK.{call}"), NULL);
        }
        self.client.expect("STOCK.ADJUST none 1", err("NOSTOCK"));
        self.client.expect("STOCK.ALTER none LIMIT 1", err("NOSTOCK"));
        for call in ["DECR_ONCE text x", "CONFIRM text x", "INFO text", "ORDERS text 0", "ADJUST text 1"] {
            self.client.expect(format!("STOCK.{call}"), err("WRONGTYPE"));
        }
    }

    fn look_at_one(&mut self) {
        let (id, buyer) = (self.name(), self.name());
        match self.model.orders.get(id) {
            None => drop(self.client.expect(format!("STOCK.ORDER sale {id}"), NULL)),
            Some(order) => {
                let shown = self.client.cmd(format!("STOCK.ORDER sale {id}"));
                let fields = ["state", "units", "buyer", "ref", "deadline"].map(|field| shown.field(field));
                if let Some(place) = self.model.line.iter().position(|other| other == id) {
                    shown.field("place").is(i64::try_from(place + 1).expect("few"));
                }
                Reply::Array(fields.into()).is((
                    order.state.word(),
                    order.has(),
                    order.buyer.as_str(),
                    order.reference.as_str(),
                    deadline(order),
                ));
            }
        }
        let has = (self.model.has(buyer), self.model.limit);
        self.client.expect(format!("STOCK.BUYER sale {buyer}"), has);
    }

    fn look_at_all(&mut self) {
        let state = self.some(|trial| {
            [State::Held, State::Sold, State::Cancelled, State::Expired, State::Waiting][trial.random.usize(..5)]
        });
        let count = self.random.u8(1..5);
        let filter = state.map(|state| format!("STATE {}", state.word())).unwrap_or_default();
        let (mut shown, mut cursor) = (BTreeMap::new(), "0".to_owned());
        loop {
            let page = self.client.cmd(format!("STOCK.ORDERS sale {cursor} COUNT {count} {filter}"));
            assert!(page.at(1).items().len() <= usize::from(count), "{page:?}");
            for row in page.at(1).items() {
                assert_eq!(shown.insert(row.at(0).text(), row.clone()), None, "shown twice");
            }
            cursor = page.at(0).text();
            if cursor == "0" {
                break;
            }
        }
        let orders = self.model.orders.iter().filter(|(_, order)| state.is_none_or(|state| state == order.state));
        for (id, order) in orders {
            let row = shown.remove(id).unwrap_or_else(|| panic!("{id} is not shown"));
            row.is((
                id.as_str(),
                order.state.word(),
                order.has(),
                order.buyer.as_str(),
                order.reference.as_str(),
                deadline(order),
            ));
        }
        assert!(shown.is_empty(), "{shown:?}");
        self.info_agrees();
    }

    fn info_agrees(&mut self) {
        let info = self.client.cmd("STOCK.INFO sale").fields();
        let model = &self.model;
        assert_eq!(info.len(), 20 + usize::from(model.deadlines), "{info:?}");
        assert_eq!(info.get("deadlines").map(Reply::text), model.deadlines.then(|| "yes".into()));
        for (field, expected) in [
            ("total", model.total),
            ("remaining", model.remaining()),
            ("held", model.amount(State::Held)),
            ("sold", model.amount(State::Sold)),
            ("orders", i64::try_from(model.orders.len()).expect("few")),
            ("waiting", i64::try_from(model.line.len()).expect("few")),
            ("limit", model.limit),
            ("start", model.start),
            ("end", model.end),
        ] {
            assert_eq!(info[field].int(), expected, "{field} of {info:?}, {model:?}");
        }
        assert_eq!(info["rebuy"].text(), if model.rebuy { "yes" } else { "no" });
        assert_eq!(info["stream"].text(), "events");
        for field in ["ok", "duplicate", "soldout", "limited", "cancelled", "confirmed"] {
            let expected = model.counters.get(field).copied().unwrap_or_default();
            assert_eq!(info[field].int(), expected, "{field} of {info:?}, {model:?}");
        }
        // A lapse is counted and numbered when the timer comes to it, or a command that needs its units.
        let expired = model.counters.get("expired").copied().unwrap_or_default();
        let late = expired - info["expired"].int();
        assert!(late >= 0 && model.seq - info["seq"].int() == late, "{info:?}, {model:?}");
        // Until then its buyer counts.
        let gone = info["buyers"].int() - i64::try_from(model.buyers()).expect("few");
        assert!((0..=late).contains(&gone), "{gone} buyers too many: {info:?}, {model:?}");
    }

    fn every_lapse_is_numbered(&mut self) {
        let Self { client, model, .. } = self;
        eventually("every lapse is numbered", || client.cmd("STOCK.INFO sale").field("seq").int() == model.seq);
    }
}

fn deadline(order: &Order) -> i64 {
    if order.state == State::Held { order.deadline } else { -1 }
}

#[test]
fn every_reply_is_the_models() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("SET text x", OK);
    let mut random = random();
    let resp3 = random.bool();
    if resp3 {
        client.hello3();
    }
    let model = Sale { total: 25, limit: 6, rebuy: random.bool(), deadlines: random.bool(), ..Sale::default() };
    let rebuy = if model.rebuy { "REBUY" } else { "" };
    let deadlines = if model.deadlines { "DEADLINES" } else { "" };
    client.expect(format!("STOCK.CREATE sale 25 LIMIT 6 {rebuy} STREAM events {deadlines}"), OK);
    let mut trial = Trial { server, client, model, random };
    // Whether the sale is ever sold out depends on the seed. Windows depend on the clock: on a slow machine few orders come after an end.
    let wanted = ["OK", "DUPLICATE", "CANCELLED", "LIMIT", "ENDED", "NOSTOCK"];
    for round in 0..10 {
        if round > 0 && wanted.iter().all(|status| trial.model.answers.contains_key(*status)) {
            break;
        }
        for _ in 0..steps(3_000) {
            trial.step();
        }
    }
    trial.every_lapse_is_numbered();
    trial.look_at_all();
    let Trial { server, mut client, model, .. } = trial;
    let told = events(&mut client, "events");
    assert_eq!(i64::try_from(told.len()), Ok(model.seq), "an event for each change");
    Replay::of(25, &told).agrees_with(&mut client, "sale");
    for (status, count) in &model.answers {
        let field = format!("lockstock_stock_{}", status.to_lowercase());
        assert_eq!(server.info_int("lockstock", &field), *count, "{field}");
    }
    for status in wanted {
        assert!(model.answers.contains_key(status), "the load made no {status}: {:?}", model.answers);
    }
}
