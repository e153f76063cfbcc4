//! One request to several sales: it is carried out in all of them or in none.
//!
//! Each sale decides with its own key open and no other. Then all events are appended, all changes are committed, and the effects are sent.
//! Only an event can be refused; those before it are taken out of their streams again, and nothing has happened. See DESIGN.md.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use smallvec::SmallVec;

use crate::core::invariant::invariant;
use crate::core::key::KeyRef;
use crate::core::sale::cart::{all_or_none, at_least_one};
use crate::core::sale::{Answer, Budget, Change, Changes, Decision, Sale, Status};
use crate::error::Error;
use crate::module::sale_session::{self, Orphans, SaleSession};
use crate::module::sale_type::Version;
use crate::module::{repair, sale_counts, sale_effect};
use crate::server::args::Arg;
use crate::server::call::RunAs;
use crate::server::ctx::Ctx;
use crate::server::key::{Access, Key, Name};

/// The sales of one request.
struct CartSession<'c, 'a> {
    ctx: Ctx<'c>,
    legs: Vec<Leg<'a>>,
    /// What each of them answers and changes.
    decisions: Vec<Decision<'a>>,
    /// What the sales that have not decided yet may do for other orders.
    budget: Budget,
    /// How many of the sales with changes are committed.
    committed: usize,
}

/// One sale of a request.
struct Leg<'a> {
    key: Arg<'a>,
    /// The sale that its decision is valid for; `None` if there is none.
    decided_on: Option<Version>,
    /// The stream of the decision's events.
    stream: Option<Box<[u8]>>,
    orphans: Orphans,
    /// The changes that are due and come before those of its decision, and how many of them are made.
    due_first: Vec<Change<'static>>,
    due_done: usize,
}

/// How the answers of the sales depend on each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// If one refuses, nothing is done in the others.
    AllOrNone,
    /// Each does what it can.
    Each,
}

impl Drop for CartSession<'_, '_> {
    /// After a panic streams may have events too many, and replicas may lack effects. If a part of the sales has changed, the others follow:
    /// nothing can refuse that any more.
    fn drop(&mut self) {
        repair::if_interrupted(|| {
            if self.committed > 0 {
                // Even if this panics as well, the keys are repaired.
                let _ = catch_unwind(AssertUnwindSafe(|| self.commit_rest()));
            }
            let db = self.ctx.db();
            for leg in &mut self.legs {
                let orphans = mem::take(&mut leg.orphans).into_iter().map(|(_, orphan)| orphan).collect();
                repair::schedule(KeyRef { db, key: leg.key.bytes() }, orphans);
            }
        });
    }
}

/// Runs a command on an order of each of the sales `keys`. Returns the status of the whole, and the answer of each.
pub fn decide<'a>(
    ctx: &mut Ctx<'_>,
    keys: impl ExactSizeIterator<Item = Arg<'a>>,
    rule: Rule,
    mut decide: impl FnMut(usize, Budget, &Sale) -> Result<Decision<'a>, Error>,
    skipped: impl Fn(&Sale) -> Answer<'static>,
) -> Result<(Status, Vec<Answer<'a>>), Error> {
    let (legs, decisions) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
    let mut cart = CartSession { ctx: ctx.reborrow(), legs, decisions, budget: Budget::COMMAND, committed: 0 };
    for (nth, key) in keys.enumerate() {
        cart.ask(key, |budget, sale| decide(nth, budget, sale))?;
    }
    let status = cart.settle(rule, skipped)?;
    cart.carry_out()?;
    cart.count();
    Ok((status, mem::take(&mut cart.decisions).into_iter().map(|decision| decision.answer).collect()))
}

fn session<'s>(ctx: &'s mut Ctx<'_>, key: Arg<'s>) -> SaleSession<'s> {
    SaleSession::new(ctx.reborrow(), Name::of(key), RunAs::Client)
}

