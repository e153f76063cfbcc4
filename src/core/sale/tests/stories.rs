//! The lines of the contract, one story each.
#![expect(clippy::arithmetic_side_effects)]

use crate::core::sale::view::{PAGE_EFFORT, PAGE_ROWS};
use crate::core::sale::{
    AdjustError, Alteration, Answer, Change, Counters, Decision, Event, EventKind, MAX_UNITS, Misfit, Name, Sale,
    State, Status, Take, Taking, Terms,
};
use crate::core::time::UnixMs;

/// A sale with a clock and a server around it that does what servers do: decide, commit, answer.
struct Shop {
    sale: Sale,
    now: i64,
}

type Row = (Status, u64, u64, i64, String);

fn shop(total: u64) -> Shop {
    with(Terms { total, ..Terms::default() })
}

fn with(terms: Terms) -> Shop {
    Shop { sale: Sale::new(terms), now: 1_000 }
}

impl Shop {
    fn now(&self) -> UnixMs {
        UnixMs(self.now)
    }

    fn does(&mut self, decision: Decision<'_>) -> Row {
        for change in decision.changes.iter() {
            self.sale.commit(change).unwrap();
        }
        self.sale.note(decision.answer.status);
        row(&decision.answer)
    }

    fn take(&mut self, id: &str, units: u64) -> Row {
        self.order(id, units, None, 0, "")
    }

    fn hold(&mut self, id: &str, units: u64, span: i64) -> Row {
        self.order(id, units, None, span, "")
    }

    fn buy(&mut self, id: &str, units: u64, buyer: &str) -> Row {
        self.order(id, units, Some(buyer), 0, "")
    }

    fn order(&mut self, id: &str, units: u64, buyer: Option<&str>, hold: i64, reference: &str) -> Row {
        let deadline = (hold > 0).then_some(UnixMs(self.now + hold));
        let buyer = buyer.map(str::as_bytes);
        let take = Take { id: id.as_bytes(), units, buyer, deadline, reference: reference.as_bytes() };
        let decision = self.sale.take(self.now(), &take);
        self.does(decision)
    }

    fn confirm(&mut self, id: &str) -> Row {
        let decision = self.sale.confirm(self.now(), id.as_bytes());
        self.does(decision)
    }

    fn cancel(&mut self, id: &str) -> Row {
        let decision = self.sale.cancel(self.now(), id.as_bytes());
        self.does(decision)
    }

    fn extend(&mut self, id: &str, span: i64) -> Row {
        let decision = self.sale.extend(self.now(), id.as_bytes(), UnixMs(self.now + span));
        self.does(decision)
    }

    fn adjust(&mut self, delta: i64) -> Result<u64, AdjustError> {
        let (after, changes) = self.sale.adjust(self.now(), delta)?;
        for change in changes.iter() {
            self.sale.commit(change).unwrap();
        }
        Ok(after)
    }

    fn alter(&mut self, alteration: Alteration) {
        let change = self.sale.alter(&alteration).unwrap();
        self.sale.commit(&change).unwrap();
    }

    fn state(&self, id: &str) -> (State, u64) {
        let order = self.sale.order(self.now(), id.as_bytes()).unwrap();
        (order.state, order.units)
    }

    fn bought(&self, buyer: &str) -> u64 {
        self.sale.buyer(self.now(), buyer.as_bytes())
    }

    fn ids(&self, state: Option<State>) -> Vec<String> {
        let page = self.sale.page(self.now(), 0, 100, state);
        assert_eq!(page.next, 0);
        page.rows.iter().map(|row| String::from_utf8(row.id.to_vec()).unwrap()).collect()
    }
}

fn row(answer: &Answer<'_>) -> Row {
    let reference = String::from_utf8(answer.reference.to_vec()).unwrap();
    (answer.status, answer.units, answer.remaining, answer.deadline.map_or(-1, |deadline| deadline.0), reference)
}

