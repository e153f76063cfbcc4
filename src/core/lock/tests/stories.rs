//! One story per rule.

use super::world::*;

#[test]
fn the_first_gets_the_lock_and_the_next_one_after_the_release() {
    let mut desk = Desk::new();
    let first = desk.take("door", &ask("ann"));
    assert_eq!(desk.try_acquire("door", &ask("bob")).unwrap(), crate::core::lock::Acquired::Refused);
    assert!(!desk.release("door", "bob"));
    assert!(desk.release("door", "ann"));
    assert!(!desk.release("door", "ann"));
    assert!(desk.take("door", &ask("bob")) > first);
    assert!(desk.release("door", "bob"));
    desk.assert_blank();
}

#[test]
fn a_waiter_is_granted_by_the_release() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann"));
    let bob = desk.acquire("door", 2, &ask("bob").waiting()).unwrap().parked();
    desk.told();
    assert!(desk.release("door", "ann"));
    assert_eq!(desk.granted(), [bob]);
    assert_eq!(desk.holders("door"), ["bob"]);
    desk.engine.delivered(bob);
    desk.pass(1_000);
    assert_eq!(desk.tick(), crate::core::lock::Next::Never);
    desk.assert_blank();
}

#[test]
fn only_a_lock_that_was_free_in_between_is_passed_on() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann").shared());
    desk.take("door", &ask("bob").shared());
    desk.acquire("door", 3, &ask("eve").waiting()).unwrap().parked();
    desk.told();
    let passed_on = |desk: &mut Desk| desk.told().iter().any(|told| matches!(told, Told::PassedOn(_)));
    assert!(desk.release("door", "ann"));
    desk.take("door", &ask("bob").shared());
    assert!(!passed_on(&mut desk), "bob holds it all the time");
    assert!(desk.release("door", "bob"));
    assert!(passed_on(&mut desk), "it is eve's now");

    desk.acquire("door", 4, &ask("fay").waiting()).unwrap().parked();
    desk.pass(1_000);
    let _ = desk.tick();
    assert!(passed_on(&mut desk), "a lease that ends frees it too");
}
