//! The waitlist: `STOCK.DECR_ONCE … WAITLIST`, and which orders are served when units come back.
//!
//! Orders are served strictly in line. While orders wait, no other order takes the remaining units. A command that has units come back
//! serves the line in the same step; the timer does it for expirations, and when the window opens. An order is served with units that no
//! hold has any more, so every `expire` is in the stream before the `ok` of the order that gets its units, even after a cutoff.

use super::Sale;
use super::answer::{Answer, Changes, Decision, Status};
use super::budget::{Budget, MOST_SERVED};
use super::change::Change;
use super::orders::BEGINNING;
use super::orders::record::Record;
use super::take::{Take, TakeError};
use super::terms::{Terms, Window};
use crate::core::id::{IdText, PackedId};
use crate::core::invariant::Known;
use crate::core::time::UnixMs;

impl Sale {
    /// Takes units for an id as [`Sale::take`] does; if they are not there, the order joins the waitlist instead.
    ///
    /// # Errors
    ///
    /// As [`Sale::take`].
    pub fn take_or_wait<'a>(&self, now: UnixMs, take: &Take<'a>) -> Result<Decision<'a>, TakeError> {
        let decision = self.take(now, Budget::COMMAND, take)?;
        match decision.answer.status {
            Status::SoldOut | Status::Insufficient if take.units <= self.terms.total => {
                self.join(now, take, &decision.answer)
            }
            // It would wait for ever.
            Status::SoldOut | Status::Insufficient => Ok(decision.answer.with(Status::Insufficient)),
            _ => Ok(decision),
        }
    }

    /// Puts an order behind the line.
    fn join<'a>(&self, now: UnixMs, take: &Take<'a>, refusal: &Answer<'a>) -> Result<Decision<'a>, TakeError> {
        let known = self.order_of(take.id);
        if known.is_none() && self.table.is_full() {
            return Err(TakeError::Full { orders: self.orders() });
        }
        let buyer = PackedId::new(take.buyer.unwrap_or(take.id));
        let first = self.needed(now, Budget::COMMAND, known.as_ref(), buyer.as_ref(), [take.units, 0]);
        let (due_first, serving) = self.serving(now).within(Budget::COMMAND.after_ends(first.len())).between(first);
        let reference = IdText::from(take.reference);
        let answer = Answer {
            status: Status::Queued,
            remaining: serving.left_of(refusal.remaining),
            reference,
            ..refusal.clone()
        };
        let own = Change::Wait { order: take.order(), hold: take.deadline.map(|deadline| deadline.left(now)) };
        Ok(Decision { answer, changes: Changes { due_first, ..Changes::only(own) } })
    }

    /// How many orders wait.
    pub fn waiting(&self) -> u64 {
        u64::try_from(self.table.waiting()).unwrap_or(u64::MAX)
    }

    /// The place in line of the order of this id, 1 for the next to be served; `None` if it does not wait.
    pub fn place(&self, id: &[u8]) -> Option<u64> {
        let (number, _) = self.order_of(id).filter(|(_, order)| order.waits())?;
        u64::try_from(self.table.place(number)?).ok()?.checked_add(1)
    }

    /// When the timer has something to do: a hold expires, or the window opens for an order that can be served. Nothing is due in a sale that
    /// is not whole. The clock is read only if orders wait.
    pub fn next_due(&self, now: impl FnOnce() -> UnixMs) -> Option<UnixMs> {
        if !self.is_whole() {
            return None;
        }
        let expiration = self.next_expiration();
        if !self.table.has_line() || !self.may_serve() {
            return expiration;
        }
        let service = match self.terms.window(now()) {
            Window::Open => Some(BEGINNING),
            Window::Ahead(start) => Some(start),
            Window::Over => None,
        };
        expiration.into_iter().chain(service).min()
    }

    /// Whether there is enough for the first in line, whatever the time is.
    pub fn may_serve(&self) -> bool {
        let head = self.table.in_line(0).filter(|_| self.is_whole());
        head.is_some_and(|(_, order)| order.units <= self.serving_under(&self.terms, BEGINNING).free())
    }

    /// The changes that are due at `now`: queued orders that now fit, and up to `most` expirations, the earliest first, with the orders
    /// that are served after each. The server's timer commits them.
    pub fn overdue(&self, now: UnixMs, most: usize) -> Vec<Change<'static>> {
        if !self.is_whole() {
            return Vec::new();
        }
        let expirations = self.expirations(now, most);
        if !self.table.has_line() {
            return expirations;
        }
        let mut serving = Serving { most, ..self.serving(now) };
        let mut changes = serving.serve();
        let rest = most.saturating_sub(changes.len());
        let serving = Serving { most: MOST_SERVED, ..serving };
        changes.extend(serving.between(expirations.into_iter().take(rest).collect()).0);
        changes
    }

    /// Serves the line as it is at `now`.
    pub(super) fn serving(&self, now: UnixMs) -> Serving<'_> {
        self.serving_under(&self.terms, now)
    }

    /// Serves the line as it would be at `now` under these conditions.
    pub(super) fn serving_under(&self, terms: &Terms, now: UnixMs) -> Serving<'_> {
        let open = self.table.has_line() && self.is_whole() && terms.window(now) == Window::Open;
        let (units, over) = (self.unsold(), self.cutoff.map_or(0, |cutoff| cutoff.units));
        Serving { sale: self, now, open, without: None, place: 0, units, over, served: 0, most: MOST_SERVED }
    }

    /// How many orders are loaded, and how many the sale is to have; `None` if that is all of them.
    pub fn loaded_so_far(&self) -> Option<(u64, u64)> {
        (!self.is_whole()).then(|| (self.orders(), self.expected.into()))
    }

    /// Whether all orders are loaded that the sale is to have.
    pub(super) fn is_whole(&self) -> bool {
        self.table.orders.len() >= self.expected
    }
}

