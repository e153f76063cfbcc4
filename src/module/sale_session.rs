//! The keyspace for one call on a sale: decide, append events, commit, send effects, answer.

use std::ffi::CStr;
use std::{iter, mem};

use smallvec::SmallVec;

use crate::config;
use crate::core::key::KeyRef;
use crate::core::sale::{Answer, Change, Changes, Decision, Sale, Status};
use crate::core::slot::Slot;
use crate::error::Error;
use crate::module::repair::{self, OrphanEvent};
use crate::module::sale_effect;
use crate::module::sale_type::{self, SaleValue, Version};
use crate::module::{inbox, sale_counts, state};
use crate::server::args::Arg;
use crate::server::call::RunAs;
use crate::server::cluster::{self, Serves};
use crate::server::ctx::{Ctx, Level};
use crate::server::key::{self, Access, Content, Key, Name};
use crate::server::origin;
use crate::server::replicate;
use crate::server::stream::{self, Field};

/// A sale's key for one call.
pub struct SaleSession<'a> {
    /// The context of the call, and the key while it is open. The key is closed while other modules may run, because they may do anything
    /// to it.
    key: Key<'a>,
    name: Name<'a>,
    run_as: RunAs,
    pub(super) orphans: Orphans,
}

/// Events that are appended and whose changes are not committed yet, each with the index of its change in the step. The next to be
/// committed is last.
pub(super) type Orphans = SmallVec<[(usize, OrphanEvent); 1]>;

impl Drop for SaleSession<'_> {
    /// After a panic the stream may have an event too many, and replicas may lack an effect.
    fn drop(&mut self) {
        repair::if_interrupted(|| {
            let orphans = self.take_orphans();
            repair::schedule(KeyRef { db: self.ctx().db(), key: self.name.bytes() }, orphans);
        });
    }
}

impl<'a> SaleSession<'a> {
    pub(super) fn new(ctx: Ctx<'a>, name: Name<'a>, run_as: RunAs) -> Self {
        Self { key: Key::closed(ctx), name, run_as, orphans: SmallVec::new() }
    }

