//! Sales at work: a decision, its events, its effects, its answer.

use std::ffi::CStr;
use std::{iter, mem, thread};

use crate::core::deadline_index::{DeadlineId, DeadlineIndex};
use crate::core::key::{KeyBuf, KeyRef};
use crate::core::retry::Retries;
use crate::core::sale::{Answer, Change, Changes, Decision, Sale, Status};
use crate::core::slot::Slot;
use crate::core::time::{Millis, Now, UnixMs};
use crate::error::Error;
use crate::server::args::Arg;
use crate::server::call::{self, RunAs};
use crate::server::cluster::{self, Serves};
use crate::server::ctx::{Ctx, Level};
use crate::server::defer;
use crate::server::key::{self, Access, Content, Key, Name};
use crate::server::replicate;
use crate::store::repair::{self, OrphanEvent};
use crate::store::sale_effect;
use crate::store::sale_type::{Moment, SaleValue};

/// When to try again to append events that a stream refused without anybody to be told.
const STUCK: Millis = Millis(1_000);

/// When to ask again whether this node serves a sale.
const MOVING: Millis = Millis(50);

/// How many steps of the timer a lapse is whose event goes to a stream: an entry of a stream costs the server more than the lapse.
const EVENT_STEPS: usize = 4;

/// What was refused, and when to try again.
#[derive(Debug, Default)]
pub struct Refused {
    /// For sales whose slot is on the way to another node.
    moving: Retries,
    /// For sales whose stream takes nothing.
    stuck: Retries,
    /// Until when no sale is tried, because the cluster is down.
    down: Option<UnixMs>,
}

impl Refused {
    fn retries(&mut self, delay: Millis) -> &mut Retries {
        if delay == MOVING { &mut self.moving } else { &mut self.stuck }
    }

    /// Until when no sale is tried.
    fn closed(&mut self, now: UnixMs) -> Option<UnixMs> {
        self.down.take_if(|until| until.reached(now));
        self.down
    }
}

/// Why holds that are due cannot lapse.
enum Refusal {
    /// The cluster is down, for every sale.
    Down,
    For(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::For(error)
    }
}

/// A sale's key for one call.
struct SaleSession<'a> {
    /// The context of the call, and the key while it is open: not while other modules may run, who may do anything to it.
    key: Key<'a>,
    name: Name<'a>,
    behalf: RunAs,
    /// The event of a change that has not been committed.
    orphan: Option<OrphanEvent>,
}

impl Drop for SaleSession<'_> {
    /// When a fault cuts the work short, stream and replicas may have heard too much or too little.
    fn drop(&mut self) {
        if thread::panicking() {
            repair::mark(KeyRef { db: self.ctx().db(), key: self.name.bytes() }, self.orphan.take());
        }
    }
}

impl<'a> SaleSession<'a> {
    fn new(ctx: Ctx<'a>, name: Name<'a>, behalf: RunAs) -> Self {
        Self { key: Key::closed(ctx), name, behalf, orphan: None }
    }

