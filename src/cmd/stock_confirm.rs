//! `STOCK.CONFIRM`: a held order becomes a sold one.

use super::stock_reply;
use super::{Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec, clock};
use crate::core::id::IdText;
use crate::core::sale::{Budget, Change};

/// `STOCK.CONFIRM key id`
///
/// Turns the units that `id` holds in the sale `key` into sold ones. If the hold has expired, it takes the units again, provided that they
/// are still there and its buyer stays within the limit. If not, that is final: the order can never be confirmed.
///
/// Replies `[status, units, remaining, deadline, ref]`: `OK`; `DUPLICATE` if the units were already sold to it; `EXPIRED` if the hold
/// expired and the units are gone, or an earlier confirmation was refused; `LIMIT` if the hold expired and its buyer has used up the limit
/// since; `CANCELLED`; `NOORDER`; `NOSTOCK`. Works outside the window, and when the server is out of memory.
///
/// Errors: `ERR` for a bad argument, `WRONGTYPE`. O(log n) with n holds.
pub struct StockConfirm;

impl Command for StockConfirm {
    const SPEC: Spec = Spec {
        name: c"stock.confirm",
        flags: c"write fast",
        arity: 3,
        summary: c"Makes a hold a sale, also late if the units are still there.",
        since: c"0.1.0",
        complexity: c"O(log(N)) with N holds",
        tips: c"",
        keys: Keys::First(KeyUse::Update),
        args: &[Param::key(), Param::string(c"id")],
    };

    type Error = Error;

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let (key, id) = args.key_and_ident("id")?;
        let said = Change::Confirm { id: IdText::from(id) };
        stock_reply::decide(ctx, key, Some(&said), |sale| Ok(sale.confirm(clock::now().ms, Budget::COMMAND, id)))
    }
}
