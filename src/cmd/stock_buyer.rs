//! `STOCK.BUYER`: what a buyer has of a sale.

use super::Command;
use crate::error::Error;
use crate::server::clock;
use crate::server::entry::{Call, Run};
use crate::server::keyspec::{KeyUse, Keys};
use crate::server::register::{Arg, Spec};
use crate::service::sales;

/// `STOCK.BUYER key buyer`
///
/// Replies `[units, limit]`: what `buyer` holds and has bought of the sale `key` with all orders, and the most one buyer may have (0: no
/// limit); null if there is no such sale.
///
/// Errors: `ERR` for a bad argument, `WRONGTYPE`. O(1).
pub struct StockBuyer;

impl Command for StockBuyer {
    const SPEC: Spec = Spec {
        name: c"stock.buyer",
        flags: c"readonly fast",
        acl: c"read fast",
        arity: 3,
        summary: c"Tells how many units a buyer has, and may have.",
        complexity: c"O(1)",
        tips: c"",
        keys: Keys::First(KeyUse::Read),
        args: &[Arg::key(), Arg::string(c"buyer")],
    };
}

impl Run for StockBuyer {
    fn run(call: Call<'_>) -> Result<(), Error> {
        let Call { ctx, mut args } = call;
        let (key, buyer) = (args.next()?, args.ident_bytes("buyer")?);
        args.finish()?;
        let now = clock::now().ms;
        sales::read(ctx, key, |sale| match sale {
            None => ctx.reply_null(),
            Some(sale) => {
                ctx.reply_array(2);
                ctx.reply_int(sale.buyer(now, buyer));
                ctx.reply_int(sale.terms().limit);
            }
        })
    }
}
