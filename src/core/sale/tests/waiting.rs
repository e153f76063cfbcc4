//! Stories of the waitlist.

use super::shop::{Shop, names, says, shop, telling, with};
use super::world::{digest, reload};
use crate::core::id::IdText;
use crate::core::limits::MAX_UNITS;
use crate::core::sale::{AdjustError, Alteration, Change, Sale, State, Status, Take, Terms};
use crate::core::time::UnixMs;

#[test]
fn who_comes_too_late_waits_and_is_served_in_order() {
    let mut shop = shop(2);
    assert_eq!(shop.take("a", 2), says(Status::Ok, 2, 0, -1));
    assert_eq!(shop.wait("b", 1, None, 500, "r"), names(Status::Queued, 0, 0, -1, "r"));
    assert_eq!(shop.wait("c", 1, None, 0, ""), says(Status::Queued, 0, 0, -1));
    assert_eq!(shop.wait("b", 2, None, 9, "other"), names(Status::Queued, 0, 0, -1, "r"), "whatever it asks");
    assert_eq!(shop.take("b", 1).0, Status::Queued, "also without WAITLIST");
    assert_eq!((shop.state("b"), shop.line()), ((State::Waiting, 0), vec!["b".into(), "c".into()]));
    shop.now += 100;
    assert_eq!(shop.cancel("a"), says(Status::Ok, 0, 0, -1), "nothing of it remains");
    assert_eq!(shop.wait("b", 1, None, 0, ""), names(Status::Duplicate, 1, 0, 1_600, "r"), "held from now on");
    assert_eq!(shop.state("c"), (State::Sold, 1));
    assert_eq!(shop.sale.counters().ok, 3);
}

#[test]
fn nobody_else_is_sold_anything_while_somebody_waits() {
    let mut shop = shop(3);
    assert_eq!(shop.hold("late", 1, 10).0, Status::Ok);
    assert_eq!(shop.wait("big", 3, None, 0, ""), says(Status::Queued, 0, 2, -1));
    assert_eq!(shop.take("small", 1), says(Status::SoldOut, 0, 2, -1));
    assert_eq!(shop.wait("small", 1, None, 0, "").0, Status::Queued);
    assert_eq!(shop.wait("huge", 4, None, 0, ""), says(Status::Insufficient, 0, 2, -1));
    shop.now += 10;
    // The hold is due, and its units belong to the line already.
    assert_eq!(shop.take("other", 1), says(Status::SoldOut, 0, 3, -1));
    assert_eq!(shop.confirm("late"), says(Status::Expired, 0, 0, -1), "refused, and the line got it");
    assert_eq!(shop.state("big"), (State::Sold, 3));
    assert_eq!(shop.confirm("late"), says(Status::Expired, 0, 0, -1));
    assert_eq!(shop.line(), ["small"]);
}

#[test]
fn a_waiting_order_cannot_be_confirmed_or_extended_and_leaves_by_cancel() {
    let mut shop = shop(3);
    shop.take("a", 1);
    assert_eq!(shop.wait("big", 3, None, 0, ""), says(Status::Queued, 0, 2, -1));
    assert_eq!(shop.wait("small", 2, None, 0, "").0, Status::Queued);
    assert_eq!(shop.confirm("big"), says(Status::Queued, 0, 2, -1));
    assert_eq!(shop.extend("big", 9), says(Status::Queued, 0, 2, -1));
    assert_eq!(shop.cancel("big"), says(Status::Ok, 0, 0, -1), "who is behind it is served in the same step");
    assert_eq!((shop.state("big"), shop.state("small")), ((State::Cancelled, 0), (State::Sold, 2)));
    assert_eq!(shop.cancel("big").0, Status::Duplicate);
    assert_eq!(shop.wait("big", 1, None, 0, "").0, Status::Cancelled);
}

