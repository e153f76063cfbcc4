//! Waiting in line: order, hand-over, taking over a place, going away.

use super::world::*;
use crate::core::lock::{Acquired, LockError, WaitResult, Wanted};
use crate::core::time::{Millis, UnixMs, Wakeup};

#[test]
fn the_first_gets_the_lock_and_the_next_one_after_the_release() {
    let mut world = World::new();
    let first = world.take("door", &ask("ann"));
    assert_eq!(world.try_acquire("door", &ask("bob")), Ok(Acquired::Refused));
    assert!(!world.release("door", "bob"));
    assert!(world.release("door", "ann"));
    assert!(!world.release("door", "ann"));
    assert!(world.take("door", &ask("bob")) > first);
    assert!(world.release("door", "bob"));
    world.assert_blank();
}

#[test]
fn a_release_grants_the_next_in_line_and_the_value_stays_in_its_key() {
    let mut world = World::new();
    world.take("door", &ask("ann"));
    let bob = world.wait("door", 2, &ask("bob").lease(700));
    let eve = world.wait("door", 3, &ask("eve"));
    world.told();
    world.pass(400);
    assert!(world.release("door", "ann"));
    let told = world.told();
    assert!(!told.iter().any(|told| matches!(told, Told::Put(_) | Told::Deleted(_))), "{told:?}");
    assert!(matches!(&told[0], Told::Ended(_, ann, _) if *ann == token("ann")));
    assert!(matches!(&told[2], Told::Held(_, _, hold) if hold.token == token("bob")));
    let Told::Answered(id, WaitResult::Granted(grant)) = &told[3] else { panic!("{told:?}") };
    assert_eq!((*id, grant.lease), (bob, Millis(700)), "the lease starts with the grant");
    assert_eq!(world.lock("door").unwrap().earliest(), Some(UnixMs(world.now.ms.0 + 700)));
    assert!(world.release("door", "bob"));
    assert_eq!(world.granted(), [eve]);
    assert_eq!((world.engine.stats().grants, world.engine.stats().waits), (3, 2));
    assert_eq!((world.engine.stats().handover_release, world.engine.stats().longest_queue), (2, 2));
}

#[test]
fn nobody_overtakes_a_waiter() {
    let mut world = World::new();
    world.take("book", &ask("reader").shared());
    let writer = world.wait("book", 1, &ask("writer"));
    assert_eq!(world.try_acquire("book", &ask("late").shared()), Ok(Acquired::Refused));
    let late = world.wait("book", 2, &ask("late").shared());
    world.told();
    assert!(world.release("book", "reader"));
    assert_eq!(world.granted(), [writer]);
    assert!(world.release("book", "writer"));
    assert_eq!(world.granted(), [late]);
}

#[test]
fn neighbours_at_the_head_are_granted_together() {
    let mut world = World::new();
    world.take("book", &ask("writer"));
    let first = world.wait("book", 1, &ask("r1").shared());
    let second = world.wait("book", 2, &ask("r2").shared());
    let writer = world.wait("book", 3, &ask("w2"));
    world.wait("book", 4, &ask("r3").shared());
    world.told();
    assert!(world.release("book", "writer"));
    assert_eq!(world.granted(), [first, second]);
    assert!(world.release("book", "r1") && world.release("book", "r2"));
    assert_eq!(world.granted(), [writer]);
}

#[test]
fn a_semaphore_hands_out_as_many_permits_as_the_one_in_front_allows() {
    let mut world = World::new();
    for name in ["a", "b"] {
        world.take("pool", &ask(name).limit(2));
    }
    assert_eq!(world.try_acquire("pool", &ask("c").limit(2)), Ok(Acquired::Refused));
    let narrow = world.wait("pool", 1, &ask("c").limit(2));
    assert_eq!(world.try_acquire("pool", &ask("d").limit(9)), Ok(Acquired::Refused), "c is in front");
    let wide = world.wait("pool", 2, &ask("d").limit(3));
    world.told();
    assert!(world.release("pool", "a"));
    assert_eq!(world.granted(), [narrow, wide]);
    assert_eq!(world.info("pool").unwrap().limit, 3);
    assert_eq!(world.try_acquire("pool", &ask("r").shared()), Ok(Acquired::Refused), "permits and readers do not mix");
}

