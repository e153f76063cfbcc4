//! Sales: each order by itself, and the books at the end.

use std::collections::BTreeMap;

use super::super::{Books, Event};
use super::*;

pub(super) const TAKE: SaleCall = SaleCall::Take { units: 2, hold: None };
const HOLD: SaleCall = SaleCall::Take { units: 2, hold: Some(millis(100)) };

fn order(span: (Time, Time), call: SaleCall, outcome: Outcome<SaleAnswer>) -> SaleOp {
    op(1, span, AboutOrder { sale: "sale".into(), id: "id".into(), call, replicated: false }, outcome)
}

pub(super) fn told(span: (Time, Time), call: SaleCall, status: &str, units: i64, deadline: i64) -> SaleOp {
    at("sale", "id", span, call, status, units, deadline)
}

pub(super) fn at(
    sale: &str,
    id: &str,
    span: (Time, Time),
    call: SaleCall,
    status: &str,
    units: i64,
    deadline: i64,
) -> SaleOp {
    let answer = SaleAnswer::Status { status: status.into(), units, remaining: 5, deadline };
    let about = AboutOrder { sale: sale.into(), id: id.into(), call, replicated: false };
    op(1, span, about, Outcome::Done(answer))
}

fn seen(span: (Time, Time), state: &str, units: i64) -> SaleOp {
    let seen = (units > 0).then(|| Seen { state: state.into(), units, deadline: -1 });
    order(span, SaleCall::See, Outcome::Done(SaleAnswer::Order(seen)))
}

fn orders(ops: Vec<SaleOp>) -> History {
    History { orders: ops, began_unix_ms: UNIX, ..History::default() }
}

#[test]
fn an_order_that_is_forgotten_is_seen() {
    let mut history = orders(vec![told((0, 1), TAKE, "OK", 2, -1), seen((100, 101), "", 0)]);
    assert_eq!(broken(&history), ["orders"]);
    history.faults.losses = vec![loss(2, 50, 60)];
    assert_eq!(broken(&history), ["orders"], "it was older than what may be lost");
    history.faults.losses = vec![loss(1, 50, 60)];
    let verdict = judge(&history, &[]);
    assert_eq!((verdict.violations, verdict.orders_lost), (vec![], 1));
    history.faults.losses[0].spares_replicated = true;
    history.orders[0].call.replicated = true;
    assert_eq!(broken(&history), ["orders"], "WAIT said that a replica has it");
    history.faults.losses = vec![Loss { server: SERVER + 1, ..loss(1, 50, 60) }];
    assert_eq!(broken(&history), ["orders"], "another server was struck");
}

#[test]
fn what_comes_back_is_what_was_and_nothing_else() {
    // Sold, confirmed to be, lost: never sold. But never cancelled.
    let history = |state, units| {
        let mut history = orders(vec![
            told((0, 1), HOLD, "OK", 2, UNIX + 100),
            told((10, 11), SaleCall::Confirm, "OK", 2, -1),
            seen((100, 101), state, units),
        ]);
        history.faults.losses = vec![loss(5, 50, 60)];
        history
    };
    assert_eq!(broken(&history("sold", 2)), [""; 0]);
    // The hold was older; its confirmation was lost, and it lapsed.
    assert_eq!(broken(&history("expired", 2)), [""; 0]);
    assert_eq!(broken(&history("cancelled", 2)), ["orders"]);
    assert_eq!(broken(&history("", 0)), ["orders"]);
}

