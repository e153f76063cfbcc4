//! Waitlists: orders are served in line, and none is forgotten.

use std::collections::BTreeMap;

use super::super::{Books, Event};
use super::sales::at;
use super::*;
use crate::history::{AboutRestock, RestockOp};
use crate::work::LINE;

const JOIN: SaleCall = SaleCall::Join { units: 2, hold: Some(millis(100)) };

/// The books of a sale of two units with these events (kind, id, units), and these states of its orders.
fn books(events: &[(&str, &str, i64)], orders: &[(&str, &str)]) -> Books {
    let event = |(&(kind, id, units), seq): (&(&str, &str, i64), i64)| {
        let deadline = Some(if kind == "ok" { 7 } else { -1 });
        Event { seq, kind: kind.into(), id: id.into(), units, deadline }
    };
    let order = |(id, state): &(&str, &str)| {
        let (units, deadline) = if *state == "held" { (2, 7) } else { (0, -1) };
        (id.to_string(), Seen { state: state.to_string(), units, deadline })
    };
    let number = |count: usize| i64::try_from(count).expect("a few");
    let count = |wanted: &str| number(orders.iter().filter(|(_, state)| *state == wanted).count());
    let added: i64 = events.iter().filter(|(kind, ..)| *kind == "adjust").map(|(.., units)| units).sum();
    let (total, held) = (2 + added, 2 * count("held"));
    let info = [
        ("total", total),
        ("remaining", total - held),
        ("held", held),
        ("sold", 0),
        ("seq", number(events.len())),
        ("waiting", count("waiting")),
    ];
    Books {
        sale: LINE.into(),
        total: 2,
        info: info.map(|(name, value)| (name.into(), value)).into(),
        orders: orders.iter().map(order).collect::<BTreeMap<_, _>>(),
        read: (millis(500), millis(501)),
        events: events.iter().zip(1..).map(event).collect(),
    }
}

#[track_caller]
fn rules(history: &History, books: Books) -> Vec<&'static str> {
    let mut rules: Vec<_> = judge(history, &[books]).violations.into_iter().map(|violation| violation.rule).collect();
    rules.dedup();
    rules
}

#[track_caller]
fn told(events: &[(&str, &str, i64)], orders: &[(&str, &str)]) -> Vec<&'static str> {
    rules(&History::default(), books(events, orders))
}

const FULL: [(&str, &str, i64); 3] = [("ok", "a", 2), ("wait", "b", 2), ("wait", "c", 2)];

#[test]
fn whoever_waits_is_served_in_order() {
    let then = |more: &[(&str, &str, i64)], orders: &[(&str, &str)]| told(&[&FULL[..], more].concat(), orders);
    assert_eq!(then(&[], &[("a", "held"), ("b", "waiting"), ("c", "waiting")]), [""; 0]);
    let orders = [("a", "cancelled"), ("b", "held"), ("c", "waiting")];
    assert_eq!(then(&[("cancel", "a", 2), ("ok", "b", 2)], &orders), [""; 0]);
    let orders = [("a", "cancelled"), ("b", "waiting"), ("c", "held")];
    assert_eq!(then(&[("cancel", "a", 2), ("ok", "c", 2)], &orders), ["waitlist"], "c was behind b");
    let orders = [("a", "cancelled"), ("b", "waiting"), ("c", "waiting")];
    assert_eq!(then(&[("cancel", "a", 2)], &orders), ["waitlist"], "b is forgotten");
    let orders = [("a", "expired"), ("b", "waiting"), ("c", "cancelled")];
    assert_eq!(then(&[("expire", "a", 2), ("cancel", "c", 2)], &orders), ["waitlist"], "b is passed over");
    let orders = [("a", "cancelled"), ("b", "waiting"), ("c", "waiting"), ("d", "held")];
    assert_eq!(then(&[("cancel", "a", 2), ("ok", "d", 2)], &orders), ["waitlist"], "d never waited");
    let orders = [("a", "held"), ("b", "cancelled"), ("c", "waiting")];
    assert_eq!(then(&[("cancel", "b", 2)], &orders), [""; 0], "b has lost patience");
    assert_eq!(then(&[], &[("a", "held"), ("b", "cancelled"), ("c", "waiting")]), ["waitlist", "stream"]);
    let orders = [("a", "held"), ("b", "held"), ("c", "waiting")];
    assert_eq!(then(&[("adjust", "", 2), ("ok", "b", 2)], &orders)[0], "waitlist", "nobody has added anything");
}

