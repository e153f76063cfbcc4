//! Every rule must be able to fail: good books pass, and each way of cooking them is found out by the rule it breaks.

use std::collections::{BTreeMap, BTreeSet};

use super::{Findings, guarded, sale};
use crate::client::{Order, Sale};
use crate::wire::{Answer, Outcome};

/// A little sale of 5 units: anna takes 2 and clicks again, berta wants 3 and her reply is lost, carla and dora come late.
struct Story {
    total: u64,
    requests: u64,
    answers: Vec<(usize, Answer)>,
    sale: Sale,
    orders: BTreeMap<&'static str, Option<Order>>,
}

impl Story {
    fn true_one() -> Self {
        let answers = vec![
            (0, answer("anna", 2, Outcome::Ok, 2, 3)),
            (1, answer("carla", 4, Outcome::Insufficient, 0, 3)),
            (1, answer("berta", 3, Outcome::Lost, 0, 0)),
            (1, answer("berta", 3, Outcome::Duplicate, 3, 0)),
            (0, answer("anna", 2, Outcome::Duplicate, 2, 0)),
            (0, answer("dora", 1, Outcome::Soldout, 0, 0)),
        ];
        let sale = Sale { total: 5, remaining: 0, held: 0, sold: 5, orders: 2, buyers: 2, ok: 2 };
        let orders =
            [("anna", Some(order("anna", 2))), ("berta", Some(order("berta", 3))), ("carla", None), ("dora", None)];
        Self { total: 5, requests: 5, answers, sale, orders: orders.into() }
    }

    fn audit(&self) -> Findings {
        let Self { total, requests, answers, sale, orders } = self;
        let (total, requests) = (*total, *requests);
        sale::Books { total, requests, settle: false, left: 0, answers, sale, orders }.audit()
    }
}

fn answer(id: &str, asked: u64, outcome: Outcome, units: u64, remaining: u64) -> Answer {
    Answer { id: id.into(), asked, outcome, units, remaining, fence: None }
}

fn order(buyer: &str, units: u64) -> Order {
    Order { state: "sold".into(), units, buyer: buyer.into() }
}

#[track_caller]
fn breaks(findings: &Findings, rule: &str) {
    assert!(findings.broken().iter().any(|broken| broken.starts_with(rule)), "{rule}: {:?}", findings.broken());
}

/// Cooks the books, and expects `rule` to find out.
#[track_caller]
fn found_out(rule: &str, cook: impl FnOnce(&mut Story)) {
    let mut story = Story::true_one();
    cook(&mut story);
    breaks(&story.audit(), rule);
}

#[test]
fn true_books_pass() {
    let findings = Story::true_one().audit();
    assert!(findings.broken().is_empty(), "{:?}", findings.broken());
    assert!(findings.held() > 0);
}

#[test]
fn an_answer_that_never_came() {
    found_out("every request was answered", |story| drop(story.answers.pop()));
}

#[test]
fn an_answer_from_another_story() {
    found_out("only answers that fit", |story| story.answers[5].1.outcome = Outcome::Limit);
}

#[test]
fn a_unit_that_vanished() {
    found_out("total = remaining + held + sold", |story| story.sale.sold = 4);
}

#[test]
fn a_unit_on_hold() {
    found_out("nothing is on hold", |story| (story.sale.held, story.sale.sold) = (1, 4));
}

#[test]
fn a_unit_left_on_the_shelf() {
    found_out("every unit that somebody wanted was sold", |story| (story.sale.remaining, story.sale.sold) = (1, 4));
    found_out("nothing is left that somebody was refused", |story| story.sale.remaining = 1);
}

#[test]
fn somebody_who_heard_ok_twice() {
    found_out("no id heard OK twice", |story| story.answers[4].1.outcome = Outcome::Ok);
}

#[test]
fn a_promise_without_an_order() {
    found_out("every OK and DUPLICATE stands", |story| drop(story.orders.insert("anna", None)));
    found_out("every OK and DUPLICATE stands", |story| drop(story.orders.insert("anna", Some(order("anna", 1)))));
    found_out("every OK and DUPLICATE stands", |story| drop(story.orders.insert("anna", Some(order("otto", 2)))));
}

