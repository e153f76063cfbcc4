//! Making a change true. Nothing is decided here, no clock is read, and whatever does not fit changes nothing.

use super::change::{Change, Event, EventKind, Misfit, Taking};
use super::name::Name;
use super::packed::Packed;
use super::record::{BuyerRef, Record, State};
use super::roll::Sum;
use super::snapshot::MAX_SEQ;
use super::terms::MAX_UNITS;
use super::{Sale, reference};
use crate::core::time::UnixMs;

/// Deadline of whatever is not held.
const NEVER: UnixMs = UnixMs(0);

impl Sale {
    /// Makes a change true.
    ///
    /// The same changes in the same order make the same sale, wherever they are committed. A lapsed hold is still held
    /// here until its [`Change::Lapse`]: its units cannot be taken before.
    ///
    /// # Errors
    ///
    /// When the change does not fit, as one from a damaged file or a hostile caller might not: then nothing has changed.
    pub fn commit(&mut self, change: &Change<'_>) -> Result<(), Misfit> {
        match change {
            Change::Take(taking) => self.commit_take(taking)?,
            Change::Confirm { id } => {
                let (number, state, units) = self.target(id)?;
                match state {
                    State::Held => {}
                    State::Expired if units <= self.unsold() => {}
                    State::Expired => return Err(Misfit::Units),
                    State::Sold | State::Cancelled => return Err(Misfit::State),
                }
                self.book.turn(number, State::Sold, NEVER);
                self.counters.confirmed = self.counters.confirmed.saturating_add(1);
            }
            Change::Cancel { id } => {
                let (number, state, _) = self.target(id)?;
                if !matches!(state, State::Held | State::Sold) {
                    return Err(Misfit::State);
                }
                self.book.turn(number, State::Cancelled, NEVER);
                self.counters.cancelled = self.counters.cancelled.saturating_add(1);
            }
            Change::Extend { id, deadline } => {
                let number = self.held(id)?;
                self.book.turn(number, State::Held, *deadline);
                return Ok(());
            }
            Change::Lapse { id } => {
                let number = self.held(id)?;
                self.book.turn(number, State::Expired, NEVER);
                self.counters.expired = self.counters.expired.saturating_add(1);
            }
            Change::Adjust { delta } => {
                self.unsold().checked_add_signed(*delta).ok_or(Misfit::Units)?;
                let total = self.terms.total.checked_add_signed(*delta).ok_or(Misfit::Units)?;
                self.terms.total = if total <= MAX_UNITS { total } else { return Err(Misfit::Range) };
            }
            Change::Alter { limit, start, end, rebuy } => {
                if *limit > MAX_UNITS {
                    return Err(Misfit::Range);
                }
                (self.terms.limit, self.terms.start, self.terms.end) = (*limit, *start, *end);
                self.terms.rebuy = *rebuy;
                return Ok(());
            }
        }
        // Stays where a snapshot can carry it, even if it came from a forged one.
        self.seq = self.seq.saturating_add(1).min(MAX_SEQ);
        Ok(())
    }

    /// The stream's entry of a change that is about to be committed; `None` for changes that make none. The first
    /// change of a decision has the number [`Sale::seq`] plus one, the next that makes an entry one more.
    ///
    /// All changes of a decision can be asked for before any is committed.
    #[must_use]
    pub fn event<'a>(&'a self, change: &'a Change<'_>) -> Option<Event<'a>> {
        let (kind, id) = match change {
            Change::Take(taking) => {
                return Some(Event {
                    kind: EventKind::Ok,
                    id: Name::from(&*taking.id),
                    units: taking.units.cast_signed(),
                    buyer: Name::from(taking.buyer.as_deref().unwrap_or(&taking.id)),
                    reference: Name::from(&*taking.reference),
                });
            }
            Change::Adjust { delta } => {
                return Some(Event {
                    kind: EventKind::Adjust,
                    id: Name::NONE,
                    units: *delta,
                    buyer: Name::NONE,
                    reference: Name::NONE,
                });
            }
            Change::Extend { .. } | Change::Alter { .. } => return None,
            Change::Confirm { id } => (EventKind::Confirm, id),
            Change::Cancel { id } => (EventKind::Cancel, id),
            Change::Lapse { id } => (EventKind::Expire, id),
        };
        let (_, order) = self.order_of(id)?;
        Some(Event {
            kind,
            id: Name::from(&**id),
            units: order.units.cast_signed(),
            buyer: self.book.buyer_of(&order).unpack().detach(),
            reference: reference(&order),
        })
    }

    fn commit_take(&mut self, taking: &Taking<'_>) -> Result<(), Misfit> {
        let id = Packed::new(&taking.id).ok_or(Misfit::Range)?;
        let buyer = taking.buyer.as_deref().map_or(Ok(id), |buyer| Packed::new(buyer).ok_or(Misfit::Range))?;
        let reference = match &*taking.reference {
            [] => None,
            text => Some(Packed::new(text).ok_or(Misfit::Range)?),
        };
        if taking.units == 0 || taking.units > MAX_UNITS {
            return Err(Misfit::Range);
        }
        let known = self.book.find(&id);
        match known.and_then(|number| self.book.orders.get(number)) {
            Some(order) if order.active() => return Err(Misfit::State),
            None if self.book.is_full() => return Err(Misfit::Full),
            _ => {}
        }
        if taking.units > self.unsold() {
            return Err(Misfit::Units);
        }
        let (state, deadline) = taking.deadline.map_or((State::Sold, NEVER), |deadline| (State::Held, deadline));
        let order = Record { state, units: taking.units, id, deadline, buyer: BuyerRef::Own, reference };
        self.book.enter(known, order, &buyer);
        self.counters.ok = self.counters.ok.saturating_add(1);
        Ok(())
    }

    /// Units that are neither sold nor held, due holds counting as held.
    pub(super) fn unsold(&self) -> u64 {
        self.left(&Sum::default())
    }

    fn target(&self, id: &[u8]) -> Result<(u32, State, u64), Misfit> {
        let (number, order) = self.order_of(id).ok_or(Misfit::State)?;
        Ok((number, order.state, order.units))
    }

    fn held(&self, id: &[u8]) -> Result<u32, Misfit> {
        match self.target(id)? {
            (number, State::Held, _) => Ok(number),
            _ => Err(Misfit::State),
        }
    }
}