#[test]
fn a_restock_that_happens_twice_or_not_at_all_is_seen() {
    let restocked = |outcome: Outcome<i64>, times: usize| {
        let about = AboutRestock { sale: LINE.into(), id: "r".into(), units: 1 };
        let restock: RestockOp = op(1, (0, 1), about, outcome);
        let history = History { restocks: vec![restock.clone(), restock], began_unix_ms: UNIX, ..History::default() };
        rules(&history, books(&vec![("adjust", "", 1); times], &[]))
    };
    assert_eq!(restocked(Outcome::Done(3), 1), [""; 0]);
    assert_eq!(restocked(Outcome::Done(4), 2), ["waitlist"]);
    assert_eq!(restocked(Outcome::Done(3), 0), ["waitlist"]);
    let unknown = || Outcome::Unknown(Nothing::Closed);
    assert_eq!((restocked(unknown(), 0), restocked(unknown(), 1)), (vec![], vec![]));
    assert_eq!(restocked(unknown(), 2), ["waitlist"]);
    assert_eq!(restocked(Outcome::Refused("READONLY".into()), 1), ["waitlist"]);
}

#[test]
fn an_order_that_overtakes_in_line_is_seen() {
    let joins = |id: &str, span| at(LINE, id, span, JOIN, "QUEUED", 0, -1);
    let line = |first: (Time, Time), second: (Time, Time)| {
        let orders = vec![joins("b", first), joins("c", second)];
        let history = History { orders, began_unix_ms: UNIX, ..History::default() };
        rules(&history, books(&FULL, &[("a", "held"), ("b", "waiting"), ("c", "waiting")]))
    };
    assert_eq!(line((0, 1), (2, 3)), [""; 0]);
    assert_eq!(line((0, 9), (2, 3)), [""; 0], "both asked at the same time");
    assert_eq!(line((4, 5), (2, 3)), ["waitlist"]);
}

#[test]
fn a_waiting_order_is_what_the_contract_says() {
    let story = |steps: &[(Time, SaleCall, &str, i64, i64)]| {
        let step = |(from, call, status, units, deadline): &(Time, SaleCall, &str, i64, i64)| {
            at(LINE, "id", (*from, *from + 1), *call, status, *units, *deadline)
        };
        let orders = steps.iter().map(step).collect();
        broken(&History { orders, began_unix_ms: UNIX, ..History::default() })
    };
    let (confirm, cancel) = (SaleCall::Confirm, SaleCall::Cancel);
    let queued = (0, JOIN, "QUEUED", 0, -1);
    assert_eq!(story(&[queued, (10, JOIN, "QUEUED", 0, -1), (20, confirm, "QUEUED", 0, -1)]), [""; 0]);
    assert_eq!(story(&[queued, (10, cancel, "OK", 0, -1), (20, JOIN, "CANCELLED", 0, -1)]), [""; 0]);
    assert_eq!(story(&[queued, (10, cancel, "OK", 0, -1), (20, JOIN, "QUEUED", 0, -1)]), ["orders"]);
    // Served at some time in between, and held from then on.
    assert_eq!(story(&[queued, (50, JOIN, "DUPLICATE", 2, UNIX + 130), (60, confirm, "OK", 2, -1)]), [""; 0]);
    assert_eq!(story(&[queued, (50, JOIN, "DUPLICATE", 2, UNIX + 60)]), ["orders"], "its hold began too early");
    assert_eq!(story(&[queued, (50, JOIN, "DUPLICATE", 2, UNIX + 300)]), ["orders"], "or it is yet to begin");
    assert_eq!(story(&[queued, (200, cancel, "EXPIRED", 0, -1)]), [""; 0], "served, and too late");
    assert_eq!(story(&[queued, (50, cancel, "EXPIRED", 0, -1)]), ["orders"], "it had 100 ms");
    assert_eq!(story(&[queued, (50, JOIN, "OK", 2, UNIX + 150)]), ["orders"], "it was asked for before");
    assert_eq!(story(&[(0, JOIN, "SOLDOUT", 0, -1)]), ["orders"]);
    let take = SaleCall::Take { units: 2, hold: None };
    assert_eq!(story(&[(0, take, "SOLDOUT", 0, -1)]), [""; 0], "what remains is for those in line");
    assert_eq!(story(&[(0, take, "QUEUED", 0, -1)]), ["orders"], "it did not ask for that");
}
