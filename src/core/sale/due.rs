//! What has to come before an order can take its units: the expirations of due holds, or a cutoff in their place.

use super::change::Change;
use super::cutoff::MOST;
use super::orders::BuyerLookup;
use super::orders::record::{Record, State};
use super::{Sale, expire};
use crate::core::invariant::Known;
use crate::core::time::UnixMs;

/// The changes that an order needs first, as they are found.
pub(super) struct DueFirst<'s> {
    sale: &'s Sale,
    /// When holds are due that can expire.
    now: UnixMs,
    changes: Vec<Change<'static>>,
    /// The orders that expire, at most [`MOST`].
    numbers: Vec<u32>,
    /// Units to sell once they have.
    units: u64,
    /// It would be more expirations than one command may have.
    too_many: bool,
}

impl<'s> DueFirst<'s> {
    pub(super) fn new(sale: &'s Sale, now: UnixMs) -> Self {
        Self { sale, now, changes: Vec::new(), numbers: Vec::new(), units: sale.unsold(), too_many: false }
    }

    /// The expiration of an id's own earlier hold, which is due: its event comes before that of what the id does next.
    pub(super) fn by_itself(mut self, known: Option<&(u32, Record<'_>)>) -> Self {
        if let Some((number, order)) = known.filter(|(_, order)| order.state == State::Held) {
            self.expire(*number, order);
        }
        self
    }

    /// The expirations without which a buyer would have more than the limit: whoever counts along with the events never sees
    /// that, the cutoff aside.
    pub(super) fn by_buyer(mut self, lookup: BuyerLookup, units: u64) -> Self {
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

    /// The expirations, the earliest first, without which there are fewer than `units` to sell.
    pub(super) fn by_stock(mut self, units: u64) -> Vec<Change<'static>> {
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
        if self.changes.len() == MOST {
            self.too_many = true;
            return;
        }
        self.changes.push(expire(order));
        self.numbers.push(number);
        // What is over gives back no units: they were free already.
        if !self.sale.is_over(order) {
            self.units = self.units.checked_add(order.units).or_invariant("no sum of a sale comes near 2^64", u64::MAX);
        }
    }
}
