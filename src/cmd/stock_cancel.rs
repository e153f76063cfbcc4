//! `STOCK.CANCEL`: cancels an order.

use super::stock_reply;
use super::{Arg, Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec, clock};
use crate::core::id::IdText;
use crate::core::sale::Change;
use crate::module::sale_session;

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
        arity: 3,
        summary: c"Gives the units of a hold or a sale back, once.",
        since: c"0.1.0",
        complexity: c"O(log(N)) with N holds",
        tips: c"",
        keys: Keys::First(KeyUse::Update),
        args: &[Param::key(), Param::string(c"id")],
    };

    type Error = Error;

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let (key, id) = parse(args)?;
        let said = Change::Cancel { id: IdText::from(id) };
        if sale_session::applies(ctx, key, Some(&said))? {
            return Ok(());
        }
        let now = clock::now().ms;
        let answer = sale_session::decide(ctx, key, Some(&said), |sale| Ok(sale.cancel(now, id)))?;
        stock_reply::reply(ctx, &answer);
        Ok(())
    }
}

pub(crate) fn parse(mut args: Args<'_>) -> Result<(Arg<'_>, &[u8]), Error> {
    let words = (args.next()?, args.ident_bytes("id")?);
    args.finish()?;
    Ok(words)
}
