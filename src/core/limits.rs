//! The maximum values, each with its reason.

use super::time::Millis;

/// The largest integer that every client can read exactly, because Lua and JavaScript use doubles. No reply contains a larger one.
pub const MAX_EXACT: u64 = (1 << 53) - 1;

/// The largest fence. Resources compare fences in any language.
pub const MAX_FENCE: u64 = MAX_EXACT;

/// The largest LIMIT of a lock, which `LOCK.INFO` returns.
pub const MAX_PERMITS: u64 = MAX_EXACT;

/// The largest total, quantity or limit of a sale, which replies and events contain.
pub const MAX_UNITS: u64 = MAX_EXACT;

/// The largest event number, which readers of the stream compare.
pub const MAX_SEQ: u64 = MAX_EXACT;

/// The longest wait. Servers add it to their clock, and each server handles an overflow of 64 bits differently; this maximum is far from an
/// overflow with any clock.
pub const MAX_WAIT: Millis = Millis(MAX_EXACT.cast_signed());

/// The longest span of time that errors name. A lease may be as long as fits in 64-bit milliseconds from now on; that bound falls with the
/// clock, and will be above this one for millions of years.
pub const LONGEST_SPAN: Millis = Millis(9_000_000_000_000_000_000);

/// The longest token, id, buyer or reference, in bytes: a name, not a document. Order records store the length in two bytes, and 32 of them
/// take less than 64 KiB together.
pub const MAX_ID: usize = 512;
