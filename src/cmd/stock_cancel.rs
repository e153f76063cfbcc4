//! `STOCK.CANCEL`: cancels an order.

use super::keep::{self, KEEP};
use super::stock_reply;
use super::{Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec, clock};
use crate::core::id::IdText;
use crate::core::sale::Change;

/// `STOCK.CANCEL key id [KEEP n]`
///
/// Returns the units that `id` holds or has bought to the sale `key`, once.
///
/// - `KEEP`: leaves the order `n` units and returns the others in the same step, to the waitlist first. `OK` if this call returned units,
///   `DUPLICATE` if the order has `n` units or fewer, `QUEUED` if it waits, which it goes on doing.
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
        arity: -3,
        summary: c"Gives the units of a held or sold order back, once.",
        since: c"0.1.0",
        complexity: c"O(log(N)) with N holds",
        tips: c"",
        keys: Keys::First(KeyUse::Update),
        args: &[Param::key(), Param::string(c"id"), KEEP],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let (key, id, keep) = keep::parse(args)?;
        let id_text = IdText::from(id);
        let said = keep.map_or(Change::Cancel { id: id_text.clone() }, |units| Change::Keep { id: id_text, units });
        stock_reply::decide(ctx, key, Some(&said), |budget, sale| Ok(sale.cancel(clock::now().ms, budget, id, keep)))
    }
}