fn says(status: Status, units: u64, remaining: u64, deadline: i64) -> Row {
    (status, units, remaining, deadline, String::new())
}

fn names(status: Status, units: u64, remaining: u64, deadline: i64, reference: &str) -> Row {
    (status, units, remaining, deadline, reference.to_owned())
}

#[test]
fn once_means_once() {
    let mut shop = shop(3);
    assert_eq!(shop.order("ann", 1, None, 0, "o-1"), names(Status::Ok, 1, 2, -1, "o-1"));
    assert_eq!(shop.order("ann", 2, None, 0, "o-2"), names(Status::Duplicate, 1, 2, -1, "o-1"), "the earlier stands");
    assert_eq!(shop.sale.seq(), 1);
}

#[test]
fn a_winner_who_retries_after_the_end_hears_duplicate() {
    let mut shop = with(Terms { total: 1, limit: 1, end: Some(UnixMs(2_000)), ..Terms::default() });
    assert_eq!(shop.take("ann", 1), says(Status::Ok, 1, 0, -1));
    assert_eq!(shop.take("ann", 1), says(Status::Duplicate, 1, 0, -1));
    assert_eq!(shop.take("bob", 1), says(Status::SoldOut, 0, 0, -1));
    shop.now = 2_000;
    assert_eq!(shop.take("ann", 1), says(Status::Duplicate, 1, 0, -1));
    assert_eq!(shop.take("bob", 1), says(Status::Ended, 0, 0, -1));
    assert_eq!(shop.buy("o2", 1, "ann"), says(Status::Limit, 0, 0, -1), "the limit is looked at before the window");
}

#[test]
fn too_little_is_not_nothing() {
    let mut shop = shop(3);
    assert_eq!(shop.take("ann", 4), says(Status::Insufficient, 0, 3, -1));
    assert_eq!(shop.take("ann", 3), says(Status::Ok, 3, 0, -1), "a refusal is not remembered");
    assert_eq!(shop.take("bob", 4), says(Status::SoldOut, 0, 0, -1));
}

#[test]
fn the_window_says_when_it_opens() {
    let mut shop = with(Terms { total: 3, start: Some(UnixMs(5_000)), ..Terms::default() });
    assert_eq!(shop.take("ann", 1), says(Status::NotStarted, 0, 3, 5_000));
    shop.now = 5_000;
    assert_eq!(shop.take("ann", 1), says(Status::Ok, 1, 2, -1));
}

#[test]
fn a_buyers_limit_spans_orders_and_its_own_id() {
    let mut shop = with(Terms { total: 100, limit: 4, ..Terms::default() });
    assert_eq!(shop.buy("o1", 2, "ann").0, Status::Ok);
    assert_eq!(shop.buy("o2", 3, "ann"), says(Status::Limit, 0, 98, -1));
    assert_eq!(shop.take("ann", 2).0, Status::Ok, "the id ann is the buyer ann");
    assert_eq!(shop.bought("ann"), 4);
    assert_eq!(shop.buy("o3", 1, "ann").0, Status::Limit);
    assert_eq!(shop.buy("o4", 5, "bob").0, Status::Limit, "more than anybody may have");
    assert_eq!(shop.cancel("o1").0, Status::Ok);
    assert_eq!(shop.buy("o3", 2, "ann").0, Status::Ok);
    assert_eq!(shop.sale.info(shop.now()).buyers, 1);
}

