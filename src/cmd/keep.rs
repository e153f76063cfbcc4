//! `key id [KEEP n]`: the words of the commands that settle an order, or a part of it.

use super::stock_reply::UNITS;
use super::{Arg, Args, Error, Param};

/// `KEEP n` in the documentation.
pub const KEEP: Param = Param::integer(c"units").after(c"KEEP").optional().since(c"0.3.0");

/// Parses the words: the sale, the order, and how many units it is to be left.
pub fn parse(mut args: Args<'_>) -> Result<(Arg<'_>, &[u8], Option<u64>), Error> {
    let (key, id) = (args.next()?, args.ident_bytes("id")?);
    let Some(word) = args.keyword() else { return Ok((key, id, None)) };
    if word.as_slice() != b"KEEP" {
        return Err(args.unknown().into());
    }
    let keep = args.unsigned("KEEP", UNITS)?;
    args.finish()?;
    Ok((key, id, Some(keep)))
}
