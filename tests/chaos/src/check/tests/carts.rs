//! Carts: the judge must see a part of one that is left over, and answers that contradict themselves.

use super::super::{Books, Event};
use super::*;
use crate::history::{AboutCart, CartAnswer, CartCall, CartOp, Five};

const TAKE: CartCall = CartCall::Take { units: vec![], hold: None };

/// What the sale of this name has of the order.
fn books(sale: &str, state: &str, events: &[&str]) -> Books {
    let units = if state == "sold" { 2 } else { 0 };
    let taken = if state == "sold" { [2, 0, 2] } else { [0, 0, 0] };
    let fields = [("total", 9), ("remaining", 9 - taken[0]), ("held", taken[1]), ("sold", taken[2])];
    let seq = i64::try_from(events.len()).expect("a few");
    let info = fields.into_iter().chain([("seq", seq)]).map(|(name, n)| (name.to_owned(), n)).collect();
    let event = |(kind, seq): (&&str, i64)| {
        let (id, kind) = ("id".to_owned(), (*kind).to_owned());
        Event { seq, kind, id, units: 2, deadline: None }
    };
    let seen = (!state.is_empty()).then(|| ("id".to_owned(), Seen { state: state.into(), units, deadline: -1 }));
    Books {
        sale: sale.into(),
        total: 9,
        info,
        orders: seen.into_iter().collect(),
        events: events.iter().zip(1..).map(event).collect(),
        read: (millis(900), millis(901)),
    }
}

fn cart(call: CartCall, status: &str, fives: &[&str]) -> CartOp {
    let five = |status: &&str| Five { status: (*status).into(), units: 2, remaining: 5, deadline: -1 };
    let answer = CartAnswer { status: status.into(), fives: fives.iter().map(five).collect() };
    let sales = ["a", "b"].map(ToOwned::to_owned).into();
    op(1, (0, 1), AboutCart { sales, id: "id".into(), call }, Outcome::Done(answer))
}

#[track_caller]
fn breaks(ops: Vec<CartOp>, books: &[Books]) -> bool {
    let history = History { carts: ops, began_unix_ms: UNIX, ..History::default() };
    judge(&history, books).violations.iter().any(|violation| violation.rule == "carts")
}

#[test]
fn a_cart_that_is_in_one_sale_and_not_in_another_is_seen() {
    let taken = || vec![cart(TAKE, "OK", &["OK", "OK"])];
    assert!(!breaks(taken(), &[books("a", "sold", &["ok"]), books("b", "sold", &["ok"])]));
    assert!(!breaks(taken(), &[books("a", "", &[]), books("b", "", &[])]), "whether it is lost others judge");
    assert!(breaks(taken(), &[books("a", "sold", &["ok"]), books("b", "", &[])]));
    assert!(breaks(taken(), &[books("a", "sold", &["ok"]), books("b", "cancelled", &["ok", "cancel"])]));
    assert!(breaks(taken(), &[books("a", "sold", &["ok"]), books("b", "sold", &["ok", "confirm"])]));
}

#[test]
fn an_answer_that_contradicts_itself_is_seen() {
    for (call, status, fives) in [
        (TAKE, "OK", ["OK", "DUPLICATE"]),
        (TAKE, "DUPLICATE", ["DUPLICATE", "DUPLICATE"]),
        (TAKE, "SOLDOUT", ["SKIPPED", "SOLDOUT"]),
        (CartCall::Confirm, "EXPIRED", ["DUPLICATE", "EXPIRED"]),
        (CartCall::Cancel, "OK", ["NOORDER", "OK"]),
        (CartCall::Cancel, "NOORDER", ["NOORDER", "DUPLICATE"]),
    ] {
        assert!(!breaks(vec![cart(call, status, &fives)], &[]), "{status} {fives:?}");
    }
    for (call, status, fives) in [
        (TAKE, "OK", ["OK", "SKIPPED"]),
        (TAKE, "OK", ["DUPLICATE", "DUPLICATE"]),
        (TAKE, "DUPLICATE", ["OK", "DUPLICATE"]),
        (TAKE, "SOLDOUT", ["OK", "SOLDOUT"]),
        (TAKE, "SOLDOUT", ["INSUFFICIENT", "SOLDOUT"]),
        (CartCall::Cancel, "NOORDER", ["NOORDER", "OK"]),
    ] {
        assert!(breaks(vec![cart(call, status, &fives)], &[]), "{status} {fives:?}");
    }
}

#[test]
fn a_cart_is_judged_in_each_sale_as_an_order() {
    let take = CartCall::Take { units: vec![2, 2], hold: None };
    let apart = cart(take, "OK", &["OK", "SKIPPED"]).apart();
    assert_eq!((apart.len(), apart[0].call.sale.as_str()), (1, "a"), "who skipped was not asked");
}
