//! Sales at work: a decision, its events, its effects, its answer.

use std::ffi::CStr;
use std::{iter, thread};

use crate::core::deadline_index::DeadlineIndex;
use crate::core::key::{KeyBuf, KeyRef};
use crate::core::sale::{Answer, Change, Changes, Decision, Sale, Status};
use crate::core::slot::Slot;
use crate::error::Error;
use crate::module::repair::{self, OrphanEvent};
use crate::module::sale_effect;
use crate::module::sale_type::{Moment, SaleValue};
use crate::module::{inbox, state};
use crate::server::args::Arg;
use crate::server::call::RunAs;
use crate::server::cluster::{self, Serves};
use crate::server::ctx::{Ctx, Level};
use crate::server::key::{self, Access, Content, Key, Name};
use crate::server::replicate;
use crate::server::stream::{self, Field};
use crate::server::timer;

/// A sale's key for one call.
pub struct SaleSession<'a> {
    /// The context of the call, and the key while it is open: not while other modules may run, who may do anything to it.
    key: Key<'a>,
    name: Name<'a>,
    run_as: RunAs,
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
    pub(super) fn new(ctx: Ctx<'a>, name: Name<'a>, run_as: RunAs) -> Self {
        Self { key: Key::closed(ctx), name, run_as, orphan: None }
    }

    /// The context, for calls that run no other code of the server.
    pub(super) fn ctx(&self) -> &Ctx<'a> {
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
    pub(super) fn sale(&mut self) -> Result<Option<&mut SaleValue>, Error> {
        match self.key().content() {
            Content::Nothing => Ok(None),
            Content::Value(sale) => Ok(Some(sale)),
            Content::Foreign => Err(Error::WrongType),
        }
    }

    /// Who serves the sale, in a cluster.
    pub(super) fn served(&mut self) -> Serves {
        cluster::serves(self.key.ctx(), &self.name)
    }

    /// Makes changes true that were decided just now, in order: the event of each is appended, it is committed, its effect is sent.
    /// When an event is refused, or another module that heard of it has changed the sale, its change and those after it have not
    /// happened; those before it, which are expirations or a cutoff, have.
    pub(super) fn carry_out(&mut self, changes: &Changes<'_>) -> Result<(), Error> {
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
        if matches!(change, Change::Expire { .. }) {
            state::enter(|state| state.expirations = state.expirations.saturating_add(1));
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
        let fields: [Field<'_>; 7] = [
            (b"seq", seq),
            (b"event", event),
            (b"id", &id),
            (b"units", units),
            (b"buyer", &buyer),
            (b"ref", &reference),
            (b"deadline", deadline),
        ];
        let fields =
            if stream.deadlines { &fields[..] } else { fields.split_last().map_or(&fields[..], |(_, six)| six) };
        let entry = stream::append(self.key.ctx(), self.run_as, &stream.key, fields).map_err(Error::Stream)?;
        self.orphan = Some(OrphanEvent { stream: stream.key, entry });
        Ok(())
    }

    /// Has the deadline index know when the sale's next hold can expire.
    pub(super) fn remember(&mut self) {
        let at = KeyBuf { db: self.ctx().db(), key: self.name.bytes().into() };
        let Ok(Some(sale)) = self.sale() else { return };
        if state::enter(|state| register(&mut state.sales, at.as_key(), sale)).is_none() {
            // Another module calls us from inside a call of ours. What has been done stays done; the timer meets the sale.
            inbox::loaded(at);
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

/// Enters a sale into the deadline index, moves its entry, or takes it out, as its next expiration says.
pub fn register(index: &mut DeadlineIndex, at: KeyRef<'_>, sale: &mut SaleValue) {
    sale.mark_found();
    sale.count_orders();
    let known = sale.deadline_id.filter(|entry| index.key(*entry) == Some(at));
    sale.deadline_id = match (known, sale.next_expiration()) {
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
        timer::arm(timer::Next::At(next));
    }
}

/// Counts an answer for the server as a whole.
fn count(status: Status) {
    state::enter(|state| {
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
        (sale_effect::Part::Orders(block), Some(sale)) => sale.load_whole_block(block).map_err(|_| Error::Payload)?,
        (sale_effect::Part::Head(_), Some(_)) => return Err(Error::BusyKey),
        (sale_effect::Part::Orders(_), None) => return Err(Error::NoStock),
    }
    session.remember();
    replicate::verbatim(session.ctx());
    session.announce(iter::empty());
    Ok(())
}
