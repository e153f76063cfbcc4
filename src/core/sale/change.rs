//! Changes of a sale: absolute, complete, and the same wherever they are committed.

use crate::core::id::IdText;
use crate::core::time::{Millis, UnixMs};

/// One change of a sale. A replica and the AOF get the changes, never the decision that led to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// An id takes units.
    Take {
        /// The order, of 1 to [`MAX_UNITS`](crate::core::limits::MAX_UNITS) units.
        order: NewOrder<'a>,
        /// Until when the units are held; `None`: they are sold.
        deadline: Option<UnixMs>,
    },
    /// An id joins the waitlist. It takes nothing yet.
    Wait {
        /// The order, of 1 unit to the sale's total.
        order: NewOrder<'a>,
        /// How long the units are held, from when the order is served; `None`: they are sold.
        hold: Option<Millis>,
    },
    /// A waiting order takes its units: sold, or held until a deadline.
    Serve {
        /// The order.
        id: IdText<'a>,
        /// Until when its units are held; `None`: they are sold.
        deadline: Option<UnixMs>,
    },
    /// A hold becomes a sale, or an expired order takes its units again.
    Confirm {
        /// The order.
        id: IdText<'a>,
        /// How many units are sold, if the caller named it: those of the hold, or at most those that the order had when it expired.
        units: Option<u64>,
    },
    /// A hold or a sale gives some of its units back and keeps the others.
    Keep {
        /// The order.
        id: IdText<'a>,
        /// How many units it has from now on: at least 1, and fewer than it had.
        units: u64,
    },
    /// A confirmation came too late and was refused. The order, which has expired or was ended by the cutoff, can never be confirmed.
    Refuse {
        /// The order.
        id: IdText<'a>,
    },
    /// A hold or a sale gives its units back, or an order leaves the waitlist.
    Cancel {
        /// The order.
        id: IdText<'a>,
    },
    /// A hold's deadline moves.
    Extend {
        /// The order.
        id: IdText<'a>,
        /// The new deadline.
        deadline: UnixMs,
    },
    /// A hold has passed its deadline and gives its units back.
    Expire {
        /// The order.
        id: IdText<'a>,
    },
    /// Every hold with a deadline up to this instant is over, and its units can be sold. Its expiration follows later.
    Cutoff {
        /// The instant.
        at: UnixMs,
    },
    /// Units are added to the sale or withdrawn from it.
    Adjust {
        /// How many more; below zero: how many fewer; 0 only with an id.
        delta: i64,
        /// The id of an adjustment that must happen once; empty: no id.
        id: IdText<'a>,
    },
    /// The sale's conditions become these.
    Alter {
        /// Units that one buyer may have; 0: no limit.
        limit: u64,
        /// When it starts.
        start: Option<UnixMs>,
        /// When it ends.
        end: Option<UnixMs>,
        /// Whether it sells again to expired and cancelled ids.
        rebuy: bool,
    },
}

impl Change<'_> {
    /// Whether the change belongs to the same step as `before`, the one in front of it: a waiting order is served in the step in which
    /// units come back, and the units that a hold keeps are sold in the step in which it gives back the others.
    pub fn continues_step(&self, before: &Self) -> bool {
        match self {
            Self::Serve { .. } => true,
            Self::Confirm { .. } => matches!(before, Self::Keep { .. }),
            _ => false,
        }
    }
}

/// An order that takes units or joins the waitlist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrder<'a> {
    /// Its id.
    pub id: IdText<'a>,
    /// How many units it is about.
    pub units: u64,
    /// Whose limit they count against; `None`: the id is its own buyer.
    pub buyer: Option<IdText<'a>>,
    /// The caller's reference; empty: none.
    pub reference: IdText<'a>,
}

/// The entry of the stream that a change makes; its `seq` is the sale's plus one, plus two, and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// What happened, as the stream says it: `ok`, `wait`, `confirm`, `keep`, `cancel`, `expire`, `extend` or `adjust`.
    pub kind: &'static str,
    /// To which order; empty for `adjust`.
    pub id: IdText<'a>,
    /// How many units were taken, waited for, confirmed, kept, given back or held on; for `adjust` how many were added, which can be below
    /// zero.
    pub units: i64,
    /// The buyer they count against; empty for `adjust`.
    pub buyer: IdText<'a>,
    /// The order's reference; empty: none.
    pub reference: IdText<'a>,
    /// When the order's hold ends from now on; `None`: it is none, or none any more.
    pub deadline: Option<UnixMs>,
}

/// A change that does not fit the sale it was meant for. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidChange {
    /// A name or a number is out of its range.
    Range,
    /// The order is not in a state that allows it.
    State,
    /// The sale does not have the units.
    Units,
    /// The sale remembers as many orders as it can.
    Full,
}
