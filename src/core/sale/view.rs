//! Reading a sale: `STOCK.ORDER`, `STOCK.BUYER`, `STOCK.INFO`, `STOCK.ORDERS`.

use super::Sale;
use super::orders::record::{Record, State};
use super::take::hold_end;
use crate::core::id::IdText;
use crate::core::id::PackedId;
use crate::core::limits::MAX_UNITS;
use crate::core::time::UnixMs;

/// The most rows of one page.
pub const PAGE_ROWS: usize = 1_000;

/// How many orders one page looks at, at most, to find its rows. This bounds the cost of a call.
pub const PAGE_EFFORT: usize = 4_096;

/// An order as it stands at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order<'a> {
    /// The id.
    pub id: IdText<'a>,
    /// Its state.
    pub state: State,
    /// The units that it holds or has bought; 0 once given back, and while it waits.
    pub units: u64,
    /// Whose limit it counts against; without a BUYER this is the id.
    pub buyer: IdText<'a>,
    /// The caller's reference; empty: none.
    pub reference: IdText<'a>,
    /// When the hold ends; `None` unless it is held.
    pub deadline: Option<UnixMs>,
}

/// The sums of a sale at an instant. `total = remaining + held + sold`, always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Units the sale is about.
    pub total: u64,
    /// Units that can be sold.
    pub remaining: u64,
    /// Units held.
    pub held: u64,
    /// Units bought.
    pub sold: u64,
    /// Buyers that hold or have bought units. A due hold counts until it has expired.
    pub buyers: u64,
}

/// Some orders, and where to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<'a> {
    /// The cursor of the next page; 0: there is none.
    pub next: u64,
    /// The orders, in the order of their creation.
    pub rows: Vec<Order<'a>>,
}

impl Sale {
    /// The order of this id; `None` when there is none.
    pub fn order(&self, now: UnixMs, id: &[u8]) -> Option<Order<'_>> {
        self.order_of(id).map(|(_, order)| self.show(self.hold_time(now), &order))
    }

    /// Units that this buyer holds, has bought or waits for; at most [`MAX_UNITS`].
    pub fn buyer(&self, now: UnixMs, buyer: &[u8]) -> u64 {
        let units = |buyer| self.table.units_of(self.table.look_up(&buyer), self.hold_time(now));
        PackedId::new(buyer).map_or(0, units).min(MAX_UNITS)
    }

    /// The sums of the sale.
    pub fn info(&self, now: UnixMs) -> Info {
        let due = self.table.due_units(self.hold_time(now));
        Info {
            total: self.terms.total,
            remaining: self.unsold_if(due),
            held: self.table.held.wrapping_sub(due),
            sold: self.table.sold,
            buyers: self.table.active,
        }
    }

    /// Up to `count` orders from `cursor` on, 0 for the first page; with `state` only those in it at `now`.
    ///
    /// All pages together have every order once: the cursor is the number of the next order, and orders keep their numbers. One call
    /// returns at most [`PAGE_ROWS`] orders and looks at no more than [`PAGE_EFFORT`]. So a page can be short or empty before the end,
    /// as those of SCAN can.
    pub fn page(&self, now: UnixMs, cursor: u64, count: usize, state: Option<State>) -> Page<'_> {
        let (count, now) = (count.clamp(1, PAGE_ROWS), self.hold_time(now));
        let mut page = Page { next: 0, rows: Vec::with_capacity(count.min(64)) };
        let Ok(first) = u32::try_from(cursor) else { return page };
        let last = first.saturating_add(u32::try_from(PAGE_EFFORT).unwrap_or(u32::MAX));
        for (number, order) in self.table.orders.from(first) {
            if page.rows.len() == count || number >= last {
                page.next = u64::from(number);
                break;
            }
            if state.is_none_or(|state| state == order.state_at(now)) {
                page.rows.push(self.show(now, &order));
            }
        }
        page
    }

    fn show<'a>(&'a self, now: UnixMs, order: &Record<'a>) -> Order<'a> {
        Order {
            id: order.id.unpack(),
            state: order.state_at(now),
            units: order.units_at(now),
            buyer: self.table.buyer_of(order).unpack(),
            reference: order.reference.map_or(IdText::NONE, |reference| reference.unpack()),
            deadline: hold_end(order, now),
        }
    }
}
