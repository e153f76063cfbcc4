//! Stories of the seller's side: adjusting, altering, events, listings, counters.

use super::shop::{Shop, shop, telling, with};
use crate::core::id::IdText;
use crate::core::sale::view::{PAGE_EFFORT, PAGE_ROWS};
use crate::core::sale::{
    AdjustError, Alteration, Change, Counters, EmptyWindow, Event, MAX_UNITS, NewOrder, State, Status, Terms,
};
use crate::core::time::UnixMs;

#[test]
fn the_seller_restocks_and_withdraws_what_is_unsold() {
    let mut shop = shop(5);
    shop.take("ann", 3);
    assert_eq!(shop.adjust(-3), Err(AdjustError::TooFew { remaining: 2 }));
    assert_eq!(shop.adjust(-2), Ok(0));
    assert_eq!(shop.adjust(i64::MIN), Err(AdjustError::TooFew { remaining: 0 }));
    assert_eq!(shop.adjust(7), Ok(7));
    assert_eq!(shop.adjust(i64::MAX), Err(AdjustError::TooMany { total: 10 }));
    assert_eq!(shop.adjust(MAX_UNITS.cast_signed() - 10), Ok(MAX_UNITS - 3));
    assert_eq!(shop.adjust(0), Ok(MAX_UNITS - 3));
    assert_eq!(shop.sale.seq(), 4, "adjusting by zero is no event");
    assert_eq!(shop.sale.info(shop.now()).total, MAX_UNITS);
}

#[test]
fn altering_changes_what_comes_not_what_was() {
    let mut shop = with(Terms { total: 9, end: Some(UnixMs(500)), ..Terms::default() });
    assert_eq!(shop.take("ann", 4).0, Status::Ended);
    shop.alter(Alteration { end: Some(None), ..Alteration::default() });
    assert_eq!(shop.take("ann", 4).0, Status::Ok);
    shop.alter(Alteration {
        limit: Some(2),
        rebuy: Some(true),
        start: Some(Some(UnixMs(900))),
        ..Alteration::default()
    });
    assert_eq!(shop.bought("ann"), 4, "what was sold stands");
    assert_eq!(shop.buy("o2", 1, "ann").0, Status::Limit);
    assert_eq!(shop.sale.terms().start, Some(UnixMs(900)));
    let same = shop.sale.alter(shop.now(), &Alteration { limit: Some(2), ..Alteration::default() }).unwrap();
    assert!(same.is_empty(), "nothing new");
    assert_eq!(shop.sale.seq(), 1, "no event");
}

#[test]
fn a_window_starts_before_it_ends() {
    let mut shop = with(Terms { total: 9, start: Some(UnixMs(500)), ..Terms::default() });
    let window = |start, end| Alteration { start, end, ..Alteration::default() };
    for end in [499, 500] {
        let empty = EmptyWindow { start: UnixMs(500), end: UnixMs(end) };
        assert_eq!(shop.sale.alter(shop.now(), &window(None, Some(Some(UnixMs(end))))), Err(empty));
    }
    shop.alter(window(None, Some(Some(UnixMs(501)))));
    let empty = EmptyWindow { start: UnixMs(600), end: UnixMs(501) };
    assert_eq!(shop.sale.alter(shop.now(), &window(Some(Some(UnixMs(600))), None)), Err(empty));
    // Both at once are looked at as they will be.
    shop.alter(window(Some(Some(UnixMs(600))), Some(Some(UnixMs(700)))));
    shop.alter(window(Some(Some(UnixMs(800))), Some(None)));
    assert_eq!((shop.sale.terms().start, shop.sale.terms().end), (Some(UnixMs(800)), None));
}

/// As lockstock 0.1 let one be made.
#[test]
fn a_sale_that_came_with_an_empty_window_can_be_altered_and_mended() {
    let mut shop = with(Terms { total: 9, start: Some(UnixMs(700)), end: Some(UnixMs(600)), ..Terms::default() });
    shop.alter(Alteration { limit: Some(3), ..Alteration::default() });
    assert_eq!(shop.sale.terms().limit, 3);
    let later = Alteration { start: Some(Some(UnixMs(600))), ..Alteration::default() };
    assert_eq!(shop.sale.alter(shop.now(), &later), Err(EmptyWindow { start: UnixMs(600), end: UnixMs(600) }));
    shop.alter(Alteration { end: Some(Some(UnixMs(701))), ..Alteration::default() });
    assert_eq!(shop.sale.terms().check_window(), Ok(()));
}

