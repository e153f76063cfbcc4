//! `STOCK.INFO`: the state of a sale.

use super::Command;
use crate::core::sale::Sale;
use crate::core::time::UnixMs;
use crate::error::Error;
use crate::module::sale_session;
use crate::server::args::{Arg, Args};
use crate::server::clock;
use crate::server::ctx::Ctx;
use crate::server::entry::{Call, Run};
use crate::server::keyspec::{KeyUse, Keys};
use crate::server::register::{self, Spec};

/// `STOCK.INFO key`
///
/// Replies null if there is no sale `key`, else fields and values (a map in RESP3). Units: `total` = `remaining` + `held` + `sold`.
/// Numbers: `orders`, `buyers`. Terms: `limit` (0: none), `start` and `end` in Unix milliseconds (0: none), `rebuy` (yes or no), `stream`
/// (empty: none), and, only in a sale created with DEADLINES, `deadlines` (yes). `seq`: the number of order changes so far. `waiting`: the
/// number of orders on the waitlist. Counted since this server loaded the sale, and neither saved nor replicated: `ok`, `duplicate`,
/// `soldout`, `limited`, `expired`, `cancelled`, `confirmed`.
///
/// Errors: `WRONGTYPE`. O(1).
pub struct StockInfo;

impl Command for StockInfo {
    const SPEC: Spec = Spec {
        name: c"stock.info",
        flags: c"readonly fast",
        acl: c"read fast",
        arity: 2,
        summary: c"Tells how a sale stands: units, orders, conditions and counters.",
        since: c"0.1.0",
        complexity: c"O(1)",
        tips: c"nondeterministic_output",
        keys: Keys::First(KeyUse::Read),
        args: &[register::Arg::key()],
    };
}

pub(crate) fn parse(mut args: Args<'_>) -> Result<Arg<'_>, Error> {
    let key = args.next()?;
    args.finish()?;
    Ok(key)
}

impl Run for StockInfo {
    type Error = Error;

    fn run(call: Call<'_>) -> Result<(), Error> {
        let Call { mut ctx, args } = call;
        let key = parse(args)?;
        let now = clock::now().ms;
        sale_session::read(&mut ctx, key, |ctx, sale| match sale {
            None => ctx.reply_null(),
            Some(sale) => reply(ctx, sale, now),
        })
    }
}

fn reply(ctx: &Ctx<'_>, sale: &Sale, now: UnixMs) {
    let (info, terms) = (sale.info(now), sale.terms());
    let number = |name: &str, value: u64| {
        ctx.reply_bytes(name.as_bytes());
        ctx.reply_int(value);
    };
    let text = |name: &str, value: &[u8]| {
        ctx.reply_bytes(name.as_bytes());
        ctx.reply_bytes(value);
    };
    let time = |name: &str, value: Option<UnixMs>| {
        ctx.reply_bytes(name.as_bytes());
        ctx.reply_int(value.map_or(0, |time| time.0));
    };
    ctx.reply_map(if terms.tells_deadlines() { 21 } else { 20 });
    number("total", info.total);
    number("remaining", info.remaining);
    number("held", info.held);
    number("sold", info.sold);
    number("orders", info.orders);
    number("buyers", info.buyers);
    number("limit", terms.limit);
    time("start", terms.start);
    time("end", terms.end);
    text("rebuy", if terms.rebuy { b"yes" } else { b"no" });
    text("stream", terms.stream.as_ref().map_or(&[], |stream| &stream.key));
    if terms.tells_deadlines() {
        text("deadlines", b"yes");
    }
    number("seq", info.seq);
    number("waiting", info.waiting);
    number("ok", info.counters.ok);
    number("duplicate", info.counters.duplicate);
    number("soldout", info.counters.soldout);
    number("limited", info.counters.limited);
    number("expired", info.counters.expired);
    number("cancelled", info.counters.cancelled);
    number("confirmed", info.counters.confirmed);
}
