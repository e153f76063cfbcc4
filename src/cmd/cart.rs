//! The common parts of the commands on several sales: their sales, and their reply.

use super::stock_reply;
use super::{Arg, Args, Ctx, Error, clock};
use crate::config;
use crate::core::sale::{Answer, Budget, Decision, KeepError, Sale, Status};
use crate::core::time::UnixMs;
use crate::module::sale_calls::{self, Rule};

/// Parses `id numkeys key [key …]`: the order, and its sales, each named once.
pub(crate) fn parse(mut args: Args<'_>) -> Result<(&[u8], Vec<Arg<'_>>), Error> {
    let (id, keys) = (args.ident_bytes("id")?, args.counted("numkeys", config::max_keys())?);
    named_once(keys.iter().copied())?;
    args.finish()?;
    Ok((id, keys))
}

/// Runs a command with the words of [`parse`], which asks each sale to `decide` on the order of the id.
pub fn decide_held<'w>(
    ctx: &mut Ctx<'_>,
    args: Args<'w>,
    rule: impl Fn(UnixMs, &'w [u8]) -> Rule<'w>,
    decide: impl Fn(UnixMs, Budget, &'w [u8], &Sale) -> Result<Decision<'w>, KeepError>,
) -> Result<(), Error> {
    let (id, keys) = parse(args)?;
    let now = clock::now().ms;
    let decide = |_, budget, sale: &Sale| Ok(decide(now, budget, id, sale)?);
    let (status, answers) = sale_calls::decide(ctx, keys.into_iter(), rule(now, id), None, decide)?;
    reply(ctx, status, &answers);
    Ok(())
}

/// Returns an error if a sale is named twice, because the two requests may contradict each other.
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
