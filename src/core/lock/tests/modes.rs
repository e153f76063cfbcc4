//! One token and its hold: renewal, downgrade, upgrade, and modes that do not mix.

use super::world::*;
use crate::core::lock::{Acquired, Claim, LockError, Mode, WaitResult};
use crate::core::time::{Millis, UnixMs};

#[test]
fn the_same_request_again_renews_and_brings_the_same_fence() {
    let mut world = World::new();
    for request in [ask("ann"), ask("ann").shared(), ask("ann").limit(1)] {
        let fence = world.take("door", &request);
        world.pass(300);
        world.wait("door", 1, &ask("bob"));
        let again = world.try_acquire("door", &request).unwrap().granted();
        assert_eq!((again.fence, again.lease), (fence, Millis(1_000)), "whoever waits");
        assert_eq!(world.lock("door").unwrap().earliest(), Some(UnixMs(world.now.ms.0 + 1_000)));
        assert!(world.release("door", "ann") && world.release("door", "bob"));
    }
    assert_eq!(world.engine.stats().grants, 6, "a renewal is no grant");
}

#[test]
fn a_renewal_may_name_another_limit() {
    let mut world = World::new();
    world.take("pool", &ask("a").limit(1));
    world.take("pool", &ask("a").limit(5));
    assert_eq!(world.lock("pool").unwrap().len(), 1, "one token is one permit");
    assert_eq!(world.info("pool").unwrap().limit, 5);
}

#[test]
fn a_downgrade_keeps_its_fence_and_lets_readers_in() {
    let mut world = World::new();
    let fence = world.take("book", &ask("ann"));
    let bob = world.wait("book", 1, &ask("bob").shared());
    let eve = world.wait("book", 2, &ask("eve").shared());
    world.wait("book", 3, &ask("writer"));
    world.told();
    assert_eq!(world.take("book", &ask("ann").shared()), fence);
    assert_eq!(world.granted(), [bob, eve]);
    assert_eq!((world.lock("book").unwrap().mode(), world.lock("book").unwrap().len()), (Mode::Shared, 3));
}

#[test]
fn the_only_reader_upgrades_at_once_whoever_waits() {
    let mut world = World::new();
    let shared = world.take("book", &ask("ann").shared());
    world.wait("book", 1, &ask("bob"));
    let exclusive = world.take("book", &ask("ann"));
    assert!(exclusive > shared, "an upgrade has a fence of its own");
    assert_eq!(world.holders("book"), ["ann"]);
    assert_eq!(world.lock("book").unwrap().mode(), Mode::Exclusive);
}

#[test]
fn an_upgrade_waits_ahead_of_the_queue_and_keeps_its_hold() {
    let mut world = World::new();
    world.take("book", &ask("ann").shared());
    world.take("book", &ask("bob").shared());
    let early = world.wait("book", 1, &ask("early"));
    assert_eq!(world.try_acquire("book", &ask("ann")), Ok(Acquired::Refused), "without WAIT it does not wait");
    let ann = world.wait("book", 2, &ask("ann"));
    assert_eq!(world.holders("book"), ["ann", "bob"]);
    assert_eq!(world.try_acquire("book", &ask("late").shared()), Ok(Acquired::Refused), "nobody else is admitted");
    world.told();
    assert!(world.release("book", "bob"));
    assert_eq!(world.granted(), [ann]);
    assert!(world.release("book", "ann"));
    assert_eq!(world.granted(), [early]);
}

#[test]
fn a_second_reader_that_would_wait_for_an_upgrade_is_told_of_the_deadlock() {
    let mut world = World::new();
    for name in ["ann", "bob", "eve"] {
        world.take("book", &ask(name).shared());
    }
    world.wait("book", 1, &ask("ann"));
    assert_eq!(world.acquire("book", 2, &ask("bob").waiting(0)), Ok(Acquired::Deadlock(vec![at("book").to_buf()])));
    assert_eq!(world.acquire("book", 2, &ask("bob")), Ok(Acquired::Refused), "a try waits for nobody");
    let again = world.wait("book", 3, &ask("ann"));
    assert!(world.release("book", "bob") && world.release("book", "eve"));
    assert!(world.answers().iter().any(|(id, answer)| *id == again && matches!(answer, WaitResult::Granted(_))));
}

#[test]
fn an_upgrade_whose_hold_ends_goes_on_waiting_in_front() {
    let mut world = World::new();
    world.take("book", &ask("ann").shared().lease(100));
    world.take("book", &ask("bob").shared());
    world.take("book", &ask("eve").shared());
    world.wait("book", 1, &ask("early"));
    let ann = world.wait("book", 2, &ask("ann"));
    world.pass(100);
    let _ = world.tick();
    assert_eq!(world.holders("book"), ["bob", "eve"]);
    // Now it waits for bob as all others do, so bob may wait to upgrade, and goes first.
    let bob = world.wait("book", 3, &ask("bob"));
    world.told();
    assert!(world.release("book", "eve"));
    assert_eq!(world.granted(), [bob]);
    assert!(world.release("book", "bob"));
    assert_eq!(world.granted(), [ann]);
}

#[test]
fn other_changes_of_mode_are_errors_and_change_nothing() {
    let mut world = World::new();
    for (held, wanted) in [
        (ask("ann"), ask("ann").limit(2)),
        (ask("ann").shared(), ask("ann").limit(2)),
        (ask("ann").limit(2), ask("ann")),
        (ask("ann").limit(2), ask("ann").shared()),
    ] {
        world.take("door", &held);
        world.told();
        for request in [wanted.clone(), wanted.waiting(0)] {
            assert_eq!(world.try_acquire("door", &request), Err(LockError::OtherMode));
        }
        assert!(world.told().is_empty());
        assert!(world.release("door", "ann"));
    }
    world.assert_blank();
}

#[test]
fn extend_moves_the_end_either_way_and_never_revives() {
    let mut world = World::new();
    assert_eq!(world.extend("door", "ann", 100), Ok(false));
    world.take("door", &ask("ann"));
    assert_eq!(world.extend("door", "bob", 100), Ok(false));
    assert_eq!(world.extend("door", "ann", 5_000), Ok(true));
    assert_eq!(world.extend("door", "ann", 100), Ok(true));
    world.pass(99);
    assert_eq!(world.extend("door", "ann", 100), Ok(true));
    world.pass(100);
    assert_eq!(world.extend("door", "ann", 100), Ok(false), "it was over at its deadline, timer or not");
    world.assert_blank();
}

#[test]
fn a_key_with_another_value_is_left_alone() {
    let mut world = World::new();
    world.keys.values.insert(at("door").to_buf(), Value::Foreign);
    assert_eq!(world.try_acquire("door", &ask("ann")), Err(LockError::WrongType));
    assert_eq!(world.extend("door", "ann", 1), Err(LockError::WrongType));
    assert_eq!(world.acquire_many(&["gate", "door"], 1, &ask("ann")), Err(LockError::WrongType));
    assert_eq!(world.release_many(&["gate", "door"], "ann"), Err(LockError::WrongType));
    let World { engine, keys, now } = &mut world;
    assert_eq!(engine.release(*now, &[at("door")], Claim::of(&token("ann")), keys), Err(LockError::WrongType));
    assert!(world.told().is_empty() && world.engine.is_blank());
}
