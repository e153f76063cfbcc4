//! Random schedules over several sales: a request to some of them is answered like the models, and nothing of it happens or all.

use proptest::prelude::*;

use super::model::Model;
use super::occurrences::{must_have_seen, saw};
use super::schedule::{OCCURRENCES, schedules};
use super::steps::{NAMES, Step, line_step, name, step};
use super::world::{self, World, agree, served};
use crate::core::sale::budget::MOST_SERVED;
use crate::core::sale::cart::{all_or_none, at_least_one};
use crate::core::sale::{
    Answer, Budget, Change, Changes, Decision, Sale, State, Status, Stream, Take, TakeError, Terms,
};
use crate::core::time::{Millis, UnixMs};

const SALES: usize = 3;

/// What is asked of several sales.
#[derive(Clone, Debug)]
pub enum Cart {
    Take { units: Vec<u64>, buyer: Option<usize>, hold: Option<i64>, reference: String },
    Confirm,
    Cancel,
}

#[derive(Clone, Debug)]
pub enum Action {
    /// Something happens to one sale, or to all of them at once if it happens to time or the server.
    Single(usize, Step),
    /// A request to these sales, in this order. The streams take so many steps of it, if they do not take all.
    Several { id: usize, sales: Vec<usize>, cart: Cart, takes: usize },
}

fn action() -> impl Strategy<Value = Action> {
    let sales = Just((0..SALES).collect::<Vec<_>>()).prop_shuffle().prop_flat_map(|sales| (Just(sales), 1..=SALES));
    let sales = sales.prop_map(|(sales, count)| sales[..count].to_vec());
    let units = proptest::collection::vec(1..4_u64, SALES);
    let buyer = proptest::option::weighted(0.6, name());
    let cart = prop_oneof![
        4 => (units, buyer, proptest::option::weighted(0.7, 1..40_i64)).prop_map(|(units, buyer, hold)| {
            Cart::Take { units, buyer, hold, reference: String::new() }
        }),
        3 => Just(Cart::Confirm),
        1 => Just(Cart::Cancel),
    ];
    let takes = prop_oneof![8 => Just(usize::MAX), 1 => 0..5_usize];
    let several = (name(), sales, cart, takes);
    prop_oneof![
        1 => (0..SALES, prop_oneof![step(), line_step()]).prop_map(|(sale, step)| Action::Single(sale, step)),
        1 => several.prop_map(|(id, sales, cart, takes)| Action::Several { id, sales, cart, takes }),
    ]
}

impl Cart {
    fn decide<'a>(
        &'a self,
        nth: usize,
        sale: &Sale,
        now: UnixMs,
        budget: Budget,
        id: &'a [u8],
    ) -> Result<Decision<'a>, TakeError> {
        match self {
            Self::Take { .. } => sale.take(now, budget, &self.take(nth, now, id)),
            Self::Confirm => Ok(sale.confirm(now, budget, id, None).unwrap()),
            Self::Cancel => Ok(sale.cancel(now, budget, id, None)),
        }
    }

    fn asks(&self, nth: usize, model: &mut Model, now: UnixMs, id: &[u8]) -> Result<Answer<'static>, TakeError> {
        match self {
            Self::Take { .. } => model.take(&self.take(nth, now, id), false),
            Self::Confirm => Ok(model.confirm(id, None).unwrap()),
            Self::Cancel => Ok(model.cancel(id, None)),
        }
    }

    fn take<'a>(&'a self, nth: usize, now: UnixMs, id: &'a [u8]) -> Take<'a> {
        let Self::Take { units, buyer, hold, reference } = self else { panic!("{self:?} takes nothing") };
        let buyer = buyer.map(|buyer| NAMES[buyer].as_bytes());
        let deadline = hold.and_then(|hold| now.plus(Millis(hold)));
        Take { id, units: units[nth], buyer, deadline, reference: reference.as_bytes() }
    }
}

/// Sales, each in its own world, on one server.
pub struct Mall {
    worlds: Vec<World>,
    /// How many actions there were.
    actions: usize,
    /// Requests that took from several sales at once: the id, the sales, and the reference that no other request has.
    carts: Vec<(usize, Vec<usize>, String)>,
}

impl Mall {
    pub fn new(terms: impl IntoIterator<Item = Terms>) -> Self {
        Self { worlds: terms.into_iter().map(|terms| World::new(&terms)).collect(), actions: 0, carts: Vec::new() }
    }

    /// Everything that decides what can happen next.
    pub fn state(&self) -> String {
        let mut state: String = self.worlds.iter().map(World::state).collect();
        for (nth, (id, sales, reference)) in self.carts.iter().enumerate() {
            state = state.replace(&format!("\"{reference}\""), &format!("{nth}")) + &format!("{id} {sales:?}");
        }
        state
    }