#[test]
fn a_request_that_may_not_wait_is_one_try() {
    let mut world = World::new();
    world.take("door", &ask("ann"));
    let World { engine, keys, now } = &mut world;
    let request = ask("bob").by(1);
    assert_eq!(engine.acquire(*now, at("door"), &request, keys), Ok(Acquired::Refused));
    assert_eq!(engine.acquire_many(*now, &[at("door")], &request, keys), Ok(Acquired::Refused));
    assert_eq!(engine.waiters(), 0);
}

#[test]
fn a_second_request_of_a_token_takes_over_the_place_of_the_first() {
    let mut world = World::new();
    world.take("door", &ask("ann"));
    let first = world.wait("door", 1, &ask("bob"));
    let eve = world.wait("door", 2, &ask("eve"));
    world.told();
    let second = world.wait("door", 3, &ask("bob").shared().waiting(50));
    assert_eq!(world.answers(), [(first, WaitResult::Replaced)]);
    let info = world.info("door").unwrap();
    assert_eq!((info.waiting, info.waiters[0].mode, info.waiters[0].left), (2, Wanted::Shared, Some(Millis(50))));
    assert!(world.release("door", "ann"));
    assert_eq!(world.granted(), [second]);
    assert!(world.release("door", "bob"));
    assert_eq!(world.granted(), [eve]);
}

#[test]
fn a_try_of_a_token_that_waits_leaves_its_place_alone() {
    let mut world = World::new();
    world.take("book", &ask("ann").shared());
    let bob = world.wait("book", 1, &ask("bob"));
    world.told();
    assert_eq!(world.try_acquire("book", &ask("bob").shared()), Ok(Acquired::Refused));
    assert!(world.release("book", "ann"));
    assert_eq!(world.granted(), [bob]);
}

#[test]
fn a_second_request_that_fits_at_the_head_is_granted_at_once_and_so_are_its_neighbours() {
    let mut world = World::new();
    world.take("book", &ask("ann").shared());
    let first = world.wait("book", 1, &ask("bob"));
    let eve = world.wait("book", 2, &ask("eve").shared());
    world.told();
    world.try_acquire("book", &ask("bob").shared().waiting(0)).unwrap().granted();
    let answers = world.answers();
    assert_eq!(answers[0], (first, WaitResult::Replaced));
    assert!(matches!(&answers[1], (id, WaitResult::Granted(_)) if *id == eve));
    assert_eq!(world.holders("book"), ["ann", "bob", "eve"]);
}

#[test]
fn whoever_leaves_the_head_of_the_line_makes_room() {
    let mut world = World::new();
    world.take("book", &ask("reader").shared());
    let writer = world.wait("book", 1, &ask("writer"));
    let middle = world.wait("book", 2, &ask("middle").shared());
    let last = world.wait("book", 3, &ask("last").shared());
    world.told();
    world.engine.left(world.now.ms, middle);
    assert_ne!(world.engine.next_wakeup(), Wakeup::Now, "nobody's turn has come because of that");
    world.engine.timed_out(world.now.ms, writer);
    assert_eq!(world.engine.next_wakeup(), Wakeup::Now);
    assert!(world.told().is_empty(), "it does nothing by itself");
    let _ = world.tick();
    assert_eq!(world.granted(), [last]);
    assert_eq!(world.engine.stats().timeouts, 1);
    world.engine.timed_out(world.now.ms, writer);
    world.engine.left(world.now.ms, writer);
    assert_eq!(world.engine.stats().timeouts, 1, "once is enough");
}

