//! The largest numbers. Each says why it is the largest.

use super::time::Millis;

/// The largest integer that every client reads exactly: Lua and JavaScript have doubles. What a reply tells is not above it.
pub const MAX_EXACT: u64 = (1 << 53) - 1;

/// The largest fence. Resources compare fences, in any language.
pub const MAX_FENCE: u64 = MAX_EXACT;

/// The largest LIMIT of a lock: `LOCK.INFO` tells it.
pub const MAX_PERMITS: u64 = MAX_EXACT;

/// The largest total, quantity or limit of a sale: replies and events tell them.
pub const MAX_UNITS: u64 = MAX_EXACT;

/// The largest number of an event: readers of the stream compare it.
pub const MAX_SEQ: u64 = MAX_EXACT;

/// The longest wait. Servers add it to their clock, and what becomes of a sum past 64 bits is not the same on any two of them; this one
/// leaves far more room than any clock needs.
pub const MAX_WAIT: Millis = Millis(MAX_EXACT.cast_signed());

/// The longest token, id, buyer or reference, in bytes: a name, not a document. Records of orders keep the length in two bytes, and 32 of
/// them lie together in less than 64 KiB.
pub const MAX_ID: usize = 512;
