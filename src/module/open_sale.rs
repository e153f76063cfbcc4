//! The sale whose key is open within a transaction: a step of changes gets its events, is committed and sent.

use std::ffi::CStr;

use crate::core::key::KeyRef;
use crate::core::sale::{Change, InvalidChange, Sale};
use crate::core::slot::Slot;
use crate::error::Error;
use crate::module::repair::OrphanEvent;
use crate::module::sale_type::{self, SaleValue, Version};
use crate::module::{inbox, sale_effect, state};
use crate::server::args::Name;
use crate::server::call::RunAs;
use crate::server::cluster;
use crate::server::ctx::{Ctx, Level};
use crate::server::key::{self, Access, Key};
use crate::server::stream::{self, Field};

/// The context, and the one key that may be open. The key is closed while other modules may run, because they may do anything to it.
pub struct OpenSale<'c> {
    key: Key<'c>,
    /// Which sale's key it is.
    of: usize,
    run_as: RunAs,
}

/// Which sale it is, and the values that stay known while its key is closed.
pub struct SaleRef<'a> {
    /// Its position in the transaction.
    nth: usize,
    pub name: Name<'a>,
    /// The version that the decision is valid for; `None` if there is no such sale.
    pub decided_on: Option<Version>,
    pub has_stream: bool,
    /// Orders waited when it was asked.
    pub has_line: bool,
    /// The events of the changes of the step under way; `None` once the change is committed, or if it has no event.
    pub orphans: Vec<Option<OrphanEvent>>,
}

impl<'a> SaleRef<'a> {
    /// The sale `name` at the position `nth`, before anything is known of it.
    pub fn new(nth: usize, name: Name<'a>) -> Self {
        Self { nth, name, decided_on: None, has_stream: false, has_line: false, orphans: Vec::new() }
    }
}

impl<'c> OpenSale<'c> {
    /// No open sale yet. Events are appended as `run_as`.
    pub fn closed(ctx: Ctx<'c>, run_as: RunAs) -> Self {
        Self { key: Key::closed(ctx), of: 0, run_as }
    }

