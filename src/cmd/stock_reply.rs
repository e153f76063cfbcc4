//! The reply of every command on an order: `[status, units, remaining, deadline, ref]`.

use std::iter;

use super::{Arg, Ctx, Error, Range};
use crate::core::limits::MAX_UNITS;
use crate::core::sale::{Answer, Budget, Change, Decision, Sale};
use crate::core::time::UnixMs;
use crate::module::sale_calls::{self, Rule};

/// Quantities and limits: up to the largest integer that every client can read exactly.
pub const UNITS: Range = Range::up_to(MAX_UNITS);

/// Start and end times: Unix milliseconds; 0 for none.
pub const TIME: Range = Range::new(0..=i64::MAX);

/// Decides on an order of the sale `key` and replies. If the words of the command, which spell the change `said`, report a decision of
/// another server, applies that decision instead.
pub fn decide<'a>(
    ctx: &mut Ctx<'_>,
    key: Arg<'a>,
    said: Option<&Change<'_>>,
    decide: impl Fn(Budget, &Sale) -> Result<Decision<'a>, Error>,
) -> Result<(), Error> {
    if !sale_calls::applies(ctx, key, said)? {
        let decide = |_, budget, sale: &Sale| decide(budget, sale);
        let (_, answers) = sale_calls::decide(ctx, iter::once(key), Rule::Each, said, decide)?;
        answers.iter().for_each(|answer| reply(ctx, answer));
    }
    Ok(())
}

/// Writes an answer as the reply.
pub fn reply(ctx: &Ctx<'_>, answer: &Answer<'_>) {
    ctx.reply_array(5);
    ctx.reply_bytes(answer.status.word().as_bytes());
    ctx.reply_int(answer.units);
    ctx.reply_int(answer.remaining);
    ctx.reply_int(unix_ms(answer.deadline));
    ctx.reply_bytes(&answer.reference);
}

/// A time in the form for replies; −1 for none.
pub fn unix_ms(time: Option<UnixMs>) -> i64 {
    time.map_or(-1, |time| time.0)
}