    pub fn act(&mut self, action: &Action) {
        self.actions += 1;
        match action {
            Action::Single(_, step @ (Step::Pass(_) | Step::Failover(_) | Step::Save | Step::PowerCut)) => {
                self.worlds.iter_mut().for_each(|world| world.step(step));
            }
            Action::Single(sale, step) => {
                if let Step::Take { id, .. } = step {
                    // The id may buy something else there.
                    self.carts.retain(|(of, sales, _)| of != id || !sales.contains(sale));
                }
                self.worlds[*sale].step(step);
            }
            Action::Several { id, sales, cart, takes } => self.ask(*id, sales, cart, *takes),
        }
        self.worlds.iter().for_each(World::check);
        self.check_carts();
    }

    /// Each cart is there as a whole or not at all, whatever has become of the server since.
    fn check_carts(&self) {
        for (id, sales, reference) in &self.carts {
            let legs = sales.iter().map(|sale| {
                let world = &self.worlds[*sale];
                let order = world.sale.order(world.now, NAMES[*id].as_bytes());
                order.is_some_and(|order| *order.reference == *reference.as_bytes())
            });
            let there = legs.filter(|there| *there).count();
            assert!(there == 0 || there == sales.len(), "a part of the cart {reference}");
            if there == 0 {
                saw("a cart is lost in a power cut");
            }
        }
    }

    /// What the id has in each of these sales.
    fn has(&self, id: usize, sales: &[usize]) -> Vec<Option<(State, u64)>> {
        let worlds = sales.iter().map(|sale| &self.worlds[*sale]);
        let orders = worlds.map(|world| world.sale.order(world.now, NAMES[id].as_bytes()));
        orders.map(|order| order.map(|order| (order.state, order.units))).collect()
    }

    fn ask(&mut self, id: usize, sales: &[usize], cart: &Cart, takes: usize) {
        let (before, now) = (self.has(id, sales), self.worlds[0].now);
        let reference = format!("cart {}", self.actions);
        let cart = &match cart.clone() {
            Cart::Take { units, buyer, hold, .. } => Cart::Take { units, buyer, hold, reference: reference.clone() },
            other => other,
        };
        let name = NAMES[id].as_bytes();
        // All of them together serve and end no more than one command may.
        let (mut budget, mut may_serve) = (Budget::COMMAND, Vec::new());
        let decided = sales.iter().enumerate().map(|(nth, sale)| {
            may_serve.push(budget.services);
            let decision = detached(cart.decide(nth, &self.worlds[*sale].sale, now, budget, name)?);
            budget = budget.after(&decision.changes);
            Ok(decision)
        });
        let decided: Result<Vec<_>, _> = decided.collect();
        // What each model would answer, were it asked alone.
        let mut alone: Vec<Model> = sales.iter().map(|sale| self.worlds[*sale].model.clone()).collect();
        let hears = |nth: usize, model: &mut Model| {
            if let Ok(decisions) = &decided {
                model.most_served = may_serve[nth];
                model.hear(&decisions[nth].changes.due_first, may_serve[nth]);
            }
            cart.asks(nth, model, now, name)
        };
        let answers: Result<Vec<_>, _> = alone.iter_mut().enumerate().map(|(nth, model)| hears(nth, model)).collect();
        let (mut decisions, mut answers) = match (decided, answers) {
            (Ok(decisions), Ok(answers)) => (decisions, answers),
            (decided, answers) => {
                assert_eq!(decided.err(), answers.err(), "another buyer's id");
                return saw("a cart has another buyer's id");
            }
        };
        assert!(decisions.iter().map(|decision| &decision.answer).eq(&answers));
        for (decision, model) in decisions.iter().zip(&alone) {
            agree(served(&decision.changes), model);
        }

        let status = self.settle(id, sales, cart, &mut decisions, &mut answers);
        let expirations: usize = decisions.iter().map(|decision| steps(&decision.changes.due_first).count()).sum();
        let own = decisions.iter().filter(|decision| !decision.changes.step.is_empty()).count();
        let refused = takes < expirations + own;
        let mut takes = takes;
        for (nth, sale) in sales.iter().enumerate() {
            let (world, decision) = (&mut self.worlds[*sale], &mut decisions[nth]);
            if refused {
                // What must come first has happened all the same, as far as the streams took it.
                let Changes { due_first, .. } = &decision.changes;
                let count = steps(due_first).count().min(takes);
                let done: Vec<_> = steps(due_first).take(count).flatten().cloned().collect();
                takes -= count;
                world.model.hear(&done, 0);
                decision.changes = Changes { due_first: done, ..Changes::default() };
            } else {
                assert_eq!(decision.answer, answers[nth]);
                if decision.answer.status != Status::Skipped {
                    world.model = alone[nth].clone();
                    world.model.most_served = MOST_SERVED;
                }
            }
            world.commit(&decision.changes.iter().cloned().collect::<Vec<_>>());
        }
        let after = self.has(id, sales);
        let whole = !refused && matches!(status, Status::Ok | Status::Duplicate);
        let all_are = |wanted: &[State]| after.iter().all(|has| has.is_some_and(|(state, _)| wanted.contains(&state)));
        match cart {
            Cart::Take { .. } if whole => assert!(all_are(&[State::Held, State::Sold]), "a part of a cart"),
            Cart::Confirm if whole => assert!(all_are(&[State::Sold]), "a part of a cart is sold"),
            Cart::Cancel if !refused => {}
            _ => assert_eq!(before, after, "nothing has happened"),
        }
        if refused {
            saw(if takes == 0 && expirations > 0 {
                "a stream refuses what a cart lets expire"
            } else {
                "a stream refuses a cart"
            });
        } else if matches!(cart, Cart::Take { .. }) && status == Status::Ok {
            self.keep(id, sales, &decisions, reference);
        }
    }