#[test]
fn a_hold_returns_on_the_millisecond() {
    let mut shop = shop(2);
    assert_eq!(shop.order("ann", 2, None, 500, "cart"), names(Status::Ok, 2, 0, 1_500, "cart"));
    assert_eq!(shop.take("ann", 1), names(Status::Duplicate, 2, 0, 1_500, "cart"));
    assert_eq!(shop.sale.next_deadline(), Some(UnixMs(1_500)));
    shop.now = 1_499;
    assert_eq!(shop.take("bob", 1), says(Status::SoldOut, 0, 0, -1));
    assert_eq!((shop.state("ann"), shop.bought("ann")), ((State::Held, 2), 2));
    shop.now = 1_500;
    let info = shop.sale.info(shop.now());
    assert_eq!((info.remaining, info.held, info.sold, info.buyers, info.orders), (2, 0, 0, 0, 1));
    assert_eq!((shop.state("ann"), shop.bought("ann")), ((State::Expired, 0), 0));
    assert_eq!(shop.ids(Some(State::Held)), Vec::<String>::new());
    assert_eq!(shop.take("ann", 1), names(Status::Expired, 0, 2, -1, "cart"), "it does not sell to it again");
    assert_eq!(shop.sale.seq(), 1, "and nothing was committed for all of that");
    assert_eq!(shop.take("bob", 1), says(Status::Ok, 1, 1, -1));
    assert_eq!(shop.sale.seq(), 3, "the lapse came first");
    assert_eq!(shop.sale.next_deadline(), None);
}

#[test]
fn only_the_lapses_that_are_needed_come_first_and_the_earliest_of_them() {
    let mut shop = shop(3);
    for (id, span) in [("a", 30), ("b", 10), ("c", 20)] {
        shop.hold(id, 1, span);
    }
    shop.now += 100;
    let take = Take { id: b"d", units: 2, buyer: None, deadline: None, reference: b"" };
    let decision = shop.sale.take(shop.now(), &take);
    let ids: Vec<_> = decision.changes.lapses.iter().map(|lapse| format!("{lapse:?}")).collect();
    assert_eq!(ids, ["Lapse { id: \"b\" }", "Lapse { id: \"c\" }"]);
    assert_eq!(shop.does(decision), says(Status::Ok, 2, 1, -1));
    assert_eq!(shop.sale.lapses(shop.now(), 10).len(), 1);
    assert_eq!(shop.adjust(-1), Ok(0), "withdrawing needs the third");
    assert_eq!(shop.sale.lapses(shop.now(), 10).len(), 0);
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
        let lapses = shop.sale.lapses(shop.now(), 2);
        if lapses.is_empty() {
            break;
        }
        for lapse in lapses {
            assert_eq!(shop.sale.event(&lapse).unwrap().kind, EventKind::Expire);
            order.push(format!("{lapse:?}"));
            shop.sale.commit(&lapse).unwrap();
        }
    }
    assert_eq!(order, ["Lapse { id: \"b\" }", "Lapse { id: \"c\" }", "Lapse { id: \"a\" }"]);
    assert_eq!(shop.sale.next_deadline(), Some(UnixMs(1_500)));
}

#[test]
fn confirming_makes_a_sale_of_a_hold() {
    let mut shop = shop(2);
    shop.order("ann", 2, None, 500, "cart");
    assert_eq!(shop.confirm("ann"), names(Status::Ok, 2, 0, -1, "cart"));
    assert_eq!(shop.confirm("ann"), names(Status::Duplicate, 2, 0, -1, "cart"));
    assert_eq!(shop.confirm("bob"), says(Status::NoOrder, 0, 0, -1));
    shop.now += 10_000;
    assert_eq!(shop.state("ann"), (State::Sold, 2), "what is sold does not lapse");
    assert_eq!(shop.cancel("ann"), names(Status::Ok, 0, 2, -1, "cart"));
    assert_eq!(shop.confirm("ann"), names(Status::Cancelled, 0, 2, -1, "cart"));
}

#[test]
fn a_late_payment_takes_the_units_again_if_they_are_there() {
    let mut shop = shop(2);
    shop.hold("ann", 2, 500);
    shop.now += 500;
    assert_eq!(shop.confirm("ann"), says(Status::Ok, 2, 0, -1));
    assert_eq!(shop.sale.seq(), 3, "taken, lapsed, confirmed");
    assert_eq!(shop.confirm("ann"), says(Status::Duplicate, 2, 0, -1));
}

