//! Random schedules over several sales: a request to some of them is answered like the models, and nothing of it happens or all.

use proptest::prelude::*;

use super::model::Model;
use super::schedule::{NAMES, Step, World, agree, digest, name, owned, schedules, step};
use super::shop::{Row, Shop, names, says, shop, with};
use crate::core::sale::cart::{all_or_none, at_least_one};
use crate::core::sale::waitlist::MOST_SERVED;
use crate::core::sale::{Answer, Changes, Decision, Sale, Status, Stream, Take, TakeError, Terms};
use crate::core::time::{Millis, UnixMs};

const SALES: usize = 3;

/// What is asked of several sales.
#[derive(Clone, Debug)]
enum Cart {
    Take { units: Vec<u64>, buyer: Option<usize>, hold: Option<i64> },
    Confirm,
    Cancel,
}

#[derive(Clone, Debug)]
enum Action {
    /// Something happens to one sale, or to all of them at once if it is time or a failover.
    Single(usize, Step),
    /// A request to these sales, in this order. If a stream refuses it, what must come first has happened all the same.
    Several { id: usize, sales: Vec<usize>, cart: Cart, refused: bool },
}

fn action() -> impl Strategy<Value = Action> {
    let sales = Just((0..SALES).collect::<Vec<_>>()).prop_shuffle().prop_flat_map(|sales| (Just(sales), 1..=SALES));
    let sales = sales.prop_map(|(sales, count)| sales[..count].to_vec());
    let units = proptest::collection::vec(1..4_u64, SALES);
    let buyer = proptest::option::weighted(0.6, name());
    let cart = prop_oneof![
        4 => (units, buyer, proptest::option::weighted(0.7, 1..40_i64))
            .prop_map(|(units, buyer, hold)| Cart::Take { units, buyer, hold }),
        3 => Just(Cart::Confirm),
        1 => Just(Cart::Cancel),
    ];
    let several = (name(), sales, cart, proptest::bool::weighted(0.1));
    prop_oneof![
        1 => (0..SALES, step()).prop_map(|(sale, step)| Action::Single(sale, step)),
        1 => several.prop_map(|(id, sales, cart, refused)| Action::Several { id, sales, cart, refused }),
    ]
}

impl Cart {
    fn decide<'a>(&self, nth: usize, sale: &Sale, now: UnixMs, id: &'a [u8]) -> Result<Decision<'a>, TakeError> {
        match self {
            Self::Take { .. } => sale.take(now, &self.take(nth, now, id)),
            Self::Confirm => Ok(sale.confirm(now, id)),
            Self::Cancel => Ok(sale.cancel(now, id)),
        }
    }

    fn asks(&self, nth: usize, model: &mut Model, now: UnixMs, id: &[u8]) -> Result<Answer<'static>, TakeError> {
        match self {
            Self::Take { .. } => model.take(&self.take(nth, now, id), false),
            Self::Confirm => Ok(model.confirm(id)),
            Self::Cancel => Ok(model.cancel(id)),
        }
    }

    fn take<'a>(&self, nth: usize, now: UnixMs, id: &'a [u8]) -> Take<'a> {
        let Self::Take { units, buyer, hold } = self else { panic!("{self:?} takes nothing") };
        let buyer = buyer.map(|buyer| NAMES[buyer].as_bytes());
        Take { id, units: units[nth], buyer, deadline: hold.and_then(|hold| now.plus(Millis(hold))), reference: b"" }
    }
}

/// Sales, each in its own world, at one time.
struct Mall(Vec<World>);

impl Mall {
    fn act(&mut self, action: &Action) {
        match action {
            Action::Single(_, step @ (Step::Pass(_) | Step::Failover(_))) => {
                for world in &mut self.0 {
                    world.step(step);
                }
            }
            Action::Single(sale, step) => self.0[*sale].step(step),
            Action::Several { id, sales, cart, refused } => self.ask(NAMES[*id].as_bytes(), sales, cart, *refused),
        }
        for world in &self.0 {
            world.check();
        }
    }

