//! Every history of a small sale, and of two sales with carts, played to the core, a replica, a file, the streams' readers and the model.

use super::mall::{Action, Cart, Mall};
use super::steps::Step;
use super::world::World;
use crate::core::sale::{Alteration, Stream, Terms};
use crate::core::tests::explore::{SmallWorld, explore};
use crate::core::time::UnixMs;

const IDS: usize = 3;
/// The buyer of an order that names one; the second id is the same name.
const BUYER: usize = 1;
const HOLD: i64 = 10;

fn terms() -> Terms {
    let stream = Some(Stream { key: b"events".as_slice().into(), deadlines: true });
    Terms { total: 2, stream, ..Terms::default() }
}

/// Whether the ids come in their order: with other names it is the same history. The buyer's name is not the same as another.
fn in_order<M>(history: &[M], next: &M, id: impl Fn(&M) -> Option<usize>) -> bool {
    let before = history.iter().filter_map(&id).max().map_or(0, |id| id + 1);
    id(next).is_none_or(|id| id <= before.max(BUYER))
}

fn take(id: usize, buyer: Option<usize>, units: u64, hold: Option<i64>, waitlist: bool) -> Step {
    Step::Take { id, units, buyer, hold, reference: false, waitlist }
}

fn id_of(step: &Step) -> Option<usize> {
    match step {
        Step::Take { id, .. } | Step::Confirm(id, _) | Step::Cancel(id, _) | Step::Extend(id, _) => Some(*id),
        Step::Adjust(_, id) => *id,
        _ => None,
    }
}

/// One sale of two units, with every command.
struct One(World);

impl SmallWorld for One {
    type Move = Step;

    fn moves() -> Vec<Step> {
        let mut all = vec![];
        for id in 0..IDS {
            for buyer in [None, Some(BUYER)] {
                all.push(take(id, buyer, 1, None, false));
                all.push(take(id, buyer, 1, Some(HOLD), true));
                all.push(take(id, buyer, 2, Some(HOLD / 2), false));
                all.push(take(id, buyer, 2, None, true));
            }
            all.extend([None, Some(1)].map(|keep| Step::Confirm(id, keep)));
            all.extend([None, Some(1)].map(|keep| Step::Cancel(id, keep)));
            all.push(Step::Extend(id, HOLD));
        }
        all.extend([Step::Adjust(1, None), Step::Adjust(-1, None), Step::Adjust(1, Some(0))]);
        let none = Alteration::default;
        let alter = [
            Alteration { limit: Some(1), ..none() },
            Alteration { limit: Some(0), ..none() },
            Alteration { rebuy: Some(true), ..none() },
            Alteration { start: Some(Some(UnixMs(HOLD))), ..none() },
            Alteration { start: Some(None), ..none() },
        ];
        all.extend(alter.map(Step::Alter));
        all.extend([Step::Timer(1), Step::Timer(9), Step::Pass(HOLD / 2), Step::Pass(HOLD), Step::Reload]);
        all.extend([
            Step::Failover(0),
            Step::Failover(HOLD / 2),
            Step::Refuse(0),
            Step::Refuse(1),
            Step::Save,
            Step::PowerCut,
        ]);
        all
    }

    fn is_new(history: &[Step], next: &Step) -> bool {
        in_order(history, next, id_of)
    }

    fn begin() -> Self {
        Self(World::new(&terms()))
    }

    fn make(&mut self, step: &Step) {
        self.0.step(step);
        self.0.check();
    }

    fn state(&self) -> String {
        self.0.state()
    }

    fn finish(mut self) {
        // All holds end, and whatever waits is served as far as there are units.
        for step in [Step::Refuse(usize::MAX), Step::Pass(100 * HOLD), Step::Timer(usize::MAX)] {
            self.make(&step);
        }
    }
}

/// Two sales, and what carts ask of both.
struct Two(Mall);

impl SmallWorld for Two {
    type Move = Action;

    fn moves() -> Vec<Action> {
        let mut all = vec![];
        for id in 0..IDS {
            let carts = [
                Cart::Take { units: vec![1, 1], buyer: None, hold: Some(HOLD), reference: String::new() },
                Cart::Take { units: vec![2, 1], buyer: Some(BUYER), hold: None, reference: String::new() },
                Cart::Confirm,
                Cart::Cancel,
            ];
            let whole = carts.iter().map(|cart| (vec![0, 1], cart, usize::MAX));
            let refused = carts.iter().map(|cart| (vec![1, 0], cart, 1));
            let several = whole.chain(refused);
            all.extend(several.map(|(sales, cart, takes)| Action::Several { id, sales, cart: cart.clone(), takes }));
            for sale in [0, 1] {
                let steps = [
                    take(id, None, 1, Some(HOLD), true),
                    take(id, Some(BUYER), 2, Some(HOLD / 2), true),
                    Step::Cancel(id, None),
                ];
                all.extend(steps.map(|step| Action::Single(sale, step)));
            }
        }
        for sale in [0, 1] {
            all.extend([Step::Timer(1), Step::Adjust(1, None)].map(|step| Action::Single(sale, step)));
        }
        all.extend(
            [Step::Pass(HOLD), Step::Failover(0), Step::Save, Step::PowerCut].map(|step| Action::Single(0, step)),
        );
        all
    }

    fn is_new(history: &[Action], next: &Action) -> bool {
        in_order(history, next, |action| match action {
            Action::Single(_, step) => id_of(step),
            Action::Several { id, .. } => Some(*id),
        })
    }

    fn begin() -> Self {
        Self(Mall::new([terms(), terms()]))
    }

    fn make(&mut self, action: &Action) {
        self.0.act(action);
    }

    fn state(&self) -> String {
        self.0.state()
    }

    fn finish(mut self) {
        self.make(&Action::Single(0, Step::Pass(100 * HOLD)));
        for sale in [0, 1] {
            self.make(&Action::Single(sale, Step::Timer(usize::MAX)));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes too many steps")]
fn every_history_of_a_sale_ends_as_the_contract_says() {
    let explored = explore::<One>("a sale", 2);
    assert!(explored.depth >= 1 && explored.states > 20, "{explored:?}");
}

#[test]
#[cfg_attr(miri, ignore = "takes too many steps")]
fn every_history_of_carts_ends_as_the_contract_says() {
    let explored = explore::<Two>("two sales", 2);
    assert!(explored.depth >= 1 && explored.states > 20, "{explored:?}");
}
