//! `STOCK.INFO`: the state of a sale.

use super::{Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec, clock};
use crate::core::sale::Sale;
use crate::core::time::UnixMs;
use crate::module::sale_calls;

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
        arity: 2,
        summary: c"Tells the state of a sale: units, orders, conditions and counters.",
        since: c"0.1.0",
        complexity: c"O(1)",
        tips: c"nondeterministic_output",
        keys: Keys::First(KeyUse::Read),
        args: &[Param::key()],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let key = args.only()?;
        let now = clock::now().ms;
        sale_calls::read(ctx, key, |ctx, sale| match sale {
            None => ctx.reply_null(),
            Some(sale) => reply(ctx, sale, now),
        })
    }
}

fn reply(ctx: &Ctx<'_>, sale: &Sale, now: UnixMs) {
    let (info, terms, counters) = (sale.info(now), sale.terms(), sale.counters());
    ctx.reply_map(if terms.tells_deadlines() { 21 } else { 20 });
    ctx.reply_int_field("total", info.total);
    ctx.reply_int_field("remaining", info.remaining);
    ctx.reply_int_field("held", info.held);
    ctx.reply_int_field("sold", info.sold);
    ctx.reply_int_field("orders", sale.orders());
    ctx.reply_int_field("buyers", info.buyers);
    ctx.reply_int_field("limit", terms.limit);
    ctx.reply_int_field("start", terms.start.map_or(0, |time| time.0));
    ctx.reply_int_field("end", terms.end.map_or(0, |time| time.0));
    ctx.reply_bytes_field("rebuy", if terms.rebuy { b"yes" } else { b"no" });
    ctx.reply_bytes_field("stream", terms.stream.as_ref().map_or(&[], |stream| &stream.key));
    if terms.tells_deadlines() {
        ctx.reply_bytes_field("deadlines", b"yes");
    }
    ctx.reply_int_field("seq", sale.seq());
    ctx.reply_int_field("waiting", sale.waiting());
    ctx.reply_int_field("ok", counters.ok);
    ctx.reply_int_field("duplicate", counters.duplicate);
    ctx.reply_int_field("soldout", counters.soldout);
    ctx.reply_int_field("limited", counters.limited);
    ctx.reply_int_field("expired", counters.expired);
    ctx.reply_int_field("cancelled", counters.cancelled);
    ctx.reply_int_field("confirmed", counters.confirmed);
}
