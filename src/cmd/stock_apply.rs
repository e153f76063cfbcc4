//! `STOCK.APPLY`: effects on a sale, for replicas and the AOF.

use super::{Arg, Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec};
use crate::config;
use crate::module::sale_calls;
use crate::module::sale_effect::{self, Effect};
use crate::server::origin;

/// `STOCK.APPLY key TAKEN id units [deadline [buyer [ref]]]`, `… WAITING id units [hold [buyer [ref]]]`, `… SERVED id [deadline]`,
/// `… CONFIRMED id [units]`, `… KEPT id units`, `… REFUSED id`, `… CANCELLED id`,
/// `… LAPSED id`, `… EXTENDED id deadline`, `… CUTOFF time`, `… ADJUSTED delta [id]`, `… ALTERED limit start end rebuy`,
/// `… LOAD payload`, `… MORE payload`
///
/// Applies an effect; it never requests anything. Nothing is decided, no clock is read, and nothing is appended to a stream. Times are Unix
/// milliseconds; 0 is none. The primary, AOF rewrites and the node that a slot is moving from send it. Only these may use it, unless
/// `lockstock.accept-effects` is yes: then every client with permission for the command can rewrite a sale, as with `RESTORE`.
///
/// Replies OK. Errors: `NOPERM` for any other sender, `ERR` for a bad argument or an effect that does not fit the sale, `NOSTOCK`,
/// `WRONGTYPE`. O(log n) with n holds.
pub struct StockApply;

impl Command for StockApply {
    const SPEC: Spec = Spec {
        name: c"stock.apply",
        flags: c"write admin",
        arity: -2,
        summary: c"Internal: carries the effects of stock commands to replicas and the AOF.",
        since: c"0.1.0",
        complexity: c"O(log(N)) with N holds",
        tips: c"",
        keys: Keys::First(KeyUse::Update),
        args: &[Param::key(), Param::string(c"effect"), Param::string(c"word").multiple()],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        if !origin::is_record(ctx) && !config::ACCEPT_EFFECTS.is_yes() {
            return Err(Error::Effects);
        }
        let (key, effect) = parse(args)?;
        match effect {
            Effect::Change(change) => sale_calls::apply(ctx, key, &change)?,
            Effect::Part(part) => sale_calls::restore(ctx, key, part)?,
        }
        ctx.reply_ok();
        Ok(())
    }
}

pub(crate) fn parse(mut args: Args<'_>) -> Result<(Arg<'_>, Effect<'_>), Error> {
    let words = (args.next()?, sale_effect::parse(&mut args)?);
    args.finish()?;
    Ok(words)
}
