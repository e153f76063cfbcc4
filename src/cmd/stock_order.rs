//! `STOCK.ORDER`: one order.

use super::stock_reply::unix_ms;
use super::{Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec, clock};
use crate::module::sale_calls;

/// `STOCK.ORDER key id`
///
/// Replies null if the sale `key` has no order of `id`, or does not exist; else fields and values (a map in RESP3): `state` (held, sold,
/// cancelled, expired, waiting), its current `units`, `buyer`, `ref`, and the `deadline` of its hold in Unix milliseconds (−1: none). If it
/// waits, `units` is 0, and there is also its `place` in the sale's waitlist (1: next).
///
/// Errors: `ERR` for a bad argument, `WRONGTYPE`. O(1), of an order on the waitlist O(log n) with n orders on it.
pub struct StockOrder;

impl Command for StockOrder {
    const SPEC: Spec = Spec {
        name: c"stock.order",
        flags: c"readonly fast",
        arity: 3,
        summary: c"Tells what an id holds or has bought.",
        since: c"0.1.0",
        complexity: c"O(1), of an order on the waitlist O(log(N)) with N orders on it",
        tips: c"",
        keys: Keys::First(KeyUse::Read),
        args: &[Param::key(), Param::string(c"id")],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let (key, id) = args.key_and_ident("id")?;
        let now = clock::now().ms;
        sale_calls::read(ctx, key, |ctx, sale| {
            match sale.and_then(|sale| Some((sale.order(now, id)?, sale.place(id)))) {
                None => ctx.reply_null(),
                Some((order, place)) => {
                    ctx.reply_map(if place.is_some() { 6 } else { 5 });
                    ctx.reply_bytes_field("state", order.state.word().as_bytes());
                    ctx.reply_int_field("units", order.units);
                    ctx.reply_bytes_field("buyer", &order.buyer);
                    ctx.reply_bytes_field("ref", &order.reference);
                    ctx.reply_int_field("deadline", unix_ms(order.deadline));
                    if let Some(place) = place {
                        ctx.reply_int_field("place", place);
                    }
                }
            }
        })
    }
}