    /// The context, for calls that run no other code of the server.
    fn ctx(&self) -> &Ctx<'a> {
        self.key.quiet()
    }

    /// The open key.
    fn key(&mut self) -> &mut Key<'a> {
        if !self.key.is_open() {
            self.key.reopen(&self.name, Access::Write);
        }
        &mut self.key
    }

    /// The sale; `None` if there is none.
    fn sale(&mut self) -> Result<Option<&mut SaleValue>, Error> {
        match self.key().content() {
            Content::Nothing => Ok(None),
            Content::Value(sale) => Ok(Some(sale)),
            Content::Foreign => Err(Error::WrongType),
        }
    }

    /// Makes changes true that were decided just now, in order: the event of each is appended, it is committed, its effect is sent.
    /// When an event is refused, or another module that heard of it has changed the sale, its change and those after it have not
    /// happened; those before it, which are lapses or a cutoff, have.
    fn carry_out(&mut self, changes: &Changes<'_>) -> Result<(), Error> {
        if changes.is_empty() {
            return Ok(());
        }
        let Some(mut decided_on) = self.sale()?.map(|sale| sale.moment()) else { return Err(Error::NoStock) };
        let mut done = 0_usize;
        let outcome = changes.iter().try_for_each(|change| {
            decided_on = self.make_true(change, decided_on)?;
            done = done.saturating_add(1);
            Ok(())
        });
        if let Some(untrue) = &self.orphan {
            untrue.take_out(self.key.ctx(), self.name.bytes());
            self.orphan = None;
        }
        if done > 0 {
            self.remember();
            self.announce(changes.iter().take(done).filter_map(sale_effect::event_name));
        }
        outcome
    }

    /// Makes a change true that was decided on the sale as it was at `decided_on`, and says as what it is now.
    fn make_true(&mut self, change: &Change<'_>, decided_on: Moment) -> Result<Moment, Error> {
        self.append_event(change)?;
        let Ok(Some(sale)) = self.sale() else { return Err(Error::SaleChanged) };
        if sale.moment() != decided_on {
            return Err(Error::SaleChanged);
        }
        if let Err(misfit) = sale.commit(change) {
            let name = self.name.bytes().escape_ascii().to_string();
            self.ctx()
                .log(Level::Warning, &format!("lockstock: a change of the sale {name} does not fit it: {misfit:?}"));
            return Err(Error::Internal);
        }
        let moment = sale.moment();
        self.orphan = None;
        if matches!(change, Change::Lapse { .. }) {
            super::enter(|state| state.lapses = state.lapses.saturating_add(1));
        }
        sale_effect::send(self.ctx(), &self.name, change);
        Ok(moment)
    }

    /// Appends the event of a change that is about to be committed, if the sale has a stream.
    fn append_event(&mut self, change: &Change<'_>) -> Result<(), Error> {
        let Some(sale) = self.sale()? else { return Ok(()) };
        let (Some(stream), Some(event)) = (sale.terms().stream.clone(), sale.event(change)) else { return Ok(()) };
        let (id, buyer, reference) = (event.id.detach(), event.buyer.detach(), event.reference.detach());
        let mut texts = (itoa::Buffer::new(), itoa::Buffer::new(), itoa::Buffer::new());
        let seq = texts.0.format(sale.seq().saturating_add(1)).as_bytes();
        let units = texts.1.format(event.units).as_bytes();
        let deadline = texts.2.format(event.deadline.map_or(-1, |time| time.0)).as_bytes();
        let event = event.kind.word().as_bytes();
        serves(self.key.ctx(), self.name.bytes(), &stream.key)?;
        let fields: [call::Field<'_>; 6] = [
            (b"seq", seq),
            (b"event", event),
            (b"id", &id),
            (b"units", units),
            (b"buyer", &buyer),
            (b"ref", &reference),
        ];
        let deadline: Option<call::Field<'_>> = stream.deadlines.then_some((b"deadline", deadline));
        let entry = call::append(self.key.ctx(), self.behalf, &stream.key, &fields, deadline).map_err(Error::Stream)?;
        self.orphan = Some(OrphanEvent { stream: stream.key, entry });
        Ok(())
    }

    /// Has the deadline index know when the sale's next hold can lapse.
    fn remember(&mut self) {
        let at = KeyBuf { db: self.ctx().db(), key: self.name.bytes().into() };
        let Ok(Some(sale)) = self.sale() else { return };
        if super::enter(|state| register(&mut state.sales, at.as_key(), sale)).is_none() {
            // Another module calls us from inside a call of ours. What has been done stays done; the timer meets the sale.
            super::loaded(at);
        }
    }

    /// Tells watchers, caches and listeners of changes that have been made.
    fn announce(&mut self, events: impl Iterator<Item = &'static CStr>) {
        key::touched(self.ctx(), &self.name);
        for event in events {
            key::notify(self.key.ctx(), event, &self.name);
        }
    }
}

/// In a cluster, whether sale and stream are both here to stay; see DESIGN.md.
fn serves(ctx: &mut Ctx<'_>, sale: &[u8], stream: &[u8]) -> Result<(), Error> {
    if !ctx.flags().is_cluster() || cluster::serves_both(ctx, sale, stream) {
        return Ok(());
    }
    if Slot::of(sale) == Slot::of(stream) {
        return Err(Error::OnTheMove);
    }
    Err(Error::Stream("CROSSSLOT Keys in request don't hash to the same slot".into()))
}

