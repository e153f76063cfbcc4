//! Sales at work: a decision, its events, its effects, its answer.

use crate::core::agenda::Agenda;
use crate::core::place::{At, Place};
use crate::core::sale::{Answer, Change, Changes, Decision, Sale, Status};
use crate::core::time::{Now, UnixMs};
use crate::error::Error;
use crate::server::args::Arg;
use crate::server::call::{self, Behalf};
use crate::server::ctx::{Ctx, Level};
use crate::server::defer;
use crate::server::key::{self, Access, Content, Key, Name};
use crate::server::replicate;
use crate::store::sale_effect;
use crate::store::sale_type::SaleValue;

/// When to try again to append events that were refused without anybody to be told.
const RETRY_MS: i64 = 1_000;

/// A sale's key, open for one call.
struct Desk<'a> {
    ctx: Ctx<'a>,
    name: Name<'a>,
    key: Key<'a>,
    behalf: Behalf,
}

impl<'a> Desk<'a> {
    fn open(ctx: Ctx<'a>, name: Name<'a>, behalf: Behalf) -> Self {
        let key = Key::open(ctx, &name, Access::Write);
        Self { ctx, name, key, behalf }
    }

    /// The sale; `None` if there is none.
    fn sale(&mut self) -> Result<Option<&mut SaleValue>, Error> {
        match self.key.content() {
            Content::Nothing => Ok(None),
            Content::Value(sale) => Ok(Some(sale)),
            Content::Foreign => Err(Error::WrongType),
        }
    }

    /// Makes changes true, in order: the event of each is appended, it is committed, its effect is sent. When an event is refused,
    /// its change and those after it have not happened.
    fn carry_out(&mut self, changes: &Changes<'_>) -> Result<(), Error> {
        for change in changes.iter() {
            self.append_event(change)?;
            let sale = self.sale()?.ok_or(Error::NoStock)?;
            sale.commit(change).map_err(|_| Error::Payload)?;
            if matches!(change, Change::Lapse { .. }) {
                super::enter(|state| state.lapses = state.lapses.saturating_add(1));
            }
            sale_effect::send(self.ctx, &self.name, change);
            key::notify(self.ctx, sale_effect::event_name(change), &self.name);
        }
        if !changes.is_empty() {
            key::touched(self.ctx, &self.name);
            self.remember()?;
        }
        Ok(())
    }

    /// Appends the event of a change that is about to be committed, if the sale has a stream.
    fn append_event(&mut self, change: &Change<'_>) -> Result<(), Error> {
        let Some(sale) = self.sale()? else { return Ok(()) };
        let (Some(stream), Some(event)) = (sale.terms().stream.clone(), sale.event(change)) else { return Ok(()) };
        let (id, buyer, reference) = (event.id.detach(), event.buyer.detach(), event.reference.detach());
        let (mut seq, mut units) = (itoa::Buffer::new(), itoa::Buffer::new());
        let seq = seq.format(sale.seq().saturating_add(1)).as_bytes();
        let units = units.format(event.units).as_bytes();
        let event = event.kind.word().as_bytes();
        // A command of the server may call other modules, and they may do anything to this key; so it is not open meanwhile.
        self.key.close();
        if self.ctx.flags().is_cluster() {
            call::serves(self.ctx, self.name.bytes(), &stream).map_err(|_| Error::OnTheMove)?;
        }
        let fields: [&[u8]; 12] =
            [b"seq", seq, b"event", event, b"id", &id, b"units", units, b"buyer", &buyer, b"ref", &reference];
        let appended = call::append(self.ctx, self.behalf, &stream, &fields);
        self.key = Key::open(self.ctx, &self.name, Access::Write);
        appended.map_err(Error::Stream)
    }

    /// Has the agenda know when the sale's next hold ends.
    fn remember(&mut self) -> Result<(), Error> {
        let at = Place { db: self.ctx.db(), key: self.name.bytes().into() };
        let Some(sale) = self.sale()? else { return Ok(()) };
        sale.count_orders();
        super::enter(|state| meet(&mut state.sales, at.at(), sale)).ok_or(Error::Internal)
    }
}

/// Enters a sale into the agenda, moves its entry, or takes it out, as its next deadline says.
pub fn meet(agenda: &mut Agenda, at: At<'_>, sale: &mut SaleValue) {
    sale.settle_down();
    let known = sale.home.filter(|home| agenda.knows(*home));
    sale.home = match (known, sale.next_deadline()) {
        (Some(home), Some(deadline)) => {
            agenda.rearm(home, deadline);
            Some(home)
        }
        (Some(home), None) => {
            agenda.disarm(home);
            None
        }
        (None, Some(deadline)) => Some(agenda.arm(at, deadline)),
        (None, None) => None,
    };
    if let Some(next) = agenda.next() {
        defer::arm(defer::Next::At(next));
    }
}

/// Counts an answer for the server as a whole.
fn count(status: Status) {
    super::enter(|state| {
        let counters = Status::ALL.iter().zip(&mut state.answers);
        if let Some((_, counter)) = counters.into_iter().find(|(known, _)| **known == status) {
            *counter = counter.saturating_add(1);
        }
    });
}

/// Opens a sale under a key that holds nothing.
pub fn create(ctx: Ctx<'_>, key: Arg<'_>, sale: Sale) -> Result<(), Error> {
    let name = Name::of(key);
    let mut open = Key::open(ctx, &name, Access::Write);
    if !matches!(open.content::<SaleValue>(), Content::Nothing) {
        return Err(Error::BusyKey);
    }
    open.set(SaleValue::new(sale));
    // Its times are absolute and its words are its effect.
    replicate::verbatim(ctx);
    key::touched(ctx, &name);
    key::notify(ctx, c"stock.create", &name);
    Ok(())
}

