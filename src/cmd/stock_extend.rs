//! `STOCK.EXTEND`: changes the deadline of a hold.

use super::Command;
use super::stock_reply;
use crate::core::time::UnixMs;
use crate::error::Error;
use crate::module::sale_session;
use crate::server::args::{Arg, Args, Range};
use crate::server::clock;
use crate::server::entry::{Call, Run};
use crate::server::keyspec::{KeyUse, Keys};
use crate::server::register::{self, Spec};

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
        acl: c"write fast",
        arity: 5,
        summary: c"Moves the deadline of a live hold.",
        since: c"0.1.0",
        complexity: c"O(log(N)) with N holds",
        tips: c"",
        keys: Keys::First(KeyUse::Update),
        args: &[
            register::Arg::key(),
            register::Arg::string(c"id"),
            register::Arg::integer(c"milliseconds").after(c"PX"),
        ],
    };
}

pub(crate) fn parse(mut args: Args<'_>, now: UnixMs) -> Result<(Arg<'_>, &[u8], UnixMs), Error> {
    let (key, id) = (args.next()?, args.ident_bytes("id")?);
    if args.keyword().is_none_or(|word| word.word() != b"PX") {
        return Err(Error::SYNTAX);
    }
    let span = args.millis("PX", Range::new(1..=UnixMs(i64::MAX).left(now).0))?;
    args.finish()?;
    Ok((key, id, now.plus(span).ok_or(Error::Internal)?))
}

impl Run for StockExtend {
    type Error = Error;

    fn run(call: Call<'_>) -> Result<(), Error> {
        let Call { mut ctx, args } = call;
        let now = clock::now().ms;
        let (key, id, deadline) = parse(args, now)?;
        let answer = sale_session::decide(&mut ctx, key, None, |sale| Ok(sale.extend(now, id, deadline)))?;
        stock_reply::reply(&ctx, &answer);
        Ok(())
    }
}
