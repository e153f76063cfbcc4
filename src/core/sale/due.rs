//! What has to come before an order can take its units: the lapses of due holds, or a cutoff in their place.

use super::change::Change;
use super::cutoff::MOST;
use super::orders::BuyerLookup;
use super::orders::record::{Record, State};
use super::{Sale, lapse};
use crate::core::invariant::Known;
use crate::core::time::UnixMs;

/// The changes that an order needs first, as they are found.
pub(super) struct DueFirst<'s> {
    sale: &'s Sale,
    /// When holds are due that can lapse.
    now: UnixMs,
    changes: Vec<Change<'static>>,
    /// The orders that lapse, at most [`MOST`].
    numbers: Vec<u32>,
    /// Units to sell once they have.
    units: u64,
    /// It would be more lapses than one command may have.
    too_many: bool,
}

impl<'s> DueFirst<'s> {
    pub(super) fn new(sale: &'s Sale, now: UnixMs) -> Self {
        Self { sale, now, changes: Vec::new(), numbers: Vec::new(), units: sale.unsold(), too_many: false }
    }

    /// The lapse of an id's own earlier hold, which is due: its event comes before that of what the id does next.
    pub(super) fn by_itself(mut self, known: Option<&(u32, Record<'_>)>) -> Self {
        if let Some((number, order)) = known.filter(|(_, order)| order.state == State::Held) {
            self.lapse(*number, order);
        }
        self
    }

    /// The lapses without which a buyer would have more than the limit: whoever counts along with the events never sees
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
                self.lapse(number, &order);
            }
            has = has.checked_sub(order.units).or_invariant("a due hold counts among what its buyer has", 0);
        }
        self
    }

    /// The lapses, the earliest first, without which there are fewer than `units` to sell.
    pub(super) fn by_stock(mut self, units: u64) -> Vec<Change<'static>> {
        let over = self.sale.cutoff.map(|cutoff| cutoff.at);
        for (number, order) in self.sale.table.due(over, self.now) {
            if self.units >= units || self.too_many {
                break;
            }
            if !self.numbers.contains(&number) {
                self.lapse(number, &order);
            }
        }
        if self.too_many {
            self.changes.push(Change::Cutoff { at: self.now });
        }
        self.changes
    }

    fn lapse(&mut self, number: u32, order: &Record<'_>) {
        if self.changes.len() == MOST {
            self.too_many = true;
            return;
        }
        self.changes.push(lapse(order));
        self.numbers.push(number);
        // What is over gives back no units: they were free already.
        if !self.sale.is_over(order) {
            self.units = self.units.checked_add(order.units).or_invariant("no sum of a sale comes near 2^64", u64::MAX);
        }
    }
}
