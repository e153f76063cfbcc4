//! `STOCK.CANCEL`: cancels an order.

use super::Command;
use super::stock_reply;
use crate::core::id::IdText;
use crate::core::sale::Change;
use crate::error::Error;
use crate::module::sale_session;
use crate::server::args::{Arg, Args};
use crate::server::clock;
use crate::server::entry::{Call, Run};
use crate::server::keyspec::{KeyUse, Keys};
use crate::server::register::{self, Spec};

/// `STOCK.CANCEL key id`
///
/// Returns the units that `id` holds or has bought to the sale `key`, once.
///
/// Replies `[status, units, remaining, deadline, ref]`: `OK`; `DUPLICATE` if it was already cancelled; `EXPIRED` if its hold has expired;
/// `NOORDER`; `NOSTOCK`. Works outside the window, and when the server is out of memory.
///
/// Errors: `ERR` for a bad argument, `WRONGTYPE`. O(log n) with n holds.
pub struct StockCancel;

impl Command for StockCancel {
    const SPEC: Spec = Spec {
        name: c"stock.cancel",
        flags: c"write fast",
        acl: c"write fast",
        arity: 3,
        summary: c"Gives the units of a hold or a sale back, once.",
        since: c"0.1.0",
        complexity: c"O(log(N)) with N holds",
        tips: c"",
        keys: Keys::First(KeyUse::Update),
        args: &[register::Arg::key(), register::Arg::string(c"id")],
    };
}

pub(crate) fn parse(mut args: Args<'_>) -> Result<(Arg<'_>, &[u8]), Error> {
    let words = (args.next()?, args.ident_bytes("id")?);
    args.finish()?;
    Ok(words)
}

impl Run for StockCancel {
    type Error = Error;

    fn run(call: Call<'_>) -> Result<(), Error> {
        let Call { mut ctx, args } = call;
        let (key, id) = parse(args)?;
        let said = Change::Cancel { id: IdText::from(id) };
        if sale_session::applies(&mut ctx, key, Some(&said))? {
            return Ok(());
        }
        let now = clock::now().ms;
        let answer = sale_session::decide(&mut ctx, key, Some(&said), |sale| Ok(sale.cancel(now, id)))?;
        stock_reply::reply(&ctx, &answer);
        Ok(())
    }
}
