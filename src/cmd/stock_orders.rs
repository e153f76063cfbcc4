//! `STOCK.ORDERS`: the orders of a sale, page by page.

use super::stock_reply::unix_ms;
use super::{Arg, Args, Command, Ctx, Error, KeyUse, Keys, Param, Range, Spec, clock};
use crate::core::sale::State;
use crate::module::sale_calls;

/// `STOCK.ORDERS key cursor [COUNT n] [STATE held|sold|cancelled|expired|waiting]`
///
/// Replies `[next cursor, [[id, state, units, buyer, ref, deadline], …]]`. Begin with cursor 0 and continue with the returned cursor until
/// it is 0 again. `COUNT` (10) is the approximate number of rows per page; a page may have fewer rows, or none, without being the last. An
/// order that exists during the whole iteration is returned exactly once, even while the sale goes on.
///
/// A sale that does not exist has no orders. Errors: `ERR` for a bad argument, `WRONGTYPE`. O(n) with n orders looked at, at most 4096.
pub struct StockOrders;

impl Command for StockOrders {
    const SPEC: Spec = Spec {
        name: c"stock.orders",
        flags: c"readonly",
        arity: -3,
        summary: c"Iterates over the orders of a sale.",
        since: c"0.1.0",
        complexity: c"O(N) with N orders looked at, 4096 at the most",
        tips: c"nondeterministic_output_order",
        keys: Keys::First(KeyUse::Read),
        args: &[
            Param::key(),
            Param::integer(c"cursor"),
            Param::integer(c"count").after(c"COUNT").optional(),
            Param::one_of(
                c"state",
                &[
                    Param::word(c"held", c"held"),
                    Param::word(c"sold", c"sold"),
                    Param::word(c"cancelled", c"cancelled"),
                    Param::word(c"expired", c"expired"),
                    Param::word(c"waiting", c"waiting").since(c"0.2.0"),
                ],
            )
            .after(c"STATE")
            .optional(),
        ],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let (key, cursor, count, state) = parse(args)?;
        let now = clock::now().ms;
        sale_calls::read(ctx, key, |ctx, sale| {
            let page = sale.map(|sale| sale.page(now, cursor, count, state));
            ctx.reply_array(2);
            let next = page.as_ref().map_or(0, |page| page.next);
            ctx.reply_bytes(itoa::Buffer::new().format(next).as_bytes());
            let rows = page.map(|page| page.rows).unwrap_or_default();
            ctx.reply_array(rows.len());
            for order in rows {
                ctx.reply_array(6);
                ctx.reply_bytes(&order.id);
                ctx.reply_bytes(order.state.word().as_bytes());
                ctx.reply_int(order.units);
                ctx.reply_bytes(&order.buyer);
                ctx.reply_bytes(&order.reference);
                ctx.reply_int(unix_ms(order.deadline));
            }
        })
    }
}

/// The default number of rows per page.
const COUNT: u64 = 10;

/// The sale, the cursor, the number of rows, and the state that they are in.
pub(crate) fn parse(mut args: Args<'_>) -> Result<(Arg<'_>, u64, usize, Option<State>), Error> {
    let (key, cursor) = (args.next()?, args.unsigned("cursor", Range::new(0..=i64::MAX))?);
    let (mut count, mut state) = (None, None);
    while let Some(word) = args.keyword() {
        match word.text() {
            b"COUNT" if count.is_none() => count = Some(args.unsigned("COUNT", Range::new(1..=i64::MAX))?),
            b"STATE" if state.is_none() => {
                let word = args.next()?.bytes();
                let known = State::ALL.into_iter().find(|state| state.word().as_bytes().eq_ignore_ascii_case(word));
                state = Some(known.ok_or(Error::State)?);
            }
            _ => return Err(args.unknown().into()),
        }
    }
    let count = usize::try_from(count.unwrap_or(COUNT)).unwrap_or(usize::MAX);
    Ok((key, cursor, count, state))
}