#[test]
fn an_order_nobody_was_told_of() {
    found_out("every order was told", |story| drop(story.orders.insert("dora", Some(order("dora", 1)))));
}

#[test]
fn somebody_who_got_more_than_asked() {
    found_out("nobody got more or fewer", |story| story.answers[0].1.asked = 1);
}

#[test]
fn totals_that_do_not_add_up() {
    found_out("the orders add up", |story| drop(story.orders.insert("berta", Some(order("berta", 2)))));
    found_out("STOCK.INFO counts every order once", |story| story.sale.orders = 3);
    found_out("STOCK.INFO counts every order once", |story| story.sale.ok = 3);
}

#[test]
fn one_unit_in_two_hands() {
    // Berta's reply was read after all, and says that she took the units 1 to 4: anna has the unit 3 already.
    found_out("no unit was sold twice", |story| story.answers[2].1 = answer("berta", 3, Outcome::Ok, 3, 1));
    found_out("no unit was sold that never was", |story| story.answers[0].1.remaining = 4);
    found_out("what the workers got", |story| {
        story.answers[2].1 = answer("berta", 3, Outcome::Ok, 3, 0);
        story.sale.sold = 4;
    });
}

#[test]
fn a_refusal_without_a_reason() {
    found_out("SOLDOUT means nothing", |story| story.answers[5].1.remaining = 1);
    found_out("SOLDOUT means nothing", |story| story.answers[1].1.remaining = 4);
}

#[test]
fn a_winner_who_is_told_that_all_is_gone() {
    found_out("nobody who has bought hears SOLDOUT", |story| {
        story.answers[4].1 = answer("anna", 2, Outcome::Soldout, 0, 0);
    });
}

/// Three units under a lock: the second in line fails, the others buy.
fn guarded_story() -> (Vec<(usize, Answer)>, BTreeSet<String>) {
    let fenced = |fence, answer| (0, Answer { fence: Some(fence), ..answer });
    let answers = vec![
        fenced(7, answer("anna", 1, Outcome::Ok, 1, 2)),
        fenced(8, answer("berta", 1, Outcome::Declined, 0, 2)),
        fenced(11, answer("dora", 1, Outcome::Ok, 1, 0)),
        fenced(9, answer("carla", 1, Outcome::Ok, 1, 1)),
        fenced(12, answer("emma", 1, Outcome::Soldout, 0, 0)),
    ];
    (answers, ["anna", "carla", "dora"].map(str::to_owned).into())
}

fn audit_guarded((answers, orders): &(Vec<(usize, Answer)>, BTreeSet<String>), stock: u64) -> Findings {
    guarded::Books { total: 3, requests: 5, answers, stock, orders }.audit()
}

#[test]
fn true_guarded_books_pass() {
    let findings = audit_guarded(&guarded_story(), 0);
    assert!(findings.broken().is_empty(), "{:?}", findings.broken());
}

#[test]
fn two_at_once_under_the_lock() {
    let mut story = guarded_story();
    story.0[3].1.remaining = 2;
    breaks(&audit_guarded(&story, 0), "in the order of the fences");
}

#[test]
fn fences_that_repeat_or_are_missing() {
    for fence in [Some(7), None] {
        let mut story = guarded_story();
        story.0[3].1.fence = fence;
        breaks(&audit_guarded(&story, 0), "every grant has a fence of its own");
    }
}

#[test]
fn a_guarded_database_that_knows_better() {
    let mut story = guarded_story();
    breaks(&audit_guarded(&story, 1), "every unit was sold");
    story.0[4].1.outcome = Outcome::Busy;
    breaks(&audit_guarded(&story, 0), "everyone got the lock in time");
    story.0[4].1 = Answer { fence: Some(12), ..answer("anna", 1, Outcome::Ok, 1, 0) };
    breaks(&audit_guarded(&story, 0), "nobody ordered twice");
    story.1.remove("anna");
    breaks(&audit_guarded(&story, 0), "the database has the orders");
    story.0.pop();
    breaks(&audit_guarded(&story, 0), "every request was answered");
}
