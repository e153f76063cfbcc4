//! Stories of orders that need more expirations than one command may have.

use super::shop::{Shop, says, shop, with};
use super::world::{digest, reload};
use crate::core::id::IdText;
use crate::core::limits::MAX_UNITS;
use crate::core::sale::budget::MOST_ENDED;
use crate::core::sale::{Budget, Change, InvalidChange, NewOrder, Sale, State, Status, Take, Terms};
use crate::core::time::UnixMs;

const MANY: usize = 2 * MOST_ENDED + 3;

/// Many holds of one unit each, all of them due, and none of them expired.
fn due(terms: Terms, buyer: Option<&str>) -> Shop {
    let mut shop = with(Terms { total: MANY as u64, ..terms });
    for n in 0..MANY {
        let span = 500 + i64::try_from(n).unwrap();
        assert_eq!(shop.order(&format!("o{n}"), 1, buyer, span, "").0, Status::Ok);
    }
    shop.now += 600;
    shop
}

/// What a decision lets happen before its own change.
fn first(changes: &[Change<'_>]) -> Vec<String> {
    changes.iter().map(|change| format!("{change:?}")).collect()
}

fn let_all_expire(shop: &mut Shop) {
    while let Some(expiration) = shop.sale.expirations(shop.now(), 1).pop() {
        shop.sale.commit(&expiration).unwrap();
    }
}

/// The holds in the books, of all buyers.
fn held_in_books(shop: &Shop) -> u64 {
    shop.sale.table.held
}

#[test]
fn a_cutoff_stands_for_the_expirations_that_are_too_many() {
    let mut shop = due(Terms::default(), None);
    let all = Take { id: b"all", units: MANY as u64, buyer: None, deadline: None, reference: b"" };
    let decision = shop.sale.take(shop.now(), Budget::COMMAND, &all).unwrap();
    assert_eq!(
        first(&decision.changes.due_first),
        ["Expire { id: \"o0\" }", "Expire { id: \"o1\" }", "Cutoff { at: UnixMs(1600) }"],
    );
    let seq = shop.sale.seq();
    assert_eq!(shop.does(&decision), says(Status::Ok, MANY as u64, 0, -1));
    assert_eq!(shop.sale.seq(), seq + MOST_ENDED as u64 + 1, "a cutoff is no event");
    let info = shop.sale.info(shop.now());
    assert_eq!((info.remaining, info.held, info.sold), (0, 0, MANY as u64));
    assert_eq!(info.buyers, 1 + (MANY - MOST_ENDED) as u64, "by the books");
    assert_eq!(held_in_books(&shop), (MANY - MOST_ENDED) as u64, "their expirations are still to come");
    assert_eq!(shop.sale.next_expiration(), Some(UnixMs(i64::MIN)), "at once");
    let_all_expire(&mut shop);
    assert_eq!((held_in_books(&shop), shop.sale.next_expiration()), (0, None));
    let info = shop.sale.info(shop.now());
    assert_eq!((info.sold, info.buyers), (MANY as u64, 1));
}

#[test]
fn what_takes_few_units_needs_no_cutoff() {
    let mut shop = due(Terms::default(), None);
    shop.take("some", MOST_ENDED as u64);
    assert!(shop.sale.cutoff.is_none());
    assert_eq!(shop.adjust(-1), Ok((MANY - MOST_ENDED - 1) as u64));
    assert!(shop.sale.cutoff.is_none());
    assert_eq!(shop.adjust(-4), Ok((MANY - MOST_ENDED - 5) as u64));
    assert!(shop.sale.cutoff.is_some(), "withdrawing many does");
}

#[test]
fn a_clock_that_is_behind_revives_nothing() {
    let mut shop = due(Terms::default(), None);
    shop.take("all", MANY as u64);
    // The replica is promoted with a clock that stands before all deadlines.
    shop.sale = reload(&shop.sale);
    shop.now -= 600;
    assert_eq!(shop.state("o6"), (State::Expired, 0));
    assert_eq!(shop.confirm("o6"), says(Status::Expired, 0, 0, -1));
    assert_eq!(shop.extend("o6", 9_000), says(Status::Expired, 0, 0, -1));
    assert_eq!(shop.cancel("o6"), says(Status::Expired, 0, 0, -1));
    assert_eq!(shop.take("late", 1), says(Status::SoldOut, 0, 0, -1));
    assert_eq!(shop.bought("o6"), 0);
    let info = shop.sale.info(shop.now());
    assert_eq!((info.remaining, info.held, info.sold), (0, 0, MANY as u64));
    assert_eq!(shop.ids(Some(State::Held)), Vec::<String>::new());
    let_all_expire(&mut shop);
    assert!(shop.sale.cutoff.is_none(), "which the clock does not keep from expiring");
}

#[test]
fn a_hold_never_begins_before_the_cutoff() {
    let mut shop = due(Terms::default(), None);
    shop.take("most", MANY as u64 - 2);
    shop.now -= 600;
    assert_eq!(shop.hold("new", 1, 100), says(Status::Ok, 1, 1, 1_601), "as soon as can be");
    assert_eq!(shop.hold("long", 1, 900), says(Status::Ok, 1, 0, 1_900));
    assert_eq!(shop.extend("long", 300), says(Status::Ok, 1, 0, 1_601));
    assert_eq!(shop.confirm("new"), says(Status::Ok, 1, 0, -1));
    let_all_expire(&mut shop);
    assert_eq!(shop.extend("long", 300), says(Status::Ok, 1, 0, 1_300), "it is forgotten with the last expiration");
}

#[test]
fn a_hold_that_is_over_expires_before_its_id_does_anything_else() {
    let mut shop = due(Terms { rebuy: true, ..Terms::default() }, None);
    shop.take("most", MANY as u64 - 2);
    let seq = shop.sale.seq();
    assert_eq!(shop.confirm("o5"), says(Status::Ok, 1, 1, -1));
    assert_eq!(shop.sale.seq(), seq + 2, "expired, confirmed");
    assert_eq!(shop.hold("o6", 1, 100), says(Status::Ok, 1, 0, 1_700));
    assert_eq!(shop.sale.seq(), seq + 4, "expired, taken");
    assert_eq!(shop.take("late", 1), says(Status::SoldOut, 0, 0, -1));
}

#[test]
fn a_buyer_with_many_due_holds_pays_for_few() {
    let mut shop = due(Terms { limit: MANY as u64, ..Terms::default() }, Some("ann"));
    shop.adjust(100).unwrap();
    let take = |id, units| Take { id, units, buyer: Some(b"ann"), deadline: None, reference: b"" };
    let decision = shop.sale.take(shop.now(), Budget::COMMAND, &take(b"again", MANY as u64 - 1)).unwrap();
    assert_eq!(decision.changes.due_first.len(), MOST_ENDED + 1, "{:?}", decision.changes);
    assert_eq!(shop.does(&decision), says(Status::Ok, MANY as u64 - 1, 101, -1));
    let decision = shop.sale.take(shop.now(), Budget::COMMAND, &take(b"the last", 1)).unwrap();
    assert_eq!(decision.changes.due_first, [], "what is over counts no more");
    assert_eq!(shop.does(&decision), says(Status::Ok, 1, 100, -1));
    shop.now -= 600;
    assert_eq!(shop.bought("ann"), MANY as u64);
    assert_eq!(shop.buy("more", 1, "ann").0, Status::Limit);
    let_all_expire(&mut shop);
    assert_eq!((shop.bought("ann"), shop.sale.info(shop.now()).buyers), (MANY as u64, 1));
}

#[test]
fn a_cutoff_moves_on_and_never_back() {
    let mut shop = due(Terms::default(), None);
    let cutoff = |at| Change::Cutoff { at: UnixMs(at) };
    shop.sale.commit(&cutoff(1_500)).unwrap();
    let two = Take { id: b"two", units: 2, buyer: None, deadline: None, reference: b"" };
    let decision = shop.sale.take(shop.now(), Budget::COMMAND, &two).unwrap();
    assert_eq!(first(&decision.changes.due_first), ["Expire { id: \"o1\" }"], "the unit of o0 is free already");
    shop.sale.commit(&cutoff(1_502)).unwrap();
    let before = digest(&shop.sale);
    shop.sale.commit(&cutoff(1_501)).unwrap();
    assert_eq!(digest(&shop.sale), before);
    let free = |sale: &Sale| sale.unsold();
    assert_eq!(free(&shop.sale), 3, "o0, o1 and o2 are over");
    shop.sale.commit(&cutoff(1_503)).unwrap();
    assert_eq!(free(&shop.sale), 4);
    assert_eq!(free(&reload(&shop.sale)), 4);
    assert_ne!(digest(&shop.sale), before);
    assert_eq!(shop.sale.commit(&cutoff(i64::MAX)), Err(InvalidChange::Range));
    let mut empty = Sale::new(Terms::default());
    let before = digest(&empty);
    empty.commit(&cutoff(1_503)).unwrap();
    assert_eq!(digest(&empty), before, "where nothing is over it leaves no trace");
}

#[test]
fn what_is_over_can_only_expire() {
    let mut shop = due(Terms::default(), None);
    shop.sale.commit(&Change::Cutoff { at: UnixMs(1_502) }).unwrap();
    let before = digest(&shop.sale);
    let id = || IdText::from(&b"o2"[..]);
    let order = NewOrder { id: IdText::from(&b"x"[..]), units: 1, buyer: None, reference: IdText::NONE };
    for (change, misfit) in [
        (Change::Confirm { id: id(), units: None }, InvalidChange::State),
        (Change::Cancel { id: id() }, InvalidChange::State),
        (Change::Extend { id: id(), deadline: UnixMs(9_000) }, InvalidChange::State),
        (Change::Extend { id: IdText::from(&b"o5"[..]), deadline: UnixMs(1_502) }, InvalidChange::Range),
        (Change::Take { order, deadline: Some(UnixMs(1_502)) }, InvalidChange::Range),
    ] {
        assert_eq!(shop.sale.commit(&change), Err(misfit), "{change:?}");
    }
    assert_eq!(digest(&shop.sale), before);
}

/// A forged cutoff at the end of time: every hold there is is over, expires, and that is all.
#[test]
fn a_cutoff_in_the_far_future_is_gone_with_the_holds_it_ended() {
    let mut shop = shop(9);
    shop.hold("ann", 2, 500);
    shop.sale.commit(&Change::Cutoff { at: UnixMs(i64::MAX - 1) }).unwrap();
    shop.sale = reload(&shop.sale);
    assert_eq!(shop.state("ann"), (State::Expired, 0));
    assert_eq!(shop.take("bob", 9), says(Status::Ok, 9, 0, -1));
    assert_eq!(shop.hold("carol", 1, 500).0, Status::SoldOut);
    let_all_expire(&mut shop);
    shop.cancel("bob");
    assert_eq!(shop.hold("carol", 1, 500), says(Status::Ok, 1, 8, 1_500));
}

/// Units of a hold that is over may be held again and be over again, any number of times.
#[test]
#[cfg_attr(miri, ignore = "too many steps for Miri")]
fn sums_survive_more_units_than_a_number_holds() {
    let mut shop = with(Terms { total: MAX_UNITS, ..Terms::default() });
    for n in 0..2_100 {
        let id = format!("o{n}");
        let order = NewOrder {
            id: IdText::from(id.as_bytes()),
            units: MAX_UNITS,
            buyer: Some(IdText::from(&b"ann"[..])),
            reference: IdText::NONE,
        };
        shop.sale.commit(&Change::Take { order, deadline: Some(UnixMs(n + 1)) }).unwrap();
        assert_eq!(shop.sale.remaining(UnixMs(n)), 0);
        shop.sale.commit(&Change::Cutoff { at: UnixMs(n + 1) }).unwrap();
        let info = shop.sale.info(UnixMs(n));
        assert_eq!((info.remaining, info.held, info.buyers), (MAX_UNITS, 0, 1));
    }
    assert_eq!(shop.bought("ann"), 0);
    shop.sale = reload(&shop.sale);
    assert_eq!(shop.buy("all", MAX_UNITS, "ann"), says(Status::Ok, MAX_UNITS, 0, -1));
    let_all_expire(&mut shop);
    let info = shop.sale.info(shop.now());
    assert_eq!((info.remaining, info.held, info.sold, info.buyers), (0, 0, MAX_UNITS, 1));
    assert_eq!((held_in_books(&shop), shop.bought("ann")), (0, MAX_UNITS));
}
