//! Clients that wait for units of a sale that is sold out: they ask again, lose patience, pay, let their holds lapse, and restock what they
//! have bought, so that the others go on.

use super::shopper::{EVERYBODYS, LINE, TRIES};
use super::{Worker, read, with};
use crate::history::{AboutRestock, Outcome, SaleAnswer, SaleCall};
use crate::route::PATIENCE;
use crate::work::notes::Note;

/// How often a client looks whether it has been served before it loses patience.
const LOOKS: usize = 12;

impl Worker<'_> {
    /// One order that waits if it must, from its beginning to its end.
    pub(super) fn wait_in_line(&mut self) {
        let slice = self.route.clock.now() / 100_000;
        // A client that has bought a shared id restocks it, so all of them ask for the same.
        let (id, units) = if self.count.is_multiple_of(8) {
            (format!("{EVERYBODYS}-{slice}"), 1 + i64::try_from(slice % 3).expect("a few"))
        } else {
            (format!("{}-{}", self.number, self.count), self.random.i64(1..=3))
        };
        let hold = match self.random.u8(..10) {
            0 => None,
            1..8 => Some(self.span(10, 150)),
            _ => Some(self.span(300, 900)),
        };
        if self.chance(5) {
            // While orders wait, this one is told that nothing is left.
            self.order(LINE, &id, SaleCall::Take { units, hold });
        }
        let join = SaleCall::Join { units, hold };
        let Some(mut state) = self.line_state(&id, join) else { return };
        for _ in 0..LOOKS {
            if state != "QUEUED" && state != "waiting" {
                break;
            }
            self.rest(5, 60);
            let look = match self.random.u8(..10) {
                0..3 => join,
                3 => SaleCall::Confirm,
                _ => SaleCall::See,
            };
            let Some(seen) = self.line_state(&id, look) else { return };
            // A confirmation says what it has made of the order, a look what it was.
            state = if look == SaleCall::Confirm && seen == "OK" { "sold".into() } else { seen };
        }
        // What is sold stays so, and what has no deadline is not left alone: others wait for it.
        let bought = match state.as_str() {
            "sold" => hold.is_some(),
            "OK" | "DUPLICATE" | "held" if hold.is_some() && self.chance(30) => {
                self.line_state(&id, SaleCall::Confirm).is_some_and(|status| status == "OK")
            }
            _ => false,
        };
        if bought {
            return self.restock(&id, units);
        }
        if hold.is_none() || self.chance(80) {
            self.line_state(&id, SaleCall::Cancel);
        }
    }

    /// Asks until there is an answer, and returns its status, or the state that the order has.
    fn line_state(&mut self, id: &str, call: SaleCall) -> Option<String> {
        let answer = self.persist(TRIES, |worker| worker.order(LINE, id, call))?;
        Some(match answer {
            SaleAnswer::Status { status, .. } => status,
            SaleAnswer::Order(seen) => seen.map_or_else(String::new, |seen| seen.state),
        })
    }

    /// Adds as many units as an order has bought, once, however often it is asked for.
    fn restock(&mut self, id: &str, units: i64) {
        let id = format!("restock-{id}");
        self.persist(TRIES, |worker| worker.ask_restock(&id, units));
        if self.chance(30) {
            self.ask_restock(&id, units);
        }
    }

    fn ask_restock(&mut self, id: &str, units: i64) -> Outcome<i64> {
        let about = AboutRestock { sale: LINE.into(), id: id.into(), units };
        let words = format!("STOCK.ADJUST {LINE} {units} ID {id}");
        let op = self.line.ask(about, LINE, &words.into(), PATIENCE);
        let outcome = read(op.outcome.clone(), |reply| reply.int());
        self.record.note(Note::Restock(with(op, outcome.clone())));
        outcome
    }
}
