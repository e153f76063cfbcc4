//! One transaction on one or several sales: each sale decides, all events are appended, all changes are committed, and their effects are sent.
//!
//! Each sale decides with its own key open and no other. Only an event can be refused; the events before it are then taken out of their
//! streams again, and nothing has happened. Changes that are due come first, sale by sale and step by step, and stay. See DESIGN.md.

use std::ffi::CStr;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use smallvec::SmallVec;

use crate::config;
use crate::core::invariant::invariant;
use crate::core::key::KeyRef;
use crate::core::sale::{Change, Changes, Sale};
use crate::error::Error;
use crate::module::open_sale::{self, OpenSale, SaleRef};
use crate::module::repair;
use crate::module::sale_effect;
use crate::module::sale_type::SaleValue;
use crate::server::args::{Arg, Name};
use crate::server::call::RunAs;
use crate::server::ctx::Ctx;
use crate::server::key::{Access, Key};
use crate::server::replicate;

/// The sales of one call.
pub struct SaleTransaction<'c, 'a> {
    open: OpenSale<'c>,
    legs: SmallVec<[Leg<'a>; 1]>,
    /// How many of the changing sales are committed.
    committed: usize,
    /// The words of the running command are the effect of its change.
    words_say_all: bool,
}

/// One sale of a transaction, and its changes.
struct Leg<'a> {
    sale: SaleRef<'a>,
    changes: Changes<'a>,
    /// How many of the changes that are due first are made.
    due_done: usize,
}

impl Drop for SaleTransaction<'_, '_> {
    /// After a panic streams may have events too many, and replicas may lack effects. If a part of the sales has changed, the others follow:
    /// nothing can refuse that any more.
    fn drop(&mut self) {
        repair::if_interrupted(|| {
            if self.committed > 0 {
                // Even if this panics as well, the keys are repaired.
                let _ = catch_unwind(AssertUnwindSafe(|| self.commit_rest()));
            }
            let db = self.open.quiet().db();
            for Leg { sale, .. } in &mut self.legs {
                let orphans = mem::take(&mut sale.orphans).into_iter().flatten().collect();
                repair::schedule(KeyRef { db, key: sale.name.bytes() }, orphans);
            }
        });
    }
}

impl<'c, 'a> SaleTransaction<'c, 'a> {
    /// A transaction without sales, whose events are appended as `run_as`.
    pub fn new(ctx: Ctx<'c>, run_as: RunAs) -> Self {
        Self { open: OpenSale::closed(ctx, run_as), legs: SmallVec::new(), committed: 0, words_say_all: false }
    }

