//! Names that callers choose: tokens of locks, and ids, buyers and references of orders. All are byte strings of 1 to [`MAX_ID`] bytes.
//!
//! There are two types for two uses. An [`Ident`] owns its bytes and always takes 24 bytes: a hold of a lock has one. A [`PackedId`] takes
//! as few bytes as possible and is part of a record: a million orders have one to three each. Both store a UUID in 16 bytes instead of 36,
//! and both return an [`IdText`]: the bytes as the caller sent them.

mod ident;
mod packed;
mod text;
mod uuid;

pub use ident::Ident;
pub(super) use packed::PackedId;
pub use text::IdText;

use super::limits::MAX_ID;

/// Whether these bytes are a valid name.
pub fn is_id(bytes: &[u8]) -> bool {
    (1..=MAX_ID).contains(&bytes.len())
}
