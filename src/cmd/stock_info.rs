//! `STOCK.INFO`: the state of a sale.

use super::{Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec, clock};
use crate::core::sale::Sale;
use crate::core::time::UnixMs;
use crate::module::sale_session;

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
        summary: c"Tells how a sale stands: units, orders, conditions and counters.",
        since: c"0.1.0",
        complexity: c"O(1)",
        tips: c"nondeterministic_output",
        keys: Keys::First(KeyUse::Read),
        args: &[Param::key()],
    };

    type Error = Error;

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let key = args.only()?;
        let now = clock::now().ms;
        sale_session::read(ctx, key, |ctx, sale| match sale {
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
