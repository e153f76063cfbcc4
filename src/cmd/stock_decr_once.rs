//! `STOCK.DECR_ONCE`: takes units for an id, once.

use super::order_options::OrderOptions;
use super::stock_reply::{self, UNITS};
use super::{Arg, Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec, clock};
use crate::core::sale::Take;
use crate::core::time::UnixMs;

/// `STOCK.DECR_ONCE key id [QTY n] [BUYER buyer] [HOLD ms] [REF ref] [WAITLIST]`
///
/// Takes `n` units (default: one) from the sale `key` for `id`, once. The id names an order that must happen only once. It is the buyer's
/// id for one order per person; or the order's id, together with `BUYER`, for a limit per buyer over several orders. Without `BUYER` the id
/// is its own buyer.
///
/// - `HOLD ms`: reserves the units; they are sellable again at the deadline unless the order is confirmed. Without it they are sold at
///   once.
/// - `REF`: stored with the order; every answer about the order includes it.
/// - `WAITLIST`: where the answer would be `SOLDOUT` or `INSUFFICIENT`, the order joins the sale's waitlist: `[QUEUED, 0, remaining, -1,
///   ref]`. Repeated, in whatever form: `QUEUED`, with the same place. Units that come back (by expiration, cancellation or restock) go to
///   the waitlist strictly in order; the order is then held for its `HOLD` from that instant on, or sold. While orders wait, no other order is
///   sold anything. `STOCK.CANCEL` leaves the waitlist, and `STOCK.ORDER` tells the place. An order for more than the sale's total is
///   `INSUFFICIENT`.
///
/// Replies `[status, units, remaining, deadline, ref]`. The checks come in this order: the order of this id (`DUPLICATE`: the earlier order
/// stands, and the reply shows its units; `QUEUED`; `EXPIRED`, `CANCELLED`), the buyer's limit (`LIMIT`), the window (`NOTSTARTED`,
/// `ENDED`), the stock (`SOLDOUT`, `INSUFFICIENT`). So a buyer that repeats a successful request still sees its order after the sale is
/// sold out. `NOSTOCK` if there is no such sale.
///
/// Errors: `ERR` for a bad argument; `ERR` for a `BUYER` that differs from the one of this id's held, sold or waiting order, because then two
/// callers have chosen the same id; `WRONGTYPE`. O(1), with `HOLD` or `WAITLIST` O(log n) in the
/// holds and in waiting orders.
pub struct StockDecrOnce;

impl Command for StockDecrOnce {
    const SPEC: Spec = Spec {
        name: c"stock.decr_once",
        flags: c"write deny-oom fast",
        arity: -3,
        summary: c"Takes units from a sale for an id, exactly once, and never more than there are.",
        since: c"0.1.0",
        complexity: c"O(1), with HOLD or WAITLIST O(log(N)) with N holds and orders on the waitlist",
        tips: c"",
        keys: Keys::First(KeyUse::Update),
        args: &[
            Param::key(),
            Param::string(c"id"),
            Param::integer(c"units").after(c"QTY").optional(),
            Param::string(c"buyer").after(c"BUYER").optional(),
            Param::integer(c"milliseconds").after(c"HOLD").optional(),
            Param::string(c"ref").after(c"REF").optional(),
            Param::word(c"waitlist", c"WAITLIST").optional().since(c"0.2.0"),
        ],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let now = clock::now().ms;
        let (key, take, waitlist) = parse(args, now)?;
        stock_reply::decide(ctx, key, take.sold().as_ref(), |budget, sale| {
            Ok(if waitlist { sale.take_or_wait(now, &take)? } else { sale.take(now, budget, &take)? })
        })
    }
}

/// The key, the order, and whether it may join the waitlist.
pub(crate) fn parse(mut args: Args<'_>, now: UnixMs) -> Result<(Arg<'_>, Take<'_>, bool), Error> {
    let key = args.next()?;
    let id = args.ident_bytes("id")?;
    let (mut qty, mut options, mut waitlist) = (None, OrderOptions::default(), false);
    while let Some(word) = args.keyword() {
        match word.text() {
            b"QTY" if qty.is_none() => qty = Some(args.unsigned("QTY", UNITS)?),
            b"WAITLIST" if !waitlist => waitlist = true,
            word => options.option(word, &mut args, now)?,
        }
    }
    Ok((key, options.take(id, qty.unwrap_or(1)), waitlist))
}
