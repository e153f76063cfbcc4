//! `STOCK.CANCEL`: cancels an order.

use super::stock_reply;
use super::{Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec, clock};
use crate::core::id::IdText;
use crate::core::sale::{Budget, Change};

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
        let (key, id) = args.key_and_ident("id")?;
        let said = Change::Cancel { id: IdText::from(id) };
        stock_reply::decide(ctx, key, Some(&said), |sale| Ok(sale.cancel(clock::now().ms, Budget::COMMAND, id)))
    }
}
