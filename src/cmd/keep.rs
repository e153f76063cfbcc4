//! `key id [KEEP n]`: the words of the commands that settle an order, or a part of it.

use super::stock_reply::UNITS;
use super::{Arg, Args, Error, Param};

/// `KEEP n` in the documentation.
pub const KEEP: Param = Param::integer(c"units").after(c"KEEP").optional().since(c"0.3.0");

/// Parses the words: the sale, the order, and how many units it is to be left.
pub fn parse(mut args: Args<'_>) -> Result<(Arg<'_>, &[u8], Option<u64>), Error> {
    let (key, id) = (args.next()?, args.ident_bytes("id")?);
    let keep = args.last_option(b"KEEP", |args| args.unsigned("KEEP", UNITS))?;
    Ok((key, id, keep))
}
