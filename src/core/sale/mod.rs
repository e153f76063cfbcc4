//! The sale: units that many want and few get, each at most once.
//!
//! A sale decides, then changes. A command's method ([`Sale::take`], [`Sale::confirm`] …) reads the sale and returns a
//! [`Decision`]: the answer, and the [`Change`]s that would make it true. [`Sale::commit`] is the only way a sale
//! changes. In between, the server appends the changes' events to the stream; if that fails, nothing was taken. The
//! same changes go to replicas and the AOF, where nothing is decided again.
//!
//! Time is an argument. A hold that has passed its deadline counts as returned in every answer from that millisecond
//! on, whether or not its [`Change::Lapse`] has been committed yet; [`Sale::lapses`] gives the server's timer those to
//! commit, in portions of any size.
//!
//! No call moves more than a few kilobytes, however many orders there are (but for the directory of `index`, when that
//! doubles), and no decision has more than some hundred changes, however many holds are due (`cutoff`).
//!
//! Reading order: [`terms`], [`change`], [`answer`]; the decisions in [`take`], [`settle`] and [`adjust`], and what they
//! need first in `needed` and `cutoff`; [`commit`]; [`view`]; [`snapshot`]. How orders are kept: `record` in `shelf`,
//! found through `index`, in the order of `roll`; `book` and `ledger` hold them together.

mod accounting;
pub mod adjust;
pub mod answer;
mod buyers;
pub mod change;
mod codec;
mod commit;
mod cutoff;
mod due;
mod hash_index;
pub mod id_text;
mod order_table;
mod orders;
mod packed_id;
mod pages;
mod record;
mod settle;
pub mod snapshot;
mod sum_tree;
pub mod take;
pub mod terms;
mod upkeep;
pub mod view;

#[cfg(test)]
mod tests;

pub use adjust::AdjustError;
pub use answer::{Answer, Changes, Decision, Status};
pub use change::{Change, Event, EventKind, InvalidChange, Taking};
pub use id_text::IdText;
pub use record::State;
pub use snapshot::Corrupt;
pub use take::{Take, TakeError};
pub use terms::{Alteration, EmptyWindow, MAX_UNITS, Stream, Terms};

pub use view::{Info, Order, Page};

use crate::core::time::UnixMs;
use cutoff::Cutoff;
use order_table::{EVER, OrderTable};
use packed_id::PackedId;
use record::Record;

/// A sale, with every order it was ever asked to take.
pub struct Sale {
    terms: Terms,
    /// Changes of orders and of the total so far.
    seq: u64,
    book: OrderTable,
    /// Where holds are over that have not lapsed yet, while there are such.
    cutoff: Option<Cutoff>,
    counters: Counters,
    /// How often it has changed here, numbered change or not. Neither saved nor replicated.
    revision: u64,
}

/// What has happened on this server since it loaded the sale. Neither saved nor replicated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Orders taken.
    pub ok: u64,
    /// Commands that found it done already.
    pub duplicate: u64,
    /// Commands that found too little left: `SOLDOUT` and `INSUFFICIENT`.
    pub soldout: u64,
    /// Commands that would have passed the buyer's limit.
    pub limited: u64,
    /// Holds that lapsed.
    pub expired: u64,
    /// Orders cancelled.
    pub cancelled: u64,
    /// Holds that became sales.
    pub confirmed: u64,
}

impl Sale {
    /// A sale without orders. Totals and limits above [`MAX_UNITS`] are the caller's to refuse; here they are cut.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        let terms = Terms { total: terms.total.min(MAX_UNITS), limit: terms.limit.min(MAX_UNITS), ..terms };
        Self { terms, seq: 0, book: OrderTable::new(), cutoff: None, counters: Counters::default(), revision: 0 }
    }

    /// The conditions.
    #[must_use]
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The number of the last event; the next one has this plus one.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Another number after every change, of whatever kind: a decision holds for the one that it was made at.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How many orders there are, whatever has become of them.
    #[must_use]
    pub fn orders(&self) -> u64 {
        u64::from(self.book.orders.len())
    }

    /// Units that can be sold at `now`. Costs one step for about a hundred due holds.
    #[must_use]
    pub fn remaining(&self, now: UnixMs) -> u64 {
        self.left(self.book.due_sum(self.hold_time(now)).units)
    }

    /// When the next hold can lapse: at its deadline, or since ever if it is over by the cutoff; `None` when nothing is
    /// held.
    #[must_use]
    pub fn next_lapse(&self) -> Option<UnixMs> {
        let deadline = self.book.next_deadline()?;
        Some(if self.ends_by_cutoff(deadline) { EVER } else { deadline })
    }

    /// The lapses of holds that are due at `now`, at most `most`, the earliest first, for the server's timer to commit.
    #[must_use]
    pub fn lapses(&self, now: UnixMs, most: usize) -> Vec<Change<'static>> {
        self.book.due(None, self.hold_time(now)).take(most).map(|(_, order)| lapse(&order)).collect()
    }

    /// Units that can be sold, of which `due` are held in the books and free.
    fn left(&self, due: u64) -> u64 {
        let taken = self.book.held.wrapping_add(self.book.sold).wrapping_sub(due);
        self.terms.total.saturating_sub(taken)
    }

    /// The order of this id, if there is one and it could be an id.
    fn order_of(&self, id: &[u8]) -> Option<(u32, Record<'_>)> {
        let number = self.book.find(&PackedId::new(id)?)?;
        Some((number, self.book.orders.get(number)?))
    }
}

fn lapse(order: &Record<'_>) -> Change<'static> {
    Change::Lapse { id: order.id.unpack().detach() }
}

fn reference(order: &Record<'_>) -> IdText<'static> {
    order.reference.map_or(IdText::NONE, |reference| reference.unpack().detach())
}
