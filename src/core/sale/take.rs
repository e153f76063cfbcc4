//! Taking units: `STOCK.DECR_ONCE`.

use super::Sale;
use super::answer::{Answer, Changes, Decision, Status};
use super::budget::Budget;
use super::change::{Change, NewOrder};
use super::orders::record::{Record, State};
use super::terms::Window;
use crate::core::id::{IdText, PackedId};
use crate::core::invariant::Known;
use crate::core::time::UnixMs;

/// A request of `STOCK.DECR_ONCE`.
#[derive(Clone, Copy, Debug)]
pub struct Take<'a> {
    /// The id of the order: 1 to 512 bytes.
    pub id: &'a [u8],
    /// Units: 1 to [`MAX_UNITS`](crate::core::limits::MAX_UNITS).
    pub units: u64,
    /// Whose limit they count against, 1 to 512 bytes; `None`: the id is its own buyer.
    pub buyer: Option<&'a [u8]>,
    /// With HOLD: `now.plus(hold)`. A time that does not exist is the caller's error, before any decision.
    pub deadline: Option<UnixMs>,
    /// At most 512 bytes; empty: none.
    pub reference: &'a [u8],
}

/// Why nothing can be taken for an id, whatever is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeError {
    /// The id holds or has bought units for another buyer: two callers chose the same id.
    OtherBuyer,
    /// The sale remembers as many orders as it can.
    Full {
        /// How many those are.
        orders: u64,
    },
}

impl Sale {
    /// Takes units for an id, once. Checked in this order: this id's order, the buyer's limit, the window, the stock.
    ///
    /// The cost does not grow with the number of orders; it grows with the expirations that the order needs, which are never many.
    ///
    /// # Errors
    ///
    /// When the order of the id is another buyer's: that is part of the first check. When no further order fits: that is checked last.
    #[inline]
    pub fn take<'a>(&self, now: UnixMs, budget: Budget, take: &Take<'a>) -> Result<Decision<'a>, TakeError> {
        let (mut answer, known) = self.look(now, take.id);
        let remaining = answer.remaining;
        if let Some((_, order)) = &known
            && !(self.terms.rebuy && matches!(answer.status, Status::Cancelled | Status::Expired))
        {
            let is_other = |buyer| !self.is_buyer(order, buyer);
            if matches!(answer.status, Status::Duplicate | Status::Queued) && take.buyer.is_some_and(is_other) {
                return Err(TakeError::OtherBuyer);
            }
            return Ok(answer.unchanged());
        }
        // Nothing but a limit asks for the buyer.
        let buyer = if self.terms.limit > 0 { PackedId::new(take.buyer.unwrap_or(take.id)) } else { None };
        if let Some((status, deadline)) = self.refusal(now, take, buyer.as_ref(), remaining) {
            return Ok(Answer { status, deadline, ..answer }.unchanged());
        }
        if known.is_none() && self.table.is_full() {
            return Err(TakeError::Full { orders: self.orders() });
        }
        let deadline = take.deadline.map(|deadline| self.after_cutoff(deadline));
        answer.status = Status::Ok;
        answer.units = take.units;
        answer.remaining = remaining.checked_sub(take.units).or_invariant("what remains was enough", 0);
        answer.deadline = deadline;
        answer.reference = IdText::from(take.reference);
        let due_first = self.needed(now, budget, known.as_ref(), buyer.as_ref(), [take.units; 2]);
        Ok(Decision { answer, changes: Changes { due_first, ..Changes::only(take.change(deadline)) } })
    }

    /// Why nothing can be taken at `now`. If the sale has not started yet, also when it starts.
    fn refusal(
        &self,
        now: UnixMs,
        take: &Take<'_>,
        buyer: Option<&PackedId<'_>>,
        remaining: u64,
    ) -> Option<(Status, Option<UnixMs>)> {
        if !self.within_limit(now, buyer, take.units) {
            return Some((Status::Limit, None));
        }
        match self.terms.window(now) {
            Window::Ahead(start) => Some((Status::NotStarted, Some(start))),
            Window::Over => Some((Status::Ended, None)),
            // While orders wait, no other order is sold anything.
            Window::Open if self.table.has_line() => Some((Status::SoldOut, None)),
            Window::Open if remaining >= take.units => None,
            Window::Open if remaining == 0 => Some((Status::SoldOut, None)),
            Window::Open => Some((Status::Insufficient, None)),
        }
    }

    /// Whether an order counts against the limit of this buyer.
    fn is_buyer(&self, order: &Record<'_>, buyer: &[u8]) -> bool {
        PackedId::new(buyer).is_some_and(|buyer| buyer == self.table.buyer_of(order))
    }

    /// Whether the buyer may have this many units more.
    pub(super) fn within_limit(&self, now: UnixMs, buyer: Option<&PackedId<'_>>, units: u64) -> bool {
        let limit = self.terms.limit;
        if limit == 0 {
            return true;
        }
        let has = buyer.map_or(0, |buyer| self.table.units_of(self.table.look_up(buyer), self.hold_time(now)));
        has.saturating_add(units) <= limit
    }
}

impl<'a> Take<'a> {
    /// The change that the words of the request spell, if they spell one: units are sold at once. They do not say when a hold ends.
    pub fn sold(&self) -> Option<Change<'a>> {
        self.deadline.is_none().then(|| self.change(None))
    }

    /// The change that takes the units, held until `deadline` if there is one.
    fn change(&self, deadline: Option<UnixMs>) -> Change<'a> {
        Change::Take { order: self.order(), deadline }
    }

    /// The order that takes the units or waits for them.
    pub(super) fn order(&self) -> NewOrder<'a> {
        let (id, buyer) = (IdText::from(self.id), self.buyer.map(IdText::from));
        NewOrder { id, units: self.units, buyer, reference: IdText::from(self.reference) }
    }
}

/// When an order's hold ends, if it is held at `now`.
pub(super) fn hold_end(order: &Record<'_>, now: UnixMs) -> Option<UnixMs> {
    (order.state_at(now) == State::Held).then_some(order.deadline)
}