    fn ask(&mut self, id: &[u8], sales: &[usize], cart: &Cart, refused: bool) {
        let now = self.0[0].now;
        let before: Vec<_> = sales.iter().map(|sale| digest(&self.0[*sale].sale)).collect();
        let decided = sales.iter().enumerate().map(|(nth, sale)| cart.decide(nth, &self.0[*sale].sale, now, id));
        let decided: Result<Vec<_>, _> = decided.map(|decision| decision.map(detached)).collect();
        // What each model would answer, were it asked alone.
        let mut alone: Vec<Model> = sales.iter().map(|sale| self.0[*sale].model.clone()).collect();
        let hears = |nth: usize, model: &mut Model| {
            if let Ok(decisions) = &decided {
                model.hear(&decisions[nth].changes.expirations, MOST_SERVED);
            }
            cart.asks(nth, model, now, id)
        };
        let answers: Result<Vec<_>, _> = alone.iter_mut().enumerate().map(|(nth, model)| hears(nth, model)).collect();
        let (mut decisions, mut answers) = match (decided, answers) {
            (Ok(decisions), Ok(answers)) => (decisions, answers),
            (decided, answers) => {
                assert_eq!(decided.err(), answers.err(), "another buyer's id");
                return;
            }
        };
        assert_eq!(
            decisions.iter().map(|decision| &decision.answer).collect::<Vec<_>>(),
            answers.iter().collect::<Vec<_>>()
        );

        for (decision, model) in decisions.iter().zip(&alone) {
            agree(&decision.changes.served, model);
        }
        let skipped = |nth: usize| Ok::<_, ()>(self.0[sales[nth]].sale.skipped(now, id));
        let each = matches!(cart, Cart::Cancel);
        let status = if each { at_least_one(&decisions) } else { all_or_none(&mut decisions, skipped).unwrap() };
        let refusal =
            answers.iter().map(|answer| answer.status).find(|status| !matches!(status, Status::Ok | Status::Duplicate));
        let done = answers.iter().any(|answer| answer.status == Status::Ok);
        let expected = match refusal {
            Some(refusal) if !each => refusal,
            _ if done => Status::Ok,
            _ => answers[0].status,
        };
        assert_eq!(status, expected);
        for (nth, sale) in sales.iter().enumerate() {
            let (world, decision) = (&mut self.0[*sale], &mut decisions[nth]);
            if refusal.is_some() && !each && answers[nth].status == Status::Ok {
                answers[nth] = world.model.stands(Status::Skipped, id);
                assert_eq!(decision.changes, Changes::default());
            } else if refused {
                // Its own change does not happen.
                (decision.changes.own, decision.changes.served) = (None, Vec::new());
                world.model.hear(&decision.changes.expirations, 0);
            } else {
                world.model = alone[nth].clone();
            }
            if !refused {
                assert_eq!(decision.answer, answers[nth]);
            }
            world.commit(&decision.changes.iter().cloned().collect::<Vec<_>>());
            let changed = digest(&world.sale) != before[nth];
            assert!(!changed || each || matches!(cart, Cart::Confirm) || refusal.is_none(), "a partial cart");
        }
    }
}