/// Enters a sale into the deadline index, moves its entry, or takes it out, as its next lapse says.
pub fn register(index: &mut DeadlineIndex, at: KeyRef<'_>, sale: &mut SaleValue) {
    sale.mark_found();
    sale.count_orders();
    let known = sale.deadline_id.filter(|entry| index.key(*entry) == Some(at));
    sale.deadline_id = match (known, sale.next_lapse()) {
        (Some(entry), Some(deadline)) => {
            index.reschedule(entry, deadline);
            Some(entry)
        }
        (Some(entry), None) => {
            index.remove(entry);
            None
        }
        (None, Some(deadline)) => Some(index.insert(at, deadline)),
        (None, None) => None,
    };
    if let Some(next) = index.next() {
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

/// Opens a sale under a key that holds nothing, and says at once what would keep it from selling. What was decided elsewhere is done as
/// it was there: lockstock 0.1 looked at neither.
pub fn create(ctx: &mut Ctx<'_>, key: Arg<'_>, sale: Sale) -> Result<(), Error> {
    let decided = ctx.flags().is_decided();
    if !decided {
        sale.terms().check_window()?;
    }
    // Looked at first: once the sale's key is open, nothing else may be asked of the server.
    let stream = sale.terms().stream.as_ref().map(|stream| Name::make(&stream.key));
    let unfit =
        !decided && stream.is_some_and(|stream| Key::open(ctx.reborrow(), &stream, Access::Read).is_no_stream());
    let mut session = SaleSession::new(ctx.reborrow(), Name::of(key), RunAs::Client);
    if !matches!(session.sale(), Ok(None)) {
        return Err(Error::BusyKey);
    }
    if unfit {
        return Err(Error::WrongType);
    }
    if !session.key().set(SaleValue::new(sale)) {
        return Err(Error::Internal);
    }
    // Its times are absolute and its words are its effect.
    replicate::verbatim(session.ctx());
    session.announce(iter::once(c"stock.create"));
    Ok(())
}

/// Reads the sale `key`; `None` if there is none.
pub fn read<R>(ctx: &mut Ctx<'_>, key: Arg<'_>, f: impl FnOnce(&Ctx<'_>, Option<&Sale>) -> R) -> Result<R, Error> {
    let mut open = Key::open(ctx.reborrow(), &Name::of(key), Access::Read);
    match open.content_and_ctx::<SaleValue>() {
        (Content::Nothing, ctx) => Ok(f(ctx, None)),
        (Content::Value(sale), ctx) => Ok(f(ctx, Some(sale))),
        (Content::Foreign, _) => Err(Error::WrongType),
    }
}

/// Runs a command on an order of the sale `key` and gives its answer; that there is no such sale is one.
pub fn decide<'a>(
    ctx: &mut Ctx<'_>,
    key: Arg<'_>,
    f: impl FnOnce(&Sale) -> Result<Decision<'a>, Error>,
) -> Result<Answer<'a>, Error> {
    let mut session = SaleSession::new(ctx.reborrow(), Name::of(key), RunAs::Client);
    let Some(sale) = session.sale()? else {
        count(Status::NoStock);
        return Ok(Answer::NO_STOCK);
    };
    let Decision { answer, changes } = f(sale)?;
    session.carry_out(&changes)?;
    // What was done was counted when it was committed.
    if answer.status != Status::Ok
        && let Ok(Some(sale)) = session.sale()
    {
        sale.count_answer(answer.status);
    }
    count(answer.status);
    Ok(answer)
}

/// Changes the sale `key` itself; `None` if there is none.
pub fn change<R>(
    ctx: &mut Ctx<'_>,
    key: Arg<'_>,
    f: impl FnOnce(&Sale) -> Result<(R, Changes<'static>), Error>,
) -> Result<Option<R>, Error> {
    let mut session = SaleSession::new(ctx.reborrow(), Name::of(key), RunAs::Client);
    let Some(sale) = session.sale()? else { return Ok(None) };
    let (result, changes) = f(sale)?;
    session.carry_out(&changes)?;
    Ok(Some(result))
}

/// Makes a change true that somebody else decided: the primary, or an earlier life of this server.
pub fn apply(ctx: &mut Ctx<'_>, key: Arg<'_>, change: &Change<'_>) -> Result<(), Error> {
    let mut session = SaleSession::new(ctx.reborrow(), Name::of(key), RunAs::Module);
    session.sale()?.ok_or(Error::NoStock)?.replay(change).map_err(|_| Error::Payload)?;
    session.remember();
    replicate::verbatim(session.ctx());
    session.announce(sale_effect::event_name(change).into_iter());
    Ok(())
}

/// Puts what an AOF rewrite wrote back under the key: a head first, then blocks of orders.
pub fn restore(ctx: &mut Ctx<'_>, key: Arg<'_>, part: sale_effect::Part<'_>) -> Result<(), Error> {
    let mut session = SaleSession::new(ctx.reborrow(), Name::of(key), RunAs::Module);
    match (part, session.sale()?) {
        (sale_effect::Part::Head(head), None) => {
            let sale = Sale::from_header(head).map_err(|_| Error::Payload)?;
            if !session.key().set(SaleValue::new(sale)) {
                return Err(Error::Internal);
            }
        }
        (sale_effect::Part::Orders(block), Some(sale)) => sale.absorb_whole(block).map_err(|_| Error::Payload)?,
        (sale_effect::Part::Head(_), Some(_)) => return Err(Error::BusyKey),
        (sale_effect::Part::Orders(_), None) => return Err(Error::NoStock),
    }
    session.remember();
    replicate::verbatim(session.ctx());
    session.announce(iter::empty());
    Ok(())
}

/// Lets holds lapse that are due, in at most `budget` steps, and says when it wants to be called again.
pub fn tick(ctx: &mut Ctx<'_>, now: Now, budget: usize) -> defer::Next {
    if let Some(Some(until)) = super::enter(|state| state.refused.closed(now.ms)) {
        return defer::Next::At(until);
    }
    let began_in = ctx.db();
    let mut left = budget;
    while left > 0 {
        let due = super::enter(|state| {
            let entry = state.sales.due(now.ms, &mut left)?;
            state.sales.key(entry).map(|at| (entry, at.to_buf()))
        });
        let Some(Some((entry, place))) = due else { break };
        left = left.saturating_sub(1);
        ctx.select(place.db);
        let mut session = SaleSession::new(ctx.reborrow(), Name::make(&place.key), RunAs::Module);
        match lapse(&mut session, entry, now.ms, left) {
            Ok(steps) => left = left.saturating_sub(steps),
            // What holds for all sales is not asked for each.
            Err(Refusal::Down) => {
                left = 0;
                super::enter(|state| state.refused.down = now.ms.plus(MOVING));
            }
            Err(Refusal::For(error)) => {
                let delay = put_off(&mut session, &place, &error);
                super::enter(|state| state.sales.reschedule(entry, state.refused.retries(delay).next(now.ms, delay)));
            }
        }
    }
    ctx.select(began_in);
    if let Some(Some(until)) = super::enter(|state| state.refused.closed(now.ms)) {
        return defer::Next::At(until);
    }
    match super::enter(|state| state.sales.next()).flatten() {
        Some(at) if at.reached(now.ms) => defer::Next::Now,
        Some(at) => defer::Next::At(at),
        None => defer::Next::Never,
    }
}

/// Lets holds of a sale lapse whose entry `home` is due, in about `steps`, and says how many steps it was.
fn lapse(session: &mut SaleSession<'_>, entry: DeadlineId, now: UnixMs, steps: usize) -> Result<usize, Refusal> {
    let Ok(Some(sale)) = session.sale() else {
        super::enter(|state| state.sales.remove(entry));
        return Ok(0);
    };
    let each = if sale.terms().stream.is_some() { EVENT_STEPS } else { 1 };
    let lapses = sale.lapses(now, steps.div_ceil(each));
    if sale.deadline_id != Some(entry) || lapses.is_empty() {
        if sale.deadline_id != Some(entry) {
            super::enter(|state| state.sales.remove(entry));
        }
        session.remember();
        return Ok(0);
    }
    // A node that does not serve the sale (yet, or any more) leaves its holds to the one that does.
    if session.ctx().flags().is_cluster() {
        match cluster::serves(session.key.ctx(), &session.name) {
            Serves::These => {}
            Serves::Others => return Err(Refusal::For(Error::OnTheMove)),
            Serves::Nothing => return Err(Refusal::Down),
        }
    }
    let steps = lapses.len().saturating_mul(each);
    session.carry_out(&Changes { lapses, own: None })?;
    if let Some(sale) = session.sale()? {
        sale.stuck = false;
    }
    Ok(steps)
}

/// Says, once, why holds that are due cannot lapse for now, and returns after what time to try again.
fn put_off(session: &mut SaleSession<'_>, place: &KeyBuf, error: &Error) -> Millis {
    // While a slot is on its way to another node this is as it should be.
    if *error == Error::OnTheMove {
        return MOVING;
    }
    let known = match session.sale() {
        Ok(Some(sale)) => mem::replace(&mut sale.stuck, true),
        _ => true,
    };
    if !known {
        let key = place.key.escape_ascii();
        session.ctx().log(Level::Warning, &format!("lockstock: holds of the sale {key} are due and wait: {error}"));
    }
    STUCK
}
