//! Stories of holds, and of what becomes of orders.

use super::shop::{Shop, names, says, shop, with};
use super::world::{digest, reload};
use crate::core::id::IdText;
use crate::core::limits::MAX_UNITS;
use crate::core::sale::{Alteration, Budget, Change, InvalidChange, NewOrder, State, Status, Take, Terms};
use crate::core::time::UnixMs;

#[test]
fn a_hold_returns_on_the_millisecond() {
    let mut shop = shop(2);
    assert_eq!(shop.order("ann", 2, None, 500, "cart"), names(Status::Ok, 2, 0, 1_500, "cart"));
    assert_eq!(shop.take("ann", 1), names(Status::Duplicate, 2, 0, 1_500, "cart"));
    assert_eq!(shop.sale.next_expiration(), Some(UnixMs(1_500)));
    shop.now = 1_499;
    assert_eq!(shop.take("bob", 1), says(Status::SoldOut, 0, 0, -1));
    assert_eq!((shop.state("ann"), shop.bought("ann")), ((State::Held, 2), 2));
    shop.now = 1_500;
    let info = shop.sale.info(shop.now());
    assert_eq!(
        (info.remaining, info.held, info.sold, info.buyers, shop.sale.orders()),
        (2, 0, 0, 1, 1),
        "buyers by the books"
    );
    assert_eq!((shop.state("ann"), shop.bought("ann")), ((State::Expired, 0), 0));
    assert_eq!(shop.ids(Some(State::Held)), Vec::<String>::new());
    assert_eq!(shop.take("ann", 1), names(Status::Expired, 0, 2, -1, "cart"), "it does not sell to it again");
    assert_eq!(shop.sale.seq(), 1, "and nothing was committed for all of that");
    assert_eq!(shop.take("bob", 1), says(Status::Ok, 1, 1, -1));
    assert_eq!(shop.sale.seq(), 3, "the expiration came first");
    assert_eq!(shop.sale.next_expiration(), None);
    assert_eq!(shop.sale.info(shop.now()).buyers, 1, "bob, and ann no more");
}

#[test]
fn only_the_expirations_that_are_needed_come_first_and_the_earliest_of_them() {
    let mut shop = shop(3);
    for (id, span) in [("a", 30), ("b", 10), ("c", 20)] {
        shop.hold(id, 1, span);
    }
    shop.now += 100;
    let take = Take { id: b"d", units: 2, buyer: None, deadline: None, reference: b"" };
    let decision = shop.sale.take(shop.now(), Budget::COMMAND, &take).unwrap();
    let ids: Vec<_> = decision.changes.due_first.iter().map(|expiration| format!("{expiration:?}")).collect();
    assert_eq!(ids, ["Expire { id: \"b\" }", "Expire { id: \"c\" }"]);
    assert_eq!(shop.does(&decision), says(Status::Ok, 2, 1, -1));
    assert_eq!(shop.sale.expirations(shop.now(), 10).len(), 1);
    assert_eq!(shop.adjust(-1), Ok(0), "withdrawing needs the third");
    assert_eq!(shop.sale.expirations(shop.now(), 10).len(), 0);
}

#[test]
fn the_timer_gets_due_holds_in_portions_and_in_order() {
    let mut shop = shop(10);
    for (id, span) in [("a", 30), ("b", 10), ("c", 20), ("d", 500)] {
        shop.hold(id, 1, span);
    }
    shop.now += 30;
    let mut order = Vec::new();
    loop {
        let expirations = shop.sale.expirations(shop.now(), 2);
        if expirations.is_empty() {
            break;
        }
        for expiration in expirations {
            assert_eq!(shop.sale.event(&expiration).unwrap().kind, "expire");
            order.push(format!("{expiration:?}"));
            shop.sale.commit(&expiration).unwrap();
        }
    }
    assert_eq!(order, ["Expire { id: \"b\" }", "Expire { id: \"c\" }", "Expire { id: \"a\" }"]);
    assert_eq!(shop.sale.next_expiration(), Some(UnixMs(1_500)));
}

