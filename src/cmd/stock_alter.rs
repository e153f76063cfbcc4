//! `STOCK.ALTER`: changes the terms of a sale.

use super::stock_reply::{TIME, UNITS};
use super::{Arg, Args, Command, Ctx, Error, KeyUse, Keys, Param, Range, Spec, clock};
use crate::core::sale::Alteration;
use crate::core::time::UnixMs;
use crate::module::sale_calls;

/// `STOCK.ALTER key [LIMIT units|0] [START unix-ms|0] [END unix-ms|0] [REBUY yes|no]`
///
/// Changes terms of the sale `key`: the limit per buyer, the window, and whether expired and cancelled ids may buy again. 0 removes a
/// limit, a start or an end. Existing holds and sold units stay. If the window is open then, orders on the waitlist
/// are served in the same step.
///
/// Replies OK. Errors: `ERR` for a bad argument and for a window that ends before it starts, `NOSTOCK` if there is no such sale,
/// `WRONGTYPE`. O(1), and O(log N) for each order that it serves.
pub struct StockAlter;

impl Command for StockAlter {
    const SPEC: Spec = Spec {
        name: c"stock.alter",
        flags: c"write deny-oom fast",
        arity: -2,
        summary: c"Changes the limit, the window or the rebuy rule of a sale.",
        since: c"0.1.0",
        complexity: c"O(1), with a waitlist O(M*log(N)) with M orders served, 100 at the most, and N orders on it",
        tips: c"",
        keys: Keys::First(KeyUse::Update),
        args: &[
            Param::key(),
            Param::integer(c"units").after(c"LIMIT").optional(),
            Param::unix_time(c"start-unix-ms").after(c"START").optional(),
            Param::unix_time(c"end-unix-ms").after(c"END").optional(),
            Param::one_of(c"rebuy", &[Param::word(c"yes", c"yes"), Param::word(c"no", c"no")])
                .after(c"REBUY")
                .optional(),
        ],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let (key, alteration) = parse(args)?;
        let now = clock::now().ms;
        sale_calls::change(ctx, key, None, |sale| Ok(((), sale.alter(now, &alteration)?)))?;
        ctx.reply_ok();
        Ok(())
    }
}

pub(crate) fn parse(mut args: Args<'_>) -> Result<(Arg<'_>, Alteration), Error> {
    let key = args.next()?;
    let (mut limit, mut start, mut end, mut rebuy) = (None, None, None, None);
    while let Some(word) = args.keyword() {
        match word.text() {
            b"LIMIT" if limit.is_none() => limit = Some(args.unsigned("LIMIT", Range { min: 0, ..UNITS })?),
            b"START" if start.is_none() => start = Some(time(args.integer("START", TIME)?)),
            b"END" if end.is_none() => end = Some(time(args.integer("END", TIME)?)),
            b"REBUY" if rebuy.is_none() => rebuy = Some(args.yes_or_no("REBUY")?),
            _ => return Err(args.unknown().into()),
        }
    }
    Ok((key, Alteration { limit, start, end, rebuy }))
}

/// A start or end time; 0 for none.
pub fn time(unix_ms: i64) -> Option<UnixMs> {
    (unix_ms > 0).then_some(UnixMs(unix_ms))
}