impl<'a> CartSession<'_, 'a> {
    /// Has a sale decide. A missing sale has an answer, too.
    fn ask(
        &mut self,
        key: Arg<'a>,
        decide: impl FnOnce(Budget, &Sale) -> Result<Decision<'a>, Error>,
    ) -> Result<(), Error> {
        let budget = self.budget;
        let mut session = session(&mut self.ctx, key);
        let (mut decision, mut decided_on, mut stream) = (Answer::NO_STOCK.unchanged(), None, None);
        if let Some(sale) = session.whole_sale()? {
            decision = decide(budget, sale)?;
            decided_on = Some(sale.version());
            if !decision.changes.is_empty() {
                stream = sale.terms().stream.as_ref().map(|stream| stream.key.clone());
            }
        }
        drop(session);
        self.budget = budget.after(&decision.changes);
        self.legs.push(Leg { key, decided_on, stream, orphans: Orphans::new(), due_first: Vec::new(), due_done: 0 });
        self.decisions.push(decision);
        Ok(())
    }

    /// Settles the decisions together and returns the status of the whole.
    fn settle(&mut self, rule: Rule, skipped: impl Fn(&Sale) -> Answer<'static>) -> Result<Status, Error> {
        let Self { ctx, legs, decisions, .. } = self;
        match rule {
            Rule::Each => Ok(at_least_one(decisions)),
            Rule::AllOrNone => all_or_none(decisions, |nth| {
                let leg = legs.get(nth).ok_or(Error::Internal)?;
                // Opening the other keys may have run other modules.
                let decided_on = leg.decided_on.ok_or(Error::Internal)?;
                session(ctx, leg.key).unchanged_sale(decided_on).map(|sale| skipped(sale))
            }),
        }
    }

    /// The sales that change.
    fn changing<'s>(&'s mut self) -> (Ctx<'s>, impl Iterator<Item = (&'s mut Leg<'a>, &'s mut Changes<'a>)>) {
        let Self { ctx, legs, decisions, .. } = self;
        let changes = decisions.iter_mut().map(|decision| &mut decision.changes);
        (ctx.reborrow(), legs.iter_mut().zip(changes).filter(|(_, changes)| !changes.is_empty()))
    }

    /// Carries out all changes. If an event is refused, or another module that was notified of one has changed a sale, then nothing is done.
    /// Expirations that the decisions need come first, and stay.
    fn carry_out(&mut self) -> Result<(), Error> {
        if self.changing().1.next().is_none() {
            return Ok(());
        }
        self.check_streams()?;
        let outcome = self.expire_first().and_then(|()| self.append_all()).and_then(|()| self.commit_all());
        self.take_out();
        self.announce(outcome.is_ok());
        outcome
    }

    /// Refuses now what a stream would refuse later, as far as this can be seen, so that events seldom have to be taken out again.
    fn check_streams(&mut self) -> Result<(), Error> {
        let is_cluster = self.ctx.flags().is_cluster();
        let (mut ctx, legs) = self.changing();
        let mut keys: Vec<(&[u8], &[u8])> = Vec::new();
        for (leg, _) in legs {
            let Some(stream) = &leg.stream else { continue };
            if Key::open(ctx.reborrow(), &Name::make(stream), Access::Write).is_no_stream() {
                return Err(Error::Stream(Error::WrongType.to_string()));
            }
            keys.push((leg.key.bytes(), stream));
        }
        if is_cluster {
            keys.iter().try_for_each(|(sale, stream)| sale_session::serves(&mut ctx, sale, stream))?;
        }
        Ok(())
    }

    /// Lets the holds expire whose units are needed. That is true whatever becomes of the request.
    fn expire_first(&mut self) -> Result<(), Error> {
        let (mut ctx, legs) = self.changing();
        for (leg, changes) in legs {
            let Some(decided_on) = leg.decided_on.filter(|_| !changes.due_first.is_empty()) else { continue };
            leg.due_first = mem::take(&mut changes.due_first);
            let first: Vec<&Change<'_>> = leg.due_first.iter().collect();
            let mut session = session(&mut ctx, leg.key);
            leg.decided_on = Some(session.carry_out_steps(&first, decided_on, &mut leg.due_done)?);
        }
        Ok(())
    }

    fn append_all(&mut self) -> Result<(), Error> {
        let (mut ctx, legs) = self.changing();
        for (leg, changes) in legs.filter(|(leg, _)| leg.stream.is_some()) {
            let mut session = session(&mut ctx, leg.key);
            let appended = session.append_events(&step(changes), leg.decided_on.ok_or(Error::NoStock)?);
            leg.orphans = mem::take(&mut session.orphans);
            appended?;
        }
        Ok(())
    }

    fn commit_all(&mut self) -> Result<(), Error> {
        let (mut ctx, legs) = self.changing();
        for (leg, _) in legs {
            session(&mut ctx, leg.key).unchanged_sale(leg.decided_on.ok_or(Error::NoStock)?)?;
        }
        // From here on no other module runs. Opening a key could make it expire, but these keys were open just now, and the server's time
        // stands still within a command.
        self.commit_rest()?;
        let (mut ctx, legs) = self.changing();
        for (leg, changes) in legs {
            session(&mut ctx, leg.key).send_step(&step(changes));
        }
        Ok(())
    }

    /// Commits the changes that are not committed yet, and registers these sales.
    fn commit_rest(&mut self) -> Result<(), Error> {
        let Self { ctx, legs, decisions, committed, .. } = self;
        let changes = decisions.iter().map(|decision| &decision.changes);
        let changing = legs.iter_mut().zip(changes).filter(|(_, changes)| !changes.is_empty());
        for (leg, changes) in changing.skip(*committed) {
            let decided_on = leg.decided_on.ok_or(Error::NoStock)?;
            let mut open = Open::new(session(ctx, leg.key), &mut leg.orphans);
            let done = open.session.commit_step(&step(changes), decided_on);
            invariant!(done.is_ok(), "nobody changes a sale between a look at it and its commit");
            done?;
            *committed = committed.saturating_add(1);
            open.session.reschedule();
        }
        Ok(())
    }

    /// Takes the events out of the streams whose changes were not committed, the last one first.
    fn take_out(&mut self) {
        for leg in self.legs.iter_mut().rev() {
            for (_, untrue) in mem::take(&mut leg.orphans) {
                untrue.take_out(&mut self.ctx, leg.key.bytes());
            }
        }
    }

    /// Signals WATCH and client caches, and notifies listeners, of each sale that has changed: by all of the request if it is `done`, else only
    /// by what was due first. Sales where something was due are registered before anybody is notified.
    fn announce(&mut self, done: bool) {
        let Self { ctx, legs, decisions, .. } = self;
        let changed =
            |leg: &Leg<'_>, decision: &Decision<'_>| leg.due_done > 0 || (done && !decision.changes.is_empty());
        for leg in legs.iter().filter(|leg| leg.due_done > 0) {
            session(ctx, leg.key).reschedule();
        }
        for (leg, decision) in legs.iter().zip(decisions.iter()) {
            if changed(leg, decision) {
                let own = decision.changes.iter().filter(|_| done);
                let changes = leg.due_first.iter().take(leg.due_done).chain(own);
                session(ctx, leg.key).announce(changes.filter_map(sale_effect::event_name));
            }
        }
    }

    /// Counts each sale's answer, in the total of the server and in the sale. A successful change was counted when it was committed.
    fn count(&mut self) {
        let Self { ctx, legs, decisions, .. } = self;
        for (leg, decision) in legs.iter().zip(decisions.iter()) {
            let status = decision.answer.status;
            sale_counts::answered(status);
            if !matches!(status, Status::Ok | Status::Skipped | Status::NoStock)
                && let Ok(Some(sale)) = session(ctx, leg.key).sale()
            {
                sale.count_answer(status);
            }
        }
    }
}

/// A sale that is being changed. It takes the orphans of its leg and gives them back when it ends, also by a panic: then the leg has them
/// repaired.
struct Open<'l, 's> {
    session: SaleSession<'s>,
    orphans: &'l mut Orphans,
}

impl<'l, 's> Open<'l, 's> {
    fn new(mut session: SaleSession<'s>, orphans: &'l mut Orphans) -> Self {
        session.orphans = mem::take(orphans);
        Self { session, orphans }
    }
}

impl Drop for Open<'_, '_> {
    fn drop(&mut self) {
        *self.orphans = mem::take(&mut self.session.orphans);
    }
}

/// The changes of a sale that belong together.
fn step<'s, 'a>(changes: &'s Changes<'a>) -> SmallVec<[&'s Change<'a>; 2]> {
    changes.iter().collect()
}