#[test]
fn a_late_payment_for_units_that_are_gone_is_expired() {
    let mut shop = shop(2);
    shop.hold("ann", 2, 500);
    shop.now += 500;
    shop.take("bob", 1);
    assert_eq!(shop.confirm("ann"), says(Status::Expired, 0, 1, -1));
    assert_eq!(shop.adjust(1), Ok(2));
    assert_eq!(shop.confirm("ann"), says(Status::Ok, 2, 0, -1), "until they are back");
}

#[test]
fn a_late_payment_does_not_pass_the_buyers_limit() {
    let mut shop = with(Terms { total: 10, limit: 2, ..Terms::default() });
    shop.order("o1", 2, Some("ann"), 500, "r1");
    shop.now += 500;
    assert_eq!(shop.buy("o2", 1, "ann").0, Status::Ok, "what has lapsed does not count");
    assert_eq!(shop.confirm("o1"), names(Status::Limit, 0, 9, -1, "r1"));
    assert_eq!(shop.cancel("o2").0, Status::Ok);
    assert_eq!(shop.confirm("o1"), names(Status::Ok, 2, 8, -1, "r1"));
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
fn with_rebuy_lapsed_and_cancelled_ids_buy_again() {
    let mut shop = with(Terms { total: 5, limit: 3, rebuy: true, ..Terms::default() });
    shop.order("ann", 2, Some("family"), 500, "first");
    shop.now += 500;
    assert_eq!(shop.order("ann", 3, Some("friends"), 500, "second"), names(Status::Ok, 3, 2, 2_000, "second"));
    assert_eq!((shop.bought("family"), shop.bought("friends")), (0, 3));
    assert_eq!(shop.cancel("ann").0, Status::Ok);
    assert_eq!(shop.order("ann", 4, None, 0, ""), names(Status::Limit, 0, 5, -1, "second"), "its stored reference");
    assert_eq!(shop.take("ann", 1), says(Status::Ok, 1, 4, -1));
    assert_eq!((shop.bought("friends"), shop.bought("ann")), (0, 1));
    assert_eq!(shop.take("ann", 1), says(Status::Duplicate, 1, 4, -1));
    let info = shop.sale.info(shop.now());
    assert_eq!((info.orders, info.buyers), (1, 1), "one order, however often it was used");
}

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
    assert_eq!(shop.sale.alter(&Alteration { limit: Some(2), ..Alteration::default() }), None, "nothing new");
    assert_eq!(shop.sale.seq(), 1, "no event");
}

#[test]
fn every_change_of_an_order_is_an_event_with_its_fields() {
    let mut shop = shop(9);
    shop.order("o1", 2, Some("ann"), 500, "cart");
    let event = |kind, id: &'static str, units, buyer: &'static str, reference: &'static str| {
        let name = |text: &'static str| Name::from(text.as_bytes());
        Some(Event { kind, id: name(id), units, buyer: name(buyer), reference: name(reference) })
    };
    let id = Name::from(&b"o1"[..]);
    let confirm = Change::Confirm { id: id.clone() };
    assert_eq!(shop.sale.event(&confirm), event(EventKind::Confirm, "o1", 2, "ann", "cart"));
    let cancel = Change::Cancel { id: id.clone() };
    assert_eq!(shop.sale.event(&cancel), event(EventKind::Cancel, "o1", 2, "ann", "cart"));
    let lapse = Change::Lapse { id: id.clone() };
    assert_eq!(shop.sale.event(&lapse), event(EventKind::Expire, "o1", 2, "ann", "cart"));
    assert_eq!(shop.sale.event(&Change::Adjust { delta: -3 }), event(EventKind::Adjust, "", -3, "", ""));
    assert_eq!(shop.sale.event(&Change::Extend { id, deadline: UnixMs(5) }), None);
    let take = Change::Take(Taking {
        id: Name::from(&b"o2"[..]),
        units: 3,
        buyer: None,
        deadline: None,
        reference: Name::NONE,
    });
    assert_eq!(shop.sale.event(&take), event(EventKind::Ok, "o2", 3, "o2", ""), "it is its own buyer");
}

