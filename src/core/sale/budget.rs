//! How much one command does for other orders than its own: it ends due holds and serves the line. The timer does the rest.

use super::answer::Changes;
use super::change::Change;

/// How many due holds one command lets expire at most.
pub(super) const MOST_ENDED: usize = if cfg!(test) { 2 } else { 128 };

/// How many orders one command serves at most: with a stream and usual names less than a millisecond, with the longest names two to three.
/// The timer serves the others, and until then the sale sells to no other order.
pub(super) const MOST_SERVED: usize = if cfg!(test) { 3 } else { 100 };

/// How many fewer orders a command serves for each hold that it lets expire. To serve so many orders takes as long as to expire one hold.
pub(super) const SERVICES_OF_AN_END: usize = if cfg!(test) { 1 } else { 2 };

/// How much a command may still do for other orders. The sales of one command share it.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// How many due holds it may let expire; after that a cutoff ends the others.
    pub(super) expirations: usize,
    /// How many waiting orders it may serve; no other order gets units until the timer has served the rest.
    pub(super) services: usize,
}

impl Budget {
    /// That of a whole command.
    pub const COMMAND: Self = Self { expirations: MOST_ENDED, services: MOST_SERVED };

    /// The rest of the budget after so many holds have expired.
    pub(super) fn after_ends(self, ended: usize) -> Self {
        Self {
            expirations: self.expirations.saturating_sub(ended),
            services: self.services.saturating_sub(ended.saturating_mul(SERVICES_OF_AN_END)),
        }
    }

    /// The rest of the budget after `changes`.
    #[must_use]
    pub fn after(self, changes: &Changes<'_>) -> Self {
        let count = |is: fn(&Change<'_>) -> bool| changes.iter().filter(|change| is(change)).count();
        let ended = count(|change| matches!(change, Change::Expire { .. }));
        let served = count(|change| matches!(change, Change::Serve { .. }));
        let rest = self.after_ends(ended);
        Self { services: rest.services.saturating_sub(served), ..rest }
    }
}
