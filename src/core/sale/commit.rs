//! Making a change true. Nothing is decided here, no clock is read, and whatever does not fit changes nothing.

use super::change::{Change, Event, InvalidChange, NewOrder};
use super::orders::record::{BuyerRef, Record, State, Ticket};
use super::{Sale, reference};
use crate::core::id::IdText;
use crate::core::id::PackedId;
use crate::core::limits::{MAX_SEQ, MAX_UNITS};
use crate::core::time::{Millis, UnixMs};

/// Deadline of whatever is not held.
const NEVER: UnixMs = UnixMs(0);

impl Sale {
    /// Makes a change true.
    ///
    /// The same changes in the same order make the same sale, wherever they are committed. A hold that is due is still
    /// held here until its [`Change::Expire`] or a [`Change::Cutoff`]: its units cannot be taken before.
    ///
    /// # Errors
    ///
    /// When the change does not fit, as one from a damaged file or a hostile caller might not: then nothing has changed.
    pub fn commit(&mut self, change: &Change<'_>) -> Result<(), InvalidChange> {
        if self.make(change)? {
            // Stays where a snapshot can carry it, even if it came from a forged one.
            self.seq = self.seq.saturating_add(1).min(MAX_SEQ);
        }
        self.retire_cutoff();
        self.revision = self.revision.wrapping_add(1);
        Ok(())
    }

    /// Commits a change that another server decided, or this one in an earlier life: it counts for nothing here.
    ///
    /// # Errors
    ///
    /// As [`Sale::commit`].
    pub fn replay(&mut self, change: &Change<'_>) -> Result<(), InvalidChange> {
        let counters = self.counters;
        let done = self.commit(change);
        self.counters = counters;
        done
    }

