//! A release ends the wait of its token, too.

use super::world::*;
use crate::core::lock::WaitResult;

#[test]
fn a_token_that_only_waits_leaves_the_line() {
    let mut world = World::new();
    world.take("door", &ask("ann"));
    let bob = world.wait("door", 1, &ask("bob"));
    let eve = world.wait("door", 2, &ask("eve"));
    world.told();
    assert!(!world.release("door", "bob"));
    assert_eq!(world.told(), [Told::Answered(bob, WaitResult::Cancelled)], "nothing else, and nothing for replicas");
    assert!(!world.release("door", "bob"));
    assert_eq!(world.told(), []);
    assert!(world.release("door", "ann"));
    assert_eq!(world.granted(), [eve]);
    assert!(world.release("door", "eve"));
    world.assert_blank();
}

#[test]
fn whoever_stood_behind_it_is_served_if_it_can_be() {
    let mut world = World::new();
    world.take("book", &ask("reader").shared());
    let writer = world.wait("book", 1, &ask("writer"));
    let late = world.wait("book", 2, &ask("late").shared());
    world.told();
    assert!(!world.release("book", "writer"));
    let answers = world.answers();
    assert_eq!(answers[0], (writer, WaitResult::Cancelled));
    assert!(matches!(&answers[1], (id, WaitResult::Granted(_)) if *id == late), "{answers:?}");
    assert_eq!(world.engine.stats().handover_release, 0, "no hold was released");
}

#[test]
fn an_upgrade_ends_with_the_hold_that_it_kept() {
    let mut world = World::new();
    world.take("book", &ask("ann").shared());
    world.take("book", &ask("bob").shared());
    let upgrade = world.wait("book", 1, &ask("ann"));
    world.told();
    assert!(world.release("book", "ann"));
    assert_eq!(world.answers(), [(upgrade, WaitResult::Cancelled)]);
    assert_eq!(world.holders("book"), ["bob"]);
    assert!(!world.release("book", "ann"));
}

#[test]
fn one_key_is_enough_to_end_a_request_for_many() {
    let mut world = World::new();
    world.take("a", &ask("ann"));
    let both = world.wait_many(&["a", "b"], 1, &ask("bob"));
    let (alone, other) = (world.wait("a", 2, &ask("bob")), world.wait_many(&["b", "c"], 3, &ask("bob")));
    let eve = world.wait("b", 4, &ask("eve"));
    world.told();
    assert!(!world.release("c", "bob"));
    assert_eq!(world.answers(), [(other, WaitResult::Cancelled)]);
    assert!(!world.release("b", "bob"));
    let answers = world.answers();
    assert_eq!(answers[0], (both, WaitResult::Cancelled));
    assert!(matches!(&answers[1], (id, WaitResult::Granted(_)) if *id == eve), "{answers:?}");
    assert!(world.release("a", "ann"));
    assert_eq!(world.granted(), [alone], "a request for one of the keys alone is another one");
}

#[test]
fn releasing_many_ends_whatever_waits_for_any_of_them() {
    let mut world = World::new();
    for key in ["a", "b"] {
        world.take(key, &ask("ann"));
    }
    world.take("c", &ask("bob"));
    let many = world.wait_many(&["a", "b"], 1, &ask("bob"));
    let one = world.wait("b", 2, &ask("bob"));
    world.told();
    assert_eq!(world.release_many(&["c", "b"], "bob"), Ok(1));
    assert_eq!(world.answers().into_iter().map(|(id, _)| id).collect::<Vec<_>>(), [one, many]);
    assert_eq!(world.release_many(&["a", "b"], "ann"), Ok(2));
    world.assert_blank();
}

#[test]
fn of_a_value_of_another_type_everybody_hears_as_ever() {
    let mut world = World::new();
    world.take("a", &ask("ann"));
    let bob = world.wait("a", 1, &ask("bob"));
    world.keys.values.insert(at("text").to_buf(), Value::Foreign);
    assert!(world.release_many(&["a", "text"], "bob").is_err());
    assert_eq!(world.info("a").unwrap().waiting, 1, "nothing was released");
    world.told();
    assert!(world.release("a", "ann"));
    assert_eq!(world.granted(), [bob]);
}

#[test]
fn the_wait_ends_before_anything_is_handed_over() {
    let mut world = World::new();
    world.take("door", &ask("ann").lease(10));
    let bob = world.wait("door", 1, &ask("bob"));
    world.pass(10);
    world.told();
    assert!(!world.release("door", "bob"), "it never held");
    assert_eq!(world.answers(), [(bob, WaitResult::Cancelled)]);
    world.assert_blank();
}