#[test]
fn what_an_order_waits_for_counts_against_its_buyers_limit() {
    let mut shop = with(Terms { total: 3, limit: 3, ..Terms::default() });
    shop.buy("1", 2, "ann");
    shop.take("bob", 1);
    assert_eq!(shop.order("2", 2, Some("ann"), 0, "").0, Status::Limit);
    assert_eq!(shop.wait("2", 2, Some("ann"), 0, "").0, Status::Limit);
    assert_eq!(shop.wait("2", 1, Some("ann"), 0, "").0, Status::Queued);
    assert_eq!(shop.wait("carol", 2, None, 0, "").0, Status::Queued);
    assert_eq!((shop.bought("ann"), shop.bought("carol")), (3, 2));
    assert_eq!(shop.sale.info(shop.now()).buyers, 2, "who only waits has bought nothing");
    assert_eq!(shop.wait("3", 1, Some("ann"), 0, "").0, Status::Limit);
    assert!(matches!(shop.refuses("2", Some("carol")), crate::core::sale::TakeError::OtherBuyer));
    // A lower limit does not touch waiting orders.
    shop.alter(Alteration { limit: Some(1), ..Alteration::default() });
    assert_eq!(shop.cancel("bob").0, Status::Ok);
    assert_eq!((shop.state("2"), shop.bought("ann")), ((State::Sold, 1), 3));
    assert_eq!(shop.cancel("carol").0, Status::Ok);
    assert_eq!(shop.bought("carol"), 0);
}

#[test]
fn a_buyer_may_wait_for_more_units_than_64_bits_can_count() {
    let mut shop = with(Terms { total: MAX_UNITS, ..Terms::default() });
    shop.take("first", MAX_UNITS);
    // As many that the sum modulo 2^64 is next to nothing.
    for n in 0..2_049 {
        assert_eq!(shop.wait(&n.to_string(), MAX_UNITS, Some("ann"), 0, "").0, Status::Queued);
    }
    assert_eq!(shop.bought("ann"), MAX_UNITS);
    shop.alter(Alteration { limit: Some(MAX_UNITS - 1), ..Alteration::default() });
    assert_eq!(shop.wait("more", 1, Some("ann"), 0, "").0, Status::Limit);
    let mut shop = Shop { sale: reload(&shop.sale), ..shop };
    assert_eq!(shop.wait("more", 1, Some("ann"), 0, "").0, Status::Limit, "and so it is in a file");
    for n in 1..2_049 {
        assert_eq!(shop.cancel(&n.to_string()).0, Status::Ok);
    }
    assert_eq!(shop.bought("ann"), MAX_UNITS, "one order waits");
    assert_eq!(shop.cancel("0").0, Status::Ok);
    assert_eq!(shop.wait("more", 1, Some("ann"), 0, "").0, Status::Queued, "none waits");
}

#[test]
fn a_restock_serves_and_what_the_line_gets_cannot_be_withdrawn() {
    let mut shop = shop(2);
    shop.hold("a", 2, 10);
    shop.wait("b", 2, None, 0, "");
    shop.wait("c", 1, None, 0, "");
    assert_eq!(shop.adjust(1), Ok(1), "too few for the first in line");
    assert_eq!(shop.adjust(-2), Err(AdjustError::TooFew { remaining: 1 }));
    shop.now += 10;
    // Three remain, and the line gets all of them as soon as the timer comes, or this.
    assert_eq!(shop.adjust(-1), Err(AdjustError::TooFew { remaining: 0 }));
    assert_eq!(shop.adjust(2), Ok(2), "what is due remains until the timer comes");
    assert_eq!(shop.line(), Vec::<String>::new());
    shop.tick(9);
    assert_eq!(shop.adjust(0), Ok(2));
    assert_eq!(shop.adjust(-2), Ok(0));
}

#[test]
fn the_total_does_not_fall_below_what_somebody_waits_for() {
    let mut shop = with(Terms { total: 5, end: Some(UnixMs(2_000)), ..Terms::default() });
    shop.take("a", 1);
    shop.wait("b", 5, None, 0, "");
    shop.wait("c", 3, None, 0, "");
    shop.now = 2_000;
    assert_eq!(shop.adjust(-1), Err(AdjustError::Wanted { units: 5 }));
    shop.cancel("b");
    assert_eq!(shop.adjust(-3), Err(AdjustError::Wanted { units: 3 }));
    assert_eq!(shop.adjust(-2), Ok(2), "outside the window nobody is served, and what remains can be withdrawn");
    let change = Change::Adjust { delta: -1, id: IdText::NONE };
    assert!(shop.sale.commit(&change).is_err(), "not by an effect either");
}

