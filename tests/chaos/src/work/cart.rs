//! Clients that buy from several sales at once: each order is a cart, and all of it is theirs or nothing.

use harness::Nothing;

use super::notes::Note;
use super::shopper::EVERYBODYS;
use super::{Worker, read, with};
use crate::history::{AboutCart, CartAnswer, CartCall, CartOp, Op, Outcome};
use crate::route::PATIENCE;
use crate::wire;

/// How many sales there are for carts. Every other one is always nearly sold out.
pub const SHELVES: usize = 12;

/// How many carts there are: each names some of the sales, and always the same.
const CARTS: usize = 20;

/// How often a client asks before it leaves an order alone.
const TRIES: usize = 8;

/// A sale for carts: its name, its stream, and its total.
pub fn shelf(number: usize) -> (String, String, i64) {
    let total = if number.is_multiple_of(2) { 1_000_000 } else { 14 };
    (format!("{{cart}}{number}"), format!("{{cart}}{number}:events"), total)
}

/// Which sales a cart is of: 2 to 9, in an order of its own.
fn cart(number: usize) -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(u64::try_from(number).expect("a few"));
    let mut shelves: Vec<usize> = (0..SHELVES).collect();
    random.shuffle(&mut shelves);
    shelves.truncate(2 + number % 8);
    shelves
}

impl Worker<'_> {
    /// One cart, from its beginning to its end.
    pub(super) fn cart(&mut self) {
        let number = self.random.usize(..CARTS);
        let shelves = cart(number);
        // Some ids are shared, and several clients want them at the same time: the same cart of the same units.
        let slice = self.route.clock.now() / 200_000;
        let id = if self.count.is_multiple_of(8) {
            format!("{EVERYBODYS}-{number}-{slice}")
        } else {
            format!("{}-{}", self.number, self.count)
        };
        let few = shelves.iter().any(|shelf| !shelf.is_multiple_of(2));
        let hold = match self.random.u8(..10) {
            0..2 if !few => None,
            0..8 => Some(self.span(10, 150)),
            _ if few => Some(self.span(300, 900)),
            // Longer than any scene.
            _ => Some(self.span(600_000, 700_000)),
        };
        let units = shelves.iter().map(|shelf| i64::try_from(1 + shelf % 3).expect("a few")).collect();
        let take = CartCall::Take { units, hold };
        let Some(status) = self.insist_on(&shelves, &id, &take) else { return };
        if !matches!(status.as_str(), "OK" | "DUPLICATE") {
            return;
        }
        match self.random.u8(..10) {
            0 => drop(self.ask_cart(&shelves, &id, &take)),
            // Until after the deadline, perhaps.
            1..4 => self.rest(10, 180),
            _ => {}
        }
        let confirm = self.chance(if few { 20 } else { 60 });
        if confirm {
            self.insist_on(&shelves, &id, &CartCall::Confirm);
        }
        // Units of the small sales come back, for another client to have a turn.
        if few || self.chance(if confirm { 10 } else { 80 }) {
            self.insist_on(&shelves, &id, &CartCall::Cancel);
        }
    }

    /// Asks until there is an answer, and returns the status of the whole.
    fn insist_on(&mut self, shelves: &[usize], id: &str, call: &CartCall) -> Option<String> {
        if self.chance(10) {
            self.ask_and_leave(shelves, id, call);
        }
        self.persist(TRIES, |worker| worker.ask_cart(shelves, id, call)).map(|answer| answer.status)
    }

    fn ask_cart(&mut self, shelves: &[usize], id: &str, call: &CartCall) -> Outcome<CartAnswer> {
        let (about, words) = self.about_cart(shelves, id, call);
        let server = self.route.leader().port();
        self.record.note(Note::AsksCart(Op::sent(self.number, server, self.route.clock.now(), about.clone())));
        let op = self.line.ask(about, &shelf(0).0, &words, PATIENCE);
        let outcome = read(op.outcome.clone(), |reply| wire::cart_answer(&reply));
        self.record.note(Note::Cart(with(op, outcome.clone())));
        outcome
    }

    /// Asks over another connection and does not wait for the reply, which is lost.
    fn ask_and_leave(&mut self, shelves: &[usize], id: &str, call: &CartCall) {
        let (about, words) = self.about_cart(shelves, id, call);
        let server = self.route.leader().port();
        let sent: CartOp = Op::sent(self.number, server, self.route.clock.now(), about);
        self.record.note(Note::AsksCart(sent.clone()));
        if let Some((line, client)) = self.route.open() {
            client.send_and_leave(words);
            let (returned, outcome) = (self.route.clock.now(), Outcome::Unknown(Nothing::Closed));
            // First, for it may be killed in between.
            self.confess("reply lost", sent.invoked);
            self.record.note(Note::Cart(CartOp { line, returned, outcome, ..sent }));
        } else {
            self.record.note(Note::Cart(CartOp { outcome: Outcome::Refused("no connection".into()), ..sent }));
        }
    }

    fn about_cart(&self, shelves: &[usize], id: &str, call: &CartCall) -> (AboutCart, harness::Words) {
        let sales: Vec<String> = shelves.iter().map(|number| shelf(*number).0).collect();
        // An id that several clients want is one buyer's.
        let buyer = if id.starts_with(EVERYBODYS) { EVERYBODYS.into() } else { format!("buyer-{}", self.number) };
        let words = wire::cart(&sales, id, &buyer, call);
        (AboutCart { sales, id: id.to_owned(), call: call.clone() }, words)
    }
}