#[test]
fn confirming_makes_a_sale_of_a_hold() {
    let mut shop = shop(2);
    shop.order("ann", 2, None, 500, "cart");
    assert_eq!(shop.confirm("ann"), names(Status::Ok, 2, 0, -1, "cart"));
    assert_eq!(shop.confirm("ann"), names(Status::Duplicate, 2, 0, -1, "cart"));
    assert_eq!(shop.confirm("bob"), says(Status::NoOrder, 0, 0, -1));
    shop.now += 10_000;
    assert_eq!(shop.state("ann"), (State::Sold, 2), "what is sold does not expire");
    assert_eq!(shop.cancel("ann"), names(Status::Ok, 0, 2, -1, "cart"));
    assert_eq!(shop.confirm("ann"), names(Status::Cancelled, 0, 2, -1, "cart"));
}

#[test]
fn a_late_payment_takes_the_units_again_if_they_are_there() {
    let mut shop = shop(2);
    shop.hold("ann", 2, 500);
    shop.now += 500;
    assert_eq!(shop.confirm("ann"), says(Status::Ok, 2, 0, -1));
    assert_eq!(shop.sale.seq(), 3, "taken, expired, confirmed");
    assert_eq!(shop.confirm("ann"), says(Status::Duplicate, 2, 0, -1));
}

#[test]
fn a_late_payment_for_units_that_are_gone_is_expired_for_good() {
    let mut shop = shop(2);
    shop.hold("ann", 2, 500);
    shop.now += 500;
    shop.take("bob", 1);
    assert_eq!(shop.sale.seq(), 3, "taken, expired, taken");
    let memory = shop.sale.memory();
    assert_eq!(shop.confirm("ann"), says(Status::Expired, 0, 1, -1));
    assert_eq!((shop.sale.seq(), shop.sale.memory()), (3, memory), "no event, no byte");
    assert_eq!(shop.adjust(1), Ok(2));
    assert_eq!(shop.confirm("ann"), says(Status::Expired, 0, 2, -1), "the shop has given the money back");
    let mut again = reload(&shop.sale);
    assert!(
        again.confirm(shop.now(), Budget::COMMAND, b"ann", None).unwrap().changes.is_empty(),
        "and nobody forgets it"
    );
    assert_eq!(
        again.commit(&Change::Confirm { id: IdText::from(&b"ann"[..]), units: None }),
        Err(InvalidChange::State)
    );
    for (row, status) in [(shop.cancel("ann"), Status::Expired), (shop.extend("ann", 500), Status::Expired)] {
        assert_eq!(row, says(status, 0, 2, -1));
    }
    assert_eq!(shop.take("ann", 1), says(Status::Expired, 0, 2, -1));
    shop.alter(Alteration { rebuy: Some(true), ..Alteration::default() });
    assert_eq!(shop.hold("ann", 1, 500), says(Status::Ok, 1, 1, shop.now + 500));
    assert_eq!(shop.confirm("ann"), says(Status::Ok, 1, 1, -1), "an order is an order");
}

#[test]
fn a_hold_that_is_due_by_the_clock_alone_expires_before_its_confirmation_is_refused() {
    let mut shop = with(Terms { total: 4, limit: 4, ..Terms::default() });
    for id in ["o1", "o2", "o3", "o4"] {
        shop.hold(id, 1, 500);
    }
    shop.now += 500;
    assert_eq!(shop.take("all", 4).0, Status::Ok, "two expirations and a cutoff");
    assert_eq!((shop.sale.seq(), shop.sale.next_expiration()), (7, Some(UnixMs(i64::MIN))));
    assert_eq!(shop.confirm("o4"), says(Status::Expired, 0, 0, -1));
    assert_eq!((shop.sale.seq(), shop.sale.expirations(shop.now(), 9).len()), (7, 2), "o4 is over by every clock");
    let mut again = reload(&shop.sale);
    for expiration in shop.sale.expirations(shop.now(), 9) {
        shop.sale.commit(&expiration).unwrap();
        again.commit(&expiration).unwrap();
    }
    assert_eq!(digest(&again), digest(&shop.sale));
    assert_eq!(shop.sale.seq(), 9);
    // The other way: the units are there, and the buyer may not have so many any more.
    shop.cancel("all");
    shop.order("o5", 2, Some("ann"), 500, "");
    shop.alter(Alteration { limit: Some(1), ..Alteration::default() });
    shop.now += 500;
    let seq = shop.sale.seq();
    assert_eq!(shop.confirm("o5"), says(Status::Limit, 0, 4, -1));
    assert_eq!(shop.sale.seq(), seq + 1);
    assert_eq!(shop.confirm("o5"), says(Status::Expired, 0, 4, -1));
    assert_eq!(shop.confirm("o4"), says(Status::Expired, 0, 4, -1));
    assert_eq!(shop.sale.seq(), seq + 1);
}

