//! One token and its hold: renewal, downgrade, upgrade, and modes that do not mix.

use super::world::*;
use crate::core::lock::{Acquired, Claim, LockError, Mode, WaitResult};
use crate::core::time::{Millis, UnixMs};

#[test]
fn the_same_request_again_renews_and_brings_the_same_fence() {
    let mut desk = Desk::new();
    for request in [ask("ann"), ask("ann").shared(), ask("ann").limit(1)] {
        let fence = desk.take("door", &request);
        desk.pass(300);
        desk.wait("door", 1, &ask("bob"));
        let again = desk.try_acquire("door", &request).unwrap().granted();
        assert_eq!((again.fence, again.lease), (fence, Millis(1_000)), "whoever waits");
        assert_eq!(desk.lock("door").unwrap().earliest(), Some(UnixMs(desk.now.ms.0 + 1_000)));
        assert!(desk.release("door", "ann") && desk.release("door", "bob"));
    }
    assert_eq!(desk.engine.stats().grants, 6, "a renewal is no grant");
}

#[test]
fn a_renewal_may_name_another_limit() {
    let mut desk = Desk::new();
    desk.take("pool", &ask("a").limit(1));
    desk.take("pool", &ask("a").limit(5));
    assert_eq!(desk.lock("pool").unwrap().len(), 1, "one token is one permit");
    assert_eq!(desk.info("pool").unwrap().limit, 5);
}

#[test]
fn a_downgrade_keeps_its_fence_and_lets_readers_in() {
    let mut desk = Desk::new();
    let fence = desk.take("book", &ask("ann"));
    let bob = desk.wait("book", 1, &ask("bob").shared());
    let eve = desk.wait("book", 2, &ask("eve").shared());
    desk.wait("book", 3, &ask("writer"));
    desk.told();
    assert_eq!(desk.take("book", &ask("ann").shared()), fence);
    assert_eq!(desk.granted(), [bob, eve]);
    assert_eq!((desk.lock("book").unwrap().mode(), desk.lock("book").unwrap().len()), (Mode::Shared, 3));
}

#[test]
fn the_only_reader_upgrades_at_once_whoever_waits() {
    let mut desk = Desk::new();
    let shared = desk.take("book", &ask("ann").shared());
    desk.wait("book", 1, &ask("bob"));
    let exclusive = desk.take("book", &ask("ann"));
    assert!(exclusive > shared, "an upgrade has a fence of its own");
    assert_eq!(desk.holders("book"), ["ann"]);
    assert_eq!(desk.lock("book").unwrap().mode(), Mode::Exclusive);
}

#[test]
fn an_upgrade_waits_ahead_of_the_queue_and_keeps_its_hold() {
    let mut desk = Desk::new();
    desk.take("book", &ask("ann").shared());
    desk.take("book", &ask("bob").shared());
    let early = desk.wait("book", 1, &ask("early"));
    assert_eq!(desk.try_acquire("book", &ask("ann")), Ok(Acquired::Refused), "without WAIT it does not wait");
    let ann = desk.wait("book", 2, &ask("ann"));
    assert_eq!(desk.holders("book"), ["ann", "bob"]);
    assert_eq!(desk.try_acquire("book", &ask("late").shared()), Ok(Acquired::Refused), "nobody else is admitted");
    desk.told();
    assert!(desk.release("book", "bob"));
    assert_eq!(desk.granted(), [ann]);
    assert!(desk.release("book", "ann"));
    assert_eq!(desk.granted(), [early]);
}

#[test]
fn a_second_reader_that_would_wait_for_an_upgrade_is_told_of_the_deadlock() {
    let mut desk = Desk::new();
    for name in ["ann", "bob", "eve"] {
        desk.take("book", &ask(name).shared());
    }
    desk.wait("book", 1, &ask("ann"));
    assert_eq!(desk.acquire("book", 2, &ask("bob").waiting(0)), Ok(Acquired::Deadlock(vec![at("book").to_buf()])));
    assert_eq!(desk.acquire("book", 2, &ask("bob")), Ok(Acquired::Refused), "a try waits for nobody");
    let again = desk.wait("book", 3, &ask("ann"));
    assert!(desk.release("book", "bob") && desk.release("book", "eve"));
    assert!(desk.answers().iter().any(|(id, answer)| *id == again && matches!(answer, WaitResult::Granted(_))));
}

#[test]
fn an_upgrade_whose_hold_ends_goes_on_waiting_in_front() {
    let mut desk = Desk::new();
    desk.take("book", &ask("ann").shared().lease(100));
    desk.take("book", &ask("bob").shared());
    desk.take("book", &ask("eve").shared());
    desk.wait("book", 1, &ask("early"));
    let ann = desk.wait("book", 2, &ask("ann"));
    desk.pass(100);
    let _ = desk.tick();
    assert_eq!(desk.holders("book"), ["bob", "eve"]);
    // Now it waits for bob as everybody does, so bob may wait to upgrade, and goes first.
    let bob = desk.wait("book", 3, &ask("bob"));
    desk.told();
    assert!(desk.release("book", "eve"));
    assert_eq!(desk.granted(), [bob]);
    assert!(desk.release("book", "bob"));
    assert_eq!(desk.granted(), [ann]);
}

#[test]
fn other_changes_of_mode_are_errors_and_change_nothing() {
    let mut desk = Desk::new();
    for (held, wanted) in [
        (ask("ann"), ask("ann").limit(2)),
        (ask("ann").shared(), ask("ann").limit(2)),
        (ask("ann").limit(2), ask("ann")),
        (ask("ann").limit(2), ask("ann").shared()),
    ] {
        desk.take("door", &held);
        desk.told();
        for request in [wanted.clone(), wanted.waiting(0)] {
            assert_eq!(desk.try_acquire("door", &request), Err(LockError::OtherMode));
        }
        assert!(desk.told().is_empty());
        assert!(desk.release("door", "ann"));
    }
    desk.assert_blank();
}

#[test]
fn extend_moves_the_end_either_way_and_never_revives() {
    let mut desk = Desk::new();
    assert_eq!(desk.extend("door", "ann", 100), Ok(false));
    desk.take("door", &ask("ann"));
    assert_eq!(desk.extend("door", "bob", 100), Ok(false));
    assert_eq!(desk.extend("door", "ann", 5_000), Ok(true));
    assert_eq!(desk.extend("door", "ann", 100), Ok(true));
    desk.pass(99);
    assert_eq!(desk.extend("door", "ann", 100), Ok(true));
    desk.pass(100);
    assert_eq!(desk.extend("door", "ann", 100), Ok(false), "it was over at its deadline, timer or not");
    desk.assert_blank();
}

#[test]
fn a_key_with_another_value_is_left_alone() {
    let mut desk = Desk::new();
    desk.keys.values.insert(at("door").to_buf(), Value::Foreign);
    assert_eq!(desk.try_acquire("door", &ask("ann")), Err(LockError::WrongType));
    assert_eq!(desk.extend("door", "ann", 1), Err(LockError::WrongType));
    assert_eq!(desk.acquire_many(&["gate", "door"], 1, &ask("ann")), Err(LockError::WrongType));
    assert_eq!(desk.release_many(&["gate", "door"], "ann"), Err(LockError::WrongType));
    let Desk { engine, keys, now } = &mut desk;
    assert_eq!(engine.release(*now, at("door"), Claim::of(&token("ann")), keys), Err(LockError::WrongType));
    assert!(desk.told().is_empty() && desk.engine.is_blank());
}
