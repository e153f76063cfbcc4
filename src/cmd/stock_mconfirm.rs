//! `STOCK.MCONFIRM`: the held orders of an id in several sales become sold ones, all or none.

use super::cart;
use super::{Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec};
use crate::module::sale_calls::Rule;

/// `STOCK.MCONFIRM id numkeys key [key …]`
///
/// Turns the units that `id` holds in each of the sales into sold ones, or in none of them. A hold that has expired takes its units again, as
/// with `STOCK.CONFIRM`. If a sale refuses that, it is final for that sale, and not for those that say `SKIPPED`.
///
/// Replies `[status, five, five …]`, as `STOCK.MDECR_ONCE`. Works outside the window, and when the server is out of memory.
///
/// Errors: `ERR` for a bad argument, and for a sale that is named twice; `WRONGTYPE`. Nothing has changed then. At most `lockstock.max-keys`
/// sales. O(k log n) for k sales with n holds in each.
pub struct StockMconfirm;

impl Command for StockMconfirm {
    const SPEC: Spec = Spec {
        name: c"stock.mconfirm",
        flags: c"write",
        arity: -4,
        summary: c"Sells the units that an id holds in several sales, all or none.",
        since: c"0.2.0",
        complexity: c"O(K*log(N)) with K sales and N holds in each",
        tips: c"",
        keys: Keys::Counted(2, 1, KeyUse::Update),
        args: &[Param::string(c"id"), Param::integer(c"numkeys"), Param::key().multiple()],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        cart::decide_held(ctx, args, Rule::AllOrNone, |now, budget, id, sale| sale.confirm(now, budget, id, None))
    }
}