#[test]
fn every_change_of_an_order_is_an_event_with_its_fields() {
    let mut shop = shop(9);
    shop.order("o1", 2, Some("ann"), 500, "cart");
    let event = |kind, id: &'static str, units, buyer: &'static str, reference: &'static str| {
        let name = |text: &'static str| IdText::from(text.as_bytes());
        Some(Event { kind, id: name(id), units, buyer: name(buyer), reference: name(reference), deadline: None })
    };
    let id = IdText::from(&b"o1"[..]);
    let confirm = Change::Confirm { id: id.clone(), units: None };
    assert_eq!(shop.sale.event(&confirm), event("confirm", "o1", 2, "ann", "cart"));
    let cancel = Change::Cancel { id: id.clone() };
    assert_eq!(shop.sale.event(&cancel), event("cancel", "o1", 2, "ann", "cart"));
    let expiration = Change::Expire { id: id.clone() };
    assert_eq!(shop.sale.event(&expiration), event("expire", "o1", 2, "ann", "cart"));
    let adjustment = Change::Adjust { delta: -3, id: IdText::NONE };
    assert_eq!(shop.sale.event(&adjustment), event("adjust", "", -3, "", ""));
    assert_eq!(shop.sale.event(&Change::Extend { id, deadline: UnixMs(5) }), None);
    let order = NewOrder { id: IdText::from(&b"o2"[..]), units: 3, buyer: None, reference: IdText::NONE };
    let take = Change::Take { order, deadline: None };
    assert_eq!(shop.sale.event(&take), event("ok", "o2", 3, "o2", ""), "it is its own buyer");
}

#[test]
fn where_deadlines_are_told_one_that_moves_is_an_event() {
    let mut shop = telling(9);
    shop.order("o1", 2, Some("ann"), 500, "cart");
    let extend = Change::Extend { id: IdText::from(&b"o1"[..]), deadline: UnixMs(1_900) };
    let name = |text: &'static str| IdText::from(text.as_bytes());
    let event = Event {
        kind: "extend",
        id: name("o1"),
        units: 2,
        buyer: name("ann"),
        reference: name("cart"),
        deadline: Some(UnixMs(1_900)),
    };
    assert_eq!(shop.sale.event(&extend), Some(event));
    assert_eq!(shop.sale.seq(), 1);
    shop.extend("o1", 900);
    assert_eq!(shop.sale.seq(), 2, "and has a number");
    let told = |shop: &Shop, change: &Change<'_>| shop.sale.event(change).unwrap().deadline;
    let id = || IdText::from(&b"o1"[..]);
    for change in [Change::Confirm { id: id(), units: None }, Change::Cancel { id: id() }, Change::Expire { id: id() }]
    {
        assert_eq!(told(&shop, &change), None, "{change:?} ends it");
    }
    let order = NewOrder { id: name("o2"), units: 1, buyer: None, reference: IdText::NONE };
    let take = |deadline| Change::Take { order: order.clone(), deadline };
    assert_eq!(told(&shop, &take(Some(UnixMs(5)))), Some(UnixMs(5)));
    assert_eq!(told(&shop, &take(None)), None);
    let unknown = Change::Extend { id: name("nobody"), deadline: UnixMs(1_900) };
    assert_eq!(shop.sale.event(&unknown), None);
    shop.confirm("o1");
    shop.extend("o1", 900);
    assert_eq!(shop.sale.seq(), 3, "what is sold has no deadline to move");
}

#[test]
#[cfg_attr(miri, ignore = "too many steps for Miri")]
fn pages_are_complete_and_repeat_nothing_while_orders_come() {
    let mut shop = shop(100_000);
    for n in 0..PAGE_EFFORT + 50 {
        shop.hold(&format!("o{n}"), 1, 10_000);
    }
    shop.confirm("o7");
    let (mut seen, mut cursor, mut calls) = (Vec::new(), 0, 0);
    loop {
        let page = shop.sale.page(shop.now(), cursor, usize::MAX, Some(State::Held));
        assert!(page.rows.len() <= PAGE_ROWS);
        seen.extend(page.rows.iter().map(|row| row.id.to_vec()));
        (cursor, calls) = (page.next, calls + 1);
        if cursor == 0 {
            break;
        }
        if calls == 1 {
            shop.hold("later", 1, 10_000);
        }
    }
    assert_eq!(seen.len(), PAGE_EFFORT + 50);
    let mut once = seen.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), seen.len());
    let rare = shop.sale.page(shop.now(), 8, 10, Some(State::Sold));
    assert_eq!((rare.rows.len(), rare.next), (0, 8 + PAGE_EFFORT as u64), "it gives up for now");
    assert_eq!(shop.sale.page(shop.now(), u64::MAX, 10, None).next, 0);
    assert_eq!(shop.sale.page(shop.now(), 0, 0, None).rows.len(), 1, "a page has room for one at least");
}

#[test]
fn counters_count_what_happened_here() {
    let mut shop = with(Terms { total: 4, limit: 2, ..Terms::default() });
    shop.hold("a", 1, 500);
    shop.take("a", 1);
    shop.hold("b", 1, 100);
    shop.confirm("a");
    shop.confirm("a");
    shop.buy("o1", 2, "a");
    shop.now += 100;
    for expiration in shop.sale.expirations(shop.now(), 9) {
        shop.sale.commit(&expiration).unwrap();
    }
    shop.cancel("a");
    shop.take("c", 2);
    shop.take("d", 2);
    shop.take("e", 1);
    let expected = Counters { ok: 4, duplicate: 2, soldout: 1, limited: 1, expired: 1, cancelled: 1, confirmed: 1 };
    assert_eq!(*shop.sale.counters(), expected);
    // A decision of another server is true here, too, and counts for nothing.
    shop.sale.replay(&Change::Adjust { delta: 5, id: IdText::NONE }).unwrap();
    shop.sale.replay(&Change::Cancel { id: IdText::from(&b"c"[..]) }).unwrap();
    assert_eq!(*shop.sale.counters(), expected);
}
