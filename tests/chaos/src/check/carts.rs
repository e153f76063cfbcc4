//! Carts: of each id, every sale of its cart has the same story, and answers tell of all or nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::{Books, Verdict};
use crate::history::{CartAnswer, CartCall, CartOp, History};

/// Judges all carts.
pub fn check(history: &History, books: &[Books], verdict: &mut Verdict) {
    for op in &history.carts {
        if let Some(what) = op.answer().and_then(|answer| contradiction(&op.call.call, answer)) {
            verdict.blame("carts", what, vec![format!("{op:?}")]);
        }
    }
    let books: BTreeMap<&str, &Books> = books.iter().map(|books| (books.sale.as_str(), books)).collect();
    let stories: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> =
        books.iter().map(|(sale, books)| (*sale, stories(books))).collect();
    let mut carts: BTreeMap<&str, Vec<&CartOp>> = BTreeMap::new();
    for op in &history.carts {
        carts.entry(&op.call.id).or_default().push(op);
    }
    for (id, ops) in carts {
        let sales: Vec<&str> =
            ops[0].call.sales.iter().map(String::as_str).filter(|sale| books.contains_key(sale)).collect();
        // The fate of the order in each sale: its state in the books, and its events.
        let in_sale = |sale: &&str| {
            let state = books[sale].orders.get(id).map(|order| order.state.as_str());
            let told = stories.get(sale).and_then(|stories| stories.get(id)).cloned().unwrap_or_default();
            (state, told)
        };
        let kinds: BTreeSet<_> = sales.iter().map(in_sale).collect();
        if kinds.len() > 1 {
            let story = ops.iter().map(|op| format!("{op:?}")).collect();
            let sales: Vec<_> = sales.iter().map(|sale| (*sale, in_sale(sale))).collect();
            verdict.blame("carts", format!("{id} is another in one sale than in another: {sales:?}"), story);
        }
    }
}

/// The events of each order, in order.
fn stories(books: &Books) -> BTreeMap<&str, Vec<&str>> {
    let mut stories: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for event in &books.events {
        stories.entry(&event.id).or_default().push(&event.kind);
    }
    stories
}

/// What in an answer cannot be.
fn contradiction(call: &CartCall, answer: &CartAnswer) -> Option<String> {
    let statuses: Vec<&str> = answer.fives.iter().map(|five| five.status.as_str()).collect();
    let all = |allowed: &[&str]| statuses.iter().all(|status| allowed.contains(status));
    let fits = match (call, answer.status.as_str()) {
        (CartCall::Cancel, "OK") => statuses.contains(&"OK"),
        (CartCall::Cancel, status) => !statuses.contains(&"OK") && statuses.first() == Some(&status),
        (_, "OK") => statuses.contains(&"OK") && all(&["OK", "DUPLICATE"]),
        (_, "DUPLICATE") => all(&["DUPLICATE"]),
        (_, status) => {
            let refusal = statuses.iter().find(|status| !["SKIPPED", "DUPLICATE"].contains(status));
            !statuses.contains(&"OK") && refusal == Some(&status)
        }
    };
    (!fits).then(|| format!("an answer that contradicts itself: {} and {statuses:?}", answer.status))
}
