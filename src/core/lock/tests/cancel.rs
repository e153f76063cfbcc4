//! A release ends the wait of its token, too.

use super::world::*;
use crate::core::lock::WaitResult;

#[test]
fn a_token_that_only_waits_leaves_the_line() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann"));
    let bob = desk.wait("door", 1, &ask("bob"));
    let eve = desk.wait("door", 2, &ask("eve"));
    desk.told();
    assert!(!desk.release("door", "bob"));
    assert_eq!(desk.told(), [Told::Answered(bob, WaitResult::Cancelled)], "nothing else, and nothing for replicas");
    assert!(!desk.release("door", "bob"));
    assert_eq!(desk.told(), []);
    assert!(desk.release("door", "ann"));
    assert_eq!(desk.granted(), [eve]);
    assert!(desk.release("door", "eve"));
    desk.assert_blank();
}

#[test]
fn whoever_stood_behind_it_is_served_if_it_can_be() {
    let mut desk = Desk::new();
    desk.take("book", &ask("reader").shared());
    let writer = desk.wait("book", 1, &ask("writer"));
    let late = desk.wait("book", 2, &ask("late").shared());
    desk.told();
    assert!(!desk.release("book", "writer"));
    let answers = desk.answers();
    assert_eq!(answers[0], (writer, WaitResult::Cancelled));
    assert!(matches!(&answers[1], (id, WaitResult::Granted(_)) if *id == late), "{answers:?}");
    assert_eq!(desk.engine.stats().handover_release, 0, "no hold was released");
}

#[test]
fn an_upgrade_ends_with_the_hold_that_it_kept() {
    let mut desk = Desk::new();
    desk.take("book", &ask("ann").shared());
    desk.take("book", &ask("bob").shared());
    let upgrade = desk.wait("book", 1, &ask("ann"));
    desk.told();
    assert!(desk.release("book", "ann"));
    assert_eq!(desk.answers(), [(upgrade, WaitResult::Cancelled)]);
    assert_eq!(desk.holders("book"), ["bob"]);
    assert!(!desk.release("book", "ann"));
}

#[test]
fn one_key_is_enough_to_end_a_request_for_many() {
    let mut desk = Desk::new();
    desk.take("a", &ask("ann"));
    let both = desk.wait_many(&["a", "b"], 1, &ask("bob"));
    let (alone, other) = (desk.wait("a", 2, &ask("bob")), desk.wait_many(&["b", "c"], 3, &ask("bob")));
    let eve = desk.wait("b", 4, &ask("eve"));
    desk.told();
    assert!(!desk.release("c", "bob"));
    assert_eq!(desk.answers(), [(other, WaitResult::Cancelled)]);
    assert!(!desk.release("b", "bob"));
    let answers = desk.answers();
    assert_eq!(answers[0], (both, WaitResult::Cancelled));
    assert!(matches!(&answers[1], (id, WaitResult::Granted(_)) if *id == eve), "{answers:?}");
    assert!(desk.release("a", "ann"));
    assert_eq!(desk.granted(), [alone], "a request for one of the keys alone is another one");
}

#[test]
fn releasing_many_ends_whatever_waits_for_any_of_them() {
    let mut desk = Desk::new();
    for key in ["a", "b"] {
        desk.take(key, &ask("ann"));
    }
    desk.take("c", &ask("bob"));
    let many = desk.wait_many(&["a", "b"], 1, &ask("bob"));
    let one = desk.wait("b", 2, &ask("bob"));
    desk.told();
    assert_eq!(desk.release_many(&["c", "b"], "bob"), Ok(1));
    assert_eq!(desk.answers().into_iter().map(|(id, _)| id).collect::<Vec<_>>(), [one, many]);
    assert_eq!(desk.release_many(&["a", "b"], "ann"), Ok(2));
    desk.assert_blank();
}

#[test]
fn of_a_value_of_another_type_everybody_hears_as_ever() {
    let mut desk = Desk::new();
    desk.take("a", &ask("ann"));
    let bob = desk.wait("a", 1, &ask("bob"));
    desk.keys.values.insert(at("text").to_buf(), Value::Foreign);
    assert!(desk.release_many(&["a", "text"], "bob").is_err());
    assert_eq!(desk.info("a").unwrap().waiting, 1, "nothing was released");
    desk.told();
    assert!(desk.release("a", "ann"));
    assert_eq!(desk.granted(), [bob]);
}

#[test]
fn the_wait_ends_before_anything_is_handed_over() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann").lease(10));
    let bob = desk.wait("door", 1, &ask("bob"));
    desk.pass(10);
    desk.told();
    assert!(!desk.release("door", "bob"), "it never held");
    assert_eq!(desk.answers(), [(bob, WaitResult::Cancelled)]);
    desk.assert_blank();
}
