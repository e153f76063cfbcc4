//! `STOCK.BUYER`: the units of a buyer.

use super::{Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec, clock};
use crate::module::sale_calls;

/// `STOCK.BUYER key buyer`
///
/// Replies `[units, limit]`: the units of the sale `key` that `buyer` holds and has bought in all orders, and the maximum for one buyer (0:
/// no limit); null if there is no such sale.
///
/// Errors: `ERR` for a bad argument, `WRONGTYPE`. O(1).
pub struct StockBuyer;

impl Command for StockBuyer {
    const SPEC: Spec = Spec {
        name: c"stock.buyer",
        flags: c"readonly fast",
        arity: 3,
        summary: c"Tells how many units a buyer has, and may have.",
        since: c"0.1.0",
        complexity: c"O(1)",
        tips: c"",
        keys: Keys::First(KeyUse::Read),
        args: &[Param::key(), Param::string(c"buyer")],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let (key, buyer) = args.key_and_ident("buyer")?;
        let now = clock::now().ms;
        sale_calls::read(ctx, key, |ctx, sale| match sale {
            None => ctx.reply_null(),
            Some(sale) => {
                ctx.reply_array(2);
                ctx.reply_int(sale.buyer(now, buyer));
                ctx.reply_int(sale.terms().limit);
            }
        })
    }
}