    /// Settles the decisions, and the answers of the models.
    fn settle(
        &self,
        id: usize,
        sales: &[usize],
        cart: &Cart,
        decisions: &mut [Decision<'_>],
        answers: &mut [Answer<'static>],
    ) -> Status {
        let name = NAMES[id].as_bytes();
        let refusal =
            answers.iter().map(|answer| answer.status).find(|status| !matches!(status, Status::Ok | Status::Duplicate));
        let done = answers.iter().any(|answer| answer.status == Status::Ok);
        let mut settled: Vec<_> = decisions.iter().map(|decision| decision.answer.clone()).collect();
        if matches!(cart, Cart::Cancel) {
            let status = at_least_one(&settled);
            assert_eq!(status, if done { Status::Ok } else { answers[0].status });
            return status;
        }
        let skip = |nth: usize| {
            let World { sale, now, .. } = &self.worlds[sales[nth]];
            decisions[nth].changes = Changes::default();
            Ok::<_, ()>(sale.skipped(*now, name))
        };
        let status = all_or_none(&mut settled, skip).unwrap();
        decisions.iter_mut().zip(settled).for_each(|(decision, answer)| decision.answer = answer);
        assert_eq!(status, refusal.unwrap_or(if done { Status::Ok } else { answers[0].status }));
        for (nth, sale) in sales.iter().enumerate() {
            if refusal.is_some() && answers[nth].status == Status::Ok {
                answers[nth] = self.worlds[*sale].model.stands(Status::Skipped, name);
                assert_eq!(decisions[nth].changes, Changes::default());
                saw("a leg is skipped");
            }
            if status == Status::Ok && answers[nth].status == Status::Duplicate {
                saw("a leg was there already");
            }
        }
        saw(match (cart, status) {
            (Cart::Confirm, Status::Ok) => "a cart is confirmed",
            (Cart::Confirm, Status::Expired | Status::Limit) => "a cart's late payment is refused",
            (_, Status::Ok) => "a cart is taken",
            (_, Status::Duplicate) => "a cart is asked for again",
            (_, Status::SoldOut | Status::Insufficient) => "a cart is refused for want of units",
            _ => "a cart is refused for another reason",
        });
        status
    }

    /// Remembers what a request took from several sales.
    fn keep(&mut self, id: usize, sales: &[usize], decisions: &[Decision<'_>], reference: String) {
        let taken = sales.iter().zip(decisions).filter(|(_, decision)| decision.answer.status == Status::Ok);
        let taken: Vec<usize> = taken.map(|(sale, _)| *sale).collect();
        self.carts.retain(|(of, sales, _)| *of != id || !sales.iter().any(|sale| taken.contains(sale)));
        if taken.len() > 1 {
            self.carts.push((id, taken, reference));
        }
    }
}

fn steps<'c>(changes: &'c [Change<'static>]) -> impl Iterator<Item = &'c [Change<'static>]> {
    changes.chunk_by(|before, next| next.continues_step(before))
}

fn detached(decision: Decision<'_>) -> Decision<'static> {
    let Decision { answer, changes } = decision;
    let answer = Answer { reference: answer.reference.detach(), ..answer };
    Decision { answer, changes: world::detached(changes) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: schedules(), failure_persistence: None, ..ProptestConfig::default() })]

    fn play(
        totals in proptest::collection::vec(prop_oneof![0..5_u64, 0..12_u64], SALES), limits in proptest::collection::vec(prop_oneof![Just(0), 1..6_u64], SALES),
        rebuy: bool, deadlines: bool, actions in proptest::collection::vec(action(), 1..80),
    ) {
        let stream = Some(Stream { key: b"events".as_slice().into(), deadlines });
        let worlds = totals.iter().zip(limits);
        let mut mall = Mall::new(worlds.map(|(total, limit)| Terms { total: *total, limit, rebuy, stream: stream.clone(), ..Terms::default() }));
        for action in &actions {
            mall.act(action);
        }
    }
}

#[test]
fn several_sales_answer_like_the_models() {
    play();
    let often = [
        "a cart is taken",
        "a cart is asked for again",
        "a cart is confirmed",
        "a leg is skipped",
        "a leg was there already",
    ];
    must_have_seen(&often, 300);
    let seldom = [
        "a cart's late payment is refused",
        "a cart is refused for want of units",
        "a cart has another buyer's id",
        "a stream refuses a cart",
        "a stream refuses what a cart lets expire",
        "a cart is lost in a power cut",
    ];
    must_have_seen(&seldom, 10_000);
    must_have_seen(&OCCURRENCES, 10_000);
}
