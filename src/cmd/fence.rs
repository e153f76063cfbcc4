//! `FENCE fence`: the option with which a command is about one hold of its token and no other.

use super::{Args, Error, Param, Range};
use crate::core::fence::Fence;
use crate::core::limits::MAX_FENCE;

/// The option in the documentation.
pub const FENCE: Param = Param::integer(c"fence").after(c"FENCE").optional().since(c"0.3.0");

/// Its name.
pub const FENCE_WORD: &[u8] = b"FENCE";

/// Parses the value after `FENCE`: 1 to 2^53 - 1.
pub fn fence(args: &mut Args<'_>) -> Result<Fence, Error> {
    Ok(args.unsigned("FENCE", Range::up_to(MAX_FENCE)).map(Fence)?)
}

/// Parses `[FENCE fence]`, which ends a command.
pub fn last(args: Args<'_>) -> Result<Option<Fence>, Error> {
    args.last_option(FENCE_WORD, fence)
}
