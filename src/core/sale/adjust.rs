//! The seller's changes to a sale: `STOCK.ADJUST` and `STOCK.ALTER`.

use super::Sale;
use super::answer::Changes;
use super::budget::Budget;
use super::change::Change;
use super::due::DueFirst;
use super::terms::{Alteration, EmptyWindow, Terms};
use crate::core::id::IdText;
use crate::core::limits::MAX_UNITS;
use crate::core::time::UnixMs;

/// Why a total cannot be adjusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdjustError {
    /// More would be withdrawn than remains unsold.
    TooFew {
        /// What remains.
        remaining: u64,
    },
    /// The total would pass [`MAX_UNITS`].
    TooMany {
        /// What it is.
        total: u64,
    },
    /// The sale remembers as many adjustments as it can.
    Full {
        /// How many those are.
        adjustments: u64,
    },
    /// An order on the waitlist waits for more than the total would be.
    Wanted {
        /// For how much.
        units: u64,
    },
}

impl Sale {
    /// Adds `delta` units to the sale, or withdraws unsold ones if it is below zero. Returns what remains after it.
    ///
    /// With an `id` it happens once: the sale remembers the id, and asked again it changes nothing, whatever `delta` is. An empty `id` is
    /// none. Adjusting by zero is no event; without an id it changes nothing.
    ///
    /// # Errors
    ///
    /// When less than nothing would remain, the total would pass [`MAX_UNITS`] or be less than an order waits for, or no further id fits.
    pub fn adjust<'a>(&self, now: UnixMs, delta: i64, id: &'a [u8]) -> Result<(u64, Changes<'a>), AdjustError> {
        let (remaining, total) = (self.remaining(now), self.terms.total);
        if self.has_adjusted(id) {
            return Ok((remaining, Changes::default()));
        }
        let after = remaining.checked_add_signed(delta).ok_or(AdjustError::TooFew { remaining })?;
        if total.checked_add_signed(delta).is_none_or(|total| total > MAX_UNITS) {
            return Err(AdjustError::TooMany { total });
        }
        if !id.is_empty() && self.room_for_adjustments() == 0 {
            return Err(AdjustError::Full { adjustments: self.adjustments() });
        }
        let own = (delta != 0 || !id.is_empty()).then(|| Change::Adjust { delta, id: IdText::from(id) });
        if self.table.has_line() {
            return self.adjust_beside_line(now, delta, after, own);
        }
        let due_first =
            DueFirst::new(self, now, Budget::COMMAND).by_stock(if delta < 0 { delta.unsigned_abs() } else { 0 });
        Ok((after, Changes { due_first, own, served: Vec::new() }))
    }

    /// Adjusts a sale with a line: added units go to the line, and units that the line gets cannot be withdrawn.
    fn adjust_beside_line<'a>(
        &self,
        now: UnixMs,
        delta: i64,
        after: u64,
        own: Option<Change<'a>>,
    ) -> Result<(u64, Changes<'a>), AdjustError> {
        let (withdrawn, wanted) = (delta.min(0).unsigned_abs(), self.table.most_wanted());
        if withdrawn > 0 && self.terms.total.saturating_sub(withdrawn) < wanted {
            return Err(AdjustError::Wanted { units: wanted });
        }
        let mut serving = self.serving(now);
        if withdrawn > 0 && serving.is_open() {
            let (due_first, remaining) = self.catch_up(now);
            let after = remaining.checked_sub(withdrawn).ok_or(AdjustError::TooFew { remaining })?;
            return Ok((after, Changes { due_first, own, served: Vec::new() }));
        }
        let mut served = Vec::new();
        if delta > 0 {
            serving.give(delta.unsigned_abs(), &mut served);
        }
        let due_first = DueFirst::new(self, now, Budget::COMMAND).by_stock(withdrawn);
        Ok((serving.left_of(after), Changes { due_first, own, served }))
    }

    /// The sale's conditions with what `alteration` asks for. What was sold or held before stands, even above a lower
    /// limit. Nothing when they stay as they are. If the window is open then, waiting orders are served.
    ///
    /// # Errors
    ///
    /// When it moves the window's start or end so that nothing is left of it. A sale that has come with such a window can be altered
    /// in everything else.
    pub fn alter(&self, now: UnixMs, alteration: &Alteration) -> Result<Changes<'static>, EmptyWindow> {
        let Alteration { limit, start, end, rebuy } = *alteration;
        let before = &self.terms;
        let after = Terms {
            limit: limit.map_or(before.limit, |limit| limit.min(MAX_UNITS)),
            start: start.unwrap_or(before.start),
            end: end.unwrap_or(before.end),
            rebuy: rebuy.unwrap_or(before.rebuy),
            ..before.clone()
        };
        if start.is_some() || end.is_some() {
            after.check_window()?;
        }
        if after == *before {
            return Ok(Changes::default());
        }
        let (mut serving, mut served) = (self.serving_under(&after, now), Vec::new());
        serving.serve(&mut served);
        let Terms { limit, start, end, rebuy, .. } = after;
        let own = Some(Change::Alter { limit, start, end, rebuy });
        Ok(Changes { due_first: Vec::new(), own, served })
    }
}
