//! `STOCK.BUYER`: the units of a buyer.

use super::Command;
use crate::error::Error;
use crate::module::sale_session;
use crate::server::args::{Arg, Args};
use crate::server::clock;
use crate::server::entry::{Call, Run};
use crate::server::keyspec::{KeyUse, Keys};
use crate::server::register::{self, Spec};

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
        acl: c"read fast",
        arity: 3,
        summary: c"Tells how many units a buyer has, and may have.",
        since: c"0.1.0",
        complexity: c"O(1)",
        tips: c"",
        keys: Keys::First(KeyUse::Read),
        args: &[register::Arg::key(), register::Arg::string(c"buyer")],
    };
}

pub(crate) fn parse(mut args: Args<'_>) -> Result<(Arg<'_>, &[u8]), Error> {
    let words = (args.next()?, args.ident_bytes("buyer")?);
    args.finish()?;
    Ok(words)
}

impl Run for StockBuyer {
    type Error = Error;

    fn run(call: Call<'_>) -> Result<(), Error> {
        let Call { mut ctx, args } = call;
        let (key, buyer) = parse(args)?;
        let now = clock::now().ms;
        sale_session::read(&mut ctx, key, |ctx, sale| match sale {
            None => ctx.reply_null(),
            Some(sale) => {
                ctx.reply_array(2);
                ctx.reply_int(sale.buyer(now, buyer));
                ctx.reply_int(sale.terms().limit);
            }
        })
    }
}
