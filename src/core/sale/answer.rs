//! The answer of a command on an order, and the changes that make it true.

use smallvec::{SmallVec, smallvec};

use super::change::Change;
use crate::core::id::IdText;
use crate::core::time::UnixMs;

/// The outcome of a command on an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Done by this call.
    Ok,
    /// It was so already: the earlier order, confirm or cancel stands.
    Duplicate,
    /// Nothing is left.
    SoldOut,
    /// Something is left, but less than asked for.
    Insufficient,
    /// The buyer would pass the sale's limit.
    Limit,
    /// The sale starts later.
    NotStarted,
    /// The sale is over.
    Ended,
    /// This id's hold expired, and nothing is sold to it again; a late CONFIRM finds its units gone.
    Expired,
    /// This id's order was cancelled, and nothing is sold to it again.
    Cancelled,
    /// The order is on the waitlist.
    Queued,
    /// The sale would have agreed, but another one of the same request refused.
    Skipped,
    /// The sale knows no such order.
    NoOrder,
    /// There is no such sale.
    NoStock,
}

impl Status {
    /// Every status with its word in the reply, in the order of the contract, which is that of the variants.
    pub const WORDS: [(Self, &'static str); 13] = [
        (Self::Ok, "OK"),
        (Self::Duplicate, "DUPLICATE"),
        (Self::SoldOut, "SOLDOUT"),
        (Self::Insufficient, "INSUFFICIENT"),
        (Self::Limit, "LIMIT"),
        (Self::NotStarted, "NOTSTARTED"),
        (Self::Ended, "ENDED"),
        (Self::Expired, "EXPIRED"),
        (Self::Cancelled, "CANCELLED"),
        (Self::Queued, "QUEUED"),
        (Self::Skipped, "SKIPPED"),
        (Self::NoOrder, "NOORDER"),
        (Self::NoStock, "NOSTOCK"),
    ];

    /// The word of the reply.
    pub fn word(self) -> &'static str {
        Self::WORDS.get(self as usize).map_or("", |(_, word)| *word)
    }
}

/// The five fields that every command on an order answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The outcome.
    pub status: Status,
    /// The units that this id holds or has bought now; 0: none.
    pub units: u64,
    /// The units that the sale can sell now, after this call.
    pub remaining: u64,
    /// When this id's hold ends, or with [`Status::NotStarted`] when the sale starts.
    pub deadline: Option<UnixMs>,
    /// The reference stored with the order; empty: none.
    pub reference: IdText<'a>,
}

impl Answer<'static> {
    /// The answer for a sale that does not exist.
    pub const NO_STOCK: Self =
        Self { status: Status::NoStock, units: 0, remaining: 0, deadline: None, reference: IdText::NONE };
}

impl<'a> Answer<'a> {
    /// A decision that changes nothing.
    pub fn unchanged(self) -> Decision<'a> {
        Decision { answer: self, changes: Changes::default() }
    }

    /// This answer with another status, and nothing changed.
    pub(super) fn with(self, status: Status) -> Decision<'a> {
        Self { status, ..self }.unchanged()
    }
}

/// An answer, and the changes that make it true.
///
/// Nothing has happened yet. The caller appends the events of the changes to the stream, and only then commits the changes, in order.
/// A decision is valid only for the state of the sale in which it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Decision<'a> {
    /// What to reply.
    pub answer: Answer<'a>,
    /// The changes that must be committed before the reply; none when nothing changes.
    pub changes: Changes<'a>,
}

/// The changes of one decision: first the expirations that must come before, and then the step that the caller asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes<'a> {
    /// Due holds whose units the decision takes expire first. If they are too many, a cutoff in the last place ends the others. After an
    /// expiration come the waiting orders that are served with its units. Empty for most decisions, which then allocate nothing.
    pub due_first: Vec<Change<'static>>,
    /// The change that the caller asked for, with the changes that belong to it: the confirmation of the units that [`Change::Keep`]
    /// leaves, and then the waiting orders that are served with the units that come back. Empty if the caller's request changes nothing.
    pub step: SmallVec<[Change<'a>; 1]>,
}

impl<'a> Changes<'a> {
    /// One change, and nothing else.
    pub(super) fn only(change: Change<'a>) -> Self {
        Self { due_first: Vec::new(), step: smallvec![change] }
    }

    /// In the order in which they are to be committed.
    pub fn iter(&self) -> impl Iterator<Item = &Change<'a>> {
        self.due_first.iter().chain(&self.step)
    }

    /// The change that the caller asked for, if nothing else changes.
    pub fn alone(&self) -> Option<&Change<'a>> {
        if let ([], [change]) = (&self.due_first[..], &self.step[..]) { Some(change) } else { None }
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.due_first.is_empty() && self.step.is_empty()
    }
}