#[test]
fn an_id_that_buys_twice_is_seen() {
    let again = |status| orders(vec![told((0, 1), TAKE, "OK", 2, -1), told((10, 11), TAKE, status, 2, -1)]);
    assert_eq!(broken(&again("DUPLICATE")), [""; 0]);
    assert_eq!(broken(&again("OK")), ["orders"]);
    // Two at the same time: one of them was first.
    let both = |second| orders(vec![told((0, 9), TAKE, second, 2, -1), told((1, 8), TAKE, "OK", 2, -1)]);
    assert_eq!(broken(&both("DUPLICATE")), [""; 0]);
    assert_eq!(broken(&both("OK")), ["orders"]);
    // The first request had no reply; the second one tells its outcome.
    let lost = |status| {
        let unknown = order((0, 1), TAKE, Outcome::Unknown(Nothing::Closed));
        let again = told((10, 11), TAKE, status, 2, -1);
        let mut history = orders(vec![unknown, again, told((20, 21), TAKE, "DUPLICATE", 2, -1)]);
        history.faults.all = vec![fault("CLIENT KILL", (0, 1), None)];
        history
    };
    assert_eq!(broken(&lost("DUPLICATE")), [""; 0]);
    assert_eq!(broken(&lost("OK")), [""; 0]);
    assert_eq!(broken(&lost("CANCELLED")), ["orders"]);
}

#[test]
fn a_hold_lapses_at_its_deadline_and_not_otherwise() {
    let ends = |at: Time, status, units| {
        let hold = told((0, 1), HOLD, "OK", 2, UNIX + 100);
        orders(vec![hold, told((at, at + 1), SaleCall::Cancel, status, units, -1)])
    };
    assert_eq!(broken(&ends(50, "OK", 0)), [""; 0]);
    assert_eq!(broken(&ends(50, "EXPIRED", 0)), ["orders"]);
    assert_eq!(broken(&ends(200, "EXPIRED", 0)), [""; 0]);
    assert_eq!(broken(&ends(200, "OK", 0)), ["orders"]);
    assert_eq!(broken(&orders(vec![told((0, 1), HOLD, "OK", 2, UNIX + 150)])), ["orders"], "a deadline of its own");
}

#[test]
fn a_payment_that_was_too_late_and_is_in_time_afterwards_is_seen() {
    let confirmed = |at: Time, status, units, remaining| {
        let answer = SaleAnswer::Status { status: String::from(status), units, remaining, deadline: -1 };
        order((at, at + 1), SaleCall::Confirm, Outcome::Done(answer))
    };
    let twice = |first, second| orders(vec![told((0, 1), HOLD, "OK", 2, UNIX + 100), first, second]);
    let refused = || confirmed(200, "EXPIRED", 0, 1);
    assert_eq!(broken(&twice(refused(), confirmed(300, "EXPIRED", 0, 5))), [""; 0], "also when the units are back");
    assert_eq!(broken(&twice(refused(), confirmed(300, "OK", 2, 3))), ["orders"]);
    let there = confirmed(200, "EXPIRED", 0, 2);
    assert_eq!(broken(&twice(there, confirmed(300, "EXPIRED", 0, 5))), ["orders"], "they were there");
    // After a lost reply to the first confirmation, the second reply may be any.
    let unknown = || {
        let mut history = twice(order((200, 201), SaleCall::Confirm, Outcome::Unknown(Nothing::Closed)), refused());
        history.faults.all = vec![fault("CLIENT KILL", (200, 201), None)];
        history
    };
    assert_eq!(broken(&unknown()), [""; 0]);
    // A refusal is lost with what else is lost.
    let mut lost = twice(refused(), confirmed(300, "OK", 2, 3));
    lost.faults.losses = vec![loss(150, 250, 260)];
    assert_eq!(broken(&lost), [""; 0]);
}

#[test]
fn the_story_ends_with_the_answer_that_cannot_be() {
    let history = orders(vec![
        told((0, 1), TAKE, "OK", 2, -1),
        told((2, 3), SaleCall::Confirm, "CANCELLED", 0, -1),
        seen((4, 5), "sold", 2),
    ]);
    let verdict = judge(&history, &[]);
    assert_eq!(verdict.violations[0].story.len(), 2);
}

