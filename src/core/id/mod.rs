//! What callers choose: tokens of locks, and ids, buyers and references of orders. All are byte strings of 1 to [`MAX_ID`] bytes.
//!
//! Two types keep them, each made for where it lies. An [`Ident`] owns its bytes and always takes 24: a hold of a lock has one. A
//! [`PackedId`] takes as few bytes as it needs and lies in a record: a million orders have one to three each. Both keep a UUID in 16 bytes
//! instead of 36, and both give an [`IdText`] back: the bytes as the caller wrote them.

mod ident;
mod packed;
mod text;
mod uuid;

pub use ident::Ident;
pub(super) use packed::PackedId;
pub use text::IdText;

use super::limits::MAX_ID;

/// Whether these bytes can be one.
#[must_use]
pub fn is_id(bytes: &[u8]) -> bool {
    (1..=MAX_ID).contains(&bytes.len())
}
