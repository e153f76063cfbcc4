//! A request to several sales, told as stories.

use super::shop::{Row, Shop, names, says, shop, with};
use crate::core::sale::cart::{all_or_none, at_least_one};
use crate::core::sale::{Budget, Changes, Decision, Status, Take, Terms};
use crate::core::time::UnixMs;

/// Asks some shops as one request.
fn ask(
    shops: &mut [&mut Shop],
    each: bool,
    decide: impl Fn(&Shop) -> Decision<'static>,
    id: &str,
) -> (Status, Vec<Row>) {
    let mut decisions: Vec<_> = shops.iter().map(|shop| decide(shop)).collect();
    let mut answers: Vec<_> = decisions.iter().map(|decision| decision.answer.clone()).collect();
    let skip = |nth: usize| {
        decisions[nth].changes = Changes::default();
        Ok::<_, ()>(shops[nth].sale.skipped(shops[nth].now(), id.as_bytes()))
    };
    let status = if each { at_least_one(&answers) } else { all_or_none(&mut answers, skip).unwrap() };
    decisions.iter_mut().zip(answers).for_each(|(decision, answer)| decision.answer = answer);
    let rows = shops.iter_mut().zip(&decisions).map(|(shop, decision)| shop.does(decision)).collect();
    (status, rows)
}

fn takes(id: &'static str, units: u64, hold: i64) -> impl Fn(&Shop) -> Decision<'static> {
    move |shop| {
        let deadline = (hold > 0).then_some(UnixMs(shop.now + hold));
        let take = Take { id: id.as_bytes(), units, buyer: None, deadline, reference: b"r" };
        shop.sale.take(shop.now(), Budget::COMMAND, &take).unwrap()
    }
}

#[test]
fn all_of_a_cart_is_taken_or_nothing() {
    let (mut one, mut two) = (shop(5), shop(1));
    let (status, rows) = ask(&mut [&mut one, &mut two], false, takes("ann", 2, 0), "ann");
    assert_eq!(
        (status, &rows[..]),
        (Status::Insufficient, &[says(Status::Skipped, 0, 5, -1), says(Status::Insufficient, 0, 1, -1)][..])
    );
    let (status, rows) = ask(&mut [&mut one, &mut two], false, takes("ann", 1, 100), "ann");
    assert_eq!(
        (status, &rows[..]),
        (Status::Ok, &[names(Status::Ok, 1, 4, 1_100, "r"), names(Status::Ok, 1, 0, 1_100, "r")][..])
    );
    let (status, rows) = ask(&mut [&mut one, &mut two], false, takes("ann", 1, 0), "ann");
    assert_eq!((status, rows[0].0, rows[1].0), (Status::Duplicate, Status::Duplicate, Status::Duplicate));
    // The first that refuses says why.
    one.take("all", 4);
    let (status, rows) = ask(&mut [&mut one, &mut two], false, takes("bob", 1, 0), "bob");
    assert_eq!((status, rows[0].0, rows[1].0), (Status::SoldOut, Status::SoldOut, Status::SoldOut));
}

#[test]
fn what_was_there_already_refuses_nothing() {
    let (mut one, mut two) = (shop(5), shop(5));
    one.hold("ann", 3, 100);
    let (status, rows) = ask(&mut [&mut one, &mut two], false, takes("ann", 1, 0), "ann");
    assert_eq!(
        (status, &rows[..]),
        (Status::Ok, &[says(Status::Duplicate, 3, 2, 1_100), names(Status::Ok, 1, 4, -1, "r")][..])
    );
}

#[test]
fn what_is_skipped_says_what_the_id_has_there_now() {
    let rebuy = |total| with(Terms { total, rebuy: true, ..Terms::default() });
    let (mut one, mut two) = (rebuy(5), rebuy(0));
    one.order("ann", 2, None, 0, "old");
    one.cancel("ann");
    let (_, rows) = ask(&mut [&mut one, &mut two], false, takes("ann", 1, 0), "ann");
    assert_eq!(rows, [names(Status::Skipped, 0, 5, -1, "old"), says(Status::SoldOut, 0, 0, -1)]);
    one.order("bob", 2, None, 50, "r");
    let confirms = |shop: &Shop| shop.sale.confirm(shop.now(), Budget::COMMAND, b"bob", None).unwrap();
    let (status, rows) = ask(&mut [&mut one, &mut two], false, confirms, "bob");
    assert_eq!(
        (status, &rows[..]),
        (Status::NoOrder, &[names(Status::Skipped, 2, 3, 1_050, "r"), says(Status::NoOrder, 0, 0, -1)][..])
    );
}

#[test]
fn a_late_payment_is_refused_for_good_where_it_was_refused_and_nowhere_else() {
    let (mut one, mut two) = (shop(5), shop(1));
    one.hold("ann", 1, 10);
    two.hold("ann", 1, 10);
    (one.now, two.now) = (1_010, 1_010);
    two.take("bob", 1);
    let confirms = |shop: &Shop| shop.sale.confirm(shop.now(), Budget::COMMAND, b"ann", None).unwrap();
    let (status, rows) = ask(&mut [&mut one, &mut two], false, confirms, "ann");
    assert_eq!(
        (status, &rows[..]),
        (Status::Expired, &[says(Status::Skipped, 0, 5, -1), says(Status::Expired, 0, 0, -1)][..])
    );
    two.cancel("bob");
    assert_eq!(two.confirm("ann").0, Status::Expired, "it stays refused");
    assert_eq!(one.confirm("ann").0, Status::Ok, "this one was not");
}

#[test]
fn a_cancellation_of_several_does_what_it_can() {
    let (mut one, mut two, mut three) = (shop(5), shop(5), shop(5));
    one.take("ann", 1);
    one.cancel("ann");
    two.take("ann", 2);
    let cancels = |shop: &Shop| shop.sale.cancel(shop.now(), Budget::COMMAND, b"ann", None);
    let (status, rows) = ask(&mut [&mut one, &mut three, &mut two], true, cancels, "ann");
    assert_eq!((status, rows[0].0, rows[1].0, rows[2].0), (Status::Ok, Status::Duplicate, Status::NoOrder, Status::Ok));
    let (status, _) = ask(&mut [&mut three, &mut two], true, cancels, "ann");
    assert_eq!(status, Status::NoOrder);
    let (status, _) = ask(&mut [&mut two, &mut three], true, cancels, "ann");
    assert_eq!(status, Status::Duplicate);
}
