//! Clients that buy: they reserve, pay, change their minds, come too late, and ask again after a lost reply.

use super::Worker;
use crate::history::{SaleAnswer, SaleCall};

/// The sales with their totals: one that is never sold out, one that always nearly is, and one that has a line.
pub const SALES: [(&str, i64); 3] = [("{sale}many", 1_000_000), ("{sale}few", 12), (LINE, 3)];

/// The sale in which orders wait.
pub const LINE: &str = "{sale}line";

/// The streams of the sales.
pub const EVENTS: [&str; 3] = ["{sale}many:events", "{sale}few:events", "{sale}line:events"];

/// The beginning of the ids that clients share.
pub const EVERYBODYS: &str = "all";

/// How often a client asks before it leaves an order alone.
pub(super) const TRIES: usize = 6;

impl Worker<'_> {
    /// One order, from its beginning to its end.
    pub(super) fn shop(&mut self) {
        if self.chance(25) {
            return self.wait_in_line();
        }
        let few = self.chance(30);
        let sale = SALES[usize::from(few)].0;
        // Some ids are shared, and several clients want them at the same time.
        let slice = self.route.clock.now() / 100_000;
        let id = if self.count.is_multiple_of(8) {
            format!("{EVERYBODYS}-{slice}")
        } else {
            format!("{}-{}", self.number, self.count)
        };
        let hold = match self.random.u8(..10) {
            0..3 if !few => None,
            0..7 => Some(self.span(10, 150)),
            // Longer than any scene: at its end, nothing lapses while its books are read.
            _ => Some(self.span(600_000, 700_000)),
        };
        let units = self.random.i64(1..=3);
        let take = SaleCall::Take { units, hold };
        let Some(SaleAnswer::Status { status, .. }) = self.persist(TRIES, |shopper| shopper.order(sale, &id, take))
        else {
            return;
        };
        if !matches!(status.as_str(), "OK" | "DUPLICATE") {
            return;
        }
        match self.random.u8(..100) {
            0..8 => {
                self.order(sale, &id, take);
            }
            8..14 => {
                self.order(sale, &id, SaleCall::See);
            }
            14..20 => {
                let longer = self.span(20, 200);
                self.order(sale, &id, SaleCall::Extend(longer));
            }
            // Until after the deadline, perhaps.
            20..26 => self.rest(20, 180),
            _ => {}
        }
        // A refund of a part, or none if there are fewer.
        if self.chance(15) {
            let keep = SaleCall::CancelKeep(self.random.i64(1..=2));
            self.persist(TRIES, |shopper| shopper.order(sale, &id, keep));
        }
        // Units of the small sale come back, for another client to have a turn.
        let settle = match self.random.u8(..10) {
            0..4 if !few => SaleCall::Confirm,
            4 if !few => SaleCall::ConfirmKeep(1),
            0..8 => SaleCall::Cancel,
            8 => SaleCall::See,
            _ => return,
        };
        self.persist(TRIES, |shopper| shopper.order(sale, &id, settle));
        if self.chance(10) {
            self.order(sale, &id, settle);
        }
    }
}