    /// The context, for calls that may run other code.
    pub fn ctx(&mut self) -> &mut Ctx<'c> {
        self.open.ctx()
    }

    /// Adds the sale `key` and has it decide, which fills in its changes; `None` if there is no such sale.
    #[inline]
    pub fn ask<T>(
        &mut self,
        key: Arg<'a>,
        decide: impl FnOnce(&mut SaleValue, &mut Changes<'a>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let (nth, name) = (self.legs.len(), Name::of(key));
        self.legs.push(Leg { sale: SaleRef::new(nth, name), changes: Changes::default(), due_done: 0 });
        let Some(leg) = self.legs.last_mut() else { return Ok(None) };
        let Some(sale) = self.open.sale(&leg.sale)? else { return Ok(None) };
        let decision = decide(sale, &mut leg.changes)?;
        leg.sale.decided_on = Some(sale.version());
        leg.sale.has_stream = sale.terms().stream.is_some();
        leg.sale.has_line = sale.waiting() > 0;
        Ok(Some(decision))
    }

    /// The sale that was asked at this position; `None` if there is none.
    pub fn sale(&mut self, nth: usize) -> Result<Option<&mut SaleValue>, Error> {
        self.legs.get(nth).map_or(Ok(None), |leg| self.open.sale(&leg.sale))
    }

    /// Drops the changes of the sale at this position, and returns the sale, if no other code has changed it since it was asked.
    pub fn skip(&mut self, nth: usize) -> Result<&mut SaleValue, Error> {
        let leg = self.legs.get_mut(nth).ok_or(Error::Internal)?;
        leg.changes = Changes::default();
        self.open.unchanged(&leg.sale)
    }

    /// Stores a new sale under the last key that was asked.
    pub fn create(&mut self, sale: Sale) -> Result<(), Error> {
        let leg = self.legs.last().ok_or(Error::Internal)?;
        self.open.create(&leg.sale, sale)
    }

    /// Carries out the decision of each sale. If an event is refused, or another module that was notified of one has changed a sale, then
    /// nothing changes except that some due holds may have expired.
    ///
    /// `said` is the change that the words of the running command spell, if they spell one. If the words can have no other outcome, they
    /// are the effect.
    pub fn carry_out(&mut self, said: Option<&Change<'_>>) -> Result<(), Error> {
        if self.legs.iter().all(|leg| leg.changes.is_empty()) {
            return Ok(());
        }
        self.words_say_all = said.is_some_and(|said| self.is_said(said));
        if self.legs.len() > 1 {
            self.check_streams()?;
        }
        let outcome = self.carry_out_due().and_then(|()| self.append_all()).and_then(|()| self.commit_all());
        self.take_out();
        if outcome.is_err() {
            self.reschedule();
        }
        self.announce(outcome.is_ok());
        outcome
    }

    /// Whether the words of the command describe its whole effect. A tool may send these commands to another server, which carries them
    /// out. That server must not serve a line by itself.
    fn is_said(&self, said: &Change<'_>) -> bool {
        let [leg] = &self.legs[..] else { return false };
        let plain = !leg.sale.has_stream && !leg.sale.has_line;
        plain && leg.changes.alone() == Some(said) && config::REPLICATE_COMMANDS.is_yes()
    }

    /// Refuses a change now if a stream would refuse its event later, as far as the module can see, so that events seldom have to be
    /// removed again.
    fn check_streams(&mut self) -> Result<(), Error> {
        let mut streams: Vec<(&[u8], Box<[u8]>)> = Vec::new();
        for leg in self.legs.iter().filter(|leg| leg.sale.has_stream) {
            let sale = self.open.unchanged(&leg.sale)?;
            // A refusal that becomes final is no event.
            let has_event = leg.changes.iter().any(|change| sale.event(change).is_some());
            let Some(stream) = sale.terms().stream.clone().filter(|_| has_event) else { continue };
            if Key::open(self.open.ctx().reborrow(), &Name::make(&stream.key), Access::Write).is_no_stream() {
                return Err(Error::Stream(Error::WrongType.to_string()));
            }
            streams.push((leg.sale.name.bytes(), stream.key));
        }
        streams.iter().try_for_each(|(sale, stream)| open_sale::serves(self.open.ctx(), sale, stream))
    }

    /// Carries out the changes that are due, step by step, whatever becomes of the rest: the holds whose units are needed expire.
    fn carry_out_due(&mut self) -> Result<(), Error> {
        let Self { open, legs, .. } = self;
        for Leg { sale, changes, due_done } in legs {
            for step in changes.due_first.chunk_by(|before, next| next.continues_step(before)) {
                open.append(sale, step)?;
                open.commit(sale, step)?;
                open.send(sale, step);
                *due_done = due_done.saturating_add(step.len());
            }
        }
        Ok(())
    }

    fn append_all(&mut self) -> Result<(), Error> {
        let Self { open, legs, .. } = self;
        legs.iter_mut().try_for_each(|Leg { sale, changes, .. }| open.append(sale, &changes.step))
    }

    fn commit_all(&mut self) -> Result<(), Error> {
        // A single sale needs no look before: its own commit is the first one.
        if self.legs.len() > 1 {
            for leg in self.legs.iter().filter(|leg| !leg.changes.is_empty()) {
                self.open.unchanged(&leg.sale)?;
            }
        }
        // From here on no other module runs. Opening a key could make it expire, but these keys were open just now, and the server's time
        // stands still within a command.
        self.commit_rest()?;
        for leg in &self.legs {
            if self.words_say_all {
                replicate::verbatim(self.open.quiet());
            } else {
                self.open.send(&leg.sale, &leg.changes.step);
            }
        }
        Ok(())
    }

    /// Commits the changes that are not committed yet, and registers these sales.
    fn commit_rest(&mut self) -> Result<(), Error> {
        let Self { open, legs, committed, .. } = self;
        let changing = legs.iter_mut().filter(|leg| !leg.changes.is_empty());
        for Leg { sale, changes, .. } in changing.skip(*committed) {
            let done = open.commit(sale, &changes.step);
            invariant!(done.is_ok() || *committed == 0, "nobody changes a sale between a look at it and its commit");
            done?;
            *committed = committed.saturating_add(1);
            open.reschedule(sale);
        }
        Ok(())
    }

    /// Takes the events out of the streams whose changes were not committed, the last one first.
    fn take_out(&mut self) {
        for Leg { sale, .. } in self.legs.iter_mut().rev().filter(|leg| leg.sale.has_stream) {
            for untrue in mem::take(&mut sale.orphans).into_iter().rev().flatten() {
                untrue.take_out(self.open.ctx(), sale.name.bytes());
            }
        }
    }

    /// Updates the entry of each sale in the deadline index.
    pub fn reschedule(&mut self) {
        self.legs.iter().for_each(|leg| self.open.reschedule(&leg.sale));
    }

    /// Signals WATCH and client caches, and notifies listeners, of each sale that has changed: by all of its changes if they are `done`,
    /// else only by the expirations that came first.
    fn announce(&mut self, done: bool) {
        for Leg { sale, changes, due_done } in &self.legs {
            if *due_done > 0 || (done && !changes.is_empty()) {
                let own = changes.step.iter().filter(|_| done);
                let changes = changes.due_first.iter().take(*due_done).chain(own);
                self.open.announce(sale, changes.filter_map(sale_effect::event_name));
            }
        }
    }

    /// Tells of changes that the words of the running command spell and that are made already.
    pub fn tell_verbatim(&mut self, event: Option<&'static CStr>) {
        self.reschedule();
        replicate::verbatim(self.open.quiet());
        for leg in &self.legs {
            self.open.announce(&leg.sale, event.into_iter());
        }
    }
}