#[test]
fn a_connection_that_ends_leaves_all_its_places() {
    let mut world = World::new();
    world.take("a", &ask("ann"));
    world.take("b", &ask("ann"));
    world.wait("a", 7, &ask("bob"));
    world.wait_many(&["a", "b"], 7, &ask("bob"));
    assert_eq!(world.engine.waiters(), 2);
    world.engine.client_gone(world.now.ms, client(7));
    assert_eq!(world.engine.waiters(), 0);
    assert!(world.release("a", "ann") && world.release("b", "ann"));
    let _ = world.tick();
    world.assert_blank();
}

#[test]
fn a_lease_without_an_end_is_refused_and_one_that_got_too_long_while_waiting_is_cut() {
    let mut world = World::new();
    let longest = i64::MAX - world.now.ms.0;
    assert_eq!(world.try_acquire("door", &ask("ann").lease(longest + 1)), Err(LockError::LeaseTooLong));
    world.take("door", &ask("ann"));
    assert_eq!(world.extend("door", "ann", longest + 1), Err(LockError::LeaseTooLong));
    world.wait("door", 1, &ask("bob").lease(longest));
    world.pass(10);
    assert!(world.release("door", "ann"));
    assert_eq!(world.lock("door").unwrap().earliest(), Some(UnixMs::MAX));
}

#[test]
fn when_the_fences_are_used_up_everybody_is_told() {
    let mut world = World::new();
    world.take("door", &ask("ann"));
    let bob = world.wait("door", 1, &ask("bob"));
    let both = world.wait_many(&["door", "gate"], 2, &ask("eve"));
    world.engine.observe_fence(crate::core::fence::Fence(crate::core::limits::MAX_FENCE));
    world.told();
    assert_eq!(world.try_acquire("other", &ask("x")), Err(LockError::FencesUsedUp));
    assert_eq!(world.acquire_many(&["other", "one"], 3, &ask("x")), Err(LockError::FencesUsedUp));
    assert!(world.release("door", "ann"));
    let failed = WaitResult::Failed(LockError::FencesUsedUp);
    assert_eq!(world.answers(), [(bob, failed.clone()), (both, failed)]);
    world.assert_blank();
}

#[test]
fn only_a_lock_that_was_free_in_between_is_passed_on() {
    let mut world = World::new();
    world.take("door", &ask("ann").shared());
    world.take("door", &ask("bob").shared());
    world.wait("door", 3, &ask("eve"));
    world.told();
    let passed_on = |world: &mut World| world.told().iter().any(|told| matches!(told, Told::PassedOn(_)));
    assert!(world.release("door", "ann"));
    world.take("door", &ask("bob").shared());
    assert!(!passed_on(&mut world), "bob holds it all the time");
    assert!(world.release("door", "bob"));
    assert!(passed_on(&mut world), "it is eve's now");

    world.wait("door", 4, &ask("fay"));
    world.pass(1_000);
    let _ = world.tick();
    assert!(passed_on(&mut world), "a lease that ends frees it too");
}

#[test]
fn the_first_hundred_waiters_are_shown() {
    let mut world = World::new();
    world.take("door", &ask("ann").lease(120));
    for number in 0..120 {
        world.wait("door", number + 1, &ask(&format!("w{number}")).shared().waiting(40));
        world.pass(1);
    }
    let info = world.info("door").unwrap();
    assert_eq!((info.waiting, info.waiters.len(), info.holders.len()), (120, 100, 0), "ann's lease is over");
    assert_eq!((info.mode, info.limit), (None, 0));
    assert_eq!((&info.waiters[99].token, info.waiters[99].mode), (&token("w99"), Wanted::Shared));
    assert_eq!((info.waiters[0].waited, info.waiters[0].left), (Millis(120), Some(Millis(0))));
    assert_eq!((info.waiters[99].waited, info.waiters[99].left), (Millis(21), Some(Millis(19))));
}