/// A sale of five units with one order of two.
fn books() -> Books {
    let event = |seq, kind: &str, units| Event { seq, kind: kind.into(), id: "id".into(), units, deadline: Some(-1) };
    let info = [("total", 5), ("remaining", 3), ("held", 0), ("sold", 2), ("seq", 2)];
    Books {
        sale: "sale".into(),
        total: 5,
        info: info.map(|(name, value)| (name.into(), value)).into(),
        orders: BTreeMap::from([("id".into(), Seen { state: "sold".into(), units: 2, deadline: -1 })]),
        read: (millis(500), millis(501)),
        events: vec![event(1, "ok", 2), event(2, "confirm", 2)],
    }
}

#[test]
fn an_order_that_is_not_in_the_books_is_seen() {
    let rules = |books: &Books| {
        let history = orders(vec![told((0, 1), TAKE, "OK", 2, -1)]);
        judge(&history, std::slice::from_ref(books))
            .violations
            .into_iter()
            .map(|violation| violation.rule)
            .collect::<Vec<_>>()
    };
    let mut books = books();
    assert_eq!(rules(&books), [""; 0]);
    books.orders = BTreeMap::new();
    assert!(rules(&books).contains(&"orders"));
}

#[test]
fn a_hole_in_what_is_left_is_seen() {
    let buy = |id: &str, at| {
        let mut op = told((at, at + 1), TAKE, "OK", 2, -1);
        op.call.id = id.into();
        op
    };
    let rules = |first: &str, second: &str| {
        let mut history = orders(vec![buy(first, 10), buy(second, 20)]);
        history.faults.losses = vec![loss(1, 50, 60)];
        judge(&history, &[books()]).violations.into_iter().map(|violation| violation.rule).collect::<Vec<_>>()
    };
    // Only the order `id` is in the books.
    assert_eq!(rules("id", "gone"), [""; 0]);
    assert_eq!(rules("gone", "id"), ["no holes"]);
}

#[test]
fn books_that_do_not_agree_are_seen() {
    let broken = |change: fn(&mut Books)| {
        let mut books = books();
        change(&mut books);
        let violations = judge(&History::default(), &[books]).violations;
        violations.into_iter().map(|violation| violation.rule).collect::<Vec<_>>()
    };
    assert_eq!(broken(|_| ()), [""; 0]);
    assert_eq!(broken(|books| books.total = 6), ["conservation"]);
    assert!(broken(|books| books.orders.clear()).contains(&"conservation"));
    assert_eq!(broken(|books| drop(books.events.pop())), ["stream"]);
    assert_eq!(broken(|books| books.events[1].seq = 3), ["stream"]);
    assert_eq!(broken(|books| books.events[1].kind = "cancel".into()), ["stream"]);
    assert_eq!(broken(|books| books.events[1].id = "other".into()), ["stream"]);
    assert_eq!(broken(|books| books.events[1].deadline = Some(7)), ["stream"]);
    assert_eq!(broken(|books| books.events[1].kind = "extend".into()), ["stream"]);
    assert_eq!(broken(|books| books.info.extend([("remaining".into(), 4)])), ["conservation"]);
    assert_eq!(broken(|books| books.info.extend([("seq".into(), 3)])), ["stream"]);
}

#[test]
fn a_deadline_that_the_stream_does_not_tell_is_seen() {
    // The hold of two units ends at 7.
    let extended = |units, deadline| {
        let mut books = books();
        books.orders = BTreeMap::from([("id".into(), Seen { state: "held".into(), units: 2, deadline: 7 })]);
        books.info.extend([("held".into(), 2), ("sold".into(), 0)]);
        books.events[1] = Event { seq: 2, kind: "extend".into(), id: "id".into(), units, deadline };
        let violations = judge(&History::default(), &[books]).violations;
        violations.into_iter().map(|violation| violation.rule).collect::<Vec<_>>()
    };
    assert_eq!(extended(2, Some(7)), [""; 0]);
    assert_eq!(extended(2, Some(8)), ["stream"]);
    assert_eq!(extended(1, Some(7)), ["stream"]);
    assert_eq!(extended(2, None), ["stream"], "no such event where no deadlines are told");
}