fn detached(decision: Decision<'_>) -> Decision<'static> {
    let Decision { answer, changes } = decision;
    let answer = Answer { reference: answer.reference.detach(), ..answer };
    let Changes { expirations, own, served } = changes;
    Decision { answer, changes: Changes { expirations, own: own.map(owned), served } }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: schedules(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn several_sales_answer_like_the_models(
        totals in proptest::collection::vec(0..12_u64, SALES), limits in proptest::collection::vec(prop_oneof![Just(0), 1..6_u64], SALES),
        rebuy: bool, deadlines: bool, actions in proptest::collection::vec(action(), 1..80),
    ) {
        let stream = Some(Stream { key: b"events".as_slice().into(), deadlines });
        let worlds = totals.iter().zip(limits);
        let worlds = worlds.map(|(total, limit)| World::new(&Terms { total: *total, limit, rebuy, stream: stream.clone(), ..Terms::default() }));
        let mut mall = Mall(worlds.collect());
        for action in &actions {
            mall.act(action);
        }
    }
}

/// Asks some shops as one request.
fn ask(
    shops: &mut [&mut Shop],
    each: bool,
    decide: impl Fn(&Shop) -> Decision<'static>,
    id: &str,
) -> (Status, Vec<Row>) {
    let mut decisions: Vec<_> = shops.iter().map(|shop| decide(shop)).collect();
    let skipped = |nth: usize| Ok::<_, ()>(shops[nth].sale.skipped(shops[nth].now(), id.as_bytes()));
    let status = if each { at_least_one(&decisions) } else { all_or_none(&mut decisions, skipped).unwrap() };
    let rows = shops.iter_mut().zip(&decisions).map(|(shop, decision)| shop.does(decision)).collect();
    (status, rows)
}

fn takes(id: &'static str, units: u64, hold: i64) -> impl Fn(&Shop) -> Decision<'static> {
    move |shop| {
        let deadline = (hold > 0).then_some(UnixMs(shop.now + hold));
        let take = Take { id: id.as_bytes(), units, buyer: None, deadline, reference: b"r" };
        shop.sale.take(shop.now(), &take).unwrap()
    }
}

#[test]
fn all_of_a_cart_is_taken_or_nothing() {
    let (mut one, mut two) = (shop(5), shop(1));
    let (status, rows) = ask(&mut [&mut one, &mut two], false, takes("ann", 2, 0), "ann");
    assert_eq!(
        (status, &rows[..]),
        (Status::Insufficient, &[says(Status::Skipped, 0, 5, -1), says(Status::Insufficient, 0, 1, -1)][..])
    );
    let (status, rows) = ask(&mut [&mut one, &mut two], false, takes("ann", 1, 100), "ann");
    assert_eq!(
        (status, &rows[..]),
        (Status::Ok, &[names(Status::Ok, 1, 4, 1_100, "r"), names(Status::Ok, 1, 0, 1_100, "r")][..])
    );
    let (status, rows) = ask(&mut [&mut one, &mut two], false, takes("ann", 1, 0), "ann");
    assert_eq!((status, rows[0].0, rows[1].0), (Status::Duplicate, Status::Duplicate, Status::Duplicate));
    // The first that refuses says why.
    one.take("all", 4);
    let (status, rows) = ask(&mut [&mut one, &mut two], false, takes("bob", 1, 0), "bob");
    assert_eq!((status, rows[0].0, rows[1].0), (Status::SoldOut, Status::SoldOut, Status::SoldOut));
}

#[test]
fn what_was_there_already_refuses_nothing() {
    let (mut one, mut two) = (shop(5), shop(5));
    one.hold("ann", 3, 100);
    let (status, rows) = ask(&mut [&mut one, &mut two], false, takes("ann", 1, 0), "ann");
    assert_eq!(
        (status, &rows[..]),
        (Status::Ok, &[says(Status::Duplicate, 3, 2, 1_100), names(Status::Ok, 1, 4, -1, "r")][..])
    );
}

#[test]
fn what_is_skipped_says_what_the_id_has_there_now() {
    let rebuy = |total| with(Terms { total, rebuy: true, ..Terms::default() });
    let (mut one, mut two) = (rebuy(5), rebuy(0));
    one.order("ann", 2, None, 0, "old");
    one.cancel("ann");
    let (_, rows) = ask(&mut [&mut one, &mut two], false, takes("ann", 1, 0), "ann");
    assert_eq!(rows, [names(Status::Skipped, 0, 5, -1, "old"), says(Status::SoldOut, 0, 0, -1)]);
    one.order("bob", 2, None, 50, "r");
    let confirms = |shop: &Shop| shop.sale.confirm(shop.now(), b"bob");
    let (status, rows) = ask(&mut [&mut one, &mut two], false, confirms, "bob");
    assert_eq!(
        (status, &rows[..]),
        (Status::NoOrder, &[names(Status::Skipped, 2, 3, 1_050, "r"), says(Status::NoOrder, 0, 0, -1)][..])
    );
}

#[test]
fn a_late_payment_is_refused_for_good_where_it_was_refused_and_nowhere_else() {
    let (mut one, mut two) = (shop(5), shop(1));
    one.hold("ann", 1, 10);
    two.hold("ann", 1, 10);
    (one.now, two.now) = (1_010, 1_010);
    two.take("bob", 1);
    let confirms = |shop: &Shop| shop.sale.confirm(shop.now(), b"ann");
    let (status, rows) = ask(&mut [&mut one, &mut two], false, confirms, "ann");
    assert_eq!(
        (status, &rows[..]),
        (Status::Expired, &[says(Status::Skipped, 0, 5, -1), says(Status::Expired, 0, 0, -1)][..])
    );
    two.cancel("bob");
    assert_eq!(two.confirm("ann").0, Status::Expired, "it stays refused");
    assert_eq!(one.confirm("ann").0, Status::Ok, "this one was not");
}

#[test]
fn a_cancellation_of_several_does_what_it_can() {
    let (mut one, mut two, mut three) = (shop(5), shop(5), shop(5));
    one.take("ann", 1);
    one.cancel("ann");
    two.take("ann", 2);
    let cancels = |shop: &Shop| shop.sale.cancel(shop.now(), b"ann");
    let (status, rows) = ask(&mut [&mut one, &mut three, &mut two], true, cancels, "ann");
    assert_eq!((status, rows[0].0, rows[1].0, rows[2].0), (Status::Ok, Status::Duplicate, Status::NoOrder, Status::Ok));
    let (status, _) = ask(&mut [&mut three, &mut two], true, cancels, "ann");
    assert_eq!(status, Status::NoOrder);
    let (status, _) = ask(&mut [&mut two, &mut three], true, cancels, "ann");
    assert_eq!(status, Status::Duplicate);
}
