//! `STOCK.ADJUST`: adds units, or withdraws unsold ones.

use super::{Arg, Args, Command, Ctx, Error, KeyUse, Keys, Param, Range, Spec, clock};
use crate::core::id::IdText;
use crate::core::limits::MAX_UNITS;
use crate::core::sale::Change;
use crate::module::sale_calls;

/// `STOCK.ADJUST key delta [ID id]`
///
/// Adds `delta` units to the sale `key`, or withdraws that many unsold units if it is negative.
///
/// - `ID`: makes it safe to retry. The sale remembers the id for ever, and a second adjustment with it changes nothing, whatever its
///   `delta`. These ids have nothing to do with those of orders. A refused adjustment is not remembered.
///
/// Replies the sellable units: those after the adjustment, or the current ones if the sale knows the id already. Errors: `ERR` for a bad
/// argument, for withdrawing more than remain, and for a total above 2^53 − 1; `NOSTOCK` if there is no such sale; `WRONGTYPE`. O(1), and
/// O(log N) for each order that it serves.
pub struct StockAdjust;

/// The range of one adjustment.
const DELTA: Range = Range::either_way(MAX_UNITS);

impl Command for StockAdjust {
    const SPEC: Spec = Spec {
        name: c"stock.adjust",
        flags: c"write deny-oom fast",
        arity: -3,
        summary: c"Adds units to a sale, or withdraws unsold ones.",
        since: c"0.1.0",
        complexity: c"O(1), with a waitlist O(M*log(N)) with M orders served, 100 at the most, and N orders on it",
        tips: c"",
        keys: Keys::First(KeyUse::Update),
        args: &[Param::key(), Param::integer(c"delta"), Param::string(c"id").after(c"ID").optional().since(c"0.2.0")],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let (key, delta, id) = parse(args)?;
        let said = Change::Adjust { delta, id: IdText::from(id) };
        if sale_calls::applies(ctx, key, Some(&said))? {
            return Ok(());
        }
        let now = clock::now().ms;
        let remaining = sale_calls::change(ctx, key, Some(&said), |sale| Ok(sale.adjust(now, delta, id)?))?;
        ctx.reply_int(remaining);
        Ok(())
    }
}

pub(crate) fn parse(mut args: Args<'_>) -> Result<(Arg<'_>, i64, &[u8]), Error> {
    let (key, delta) = (args.next()?, args.integer("delta", DELTA)?);
    let id = args.last_option(b"ID", |args| args.ident_bytes("ID"))?;
    Ok((key, delta, id.unwrap_or_default()))
}
