//! `STOCK.CONFIRM`: a held order becomes a sold one.

use super::keep::{self, KEEP};
use super::stock_reply;
use super::{Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec, clock};
use crate::core::id::IdText;
use crate::core::sale::Change;

/// `STOCK.CONFIRM key id [KEEP n]`
///
/// Turns the units that `id` holds in the sale `key` into sold ones. If the hold has expired, it takes the units again, provided that they
/// are still there and its buyer stays within the limit. If not, that is final: the order can never be confirmed.
///
/// - `KEEP`: sells only `n` of the units. The others go back in the same step, to the waitlist first. After the deadline only `n` are taken
///   again. An order that is sold already stays as it is.
///
/// Replies `[status, units, remaining, deadline, ref]`: `OK`; `DUPLICATE` if the units were already sold to it; `EXPIRED` if the hold
/// expired and the units are gone, or an earlier confirmation was refused; `LIMIT` if the hold expired and its buyer has used up the limit
/// since; `CANCELLED`; `NOORDER`; `NOSTOCK`. Works outside the window, and when the server is out of memory.
///
/// Errors: `ERR` for a bad argument and for a `KEEP` of more than is or was held, which is not final; `WRONGTYPE`. O(log n) with n holds.
pub struct StockConfirm;

impl Command for StockConfirm {
    const SPEC: Spec = Spec {
        name: c"stock.confirm",
        flags: c"write fast",
        arity: -3,
        summary: c"Sells the units that an id holds, even after the deadline if they are still there.",
        since: c"0.1.0",
        complexity: c"O(log(N)) with N holds",
        tips: c"",
        keys: Keys::First(KeyUse::Update),
        args: &[Param::key(), Param::string(c"id"), KEEP],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let (key, id, keep) = keep::parse(args)?;
        let said = Change::Confirm { id: IdText::from(id), units: keep };
        stock_reply::decide(ctx, key, Some(&said), |budget, sale| {
            Ok(sale.confirm(clock::now().ms, budget, id, keep)?)
        })
    }
}