#[test]
fn outside_the_window_who_waits_goes_on_waiting() {
    let terms = Terms { total: 1, start: Some(UnixMs(500)), end: Some(UnixMs(1_500)), ..Terms::default() };
    let mut shop = with(terms);
    shop.hold("a", 1, 1_000);
    for id in ["b", "c", "d"] {
        assert_eq!(shop.wait(id, 1, None, 100, "").0, Status::Queued);
    }
    let due = |shop: &Shop| shop.sale.next_due(|| shop.now()).map(|time| time.0);
    assert_eq!(due(&shop), Some(2_000));
    shop.now = 2_000;
    assert_eq!(shop.tick(9), 1, "the hold expires, and nobody is served");
    assert_eq!(due(&shop), None);
    assert_eq!(shop.wait("e", 1, None, 0, "").0, Status::Ended);
    assert_eq!(shop.adjust(1), Ok(2));
    assert_eq!(shop.cancel("c").0, Status::Ok);
    let window = |start, end| Alteration { start: Some(start), end: Some(end), ..Alteration::default() };
    shop.alter(window(Some(UnixMs(3_000)), None));
    assert_eq!((due(&shop), shop.line().len()), (Some(3_000), 2));
    shop.now = 2_999;
    assert_eq!(shop.tick(9), 0);
    shop.now = 3_000;
    assert!(shop.sale.next_due(|| shop.now()).is_some_and(|at| at.reached(shop.now())));
    assert_eq!(shop.tick(1), 1, "one after the other, if there is time for no more");
    assert_eq!((shop.state("b"), shop.line()), ((State::Held, 1), vec!["d".to_owned()]));
    shop.alter(window(None, Some(UnixMs(3_001))));
    assert_eq!((shop.state("d"), shop.line().len()), ((State::Held, 1), 0), "what opens the window serves");
}

#[test]
fn with_rebuy_an_id_joins_the_line_anew_behind_the_others() {
    let mut shop = with(Terms { total: 1, rebuy: true, ..Terms::default() });
    shop.take("x", 1);
    for id in ["a", "b"] {
        shop.wait(id, 1, None, 10, "");
    }
    shop.cancel("a");
    assert_eq!(shop.wait("a", 1, None, 10, "").0, Status::Queued);
    assert_eq!(shop.line(), ["b", "a"]);
    shop.cancel("x");
    shop.now += 10;
    assert_eq!(shop.wait("b", 1, None, 10, "").0, Status::Queued, "its hold has lapsed");
    assert_eq!((shop.state("a"), shop.line()), ((State::Held, 1), vec!["b".to_owned()]), "the lapse served the next");
    assert_eq!(digest(&reload(&shop.sale)), digest(&shop.sale));
}

/// A step serves some orders at once, the timer the others, and no order comes in between.
#[test]
fn a_long_line_is_served_in_turns() {
    let mut shop = shop(10);
    shop.take("x", 10);
    for id in 0..10 {
        shop.wait(&id.to_string(), 1, None, 0, "");
    }
    assert_eq!(shop.cancel("x"), says(Status::Ok, 0, 7, -1));
    assert_eq!(shop.take("y", 1), says(Status::SoldOut, 0, 7, -1));
    assert_eq!(shop.adjust(-1), Err(AdjustError::TooFew { remaining: 0 }));
    assert_eq!((shop.line()[0].as_str(), shop.sale.next_due(|| shop.now()).is_some()), ("3", true));
    while shop.tick(2) > 0 {}
    assert_eq!((shop.sale.waiting(), shop.sale.next_due(|| shop.now())), (0, None));
}

