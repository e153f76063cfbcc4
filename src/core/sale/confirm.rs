//! The changes of an order: `STOCK.CONFIRM`, `STOCK.CANCEL`, `STOCK.EXTEND`. All three work outside the window too.

use super::answer::{Answer, Changes, Decision, Status};
use super::budget::Budget;
use super::change::Change;
use super::orders::record::{Record, State};
use super::take::hold_end;
use super::waitlist::Serving;
use super::{Sale, expire, reference};
use crate::core::id::IdText;
use crate::core::invariant::Known;
use crate::core::time::UnixMs;

/// An order was to be confirmed with more units than it holds, or held when it expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepError {
    /// How many those are.
    pub units: u64,
}

impl Sale {
    /// Makes a hold a sale; or makes `keep` of its units a sale, and gives the others back.
    ///
    /// After the deadline the order takes its units again, or only `keep` of them, if that harms no other order: a late payment is honoured
    /// where possible. It is refused if the units are gone (`EXPIRED`), or if the buyer has bought so much since that it would pass the
    /// limit (`LIMIT`). The shop then gives the money back. It may have done so when the same confirmation is delivered again, so a refusal
    /// is final: the sale remembers it.
    ///
    /// # Errors
    ///
    /// When the order, which can be confirmed yet, has or had fewer units than `keep`. Nothing is final then.
    pub fn confirm<'a>(
        &self,
        now: UnixMs,
        budget: Budget,
        id: &'a [u8],
        keep: Option<u64>,
    ) -> Result<Decision<'a>, KeepError> {
        let (mut answer, found) = self.look(now, id);
        let Some((number, order)) = found else { return Ok(answer.unchanged()) };
        let units = keep.unwrap_or(order.units);
        let own = Change::Confirm { id: IdText::from(id), units: keep };
        Ok(match order.state_at(self.hold_time(now)) {
            State::Sold | State::Cancelled | State::Waiting => answer.unchanged(),
            State::Expired if order.refused => answer.unchanged(),
            State::Held | State::Expired if units > order.units => return Err(KeepError { units: order.units }),
            State::Held if units < order.units => {
                answer.deadline = None;
                self.keep(now, answer, &order, id, units, Some(own))
            }
            State::Held => {
                answer.status = Status::Ok;
                answer.deadline = None;
                Decision { answer, changes: Changes::only(own) }
            }
            State::Expired => {
                let buyer = self.table.buyer_of(&order);
                if !self.within_limit(now, Some(&buyer), units) {
                    return Ok(self.refuse(now, budget, Answer { status: Status::Limit, ..answer }, id, &order));
                }
                // While orders wait, the units that remain are for them.
                let remaining = answer.remaining.checked_sub(units).filter(|_| !self.table.has_line());
                let Some(remaining) = remaining else { return Ok(self.refuse(now, budget, answer, id, &order)) };
                answer.status = Status::Ok;
                answer.units = units;
                answer.remaining = remaining;
                let due_first = self.needed(now, budget, Some(&(number, order)), Some(&buyer), [units; 2]);
                Decision { answer, changes: Changes { due_first, ..Changes::only(own) } }
            }
        })
    }

    /// Gives the units of a hold or a sale back, once, or all but `keep` of them; or has an order leave the waitlist. An order that waits
    /// keeps all or nothing.
    pub fn cancel<'a>(&self, now: UnixMs, budget: Budget, id: &'a [u8], keep: Option<u64>) -> Decision<'a> {
        let (answer, found) = self.look(now, id);
        let Some((number, order)) = found else { return answer.unchanged() };
        match (order.state_at(self.hold_time(now)), keep) {
            (State::Cancelled, _) => answer.with(Status::Duplicate),
            (State::Held | State::Sold, Some(keep)) if keep < order.units => {
                self.keep(now, answer, &order, id, keep, None)
            }
            (State::Expired, _) | (_, Some(_)) => answer.unchanged(),
            (State::Held | State::Sold | State::Waiting, None) => {
                let serving = self.serving(now).within(budget).without(number);
                let changes = Changes::only(Change::Cancel { id: IdText::from(id) });
                let back = answer.units;
                give_back(back, Answer { units: 0, deadline: None, ..answer }, changes, serving)
            }
        }
    }

    /// Leaves an order `units`, fewer than it has. The units that it gives back go to the line, after the order is `confirmed`.
    fn keep<'a>(
        &self,
        now: UnixMs,
        answer: Answer<'static>,
        order: &Record<'_>,
        id: &'a [u8],
        units: u64,
        confirmed: Option<Change<'a>>,
    ) -> Decision<'a> {
        let back = order.units.checked_sub(units).or_invariant("an order keeps less than it has", 0);
        let mut changes = Changes::only(Change::Keep { id: IdText::from(id), units });
        changes.step.extend(confirmed);
        give_back(back, Answer { units, ..answer }, changes, self.serving(now))
    }

    /// Moves the deadline of a live hold to `deadline`, the caller's `now.plus(span)`. It may come earlier than before.
    pub fn extend<'a>(&self, now: UnixMs, id: &'a [u8], deadline: UnixMs) -> Decision<'a> {
        let (mut answer, found) = self.look(now, id);
        if found.is_none_or(|(_, order)| order.state_at(self.hold_time(now)) != State::Held) {
            return answer.unchanged();
        }
        let deadline = self.after_cutoff(deadline);
        answer.status = Status::Ok;
        answer.deadline = Some(deadline);
        Decision { answer, changes: Changes::only(Change::Extend { id: IdText::from(id), deadline }) }
    }

    /// The order of this id, and the answer if nothing changes: the present state of the order, for every request.
    #[inline]
    pub(super) fn look(&self, now: UnixMs, id: &[u8]) -> (Answer<'static>, Option<(u32, Record<'_>)>) {
        let (found, at) = (self.order_of(id), self.hold_time(now));
        let order = found.as_ref().map(|(_, order)| order);
        let status = order.map_or(Status::NoOrder, |order| match order.state_at(at) {
            State::Held | State::Sold => Status::Duplicate,
            State::Cancelled => Status::Cancelled,
            State::Expired => Status::Expired,
            State::Waiting => Status::Queued,
        });
        let answer = Answer {
            status,
            units: order.map_or(0, |order| order.units_at(at)),
            remaining: self.remaining(now),
            deadline: order.and_then(|order| hold_end(order, at)),
            reference: order.map_or(IdText::NONE, reference),
        };
        (answer, found)
    }

    /// Makes a refusal final, independent of any clock: a hold that is over only by the clock expires first.
    fn refuse<'a>(
        &self,
        now: UnixMs,
        budget: Budget,
        refusal: Answer<'static>,
        id: &'a [u8],
        order: &Record<'_>,
    ) -> Decision<'a> {
        let due = order.state == State::Held && !self.is_over(order);
        let due_first = if due { vec![expire(order)] } else { Vec::new() };
        let (due_first, serving) = self.serving(now).within(budget.after_ends(due_first.len())).between(due_first);
        let answer = Answer { remaining: serving.left_of(refusal.remaining), ..refusal };
        Decision { answer, changes: Changes { due_first, ..Changes::only(Change::Refuse { id: IdText::from(id) }) } }
    }
}

/// Gives `back` so many units, to the line first: the last part of `changes`. `answer` is about the order that had them.
fn give_back<'a>(
    back: u64,
    answer: Answer<'static>,
    mut changes: Changes<'a>,
    mut serving: Serving<'_>,
) -> Decision<'a> {
    changes.step.extend(serving.give(back));
    let remaining = answer.remaining.checked_add(back).or_invariant("no sum of a sale comes near 2^64", u64::MAX);
    Decision { answer: Answer { status: Status::Ok, remaining: serving.left_of(remaining), ..answer }, changes }
}
