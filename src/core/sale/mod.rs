//! The sale: units that many want and few get, each at most once.
//!
//! A sale decides, then changes. A command's method ([`Sale::take`], [`Sale::confirm`] …) reads the sale and returns a
//! [`Decision`]: the answer, and the [`Change`]s that would make it true. [`Sale::commit`] is the only way a sale
//! changes. In between, the server appends the changes' events to the stream; if that fails, nothing was taken. The
//! same changes go to replicas and the AOF, where nothing is decided again.
//!
//! Time is an argument. From the millisecond of its deadline on, every answer counts a hold's units as free, even before its
//! [`Change::Expire`] is committed. The server's timer asks for these changes ([`Sale::overdue`]) and commits them.
//!
//! The cost of a call does not grow with the sale. No call moves more than a few kilobytes, except when the directory of
//! `orders::hash_index` doubles. No command lets more than some hundred holds expire, however many are due (`cutoff`), or serves more than
//! 100 orders from the line, in however many sales (`budget`).
//!
//! Reading order: [`terms`], [`change`], [`answer`]; the decisions in [`take`], `confirm` and [`adjust`], and what they
//! need first in `due` and `cutoff`; `waitlist`; `budget`; [`cart`] for several sales; `commit`; [`view`]; [`snapshot`]. The folder `orders` is how
//! orders are kept.

pub mod adjust;
mod adjustments;
pub mod answer;
mod budget;
pub mod cart;
pub mod change;
mod commit;
mod confirm;
mod cutoff;
mod due;
mod loading;
mod orders;
pub mod snapshot;
mod stats;
pub mod take;
pub mod terms;
pub mod view;
mod waitlist;

#[cfg(test)]
mod tests;

pub use adjust::AdjustError;
pub use answer::{Answer, Changes, Decision, Status};
pub use budget::Budget;
pub use change::{Change, Event, InvalidChange, NewOrder};
pub use confirm::KeepError;
pub use loading::Loading;
pub use orders::record::State;
pub use snapshot::CorruptSale;
pub use stats::Counters;
pub use take::{Take, TakeError};
pub use terms::{Alteration, EmptyWindow, Stream, Terms};
pub use view::{Info, Order, Page};

use crate::core::id::{IdText, PackedId};
use crate::core::invariant::Known;
use crate::core::limits::MAX_UNITS;
use crate::core::time::UnixMs;
use cutoff::Cutoff;
use orders::record::Record;
use orders::{BEGINNING, IdSet, OrderTable};

/// A sale, with every order it was ever asked to take.
pub struct Sale {
    terms: Terms,
    /// Changes of orders and of the total so far.
    seq: u64,
    table: OrderTable,
    /// Ends holds that have not expired yet; `None` when there are none of these.
    cutoff: Option<Cutoff>,
    /// The ids of adjustments; `None` when none had one.
    adjustments: Option<Box<IdSet>>,
    counters: Counters,
    /// How many orders the sale has when it is whole, if that was said when it was loaded. Until then it decides nothing.
    expected: u32,
    /// How often the sale has changed on this server, by a numbered change or another. Neither saved nor replicated.
    revision: u64,
}

impl Sale {
    /// A sale without orders. Callers refuse a total or limit above [`MAX_UNITS`] before; here it is cut to that.
    pub fn new(terms: Terms) -> Self {
        let terms = Terms { total: terms.total.min(MAX_UNITS), limit: terms.limit.min(MAX_UNITS), ..terms };
        Self {
            terms,
            seq: 0,
            table: OrderTable::new(),
            cutoff: None,
            adjustments: None,
            counters: Counters::default(),
            expected: 0,
            revision: 0,
        }
    }

    /// The conditions.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The number of the last event; the next one has this plus one.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// A number that is different after every change. A decision is valid while it is the same.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How many orders there are, in all states.
    pub fn orders(&self) -> u64 {
        u64::from(self.table.orders.len())
    }

    /// Units that can be sold at `now`. Costs O(log n) with n holds.
    pub fn remaining(&self, now: UnixMs) -> u64 {
        self.unsold_if(self.table.due_units(self.hold_time(now)))
    }

    /// When the next hold expires: at its deadline, or at once if the cutoff has ended it; `None` when nothing is held.
    pub fn next_expiration(&self) -> Option<UnixMs> {
        let deadline = self.table.next_deadline()?;
        Some(if self.ends_by_cutoff(deadline) { BEGINNING } else { deadline })
    }

    /// The expirations of up to `most` holds that are due at `now`, the earliest first. The server's timer commits them.
    pub fn expirations(&self, now: UnixMs, most: usize) -> Vec<Change<'static>> {
        self.table.due(None, self.hold_time(now)).take(most).map(|(_, order)| expire(&order)).collect()
    }

    /// Heap bytes, without the overhead of the allocator. Costs a step for about 30,000 orders and for about 100 holds.
    pub fn memory(&self) -> usize {
        let stream = self.terms.stream.as_ref().map_or(0, |stream| stream.key.len());
        let adjustments = self.adjustments.as_ref().map_or(0, |ids| ids.memory().saturating_add(size_of::<IdSet>()));
        self.table.memory().saturating_add(stream).saturating_add(adjustments)
    }

    /// How many allocations freeing the sale frees.
    pub fn effort(&self) -> usize {
        let adjustments = self.adjustments.as_ref().map_or(0, |ids| ids.effort());
        self.table.effort().saturating_add(adjustments).saturating_add(1)
    }

    /// Units that can be sold, if `due` of those that the table holds are free.
    fn unsold_if(&self, due: u64) -> u64 {
        let taken = self.table.held.wrapping_add(self.table.sold).wrapping_sub(due);
        self.terms.total.checked_sub(taken).or_invariant("no more is taken than there is", 0)
    }

    /// The order of this id and its number; `None` if there is none, or if the bytes cannot be an id.
    fn order_of(&self, id: &[u8]) -> Option<(u32, Record<'_>)> {
        let number = self.table.find(&PackedId::new(id)?)?;
        Some((number, self.table.orders.get(number).known("an id that is found has an order")?))
    }
}

fn expire(order: &Record<'_>) -> Change<'static> {
    Change::Expire { id: order.id.unpack().detach() }
}

fn reference(order: &Record<'_>) -> IdText<'static> {
    order.reference.map_or(IdText::NONE, |reference| reference.unpack().detach())
}