#[test]
fn a_refusal_is_committed_once_and_only_of_what_has_expired() {
    let mut shop = shop(5);
    shop.hold("held", 1, 500);
    shop.take("sold", 1);
    shop.take("gone", 1);
    shop.cancel("gone");
    let refuse =
        |shop: &mut Shop, id: &'static str| shop.sale.commit(&Change::Refuse { id: IdText::from(id.as_bytes()) });
    for id in ["held", "sold", "gone", "nobody", ""] {
        assert_eq!(refuse(&mut shop, id), Err(InvalidChange::State), "{id}");
    }
    shop.sale.commit(&Change::Expire { id: IdText::from(&b"held"[..]) }).unwrap();
    assert_eq!(shop.sale.event(&Change::Refuse { id: IdText::from(&b"held"[..]) }), None);
    assert_eq!(refuse(&mut shop, "held"), Ok(()));
    assert_eq!(refuse(&mut shop, "held"), Err(InvalidChange::State));
    assert_eq!(shop.sale.seq(), 5);
}

#[test]
fn a_late_payment_does_not_pass_the_buyers_limit() {
    let mut shop = with(Terms { total: 10, limit: 2, ..Terms::default() });
    shop.order("o1", 2, Some("ann"), 500, "r1");
    shop.now += 500;
    assert_eq!(shop.buy("o2", 1, "ann").0, Status::Ok, "what has expired does not count");
    assert_eq!(shop.confirm("o1"), names(Status::Limit, 0, 9, -1, "r1"));
    assert_eq!(shop.cancel("o2").0, Status::Ok);
    assert_eq!(shop.confirm("o1"), names(Status::Expired, 0, 10, -1, "r1"), "a refusal is final, whatever it was for");
    assert_eq!(shop.sale.counters().limited, 1);
}

#[test]
fn cancelling_gives_back_once() {
    let mut shop = shop(5);
    shop.order("held", 2, None, 500, "h");
    shop.order("sold", 2, None, 0, "s");
    assert_eq!(shop.cancel("held"), names(Status::Ok, 0, 3, -1, "h"));
    assert_eq!(shop.cancel("held"), names(Status::Duplicate, 0, 3, -1, "h"));
    assert_eq!(shop.cancel("sold"), names(Status::Ok, 0, 5, -1, "s"));
    assert_eq!(shop.cancel("sold"), names(Status::Duplicate, 0, 5, -1, "s"));
    assert_eq!(shop.cancel("nobody"), says(Status::NoOrder, 0, 5, -1));
    assert_eq!(shop.take("held", 1), names(Status::Cancelled, 0, 5, -1, "h"));
    shop.hold("late", 1, 500);
    shop.now += 500;
    assert_eq!(shop.cancel("late"), says(Status::Expired, 0, 5, -1));
}

#[test]
fn only_live_holds_can_be_extended() {
    let mut shop = shop(5);
    shop.order("ann", 1, None, 500, "cart");
    shop.now += 400;
    assert_eq!(shop.extend("ann", 300), names(Status::Ok, 1, 4, 1_700, "cart"));
    assert_eq!(shop.sale.seq(), 1, "no event");
    shop.now = 1_699;
    assert_eq!(shop.extend("ann", 1), names(Status::Ok, 1, 4, 1_700, "cart"));
    shop.now = 1_700;
    assert_eq!(shop.extend("ann", 300), names(Status::Expired, 0, 5, -1, "cart"));
    shop.take("bob", 2);
    assert_eq!(shop.extend("bob", 300), says(Status::Duplicate, 2, 3, -1));
    shop.cancel("bob");
    assert_eq!(shop.extend("bob", 300), says(Status::Cancelled, 0, 5, -1));
    assert_eq!(shop.extend("nobody", 300), says(Status::NoOrder, 0, 5, -1));
}

