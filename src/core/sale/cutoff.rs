//! The cutoff of a sale: an instant up to which holds are over, whatever any clock says.
//!
//! A hold that is due is free to others, but in the table it is still held until it expires, and only what the table
//! calls unsold can be taken. So an order lets the due holds expire that it needs, before it takes their units. It may need
//! a hundred thousand, though, and no command takes that long. Then it lets [`MOST`] of them expire and moves the cutoff to
//! its own instant for the others: from there on their units are unsold for everybody, and the timer lets them expire as
//! it comes to it.
//!
//! The cutoff is a change like any other and not a look at the clock, because the units of a hold that is over may be
//! somebody else's: a replica that is promoted with a clock that is behind must not take such a hold for live, for
//! then it would confirm it and sell its units twice.

use super::Sale;
use super::change::InvalidChange;
use super::orders::record::{Record, State};
use crate::core::time::{Millis, UnixMs};

/// The most due holds that one command lets expire itself.
pub(super) const MOST: usize = if cfg!(test) { 2 } else { 128 };

/// Where holds are over that have not expired yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cutoff {
    /// Every hold that ends here or before is over. Never the last instant of all, so that a hold can end after it.
    pub at: UnixMs,
    /// What those holds amount to. Modulo 2^64: their units may have been sold and held and be over again, any
    /// number of times.
    pub units: u64,
}

impl Cutoff {
    /// A cutoff before it is known what is over by it; `None` if there cannot be one.
    pub fn new(at: UnixMs) -> Option<Self> {
        (at < UnixMs::MAX).then_some(Self { at, units: 0 })
    }
}

impl Sale {
    /// The instant whose holds are the live ones: now, or the cutoff where the clock is behind it.
    pub(super) fn hold_time(&self, now: UnixMs) -> UnixMs {
        self.cutoff.map_or(now, |cutoff| cutoff.at.max(now))
    }

    /// Units that are neither sold nor held, which can be taken without a look at the clock. Due holds count as held until
    /// they expire or are over by the cutoff.
    pub(super) fn unsold(&self) -> u64 {
        self.left(self.cutoff.map_or(0, |cutoff| cutoff.units))
    }

    /// Whether the cutoff has ended a hold that has not expired yet.
    pub(super) fn is_over(&self, order: &Record<'_>) -> bool {
        order.state == State::Held && self.ends_by_cutoff(order.deadline)
    }

    /// Whether a hold with this deadline is over.
    pub(super) fn ends_by_cutoff(&self, deadline: UnixMs) -> bool {
        self.cutoff.is_some_and(|cutoff| deadline.reached(cutoff.at))
    }

    /// A new deadline: this one, or the first after the cutoff where the clock has not come that far. A new hold is not over
    /// before it began.
    pub(super) fn after_cutoff(&self, deadline: UnixMs) -> UnixMs {
        let first = self.cutoff.and_then(|cutoff| cutoff.at.plus(Millis(1)));
        first.map_or(deadline, |first| deadline.max(first))
    }

    /// Moves the cutoff forward, never back.
    pub(super) fn move_cutoff(&mut self, at: UnixMs) -> Result<(), InvalidChange> {
        let cutoff = Cutoff::new(at).ok_or(InvalidChange::Range)?;
        if self.cutoff.is_none_or(|known| known.at < at) {
            self.cutoff = Some(Cutoff { units: self.table.due_sum(at).units, ..cutoff });
        }
        Ok(())
    }

    /// Notes that a hold that was over has expired, or that a snapshot has one.
    pub(super) fn recount_over(&mut self, recount: impl FnOnce(u64) -> u64) {
        if let Some(cutoff) = &mut self.cutoff {
            cutoff.units = recount(cutoff.units);
        }
    }

    /// Forgets the cutoff once everything before it has expired.
    pub(super) fn retire_cutoff(&mut self) {
        if self.table.next_deadline().is_none_or(|first| !self.ends_by_cutoff(first)) {
            self.cutoff = None;
        }
    }
}
