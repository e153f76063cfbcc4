//! `STOCK.MCANCEL`: gives the units of an id back in several sales.

use super::cart;
use super::{Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec};
use crate::module::sale_calls::Rule;

/// `STOCK.MCANCEL id numkeys key [key …]`
///
/// Gives the units of the order `id` back in each of the sales where it holds or has bought some, in one step.
///
/// Replies `[status, five, five …]`, with the five fields of `STOCK.CANCEL` for each sale, in the order named. The status is `OK` if this
/// call cancelled at least one order, else that of the first sale. Works outside the window, and when the server is out of memory.
///
/// Errors: `ERR` for a bad argument, and for a sale that is named twice; `WRONGTYPE`. Nothing was cancelled then. At most
/// `lockstock.max-keys` sales. O(k log n) for k sales with n holds in each.
pub struct StockMcancel;

impl Command for StockMcancel {
    const SPEC: Spec = Spec {
        name: c"stock.mcancel",
        flags: c"write",
        arity: -4,
        summary: c"Gives the units of an id back in several sales, once.",
        since: c"0.2.0",
        complexity: c"O(K*log(N)) with K sales and N holds in each",
        tips: c"",
        keys: Keys::Counted(2, 1, KeyUse::Update),
        args: &[Param::string(c"id"), Param::integer(c"numkeys"), Param::key().multiple()],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        cart::decide_held(ctx, args, |_, _| Rule::Each, |now, budget, id, sale| Ok(sale.cancel(now, budget, id, None)))
    }
}