/// What a long line does not get can be withdrawn, however many steps it takes to serve the line.
#[test]
fn what_a_long_line_leaves_can_be_withdrawn_before_it_is_served() {
    let mut shop = shop(20);
    shop.take("x", 20);
    for id in 0..10 {
        shop.wait(&id.to_string(), 1, None, 0, "");
    }
    assert_eq!(shop.cancel("x"), says(Status::Ok, 0, 17, -1), "three of ten are served");
    assert_eq!(shop.adjust(-18), Err(AdjustError::TooFew { remaining: 10 }), "not what the line gets, from the start");
    assert_eq!(shop.adjust(-11), Err(AdjustError::TooFew { remaining: 10 }));
    assert_eq!(shop.adjust(-4), Ok(10), "of them four for the line, which are shown until it has them");
    assert_eq!(shop.line().len(), 4, "it has served three more");
    assert_eq!(shop.adjust(-6), Ok(1));
    assert_eq!(shop.adjust(-1), Err(AdjustError::TooFew { remaining: 0 }), "one is for the last in line");
    while shop.tick(2) > 0 {}
    assert_eq!((shop.sale.waiting(), shop.sale.remaining(shop.now())), (0, 0));
}

/// So can what many due holds leave, though too many are due for one step.
#[test]
fn what_many_lapses_leave_can_be_withdrawn_in_front_of_a_line() {
    let mut shop = shop(12);
    shop.take("x", 4);
    for id in 0..8 {
        shop.hold(&id.to_string(), 1, 10);
    }
    shop.wait("six", 6, None, 0, "");
    shop.wait("seven", 7, None, 0, "");
    shop.now += 10;
    assert_eq!(shop.adjust(-3), Err(AdjustError::TooFew { remaining: 2 }));
    assert_eq!(shop.adjust(-2), Ok(6), "which are for the first in line");
    while shop.tick(2) > 0 {}
    assert_eq!((shop.state("six"), shop.state("seven")), ((State::Sold, 6), (State::Waiting, 0)));
    // Now the first in line does not fit, and all that remains can be withdrawn.
    let mut shop = Shop { sale: reload(&shop.sale), ..shop };
    shop.adjust(3).unwrap();
    assert_eq!(shop.adjust(-4), Err(AdjustError::TooFew { remaining: 3 }));
    assert_eq!(shop.adjust(-3), Ok(0));
}

#[test]
fn a_hold_beyond_the_end_of_time_ends_there() {
    let mut shop = shop(1);
    shop.take("a", 1);
    shop.wait("b", 1, None, i64::MAX - shop.now, "");
    shop.now += 5;
    shop.cancel("a");
    assert_eq!(shop.confirm("b").0, Status::Ok);
}

/// A sale that never had a line has the bytes and the memory of before; a sale that had one has them again.
#[test]
fn a_line_that_is_gone_leaves_nothing() {
    let mut plain = telling(2);
    plain.hold("a", 1, 9_000);
    let mut shop = telling(2);
    shop.hold("a", 1, 9_000);
    let before = shop.sale.memory();
    shop.take("c", 1);
    shop.wait("b", 1, None, 0, "");
    assert!(shop.sale.header()[1] & 64 != 0 && shop.sale.memory() > before);
    shop.cancel("b");
    assert_eq!(shop.sale.header()[1], plain.sale.header()[1]);
}

/// A waiting order takes the memory of any other order, and that of its ticket and its place.
#[test]
#[cfg_attr(miri, ignore = "too many steps for Miri")]
fn who_waits_weighs_some_tens_of_bytes() {
    let count = 20_000;
    let sale = crowded(count);
    let bytes = sale.memory() / usize::try_from(count).unwrap();
    assert!(bytes <= 40, "{bytes} bytes an order");
    assert_eq!(digest(&reload(&sale)), digest(&sale));
}

/// A sale in which this many wait.
pub fn crowded(count: u64) -> Sale {
    let mut sale = Sale::new(Terms { total: 1, ..Terms::default() });
    let now = UnixMs(1_700_000_000_000);
    for n in 0..=count {
        let id = (13_000_000_000 + n * 7).to_string();
        let deadline = Some(UnixMs(now.0 + 60_000));
        let take = Take { id: id.as_bytes(), units: 1, buyer: None, deadline, reference: b"" };
        for change in sale.take_or_wait(now, &take).unwrap().changes.iter() {
            sale.commit(change).unwrap();
        }
    }
    assert_eq!(sale.waiting(), count);
    sale
}