#[test]
fn a_buyer_counts_until_its_last_hold_has_expired() {
    let mut shop = shop(9);
    for (id, hold) in [("o1", 100), ("o2", 300), ("o3", 200)] {
        shop.order(id, 1, Some("ann"), hold, "");
    }
    // The buyers when all has expired that is due so much later.
    let buyers = |shop: &Shop, span| {
        let (mut later, now) = (reload(&shop.sale), UnixMs(shop.now + span));
        for expiration in later.expirations(now, usize::MAX) {
            assert_eq!(later.info(now).buyers, 1, "a due hold counts until then");
            later.commit(&expiration).unwrap();
        }
        later.info(now).buyers
    };
    assert_eq!([buyers(&shop, 0), buyers(&shop, 299), buyers(&shop, 300)], [1, 1, 0]);
    shop.cancel("o2");
    assert_eq!([buyers(&shop, 199), buyers(&shop, 200)], [1, 0]);
    shop.extend("o1", 250);
    assert_eq!([buyers(&shop, 249), buyers(&shop, 250)], [1, 0]);
    shop.extend("o1", 50);
    assert_eq!([buyers(&shop, 199), buyers(&shop, 200)], [1, 0]);
    shop.confirm("o1");
    assert_eq!([buyers(&shop, 199), buyers(&shop, 900)], [1, 1], "what is bought stays");
    shop.cancel("o1");
    assert_eq!([buyers(&shop, 199), buyers(&shop, 200)], [1, 0]);
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let mut shop = shop(5);
    shop.hold("held", 2, 500);
    shop.take("sold", 1);
    shop.take("gone", 1);
    shop.cancel("gone");
    let id = |id: &'static str| IdText::from(id.as_bytes());
    let order = |name, units| NewOrder { id: id(name), units, buyer: None, reference: IdText::NONE };
    let take = |order| Change::Take { order, deadline: None };
    let long = vec![b'x'; 513];
    let before = shop.sale.blocks().next();
    for (change, misfit) in [
        (take(order("held", 1)), InvalidChange::State),
        (take(order("sold", 1)), InvalidChange::State),
        (take(order("new", 3)), InvalidChange::Units),
        (take(order("gone", 3)), InvalidChange::Units),
        (take(order("new", 0)), InvalidChange::Range),
        (take(order("new", MAX_UNITS + 1)), InvalidChange::Range),
        (take(order("", 1)), InvalidChange::Range),
        (take(NewOrder { buyer: Some(id("")), ..order("new", 1) }), InvalidChange::Range),
        (take(NewOrder { reference: IdText::from(&long[..]), ..order("new", 1) }), InvalidChange::Range),
        (Change::Confirm { id: id("sold"), units: None }, InvalidChange::State),
        (Change::Confirm { id: id("gone"), units: None }, InvalidChange::State),
        (Change::Confirm { id: id("nobody"), units: None }, InvalidChange::State),
        (Change::Cancel { id: id("gone") }, InvalidChange::State),
        (Change::Expire { id: id("sold") }, InvalidChange::State),
        (Change::Expire { id: id("") }, InvalidChange::State),
        (Change::Extend { id: id("sold"), deadline: UnixMs(9) }, InvalidChange::State),
        (Change::Adjust { delta: -3, id: IdText::NONE }, InvalidChange::Units),
        (Change::Adjust { delta: i64::MAX, id: IdText::NONE }, InvalidChange::Range),
        (Change::Alter { limit: MAX_UNITS + 1, start: None, end: None, rebuy: false }, InvalidChange::Range),
    ] {
        assert_eq!(shop.sale.commit(&change), Err(misfit), "{change:?}");
    }
    assert_eq!((shop.sale.seq(), shop.sale.blocks().next()), (4, before));
    let expired = Change::Expire { id: id("held") };
    shop.sale.commit(&expired).unwrap();
    shop.sale.commit(&take(order("new", 3))).unwrap();
    assert_eq!(
        shop.sale.commit(&Change::Confirm { id: id("held"), units: None }),
        Err(InvalidChange::Units),
        "its units are gone"
    );
}
