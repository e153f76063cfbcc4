//! The operations of the commands on sales: create, read, decide, change, apply, restore.

use smallvec::SmallVec;

use crate::core::sale::cart::{all_or_none, at_least_one};
use crate::core::sale::{Answer, Budget, Change, Changes, Decision, Sale, Status};
use crate::core::time::UnixMs;
use crate::error::Error;
use crate::module::sale_counts;
use crate::module::sale_effect::{self, Part};
use crate::module::sale_transaction::SaleTransaction;
use crate::module::sale_type::SaleValue;
use crate::server::args::{Arg, Name};
use crate::server::call::RunAs;
use crate::server::ctx::Ctx;
use crate::server::key::{Access, Key};
use crate::server::origin;

/// How the answers of several sales depend on each other.
#[derive(Clone, Copy)]
pub enum Rule<'a> {
    /// If one sale refuses, the others change nothing: they answer with the units that this id has there now.
    AllOrNone(UnixMs, &'a [u8]),
    /// Each sale acts by itself, even if others refuse.
    Each,
}

/// Creates a sale under an empty key, and reports at once a reason that would keep it from selling. A creation that was decided elsewhere
/// is repeated without these checks, because lockstock 0.1 did not make them.
pub fn create(ctx: &mut Ctx<'_>, key: Arg<'_>, sale: Sale) -> Result<(), Error> {
    let decided = ctx.flags().is_decided();
    if !decided {
        sale.terms().check_window()?;
    }
    // Checked first: while the sale's key is open, no other server call is allowed.
    let stream = sale.terms().stream.as_ref().map(|stream| Name::make(&stream.key));
    let unfit =
        !decided && stream.is_some_and(|stream| Key::open(ctx.reborrow(), &stream, Access::Read).is_no_stream());
    let mut transaction = SaleTransaction::new(ctx.reborrow(), RunAs::Client);
    if !matches!(transaction.ask(key, |_, _| Ok(())), Ok(None)) {
        return Err(Error::BusyKey);
    }
    if unfit {
        return Err(Error::WrongType);
    }
    transaction.create(sale)?;
    // Its times are absolute, so the command is its own effect.
    transaction.tell_verbatim(Some(c"stock.create"));
    Ok(())
}

/// Reads the sale `key`; `None` if there is none.
pub fn read<R>(ctx: &mut Ctx<'_>, key: Arg<'_>, f: impl FnOnce(&Ctx<'_>, Option<&Sale>) -> R) -> Result<R, Error> {
    let mut open = Key::open(ctx.reborrow(), &Name::of(key), Access::Read);
    let (sale, ctx) = open.content_and_ctx::<SaleValue>();
    Ok(f(ctx, sale.map_err(|_| Error::WrongType)?.map(|sale| &**sale)))
}

/// Runs a command on an order of each of the sales `keys`. Returns the status of the whole, and the answer of each. A missing sale has an
/// answer, too. `said` is the change that the command's words spell, if they spell one.
pub fn decide<'a>(
    ctx: &mut Ctx<'_>,
    keys: impl Iterator<Item = Arg<'a>>,
    rule: Rule<'_>,
    said: Option<&Change<'_>>,
    mut decide: impl FnMut(usize, Budget, &Sale) -> Result<Decision<'a>, Error>,
) -> Result<(Status, SmallVec<[Answer<'a>; 1]>), Error> {
    let mut transaction = SaleTransaction::new(ctx.reborrow(), RunAs::Client);
    let (mut answers, mut budget) = (SmallVec::<[Answer<'a>; 1]>::new(), Budget::COMMAND);
    for (nth, key) in keys.enumerate() {
        let answer = transaction.ask(key, |sale, changes| {
            let decision = decide(nth, budget, whole(sale)?)?;
            budget = budget.after(&decision.changes);
            *changes = decision.changes;
            Ok(decision.answer)
        })?;
        answers.push(answer.unwrap_or(Answer::NO_STOCK));
    }
    let status = match rule {
        Rule::Each => at_least_one(&answers),
        // Opening the other keys may have run other modules.
        Rule::AllOrNone(now, id) => {
            all_or_none(&mut answers, |nth| transaction.skip(nth).map(|sale| sale.skipped(now, id)))?
        }
    };
    transaction.carry_out(said)?;
    for (nth, Answer { status, .. }) in answers.iter().enumerate() {
        sale_counts::answered(*status);
        // A successful change was counted when it was committed.
        if !matches!(status, Status::Ok | Status::Skipped | Status::NoStock)
            && let Ok(Some(sale)) = transaction.sale(nth)
        {
            sale.count_answer(*status);
        }
    }
    Ok((status, answers))
}

/// Changes the terms or the stock of the sale `key`. `said` as for [`decide`].
pub fn change<'a, R>(
    ctx: &mut Ctx<'_>,
    key: Arg<'a>,
    said: Option<&Change<'_>>,
    decide: impl FnOnce(&Sale) -> Result<(R, Changes<'a>), Error>,
) -> Result<R, Error> {
    let mut transaction = SaleTransaction::new(ctx.reborrow(), RunAs::Client);
    let result = transaction.ask(key, |sale, changes| {
        let (result, decided) = decide(whole(sale)?)?;
        *changes = decided;
        Ok(result)
    })?;
    transaction.carry_out(said)?;
    result.ok_or(Error::NoStock)
}

/// The sale, if all of it is here, for a decision on it.
fn whole(sale: &Sale) -> Result<&Sale, Error> {
    match sale.loaded_so_far() {
        Some((orders, expected)) => Err(Error::NotWhole { orders, expected }),
        None => Ok(sale),
    }
}

/// Applies the change that the words of a command spell, if it was made elsewhere; false if it is for this server to decide.
pub fn applies(ctx: &mut Ctx<'_>, key: Arg<'_>, said: Option<&Change<'_>>) -> Result<bool, Error> {
    let Some(change) = said.filter(|_| origin::is_record(ctx)) else { return Ok(false) };
    apply(ctx, key, change)?;
    ctx.reply_ok();
    Ok(true)
}

/// Applies a change that the primary decided, or that comes from the AOF.
pub fn apply(ctx: &mut Ctx<'_>, key: Arg<'_>, change: &Change<'_>) -> Result<(), Error> {
    let mut transaction = SaleTransaction::new(ctx.reborrow(), RunAs::Module);
    let applied = transaction.ask(key, |sale, _| sale.replay(change).map_err(|_| Error::Payload))?;
    applied.ok_or(Error::NoStock)?;
    transaction.tell_verbatim(sale_effect::event_name(change));
    Ok(())
}

/// Restores a sale that an AOF rewrite has written: a header first, then blocks of orders.
pub fn restore(ctx: &mut Ctx<'_>, key: Arg<'_>, part: Part<'_>) -> Result<(), Error> {
    let mut transaction = SaleTransaction::new(ctx.reborrow(), RunAs::Module);
    let there = transaction.ask(key, |sale, _| match part {
        Part::Head(_) => Err(Error::BusyKey),
        Part::Orders(block) => sale.load_block(block).map_err(|_| Error::Payload),
    })?;
    match (part, there) {
        (Part::Head(head), _) => transaction.create(Sale::from_header(head).map_err(|_| Error::Payload)?)?,
        (Part::Orders(_), there) => there.ok_or(Error::NoStock)?,
    }
    transaction.tell_verbatim(None);
    Ok(())
}
