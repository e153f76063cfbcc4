//! `STOCK.ALTER`: changes the terms of a sale.

use super::Command;
use super::stock_reply::{TIME, UNITS};
use crate::core::sale::Alteration;
use crate::core::time::UnixMs;
use crate::error::Error;
use crate::module::sale_session;
use crate::server::args::{Arg, Args, Range};
use crate::server::clock;
use crate::server::entry::{Call, Run};
use crate::server::keyspec::{KeyUse, Keys};
use crate::server::register::{self, Spec};

/// `STOCK.ALTER key [LIMIT units|0] [START unix-ms|0] [END unix-ms|0] [REBUY yes|no]`
///
/// Changes terms of the sale `key`: the limit per buyer, the window, and whether expired and cancelled ids may buy again. 0 removes a
/// limit, a start or an end. Existing holds and sold units stay. If the window is open then, who is on the waitlist
/// is served in the same step.
///
/// Replies OK. Errors: `ERR` for a bad argument and for a window that ends before it starts, `NOSTOCK` if there is no such sale,
/// `WRONGTYPE`. O(1).
pub struct StockAlter;

impl Command for StockAlter {
    const SPEC: Spec = Spec {
        name: c"stock.alter",
        flags: c"write deny-oom fast",
        acl: c"write fast",
        arity: -2,
        summary: c"Changes the limit, the window or the rebuy rule of a sale.",
        since: c"0.1.0",
        complexity: c"O(1)",
        tips: c"",
        keys: Keys::First(KeyUse::Update),
        args: &[
            register::Arg::key(),
            register::Arg::integer(c"units").after(c"LIMIT").optional(),
            register::Arg::unix_time(c"start-unix-ms").after(c"START").optional(),
            register::Arg::unix_time(c"end-unix-ms").after(c"END").optional(),
            register::Arg::one_of(c"rebuy", &[register::Arg::word(c"yes", c"yes"), register::Arg::word(c"no", c"no")])
                .after(c"REBUY")
                .optional(),
        ],
    };
}

pub(crate) fn parse(mut args: Args<'_>) -> Result<(Arg<'_>, Alteration), Error> {
    let key = args.next()?;
    let (mut limit, mut start, mut end, mut rebuy) = (None, None, None, None);
    while let Some(word) = args.keyword() {
        match word.word() {
            b"LIMIT" if limit.is_none() => limit = Some(args.unsigned("LIMIT", Range { min: 0, ..UNITS })?),
            b"START" if start.is_none() => start = Some(time(args.integer("START", TIME)?)),
            b"END" if end.is_none() => end = Some(time(args.integer("END", TIME)?)),
            b"REBUY" if rebuy.is_none() => rebuy = Some(args.yes_or_no("REBUY")?),
            _ => return Err(Error::SYNTAX),
        }
    }
    Ok((key, Alteration { limit, start, end, rebuy }))
}

/// A start or end time; 0 for none.
pub fn time(unix_ms: i64) -> Option<UnixMs> {
    (unix_ms > 0).then_some(UnixMs(unix_ms))
}

impl Run for StockAlter {
    type Error = Error;

    fn run(call: Call<'_>) -> Result<(), Error> {
        let Call { mut ctx, args } = call;
        let (key, alteration) = parse(args)?;
        let now = clock::now().ms;
        let altered = sale_session::change(&mut ctx, key, None, |sale| Ok(((), sale.alter(now, &alteration)?)))?;
        altered.ok_or(Error::NoStock)?;
        ctx.reply_ok();
        Ok(())
    }
}
