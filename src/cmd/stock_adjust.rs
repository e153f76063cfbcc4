//! `STOCK.ADJUST`: adds units, or withdraws unsold ones.

use super::Command;
use crate::core::limits::MAX_UNITS;
use crate::error::Error;
use crate::module::sale_session;
use crate::server::args::{Arg, Args, Range};
use crate::server::clock;
use crate::server::entry::{Call, Run};
use crate::server::keyspec::{KeyUse, Keys};
use crate::server::register::{self, Spec};

/// `STOCK.ADJUST key delta`
///
/// Adds `delta` units to the sale `key`, or withdraws that many unsold units if it is negative.
///
/// Replies the sellable units after that. Errors: `ERR` for a bad argument, for withdrawing more than remain, and for a total above 2^53 −
/// 1; `NOSTOCK` if there is no such sale; `WRONGTYPE`. O(1).
pub struct StockAdjust;

/// The range of one adjustment.
const DELTA: Range = Range::either_way(MAX_UNITS);

impl Command for StockAdjust {
    const SPEC: Spec = Spec {
        name: c"stock.adjust",
        flags: c"write deny-oom fast",
        acl: c"write fast",
        arity: 3,
        summary: c"Adds units to a sale, or withdraws unsold ones.",
        complexity: c"O(1)",
        tips: c"",
        keys: Keys::First(KeyUse::Update),
        args: &[register::Arg::key(), register::Arg::integer(c"delta")],
    };
}

pub(crate) fn parse(mut args: Args<'_>) -> Result<(Arg<'_>, i64), Error> {
    let words = (args.next()?, args.integer("delta", DELTA)?);
    args.finish()?;
    Ok(words)
}

impl Run for StockAdjust {
    type Error = Error;

    fn run(call: Call<'_>) -> Result<(), Error> {
        let Call { mut ctx, args } = call;
        let (key, delta) = parse(args)?;
        let now = clock::now().ms;
        let remaining = sale_session::change(&mut ctx, key, |sale| Ok(sale.adjust(now, delta)?))?;
        ctx.reply_int(remaining.ok_or(Error::NoStock)?);
        Ok(())
    }
}