    /// The context, for calls that may run other code; closes the key.
    pub fn ctx(&mut self) -> &mut Ctx<'c> {
        self.key.ctx()
    }

    /// The context, for calls that run no other code.
    pub fn quiet(&self) -> &Ctx<'c> {
        self.key.quiet()
    }

    /// Stores a new sale under an empty key.
    pub fn create(&mut self, at: &SaleRef<'_>, sale: Sale) -> Result<(), Error> {
        if self.key(at).set(SaleValue::new(sale)) { Ok(()) } else { Err(Error::Internal) }
    }

    /// Opens the key of the sale, if it is not open.
    fn key(&mut self, at: &SaleRef<'_>) -> &mut Key<'c> {
        if self.of != at.nth || !self.key.is_open() {
            self.key.reopen(&at.name, Access::Write);
            self.of = at.nth;
        }
        &mut self.key
    }

    /// The sale; `None` if there is none.
    pub fn sale(&mut self, at: &SaleRef<'_>) -> Result<Option<&mut SaleValue>, Error> {
        self.key(at).content().map_err(|_| Error::WrongType)
    }

    /// The sale, if no other code has changed it since its decision.
    pub fn unchanged(&mut self, at: &SaleRef<'_>) -> Result<&mut SaleValue, Error> {
        match self.sale(at) {
            Ok(Some(sale)) if Some(sale.version()) == at.decided_on => Ok(sale),
            _ => Err(Error::SaleChanged),
        }
    }

    /// Appends the events of a step that was decided on the sale, if it has a stream.
    pub fn append(&mut self, sale: &mut SaleRef<'_>, step: &[Change<'_>]) -> Result<(), Error> {
        if !sale.has_stream {
            return Ok(());
        }
        sale.orphans.clear();
        let mut events_before = 0;
        for change in step {
            let orphan = self.append_event(sale, events_before, change)?;
            events_before = events_before.saturating_add(u64::from(orphan.is_some()));
            sale.orphans.push(orphan);
        }
        Ok(())
    }

    /// Appends the event of a change, if it has one. So many events of the same step come before it.
    fn append_event(
        &mut self,
        at: &SaleRef<'_>,
        events_before: u64,
        change: &Change<'_>,
    ) -> Result<Option<OrphanEvent>, Error> {
        let sale = self.unchanged(at)?;
        let (Some(stream), Some(event)) = (sale.terms().stream.clone(), sale.event(change)) else { return Ok(None) };
        let (id, buyer, reference) = (event.id.detach(), event.buyer.detach(), event.reference.detach());
        let mut texts = (itoa::Buffer::new(), itoa::Buffer::new(), itoa::Buffer::new());
        let seq = texts.0.format(sale.seq().saturating_add(1).saturating_add(events_before)).as_bytes();
        let units = texts.1.format(event.units).as_bytes();
        let deadline = texts.2.format(event.deadline.map_or(-1, |time| time.0)).as_bytes();
        let event = event.kind.as_bytes();
        serves(self.key.ctx(), at.name.bytes(), &stream.key)?;
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
        Ok(Some(OrphanEvent { stream: stream.key, entry }))
    }

    /// Commits a step whose events are appended, if no other code has changed the sale since its decision.
    pub fn commit(&mut self, at: &mut SaleRef<'_>, step: &[Change<'_>]) -> Result<(), Error> {
        let sale = self.unchanged(at)?;
        let fits = step.iter().enumerate().try_for_each(|(index, change)| {
            sale.commit(change)?;
            if let Some(orphan) = at.orphans.get_mut(index) {
                *orphan = None;
            }
            Ok(())
        });
        at.decided_on = Some(sale.version());
        let expired = step.iter().filter(|change| matches!(change, Change::Expire { .. })).map(|_| 1).sum::<u64>();
        if expired > 0 && fits.is_ok() {
            state::enter(|state| state.expirations = state.expirations.saturating_add(expired));
        }
        fits.map_err(|invalid: InvalidChange| {
            let name = at.name.bytes().escape_ascii();
            let told = format!("lockstock: a change of the sale {name} does not fit it: {invalid:?}");
            self.key.quiet().log(Level::Warning, &told);
            Error::Internal
        })
    }

    /// Sends the effects of a step that is committed.
    pub fn send(&mut self, at: &SaleRef<'_>, step: &[Change<'_>]) {
        for change in step {
            sale_effect::send(self.key.quiet(), &at.name, change);
        }
    }

    /// Updates the entry of the sale in the deadline index.
    pub fn reschedule(&mut self, at: &SaleRef<'_>) {
        let key = KeyRef { db: self.key.quiet().db(), key: at.name.bytes() };
        let Ok(Some(sale)) = self.sale(at) else { return };
        if state::enter(|state| sale_type::schedule(&mut state.sales, key, sale)).is_none() {
            // Another module has called us from inside one of our calls. The change stays; the timer registers the sale.
            inbox::loaded(key.to_buf());
        }
    }

    /// Signals WATCH and client caches, and notifies listeners of changes that were made.
    pub fn announce(&mut self, at: &SaleRef<'_>, events: impl Iterator<Item = &'static CStr>) {
        key::touched(self.key.quiet(), &at.name);
        events.for_each(|event| key::notify(self.key.ctx(), event, &at.name));
    }
}

/// In a cluster, checks that this node serves both sale and stream, and that neither has left in a migration; see DESIGN.md.
pub fn serves(ctx: &mut Ctx<'_>, sale: &[u8], stream: &[u8]) -> Result<(), Error> {
    if !ctx.flags().is_cluster() {
        return Ok(());
    }
    // The server is not asked about keys of two slots: Valkey 9.1 then refuses whatever it is asked after that.
    if Slot::of(sale) != Slot::of(stream) {
        return Err(Error::Stream("CROSSSLOT Keys in request don't hash to the same slot".into()));
    }
    if cluster::serves_both(ctx, sale, stream) { Ok(()) } else { Err(Error::OnTheMove) }
}
