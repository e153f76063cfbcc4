//! `STOCK.EXTEND`: changes the deadline of a hold.

use super::stock_reply;
use super::{Arg, Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec, clock};
use crate::core::time::UnixMs;

/// `STOCK.EXTEND key id PX ms`
///
/// Sets the deadline of the live hold of `id` to `ms` milliseconds from now, which may be later or earlier than before. In a sale with
/// deadlines in its events this is an event; if the event cannot be appended, the deadline stays.
///
/// Replies `[status, units, remaining, deadline, ref]`: `OK`; `DUPLICATE` if the units are sold, so there is nothing to extend; `EXPIRED`;
/// `CANCELLED`; `NOORDER`; `NOSTOCK`. Works outside the window, and when the server is out of memory.
///
/// Errors: `ERR` for a bad argument, `WRONGTYPE`. O(log n) with n holds.
pub struct StockExtend;

impl Command for StockExtend {
    const SPEC: Spec = Spec {
        name: c"stock.extend",
        flags: c"write fast",
        arity: 5,
        summary: c"Moves the deadline of a live hold.",
        since: c"0.1.0",
        complexity: c"O(log(N)) with N holds",
        tips: c"",
        keys: Keys::First(KeyUse::Update),
        args: &[Param::key(), Param::string(c"id"), Param::integer(c"milliseconds").after(c"PX")],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let now = clock::now().ms;
        let (key, id, deadline) = parse(args, now)?;
        stock_reply::decide(ctx, key, None, |_, sale| Ok(sale.extend(now, id, deadline)))
    }
}

pub(crate) fn parse(mut args: Args<'_>, now: UnixMs) -> Result<(Arg<'_>, &[u8], UnixMs), Error> {
    let (key, id) = (args.next()?, args.ident_bytes("id")?);
    if args.keyword().is_none_or(|word| word.text() != b"PX") {
        return Err(args.unknown().into());
    }
    let span = args.span_from("PX", 1, now)?;
    args.finish()?;
    Ok((key, id, now.plus(span).ok_or(Error::Internal)?))
}