    /// The context, for server calls that run no other code.
    pub(super) fn ctx(&self) -> &Ctx<'a> {
        self.key.quiet()
    }

    /// Opens the key, if it is not open.
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

    /// The sale, for a decision on it.
    pub(super) fn whole_sale(&mut self) -> Result<Option<&mut SaleValue>, Error> {
        let sale = self.sale()?;
        if let Some((orders, expected)) = sale.as_ref().and_then(|sale| sale.loaded_so_far()) {
            return Err(Error::NotWhole { orders, expected });
        }
        Ok(sale)
    }

    /// Whether this node of the cluster serves the sale.
    pub(super) fn served(&mut self) -> Serves {
        cluster::serves(self.key.ctx(), &self.name)
    }

    /// Carries out changes that were decided just now, step by step. A step is one change and the waiting orders that are served with the
    /// units it brings back. The events of a step are appended, its changes are committed, and their effects are sent. If an event is
    /// refused, or another module that was notified of it has changed the sale, then this step and all later ones do not happen. The steps
    /// before it, which are expirations or a cutoff, stay.
    ///
    /// `said` is the change that the words of the running command spell, if they spell one. If nothing else can come of them, they are the
    /// effect.
    pub(super) fn carry_out(&mut self, changes: &Changes<'_>, said: Option<&Change<'_>>) -> Result<(), Error> {
        if changes.is_empty() {
            return Ok(());
        }
        let Some(sale) = self.sale()? else { return Err(Error::NoStock) };
        let decided_on = sale.version();
        let alone = if sale.terms().stream.is_none() { changes.alone() } else { None };
        if let Some(change) = alone {
            // A tool may have another server carry out what is sent here. That server must not serve a line by itself.
            let words_say_all = sale.waiting() == 0 && said == Some(change) && config::REPLICATE_COMMANDS.is_yes();
            return self.carry_out_alone(change, decided_on, words_say_all);
        }
        let changes: SmallVec<[&Change<'_>; 2]> = changes.iter().collect();
        let mut done = 0;
        let outcome = self.carry_out_steps(&changes, decided_on, &mut done);
        if done > 0 {
            self.reschedule();
            self.announce(changes.iter().take(done).filter_map(|change| sale_effect::event_name(change)));
        }
        outcome.map(drop)
    }

    /// Carries out a change that has no event in a stream.
    fn carry_out_alone(&mut self, change: &Change<'_>, decided_on: Version, words_say_all: bool) -> Result<(), Error> {
        self.commit(change, decided_on)?;
        if words_say_all {
            replicate::verbatim(self.ctx());
        } else {
            self.send_step(&[change]);
        }
        self.reschedule();
        self.announce(sale_effect::event_name(change).into_iter());
        Ok(())
    }

    /// Carries out changes that were decided on the sale at `decided_on`, as [`SaleSession::carry_out`] does, but tells nobody. Adds to
    /// `done` how many are done, and returns the new moment.
    pub(super) fn carry_out_steps(
        &mut self,
        changes: &[&Change<'_>],
        mut decided_on: Version,
        done: &mut usize,
    ) -> Result<Version, Error> {
        let outcome = changes.chunk_by(|before, next| next.continues_step(before)).try_for_each(|step| {
            decided_on = self.make_true(step, decided_on)?;
            *done = done.saturating_add(step.len());
            Ok(())
        });
        for untrue in self.take_orphans() {
            untrue.take_out(self.key.ctx(), self.name.bytes());
        }
        outcome.map(|()| decided_on)
    }

    /// Carries out a step that was decided on the sale at `decided_on`; returns the new moment.
    fn make_true(&mut self, step: &[&Change<'_>], decided_on: Version) -> Result<Version, Error> {
        self.append_events(step, decided_on)?;
        let moment = self.commit_step(step, decided_on)?;
        self.send_step(step);
        Ok(moment)
    }

    /// Appends the events of a step that was decided on the sale at `decided_on`.
    pub(super) fn append_events(&mut self, step: &[&Change<'_>], decided_on: Version) -> Result<(), Error> {
        for (index, change) in step.iter().enumerate() {
            self.append_event(index, change, decided_on)?;
        }
        self.orphans.reverse();
        Ok(())
    }

    /// Commits a step whose events are appended, if the sale has not changed since `decided_on`; returns the new moment.
    pub(super) fn commit_step(&mut self, step: &[&Change<'_>], decided_on: Version) -> Result<Version, Error> {
        let mut moment = decided_on;
        for (index, change) in step.iter().enumerate() {
            moment = self.commit(change, moment)?;
            if self.orphans.last().is_some_and(|(of, _)| *of == index) {
                self.orphans.pop();
            }
            if matches!(change, Change::Expire { .. }) {
                state::enter(|state| state.expirations = state.expirations.saturating_add(1));
            }
        }
        Ok(moment)
    }

    /// Sends the effects of a step that is committed.
    pub(super) fn send_step(&mut self, step: &[&Change<'_>]) {
        for change in step {
            sale_effect::send(self.ctx(), &self.name, change);
        }
    }

    /// The events that are appended and whose changes are not committed.
    pub(super) fn take_orphans(&mut self) -> Vec<OrphanEvent> {
        mem::take(&mut self.orphans).into_iter().map(|(_, orphan)| orphan).collect()
    }

    /// Commits a change whose event is appended, if the sale has not changed since `decided_on`; returns the new moment.
    fn commit(&mut self, change: &Change<'_>, decided_on: Version) -> Result<Version, Error> {
        let sale = self.unchanged_sale(decided_on)?;
        let Err(misfit) = sale.commit(change) else { return Ok(sale.version()) };
        let name = self.name.bytes().escape_ascii().to_string();
        self.ctx().log(Level::Warning, &format!("lockstock: a change of the sale {name} does not fit it: {misfit:?}"));
        Err(Error::Internal)
    }

    /// The sale, if nobody has changed it since `decided_on`.
    pub(super) fn unchanged_sale(&mut self, decided_on: Version) -> Result<&mut SaleValue, Error> {
        match self.sale() {
            Ok(Some(sale)) if sale.version() == decided_on => Ok(sale),
            _ => Err(Error::SaleChanged),
        }
    }

    /// Appends the event of a change that is about to be committed, the one at `index` in its step, if the sale has a stream.
    fn append_event(&mut self, index: usize, change: &Change<'_>, decided_on: Version) -> Result<(), Error> {
        let appended = u64::try_from(self.orphans.len()).unwrap_or(u64::MAX);
        let sale = self.unchanged_sale(decided_on)?;
        let (Some(stream), Some(event)) = (sale.terms().stream.clone(), sale.event(change)) else { return Ok(()) };
        let (id, buyer, reference) = (event.id.detach(), event.buyer.detach(), event.reference.detach());
        let mut texts = (itoa::Buffer::new(), itoa::Buffer::new(), itoa::Buffer::new());
        let seq = texts.0.format(sale.seq().saturating_add(1).saturating_add(appended)).as_bytes();
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
        self.orphans.push((index, OrphanEvent { stream: stream.key, entry }));
        Ok(())
    }

    /// Updates the sale's entry in the deadline index.
    pub(super) fn reschedule(&mut self) {
        self.key();
        let at = KeyRef { db: self.ctx().db(), key: self.name.bytes() };
        let Content::Value(sale) = self.key.content() else { return };
        if state::enter(|state| sale_type::schedule(&mut state.sales, at, sale)).is_none() {
            // Another module has called us from inside one of our calls. The change stays; the timer registers the sale.
            inbox::loaded(at.to_buf());
        }
    }

    /// Signals WATCH and client caches, and notifies listeners of changes that were made.
    pub(super) fn announce(&mut self, events: impl Iterator<Item = &'static CStr>) {
        key::touched(self.ctx(), &self.name);
        for event in events {
            key::notify(self.key.ctx(), event, &self.name);
        }
    }
}

/// In a cluster, checks that this node serves both sale and stream, and no migration is under way; see DESIGN.md.
pub(super) fn serves(ctx: &mut Ctx<'_>, sale: &[u8], stream: &[u8]) -> Result<(), Error> {
    if !ctx.flags().is_cluster() {
        return Ok(());
    }
    // The server is not asked about keys of two slots: Valkey 9.1 then refuses whatever it is asked after that.
    if Slot::of(sale) != Slot::of(stream) {
        return Err(Error::Stream("CROSSSLOT Keys in request don't hash to the same slot".into()));
    }
    if cluster::serves_both(ctx, sale, stream) { Ok(()) } else { Err(Error::OnTheMove) }
}

/// Creates a sale under an empty key, and reports at once what would keep it from selling. A creation that was decided elsewhere is
/// repeated without these checks, because lockstock 0.1 did not make them.
pub fn create(ctx: &mut Ctx<'_>, key: Arg<'_>, sale: Sale) -> Result<(), Error> {
    let decided = ctx.flags().is_decided();
    if !decided {
        sale.terms().check_window()?;
    }
    // Checked first: while the sale's key is open, no other server call is allowed.
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
    // Its times are absolute, so the command is its own effect.
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

/// Runs a command on an order of the sale `key` and returns its answer. A missing sale is an answer too. `said` is the change that the
/// command's words spell, if they spell one.
pub fn decide<'a>(
    ctx: &mut Ctx<'_>,
    key: Arg<'_>,
    said: Option<&Change<'_>>,
    f: impl FnOnce(&Sale) -> Result<Decision<'a>, Error>,
) -> Result<Answer<'a>, Error> {
    let mut session = SaleSession::new(ctx.reborrow(), Name::of(key), RunAs::Client);
    let Some(sale) = session.whole_sale()? else {
        sale_counts::answered(Status::NoStock);
        return Ok(Answer::NO_STOCK);
    };
    let Decision { answer, changes } = f(sale)?;
    // A successful change is counted when it is committed.
    if changes.is_empty() {
        sale.count_answer(answer.status);
    } else {
        session.carry_out(&changes, said)?;
        if answer.status != Status::Ok
            && let Ok(Some(sale)) = session.sale()
        {
            sale.count_answer(answer.status);
        }
    }
    sale_counts::answered(answer.status);
    Ok(answer)
}

/// Changes the terms or the stock of the sale `key`; `None` if there is no sale. `said` as for [`decide`].
pub fn change<'a, R>(
    ctx: &mut Ctx<'_>,
    key: Arg<'_>,
    said: Option<&Change<'_>>,
    f: impl FnOnce(&Sale) -> Result<(R, Changes<'a>), Error>,
) -> Result<Option<R>, Error> {
    let mut session = SaleSession::new(ctx.reborrow(), Name::of(key), RunAs::Client);
    let Some(sale) = session.whole_sale()? else { return Ok(None) };
    let (result, changes) = f(sale)?;
    session.carry_out(&changes, said)?;
    Ok(Some(result))
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
    let mut session = SaleSession::new(ctx.reborrow(), Name::of(key), RunAs::Module);
    session.sale()?.ok_or(Error::NoStock)?.replay(change).map_err(|_| Error::Payload)?;
    session.reschedule();
    replicate::verbatim(session.ctx());
    session.announce(sale_effect::event_name(change).into_iter());
    Ok(())
}

/// Restores what an AOF rewrite has written: a header first, then blocks of orders.
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
    session.reschedule();
    replicate::verbatim(session.ctx());
    session.announce(iter::empty());
    Ok(())
}
