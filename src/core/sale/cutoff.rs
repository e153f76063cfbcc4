//! The cutoff of a sale: every hold whose deadline is not after this instant is over, whatever any clock says.
//!
//! The units of a due hold are free, but the table still counts them as held until the hold expires. So an order first lets those
//! due holds expire whose units it needs. That can be a hundred thousand, too many for one command. Then the order lets [`MOST_ENDED`](super::budget::MOST_ENDED) of
//! them expire and moves the cutoff to the present. The cutoff frees the units of all other due holds at once; the timer lets these
//! holds expire later.
//!
//! The cutoff is a change that is replicated, because the units of an ended hold may have been sold to another buyer. A replica whose
//! clock is behind may be promoted. If it went by its clock, it would take the ended hold for a live one, confirm it, and so sell its
//! units twice.

use super::Sale;
use super::change::InvalidChange;
use super::orders::record::{Record, State};
use crate::core::time::{Millis, UnixMs};

/// The instant up to which holds are over, though not all of them have expired yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cutoff {
    /// Every hold that ends here or before is over. Never the last instant of all, so that a hold can end after it.
    pub at: UnixMs,
    /// The units of those holds, modulo 2^64: the same units can be sold, held and over again any number of times.
    pub units: u64,
}

impl Cutoff {
    /// A cutoff that has ended no units yet; `None` at the last instant of all.
    pub fn new(at: UnixMs) -> Option<Self> {
        (at < UnixMs::MAX).then_some(Self { at, units: 0 })
    }
}

impl Sale {
    /// Holds are live if their deadline is after this instant: `now`, or the cutoff if the clock is behind it.
    pub(super) fn hold_time(&self, now: UnixMs) -> UnixMs {
        self.cutoff.map_or(now, |cutoff| cutoff.at.max(now))
    }

    /// Units that are neither sold nor held, by the table and not by any clock. A due hold counts as held until it expires or the
    /// cutoff ends it.
    pub(super) fn unsold(&self) -> u64 {
        self.unsold_if(self.cutoff.map_or(0, |cutoff| cutoff.units))
    }

    /// Whether this order is a hold that the cutoff has ended and that has not expired yet.
    pub(super) fn is_over(&self, order: &Record<'_>) -> bool {
        order.state == State::Held && self.ends_by_cutoff(order.deadline)
    }

    /// Whether the cutoff ends a hold with this deadline.
    pub(super) fn ends_by_cutoff(&self, deadline: UnixMs) -> bool {
        self.cutoff.is_some_and(|cutoff| deadline.reached(cutoff.at))
    }

    /// The deadline of a new hold: `deadline`, but after the cutoff, even if the clock is behind it. No hold is over before it begins.
    pub(super) fn after_cutoff(&self, deadline: UnixMs) -> UnixMs {
        let first = self.cutoff.and_then(|cutoff| cutoff.at.plus(Millis(1)));
        first.map_or(deadline, |first| deadline.max(first))
    }

    /// Moves the cutoff forward, never back.
    pub(super) fn move_cutoff(&mut self, at: UnixMs) -> Result<(), InvalidChange> {
        let cutoff = Cutoff::new(at).ok_or(InvalidChange::Range)?;
        if self.cutoff.is_none_or(|known| known.at < at) {
            self.cutoff = Some(Cutoff { units: self.table.due_units(at), ..cutoff });
        }
        Ok(())
    }

    /// Counts the units of ended holds anew, when one of them expires or is loaded.
    pub(super) fn recount_over(&mut self, recount: impl FnOnce(u64) -> u64) {
        if let Some(cutoff) = &mut self.cutoff {
            cutoff.units = recount(cutoff.units);
        }
    }

    /// Forgets the cutoff when every hold that it ended has expired. Before the sale is whole, more of these may be loaded.
    pub(super) fn retire_cutoff(&mut self) {
        if self.is_whole() && self.table.next_deadline().is_none_or(|first| !self.ends_by_cutoff(first)) {
            self.cutoff = None;
        }
    }
}
