//! `STOCK.MDECR_ONCE`: takes units from several sales for an id, once, all or none.

use super::cart;
use super::order_options::OrderOptions;
use super::stock_reply::UNITS;
use super::{Arg, Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec, clock};
use crate::config;
use crate::core::sale::{Sale, Take};
use crate::core::time::UnixMs;
use crate::module::sale_calls::{self, Rule};

/// `STOCK.MDECR_ONCE id numkeys key qty [key qty …] [BUYER buyer] [HOLD ms] [REF ref]`
///
/// Takes `qty` units from each of the sales for `id`, once, or nothing from any of them: a cart, or the legs of a journey. Each sale applies
/// its own conditions and limits, and tells its own stream. The options are those of `STOCK.DECR_ONCE`. In a cluster all sales are in one
/// slot.
///
/// Replies `[status, five, five …]`, with the five fields of `STOCK.DECR_ONCE` for each sale, in the order named. The status is `OK` if all
/// are this id's now and at least one was taken by this call; `DUPLICATE` if all were taken earlier. A sale whose order was there already
/// refuses nothing, and its own status is `DUPLICATE`. Otherwise it is that of the first sale that refused: nothing was taken anywhere, and
/// sales that would have agreed say `SKIPPED`, with the units that the id has there.
///
/// Errors: `ERR` for a bad argument, and for a sale that is named twice; `ERR` for another `BUYER` than that of an order of this id;
/// `WRONGTYPE`. Nothing was taken then. At most `lockstock.max-keys` sales. O(k) for k sales, with `HOLD` O(k log n) with n holds in each.
pub struct StockMdecrOnce;

impl Command for StockMdecrOnce {
    const SPEC: Spec = Spec {
        name: c"stock.mdecr_once",
        flags: c"write deny-oom",
        arity: -5,
        summary: c"Takes units from several sales for an id, exactly once, all or none.",
        since: c"0.2.0",
        complexity: c"O(K) with K sales, with HOLD O(K*log(N)) with N holds in each",
        tips: c"",
        keys: Keys::Counted(2, PAIR, KeyUse::Update),
        args: &[
            Param::string(c"id"),
            Param::integer(c"numkeys"),
            Param::group(c"sale", &[Param::key(), Param::integer(c"qty")]).multiple(),
            Param::string(c"buyer").after(c"BUYER").optional(),
            Param::integer(c"milliseconds").after(c"HOLD").optional(),
            Param::string(c"ref").after(c"REF").optional(),
        ],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let now = clock::now().ms;
        let sales = parse(args, now)?;
        let take = |nth: usize| sales.get(nth).map(|(_, take)| take).ok_or(Error::Internal);
        let id = take(0)?.id;
        let (keys, rule) = (sales.iter().map(|(key, _)| *key), Rule::AllOrNone(now, id));
        let decide = |nth, budget, sale: &Sale| Ok(sale.take(now, budget, take(nth)?)?);
        let (status, answers) = sale_calls::decide(ctx, keys, rule, None, decide)?;
        cart::reply(ctx, status, &answers);
        Ok(())
    }
}

/// A sale and how many units are wanted of it.
const PAIR: usize = 2;

pub(crate) fn parse(mut args: Args<'_>, now: UnixMs) -> Result<Vec<(Arg<'_>, Take<'_>)>, Error> {
    let id = args.ident_bytes("id")?;
    let count = args.count("numkeys", config::max_keys(), PAIR)?;
    let sale = |_| Ok((args.next()?, args.unsigned("qty", UNITS)?));
    let sales = (0..count).map(sale).collect::<Result<Vec<_>, Error>>()?;
    let mut options = OrderOptions::default();
    while let Some(word) = args.keyword() {
        options.option(word.text(), &mut args, now)?;
    }
    cart::named_once(sales.iter().map(|(key, _)| *key))?;
    Ok(sales.into_iter().map(|(key, units)| (key, options.take(id, units))).collect())
}