/// Reads the sale `key`; `None` if there is none.
pub fn read<R>(ctx: Ctx<'_>, key: Arg<'_>, f: impl FnOnce(Option<&Sale>) -> R) -> Result<R, Error> {
    let mut open = Key::open(ctx, &Name::of(key), Access::Read);
    match open.content::<SaleValue>() {
        Content::Nothing => Ok(f(None)),
        Content::Value(sale) => Ok(f(Some(sale))),
        Content::Foreign => Err(Error::WrongType),
    }
}

/// Runs a command on an order of the sale `key` and gives its answer; that there is no such sale is one.
pub fn decide<'a>(ctx: Ctx<'_>, key: Arg<'_>, f: impl FnOnce(&Sale) -> Decision<'a>) -> Result<Answer<'a>, Error> {
    let mut desk = Desk::open(ctx, Name::of(key), Behalf::Client);
    let Some(sale) = desk.sale()? else {
        count(Status::NoStock);
        return Ok(Answer::NO_STOCK);
    };
    let Decision { answer, changes } = f(sale);
    desk.carry_out(&changes)?;
    if let Some(sale) = desk.sale()? {
        sale.note(answer.status);
    }
    count(answer.status);
    Ok(answer)
}

/// Changes the sale `key` itself; `None` if there is none.
pub fn change<R>(
    ctx: Ctx<'_>,
    key: Arg<'_>,
    f: impl FnOnce(&Sale) -> Result<(R, Changes<'static>), Error>,
) -> Result<Option<R>, Error> {
    let mut desk = Desk::open(ctx, Name::of(key), Behalf::Client);
    let Some(sale) = desk.sale()? else { return Ok(None) };
    let (result, changes) = f(sale)?;
    desk.carry_out(&changes)?;
    Ok(Some(result))
}

/// Makes a change true that somebody else decided: the primary, or an earlier life of this server.
pub fn apply(ctx: Ctx<'_>, key: Arg<'_>, change: &Change<'_>) -> Result<(), Error> {
    let mut desk = Desk::open(ctx, Name::of(key), Behalf::Module);
    desk.sale()?.ok_or(Error::NoStock)?.commit(change).map_err(|_| Error::Payload)?;
    desk.remember()?;
    replicate::verbatim(ctx);
    key::touched(ctx, &desk.name);
    key::notify(ctx, sale_effect::event_name(change), &desk.name);
    Ok(())
}

/// Puts what an AOF rewrite wrote back under the key: a head first, then blocks of orders.
pub fn restore(ctx: Ctx<'_>, key: Arg<'_>, part: sale_effect::Part<'_>) -> Result<(), Error> {
    let mut desk = Desk::open(ctx, Name::of(key), Behalf::Module);
    match (part, desk.sale()?) {
        (sale_effect::Part::Head(head), None) => {
            let sale = Sale::from_header(head).map_err(|_| Error::Payload)?;
            desk.key.set(SaleValue::new(sale));
        }
        (sale_effect::Part::Orders(block), Some(sale)) => sale.absorb(block).map_err(|_| Error::Payload)?,
        (sale_effect::Part::Head(_), Some(_)) => return Err(Error::BusyKey),
        (sale_effect::Part::Orders(_), None) => return Err(Error::NoStock),
    }
    desk.remember()?;
    replicate::verbatim(ctx);
    key::touched(ctx, &desk.name);
    Ok(())
}

/// Lets holds lapse that are due, at most `budget` of them, and says when it wants to be called again.
pub fn tick(ctx: Ctx<'_>, now: Now, budget: usize) -> defer::Next {
    let began_in = ctx.db();
    let mut left = budget;
    while left > 0 {
        let due = super::enter(|state| {
            let home = state.sales.due(now.ms, &mut left)?;
            state.sales.place(home).map(|at| (home, at.keep()))
        });
        let Some(Some((home, place))) = due else { break };
        left = left.saturating_sub(1);
        ctx.select(place.db);
        let mut desk = Desk::open(ctx, Name::make(ctx, &place.key), Behalf::Module);
        let Ok(Some(sale)) = desk.sale() else {
            super::enter(|state| state.sales.disarm(home));
            continue;
        };
        if sale.home != Some(home) {
            super::enter(|state| state.sales.disarm(home));
        }
        let lapses = sale.lapses(now.ms, left);
        left = left.saturating_sub(lapses.len());
        if let Err(error) = desk.carry_out(&Changes { lapses, own: None }).and_then(|()| desk.remember()) {
            put_off(ctx, &place, &error);
            super::enter(|state| state.sales.rearm(home, UnixMs(now.ms.0.saturating_add(RETRY_MS))));
        }
    }
    ctx.select(began_in);
    match super::enter(|state| state.sales.next()).flatten() {
        Some(at) if at.reached(now.ms) => defer::Next::Now,
        Some(at) => defer::Next::At(at),
        None => defer::Next::Never,
    }
}

/// Says why holds that are due cannot lapse for now.
fn put_off(ctx: Ctx<'_>, place: &Place, error: &Error) {
    // While a slot is on its way to another node this is as it should be.
    if *error != Error::OnTheMove {
        let key = place.key.escape_ascii();
        ctx.log(Level::Warning, &format!("lockstock: holds of the sale {key} are due and wait: {error}"));
    }
}