/// Serves the line of a sale with the units that come back.
pub(super) struct Serving<'s> {
    sale: &'s Sale,
    /// The instant at which orders are served.
    now: UnixMs,
    /// Whether orders are served at all.
    open: bool,
    /// An order that leaves the line in this step.
    without: Option<u32>,
    /// How many in line have been served or passed over.
    place: usize,
    /// Units that no order has.
    units: u64,
    /// How many of them are still in holds that the cutoff has ended.
    over: u64,
    /// Units of the orders that were served.
    served: u64,
    /// How many more may be served.
    most: usize,
}

impl Serving<'_> {
    /// The line without an order that leaves it in this step.
    pub fn without(self, number: u32) -> Self {
        Self { without: Some(number), ..self }
    }

    /// Serves no more orders than the budget has left.
    pub fn within(self, budget: Budget) -> Self {
        Self { most: self.most.min(budget.services), ..self }
    }

    /// How many of the units that remain go to the line, in this step and later ones.
    pub fn share_of(&self, remaining: u64) -> u64 {
        if self.open { self.sale.table.line_gets(remaining) } else { 0 }
    }

    /// Has units come back, and serves the orders that get them.
    pub fn give(&mut self, units: u64) -> Vec<Change<'static>> {
        self.units = self.units.checked_add(units).or_invariant("no sum of a sale comes near 2^64", u64::MAX);
        self.serve()
    }

    /// Puts behind each expiration the orders that are served with its units.
    pub fn between(mut self, expirations: Vec<Change<'static>>) -> (Vec<Change<'static>>, Self) {
        if !self.open {
            return (expirations, self);
        }
        let mut changes = Vec::with_capacity(expirations.len());
        for change in expirations {
            let expired = if let Change::Expire { id } = &change { self.sale.order_of(id) } else { None };
            changes.push(change);
            let Some((_, order)) = expired else { continue };
            if self.sale.is_over(&order) {
                self.over = self.over.wrapping_sub(order.units);
                changes.extend(self.serve());
            } else {
                changes.extend(self.give(order.units));
            }
        }
        (changes, self)
    }

    /// The rest of these units after waiting orders were served.
    pub fn left_of(&self, remaining: u64) -> u64 {
        remaining.checked_sub(self.served).or_invariant("who is served takes what remains", 0)
    }

    /// Units that no hold has.
    fn free(&self) -> u64 {
        self.units.saturating_sub(self.over)
    }

    /// Serves from the front while there is enough.
    pub fn serve(&mut self) -> Vec<Change<'static>> {
        let mut changes = Vec::new();
        while self.open
            && self.most > 0
            && let Some((number, order)) = self.sale.table.in_line(self.place)
        {
            if self.without != Some(number) {
                if order.units > self.free() {
                    break;
                }
                self.units = self.units.saturating_sub(order.units);
                self.served = self.served.saturating_add(order.units);
                self.most = self.most.saturating_sub(1);
                changes.push(self.service(&order));
            }
            self.place = self.place.saturating_add(1);
        }
        changes
    }

    /// The change that serves an order. Its hold begins now.
    fn service(&self, order: &Record<'_>) -> Change<'static> {
        let deadline = order.ticket.hold.map(|hold| self.now.plus(hold).unwrap_or(UnixMs::MAX));
        let deadline = deadline.map(|deadline| self.sale.after_cutoff(deadline));
        Change::Serve { id: order.id.unpack().detach(), deadline }
    }
}
