//! Stories of orders that keep some of their units.

use super::shop::{says, shop};
use super::world::{digest, reload};
use crate::core::id::IdText;
use crate::core::sale::{Budget, Change, InvalidChange, KeepError, State, Status};

#[test]
fn a_hold_is_settled_for_less_in_one_step() {
    let mut shop = shop(5);
    shop.hold("ann", 3, 500);
    assert_eq!(shop.confirm_keeping("ann", 4), Err(KeepError { units: 3 }));
    let decision = shop.sale.confirm(shop.now(), Budget::COMMAND, b"ann", Some(1)).unwrap();
    let changes: Vec<_> = decision.changes.iter().collect();
    assert!(
        matches!(changes[..], [Change::Keep { units: 1, .. }, Change::Confirm { units: Some(1), .. }]),
        "{changes:?}"
    );
    assert!(changes[1].continues_step(changes[0]));
    assert_eq!(shop.does(&decision), says(Status::Ok, 1, 4, -1));
    assert_eq!(shop.confirm_keeping("ann", 2), Ok(says(Status::Duplicate, 1, 4, -1)));
    assert_eq!(shop.state("ann"), (State::Sold, 1));
    assert_eq!(digest(&reload(&shop.sale)), digest(&shop.sale));
}

#[test]
fn what_is_given_back_goes_to_the_line_and_a_waiting_order_stays_in_it() {
    let mut shop = shop(3);
    shop.buy("ann", 3, "a");
    shop.wait("bob", 1, None, 0, "");
    shop.wait("carol", 2, None, 0, "");
    assert_eq!(shop.cancel_keeping("carol", 1), says(Status::Queued, 0, 0, -1));
    assert_eq!(shop.cancel_keeping("ann", 2), says(Status::Ok, 2, 0, -1));
    assert_eq!((shop.state("bob"), shop.line()), ((State::Sold, 1), vec!["carol".to_owned()]));
    assert_eq!(shop.cancel_keeping("ann", 2), says(Status::Duplicate, 2, 0, -1));
    assert_eq!((shop.bought("a"), shop.sale.seq()), (2, 5));
}

#[test]
fn a_late_confirmation_needs_only_what_it_keeps() {
    let mut shop = shop(3);
    shop.hold("ann", 3, 10);
    shop.now += 10;
    assert_eq!(shop.cancel_keeping("ann", 1), says(Status::Expired, 0, 3, -1));
    shop.take("eve", 1);
    assert_eq!(shop.confirm_keeping("ann", 2), Ok(says(Status::Ok, 2, 0, -1)));
    assert_eq!(shop.cancel("ann"), says(Status::Ok, 0, 2, -1));
}

#[test]
fn changes_that_do_not_fit_change_nothing() {
    let mut shop = shop(9);
    shop.hold("held", 3, 500);
    shop.take("sold", 3);
    shop.take("gone", 3);
    shop.cancel("gone");
    let before = digest(&shop.sale);
    let id = |name: &'static str| IdText::from(name.as_bytes());
    for (change, why) in [
        (Change::Keep { id: id("held"), units: 0 }, InvalidChange::Units),
        (Change::Keep { id: id("held"), units: 3 }, InvalidChange::Units),
        (Change::Keep { id: id("gone"), units: 1 }, InvalidChange::State),
        (Change::Keep { id: id("nobody"), units: 1 }, InvalidChange::State),
        (Change::Confirm { id: id("held"), units: Some(2) }, InvalidChange::Units),
        (Change::Confirm { id: id("sold"), units: Some(3) }, InvalidChange::State),
    ] {
        assert_eq!(shop.sale.commit(&change), Err(why), "{change:?}");
    }
    assert_eq!(digest(&shop.sale), before);
}