    /// Makes a change true and says whether it has a number.
    fn make(&mut self, change: &Change<'_>) -> Result<bool, InvalidChange> {
        match change {
            Change::Take { order, deadline } => self.commit_take(order, *deadline)?,
            Change::Wait { order, hold } => self.commit_wait(order, *hold)?,
            Change::Serve { id, deadline } => self.commit_serve(id, *deadline)?,
            Change::Confirm { id, units } => self.commit_confirm(id, *units)?,
            Change::Keep { id, units } => self.commit_keep(id, *units)?,
            Change::Cancel { id } => self.commit_cancel(id)?,
            Change::Expire { id } => self.commit_expire(id)?,
            Change::Adjust { delta, id } => {
                self.commit_adjust(*delta, id)?;
                return Ok(*delta != 0);
            }
            Change::Extend { id, deadline } => {
                self.commit_extend(id, *deadline)?;
                return Ok(self.terms.tells_deadlines());
            }
            Change::Refuse { id } => return self.commit_refuse(id).map(|()| false),
            Change::Cutoff { at } => return self.move_cutoff(*at).map(|()| false),
            Change::Alter { limit, start, end, rebuy } => {
                if *limit > MAX_UNITS {
                    return Err(InvalidChange::Range);
                }
                (self.terms.limit, self.terms.start, self.terms.end) = (*limit, *start, *end);
                self.terms.rebuy = *rebuy;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A hold becomes a sale. An order that has expired takes its units again, or as many of them as are named, if they are still there.
    fn commit_confirm(&mut self, id: &[u8], named: Option<u64>) -> Result<(), InvalidChange> {
        let (number, order) = self.settled_that(id, |_| true)?;
        let units = named.unwrap_or(order.units);
        match order.state {
            State::Held if units == order.units => {}
            State::Expired if order.refused => return Err(InvalidChange::State),
            State::Expired if (1..=order.units.min(self.unsold())).contains(&units) => {}
            State::Held | State::Expired => return Err(InvalidChange::Units),
            State::Sold | State::Cancelled | State::Waiting => return Err(InvalidChange::State),
        }
        if units < order.units {
            self.table.set_units(number, units);
        }
        self.table.set_state(number, State::Sold, NEVER);
        count(&mut self.counters.confirmed);
        Ok(())
    }

    /// An order that has expired can never be confirmed any more.
    fn commit_refuse(&mut self, id: &[u8]) -> Result<(), InvalidChange> {
        let may = |order: &Record<'_>| !order.refused && (order.state == State::Expired || self.is_over(order));
        let (number, _) = self.order_that(id, may)?;
        self.table.refuse(number);
        Ok(())
    }

    fn commit_cancel(&mut self, id: &[u8]) -> Result<(), InvalidChange> {
        let (number, _) = self.settled_that(id, |order| !order.ended())?;
        self.table.set_state(number, State::Cancelled, NEVER);
        count(&mut self.counters.cancelled);
        Ok(())
    }

    fn commit_keep(&mut self, id: &[u8], units: u64) -> Result<(), InvalidChange> {
        let (number, order) = self.settled_that(id, |order| matches!(order.state, State::Held | State::Sold))?;
        if !(1..order.units).contains(&units) {
            return Err(InvalidChange::Units);
        }
        self.table.set_units(number, units);
        Ok(())
    }

    fn commit_extend(&mut self, id: &[u8], deadline: UnixMs) -> Result<(), InvalidChange> {
        let (number, _) = self.settled_that(id, |order| order.state == State::Held)?;
        let (state, deadline) = self.state_until(Some(deadline))?;
        self.table.set_state(number, state, deadline);
        Ok(())
    }

    fn commit_expire(&mut self, id: &[u8]) -> Result<(), InvalidChange> {
        let (number, order) = self.order_that(id, |order| order.state == State::Held)?;
        let (over, units) = (self.is_over(&order), order.units);
        self.table.set_state(number, State::Expired, NEVER);
        if over {
            self.recount_over(|over| over.wrapping_sub(units));
        }
        count(&mut self.counters.expired);
        Ok(())
    }

    fn commit_adjust(&mut self, delta: i64, id: &[u8]) -> Result<(), InvalidChange> {
        let id = if id.is_empty() { None } else { Some(self.new_adjustment(id)?) };
        self.unsold().checked_add_signed(delta).ok_or(InvalidChange::Units)?;
        let total = self.terms.total.checked_add_signed(delta).ok_or(InvalidChange::Units)?;
        if total > MAX_UNITS || total < self.table.most_wanted() {
            return Err(InvalidChange::Range);
        }
        self.terms.total = total;
        if let Some(id) = id {
            self.remember_adjustment(&id);
        }
        Ok(())
    }

    /// The stream's entry of a change that is about to be committed; `None` for changes that make none. The first
    /// change of a decision has the number [`Sale::seq`] plus one, the next that makes an entry one more.
    ///
    /// All changes of a decision can be asked for before any is committed.
    pub fn event<'a>(&'a self, change: &'a Change<'_>) -> Option<Event<'a>> {
        match change {
            Change::Take { order, deadline } => Some(event_of_new("ok", order, *deadline)),
            Change::Wait { order, hold: _ } => Some(event_of_new("wait", order, None)),
            Change::Serve { id, deadline } => self.event_of("ok", id, None, *deadline),
            Change::Adjust { delta, .. } if *delta != 0 => Some(event_of_adjusting(*delta)),
            Change::Confirm { id, units } => self.event_of("confirm", id, *units, None),
            Change::Keep { id, units } => {
                let held = self.order_of(id).filter(|(_, order)| order.state == State::Held);
                self.event_of("keep", id, Some(*units), held.map(|(_, order)| order.deadline))
            }
            Change::Cancel { id } => self.event_of("cancel", id, None, None),
            Change::Expire { id } => self.event_of("expire", id, None, None),
            Change::Extend { id, deadline } if self.terms.tells_deadlines() => {
                self.event_of("extend", id, None, Some(*deadline))
            }
            Change::Adjust { .. }
            | Change::Extend { .. }
            | Change::Refuse { .. }
            | Change::Cutoff { .. }
            | Change::Alter { .. } => None,
        }
    }

    /// The event of an order that is there, about these `units` or all of its own.
    fn event_of<'a>(
        &'a self,
        kind: &'static str,
        id: &'a [u8],
        units: Option<u64>,
        deadline: Option<UnixMs>,
    ) -> Option<Event<'a>> {
        let (_, order) = self.order_of(id)?;
        Some(Event {
            kind,
            id: IdText::from(id),
            units: units.unwrap_or(order.units).cast_signed(),
            buyer: self.table.buyer_of(&order).unpack().detach(),
            reference: reference(&order),
            deadline,
        })
    }

    fn commit_take(&mut self, order: &NewOrder<'_>, deadline: Option<UnixMs>) -> Result<(), InvalidChange> {
        let (order, buyer) = record_of(order)?;
        let (state, deadline) = self.state_until(deadline)?;
        let known = self.room_for(&order.id)?;
        if order.units > self.unsold() {
            return Err(InvalidChange::Units);
        }
        self.table.enter(known, Record { state, deadline, ..order }, &buyer);
        count(&mut self.counters.ok);
        Ok(())
    }

    /// Puts an order behind the line. Its ticket is the number of this change.
    fn commit_wait(&mut self, order: &NewOrder<'_>, hold: Option<Millis>) -> Result<(), InvalidChange> {
        let (order, buyer) = record_of(order)?;
        let known = self.room_for(&order.id)?;
        if order.units > self.terms.total {
            return Err(InvalidChange::Units);
        }
        let ticket = Ticket { number: self.seq.saturating_add(1).min(MAX_SEQ), hold };
        self.table.enter(known, Record { state: State::Waiting, ticket, ..order }, &buyer);
        Ok(())
    }

    fn commit_serve(&mut self, id: &[u8], deadline: Option<UnixMs>) -> Result<(), InvalidChange> {
        let (number, order) = self.settled_that(id, |order| order.state == State::Waiting)?;
        if order.units > self.unsold() {
            return Err(InvalidChange::Units);
        }
        let (state, deadline) = self.state_until(deadline)?;
        self.table.set_state(number, state, deadline);
        count(&mut self.counters.ok);
        Ok(())
    }

    /// The number of this id's earlier order, if it has one, which must be cancelled or expired; else there must be room for another.
    #[inline]
    fn room_for(&self, id: &PackedId<'_>) -> Result<Option<u32>, InvalidChange> {
        let known = self.table.find(id);
        match known.and_then(|number| self.table.orders.get(number)) {
            Some(order) if !order.ended() => Err(InvalidChange::State),
            None if self.table.is_full() => Err(InvalidChange::Full),
            _ => Ok(known),
        }
    }

    /// The state of an order that takes units, and its deadline.
    #[inline]
    fn state_until(&self, deadline: Option<UnixMs>) -> Result<(State, UnixMs), InvalidChange> {
        match deadline {
            Some(deadline) if self.ends_by_cutoff(deadline) => Err(InvalidChange::Range),
            Some(deadline) => Ok((State::Held, deadline)),
            None => Ok((State::Sold, NEVER)),
        }
    }

    /// The order of this id, if it is one that `may` change so.
    fn order_that(&self, id: &[u8], may: impl FnOnce(&Record<'_>) -> bool) -> Result<(u32, Record<'_>), InvalidChange> {
        self.order_of(id).filter(|(_, order)| may(order)).ok_or(InvalidChange::State)
    }

    /// The order of this id, if it `may` change so; an order that is over can only expire.
    fn settled_that(
        &self,
        id: &[u8],
        may: impl FnOnce(&Record<'_>) -> bool,
    ) -> Result<(u32, Record<'_>), InvalidChange> {
        self.order_that(id, |order| !self.is_over(order) && may(order))
    }
}

/// The record of an order that has nothing yet, and its buyer.
#[inline]
fn record_of<'a>(order: &'a NewOrder<'_>) -> Result<(Record<'a>, PackedId<'a>), InvalidChange> {
    let NewOrder { id, units, buyer, reference } = order;
    let packed = |text| PackedId::new(text).ok_or(InvalidChange::Range);
    let id = packed(id)?;
    let reference = if reference.is_empty() { None } else { Some(packed(reference)?) };
    if !(1..=MAX_UNITS).contains(units) {
        return Err(InvalidChange::Range);
    }
    let (state, deadline, ticket) = (State::Cancelled, NEVER, Ticket::default());
    let order = Record { state, units: *units, id, deadline, ticket, buyer: BuyerRef::Own, reference, refused: false };
    Ok((order, buyer.as_deref().map_or(Ok(id), packed)?))
}

/// The event of an order that begins.
fn event_of_new<'a>(kind: &'static str, order: &'a NewOrder<'_>, deadline: Option<UnixMs>) -> Event<'a> {
    let NewOrder { id, units, buyer, reference } = order;
    let [id, buyer, reference] = [id, buyer.as_ref().unwrap_or(id), reference].map(|text| IdText::from(&**text));
    Event { kind, id, units: units.cast_signed(), buyer, reference, deadline }
}

fn event_of_adjusting(delta: i64) -> Event<'static> {
    let (id, buyer, reference) = (IdText::NONE, IdText::NONE, IdText::NONE);
    Event { kind: "adjust", id, units: delta, buyer, reference, deadline: None }
}

fn count(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}
