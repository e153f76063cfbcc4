//! The seller's changes to a sale: `STOCK.ADJUST` and `STOCK.ALTER`.

use super::Sale;
use super::answer::Changes;
use super::budget::Budget;
use super::change::Change;
use super::terms::{Alteration, EmptyWindow, Terms};
use crate::core::id::IdText;
use crate::core::invariant::Known;
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
    /// Adds `delta` units to the sale, or withdraws unsold ones if it is below zero. Returns the units that remain after the adjustment.
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
        let (added, withdrawn) = (delta.max(0).unsigned_abs(), delta.min(0).unsigned_abs());
        let mut serving = self.serving(now);
        // Units that the line gets cannot be withdrawn, in however many steps it gets them.
        let for_line = if withdrawn > 0 { serving.share_of(remaining) } else { 0 };
        let free = remaining.checked_sub(for_line).or_invariant("the line gets some of what remains", 0);
        let after = free.checked_add_signed(delta).ok_or(AdjustError::TooFew { remaining: free })?;
        if total.checked_add_signed(delta).is_none_or(|total| total > MAX_UNITS) {
            return Err(AdjustError::TooMany { total });
        }
        if !id.is_empty() && self.room_for_adjustments() == 0 {
            return Err(AdjustError::Full { adjustments: self.adjustments() });
        }
        let wanted = self.table.most_wanted();
        if withdrawn > 0 && total.saturating_sub(withdrawn) < wanted {
            return Err(AdjustError::Wanted { units: wanted });
        }
        let own = (delta != 0 || !id.is_empty()).then(|| Change::Adjust { delta, id: IdText::from(id) });
        let mut changes = Changes { due_first: Vec::new(), step: own.into_iter().collect() };
        // Added units go to the line.
        if added > 0 {
            changes.step.extend(serving.give(added));
            return Ok((serving.left_of(after), changes));
        }
        if withdrawn > 0 {
            changes.due_first = serving.serve();
            let needed = self.needed(now, Budget::COMMAND, None, None, [0, for_line.saturating_add(withdrawn)]);
            let (due, serving) = serving.within(Budget::COMMAND.after_ends(needed.len())).between(needed);
            changes.due_first.extend(due);
            let remaining = remaining.checked_sub(withdrawn).or_invariant("less is withdrawn than remains", 0);
            return Ok((serving.left_of(remaining), changes));
        }
        Ok((after, changes))
    }

    /// The sale's conditions with the changes of `alteration`. Units that were sold or held before stay so, even above a lower limit.
    /// Nothing when they stay as they are. If the window is open then, waiting orders are served.
    ///
    /// # Errors
    ///
    /// When it moves the window's start or end so that nothing is left of it. A sale that has come with such a window can be altered
    /// in everything else.
    pub fn alter<'a>(&self, now: UnixMs, alteration: &Alteration) -> Result<Changes<'a>, EmptyWindow> {
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
        let served = self.serving_under(&after, now).serve();
        let Terms { limit, start, end, rebuy, .. } = after;
        let mut changes = Changes::only(Change::Alter { limit, start, end, rebuy });
        changes.step.extend(served);
        Ok(changes)
    }
}
