//! `STOCK.CREATE`: creates a sale.

use super::stock_alter::time;
use super::stock_reply::{TIME, UNITS};
use super::{Arg, ArgError, Args, Command, Ctx, Error, KeyUse, Keys, Param, Range, Spec};
use crate::core::sale::{Sale, Stream, Terms};
use crate::module::sale_calls;

/// `STOCK.CREATE key total [LIMIT units] [START unix-ms] [END unix-ms] [REBUY] [STREAM stream-key [DEADLINES]]`
///
/// Creates the sale `key` with `total` units (0 or more).
///
/// - `LIMIT`: the most units that one buyer may hold and have bought. `START`, `END`: the sale is open from the first to before the second.
/// - `REBUY`: an id whose hold expired, or that was cancelled, may buy again; without it each id may buy only once ever.
/// - `STREAM`: every change of an order is appended to this Redis stream in the same step.
/// - `DEADLINES`: these events have the deadline of the hold, and `STOCK.EXTEND` is an event, too. Only with `STREAM`.
///
/// Replies OK. Errors: `ERR` for a bad argument and for a window that ends before it starts, `BUSYKEY` if the key is not empty, `WRONGTYPE`
/// if the stream's key holds a value that is not a stream. O(1).
pub struct StockCreate;

impl Command for StockCreate {
    const SPEC: Spec = Spec {
        name: c"stock.create",
        flags: c"write deny-oom fast",
        arity: -3,
        summary: c"Opens a sale of a number of units.",
        since: c"0.1.0",
        complexity: c"O(1)",
        tips: c"",
        keys: Keys::FirstAndBehind(KeyUse::Insert, c"STREAM"),
        args: &[
            Param::key(),
            Param::integer(c"total"),
            Param::integer(c"units").after(c"LIMIT").optional(),
            Param::unix_time(c"start-unix-ms").after(c"START").optional(),
            Param::unix_time(c"end-unix-ms").after(c"END").optional(),
            Param::word(c"rebuy", c"REBUY").optional(),
            Param::group(
                c"stream",
                &[Param::other_key(c"stream-key"), Param::word(c"deadlines", c"DEADLINES").optional()],
            )
            .after(c"STREAM")
            .optional(),
        ],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let (key, terms) = parse(args)?;
        sale_calls::create(ctx, key, Sale::new(terms))?;
        ctx.reply_ok();
        Ok(())
    }
}

pub(crate) fn parse(mut args: Args<'_>) -> Result<(Arg<'_>, Terms), Error> {
    let key = args.next()?;
    let total = args.unsigned("total", Range { min: 0, ..UNITS })?;
    let (mut limit, mut start, mut end, mut rebuy, mut stream, mut deadlines) = (None, None, None, false, None, false);
    while let Some(word) = args.keyword() {
        match word.text() {
            b"LIMIT" if limit.is_none() => limit = Some(args.unsigned("LIMIT", UNITS)?),
            b"START" if start.is_none() => start = Some(args.integer("START", TIME)?),
            b"END" if end.is_none() => end = Some(args.integer("END", TIME)?),
            b"REBUY" if !rebuy => rebuy = true,
            b"STREAM" if stream.is_none() => stream = Some(stream_of(&mut args, key)?),
            b"DEADLINES" if !deadlines => deadlines = true,
            _ => return Err(args.unknown().into()),
        }
    }
    if deadlines && stream.is_none() {
        return Err(ArgError::Needs { option: "DEADLINES", other: "STREAM" }.into());
    }
    let stream = stream.map(|key| Stream { key, deadlines });
    Ok((
        key,
        Terms { total, limit: limit.unwrap_or(0), start: start.and_then(time), end: end.and_then(time), rebuy, stream },
    ))
}

/// The key after `STREAM`. It cannot be the sale's own key, which holds no stream.
fn stream_of(args: &mut Args<'_>, sale: Arg<'_>) -> Result<Box<[u8]>, Error> {
    match args.next()?.bytes() {
        [] => Err(Error::NoStreamKey),
        stream if stream == sale.bytes() => Err(Error::SameKey),
        stream => Ok(stream.into()),
    }
}