#[test]
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
    for lapse in shop.sale.lapses(shop.now(), 9) {
        shop.sale.commit(&lapse).unwrap();
    }
    shop.cancel("a");
    shop.take("c", 2);
    shop.take("d", 2);
    shop.take("e", 1);
    let expected = Counters { ok: 4, duplicate: 2, soldout: 1, limited: 1, expired: 1, cancelled: 1, confirmed: 1 };
    assert_eq!(shop.sale.info(shop.now()).counters, expected);
    shop.sale.reset_counters();
    assert_eq!(shop.sale.info(shop.now()).counters, Counters::default());
}

#[test]
fn a_missing_sale_is_never_an_empty_one() {
    assert_eq!(row(&Answer::NO_STOCK), says(Status::NoStock, 0, 0, -1));
    let words = Status::ALL.map(Status::word).join(" ");
    let contract = "OK DUPLICATE SOLDOUT INSUFFICIENT LIMIT NOTSTARTED ENDED EXPIRED CANCELLED NOORDER NOSTOCK";
    assert_eq!(words, contract);
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let mut shop = shop(5);
    shop.hold("held", 2, 500);
    shop.take("sold", 1);
    shop.take("gone", 1);
    shop.cancel("gone");
    let id = |id: &'static str| Name::from(id.as_bytes());
    let taking =
        |name: &'static str, units| Taking { id: id(name), units, buyer: None, deadline: None, reference: Name::NONE };
    let long = vec![b'x'; 513];
    let before = shop.sale.blocks().next();
    for (change, misfit) in [
        (Change::Take(taking("held", 1)), Misfit::State),
        (Change::Take(taking("sold", 1)), Misfit::State),
        (Change::Take(taking("new", 3)), Misfit::Units),
        (Change::Take(taking("gone", 3)), Misfit::Units),
        (Change::Take(taking("new", 0)), Misfit::Range),
        (Change::Take(taking("new", MAX_UNITS + 1)), Misfit::Range),
        (Change::Take(taking("", 1)), Misfit::Range),
        (Change::Take(Taking { buyer: Some(id("")), ..taking("new", 1) }), Misfit::Range),
        (Change::Take(Taking { reference: Name::from(&long[..]), ..taking("new", 1) }), Misfit::Range),
        (Change::Confirm { id: id("sold") }, Misfit::State),
        (Change::Confirm { id: id("gone") }, Misfit::State),
        (Change::Confirm { id: id("nobody") }, Misfit::State),
        (Change::Cancel { id: id("gone") }, Misfit::State),
        (Change::Lapse { id: id("sold") }, Misfit::State),
        (Change::Lapse { id: id("") }, Misfit::State),
        (Change::Extend { id: id("sold"), deadline: UnixMs(9) }, Misfit::State),
        (Change::Adjust { delta: -3 }, Misfit::Units),
        (Change::Adjust { delta: i64::MAX }, Misfit::Range),
        (Change::Alter { limit: MAX_UNITS + 1, start: None, end: None, rebuy: false }, Misfit::Range),
    ] {
        assert_eq!(shop.sale.commit(&change), Err(misfit), "{change:?}");
    }
    assert_eq!((shop.sale.seq(), shop.sale.blocks().next()), (4, before));
    let lapsed = Change::Lapse { id: id("held") };
    shop.sale.commit(&lapsed).unwrap();
    shop.sale.commit(&Change::Take(taking("new", 3))).unwrap();
    assert_eq!(shop.sale.commit(&Change::Confirm { id: id("held") }), Err(Misfit::Units), "its units are gone");
}
