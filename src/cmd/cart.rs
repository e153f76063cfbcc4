//! What the commands on several sales have in common: their sales, and their reply.

use super::stock_reply;
use crate::config;
use crate::core::sale::{Answer, Status};
use crate::error::Error;
use crate::server::args::{Arg, Args};
use crate::server::ctx::Ctx;

/// Parses `numkeys key [key …]`: the sales, each named once.
pub fn sales<'a>(args: &mut Args<'a>) -> Result<Vec<Arg<'a>>, Error> {
    let keys = args.counted("numkeys", config::max_keys())?;
    named_once(keys.iter().copied())?;
    Ok(keys)
}

/// Returns an error if a sale is named twice: it is not clear then what is wanted of it.
pub fn named_once<'a>(keys: impl Iterator<Item = Arg<'a>>) -> Result<(), Error> {
    let mut names: Vec<&[u8]> = keys.map(Arg::bytes).collect();
    names.sort_unstable();
    let twice = names.windows(2).any(|pair| matches!(pair, [one, other] if one == other));
    if twice { Err(Error::NamedTwice) } else { Ok(()) }
}

/// Replies `[status, [five], [five] …]`.
pub fn reply(ctx: &Ctx<'_>, status: Status, answers: &[Answer<'_>]) {
    ctx.reply_array(answers.len().saturating_add(1));
    ctx.reply_bytes(status.word().as_bytes());
    for answer in answers {
        stock_reply::reply(ctx, answer);
    }
}
