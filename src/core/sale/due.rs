//! Before an order can take units that due holds still have, these holds expire; if they are too many, a cutoff ends them.

use super::budget::Budget;
use super::change::Change;
use super::orders::BuyerLookup;
use super::orders::record::{Record, State};
use super::{Sale, expire};
use crate::core::id::PackedId;
use crate::core::invariant::Known;
use crate::core::time::UnixMs;

impl Sale {
    /// The changes that come before an order which counts as `for_buyer` units against the limit and takes `of_stock` units. First the id's
    /// own earlier hold expires, then due holds of its buyer until the order fits the limit, then those whose units it gets, each time in the
    /// order of their deadlines.
    pub(super) fn needed(
        &self,
        now: UnixMs,
        budget: Budget,
        known: Option<&(u32, Record<'_>)>,
        buyer: Option<&PackedId<'_>>,
        [for_buyer, of_stock]: [u64; 2],
    ) -> Vec<Change<'static>> {
        let at = self.hold_time(now);
        if self.table.next_deadline().is_none_or(|deadline| !deadline.reached(at)) {
            return Vec::new();
        }
        let lookup = buyer.map_or(BuyerLookup::Nobody, |buyer| self.table.look_up(buyer));
        DueFirst::new(self, now, budget).by_itself(known).by_buyer(lookup, for_buyer).by_stock(of_stock)
    }
}

/// Collects the changes that an order needs first.
struct DueFirst<'s> {
    sale: &'s Sale,
    /// The instant at which holds are due.
    now: UnixMs,
    changes: Vec<Change<'static>>,
    /// The orders that expire.
    numbers: Vec<u32>,
    /// Units that can be taken after the changes so far.
    units: u64,
    /// How many more may expire.
    left: usize,
    /// The order needs more expirations than that.
    too_many: bool,
}

impl<'s> DueFirst<'s> {
    fn new(sale: &'s Sale, now: UnixMs, budget: Budget) -> Self {
        let (units, left) = (sale.unsold(), budget.expirations);
        Self { sale, now, changes: Vec::new(), numbers: Vec::new(), units, left, too_many: false }
    }

    /// Lets the id's own earlier hold expire, which is due, whatever the budget is: readers of the stream see its end before the id's next
    /// event.
    fn by_itself(mut self, known: Option<&(u32, Record<'_>)>) -> Self {
        if let Some((number, order)) = known.filter(|(_, order)| order.state == State::Held) {
            self.left = self.left.max(1);
            self.expire(*number, order);
        }
        self
    }

    /// Lets due holds of the buyer expire until the order fits the limit. So a reader that counts the units of the events never sees a
    /// buyer above the limit, except after a cutoff.
    fn by_buyer(mut self, lookup: BuyerLookup, units: u64) -> Self {
        let Sale { terms, table, cutoff, .. } = self.sale;
        if terms.limit == 0 {
            return self;
        }
        let over = cutoff.map(|cutoff| cutoff.at);
        let mut has = over.map_or(table.counted(lookup), |over| table.units_of(lookup, over)).saturating_add(units);
        for (number, order) in table.due_of(lookup, over, self.now) {
            if has <= terms.limit || self.too_many {
                break;
            }
            if !self.numbers.contains(&number) {
                self.expire(number, &order);
            }
            has = has.checked_sub(order.units).or_invariant("a due hold counts among what its buyer has", 0);
        }
        self
    }

    /// Lets due holds expire, the earliest first, until `units` can be taken.
    fn by_stock(mut self, units: u64) -> Vec<Change<'static>> {
        let over = self.sale.cutoff.map(|cutoff| cutoff.at);
        for (number, order) in self.sale.table.due(over, self.now) {
            if self.units >= units || self.too_many {
                break;
            }
            if !self.numbers.contains(&number) {
                self.expire(number, &order);
            }
        }
        if self.too_many {
            self.changes.push(Change::Cutoff { at: self.now });
        }
        self.changes
    }

    fn expire(&mut self, number: u32, order: &Record<'_>) {
        let Some(left) = self.left.checked_sub(1) else {
            self.too_many = true;
            return;
        };
        self.left = left;
        self.changes.push(expire(order));
        self.numbers.push(number);
        // The units of a hold that the cutoff has ended are free already.
        if !self.sale.is_over(order) {
            self.units = self.units.checked_add(order.units).or_invariant("no sum of a sale comes near 2^64", u64::MAX);
        }
    }
}
