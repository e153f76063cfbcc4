//! Waiting in line: order, hand-over, taking over a place, going away.

use super::world::*;
use crate::core::lock::{Acquired, LockError, WaitResult, Wanted};
use crate::core::time::{Millis, UnixMs, Wakeup};

#[test]
fn the_first_gets_the_lock_and_the_next_one_after_the_release() {
    let mut desk = Desk::new();
    let first = desk.take("door", &ask("ann"));
    assert_eq!(desk.try_acquire("door", &ask("bob")), Ok(Acquired::Refused));
    assert!(!desk.release("door", "bob"));
    assert!(desk.release("door", "ann"));
    assert!(!desk.release("door", "ann"));
    assert!(desk.take("door", &ask("bob")) > first);
    assert!(desk.release("door", "bob"));
    desk.assert_blank();
}

#[test]
fn a_release_grants_the_next_in_line_and_the_value_stays_in_its_key() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann"));
    let bob = desk.wait("door", 2, &ask("bob").lease(700));
    let eve = desk.wait("door", 3, &ask("eve"));
    desk.told();
    desk.pass(400);
    assert!(desk.release("door", "ann"));
    let told = desk.told();
    assert!(!told.iter().any(|told| matches!(told, Told::Put(_) | Told::Deleted(_))), "{told:?}");
    assert!(matches!(&told[0], Told::Ended(_, ann, _) if *ann == token("ann")));
    assert!(matches!(&told[2], Told::Held(_, _, hold) if hold.token == token("bob")));
    let Told::Answered(id, WaitResult::Granted(grant)) = &told[3] else { panic!("{told:?}") };
    assert_eq!((*id, grant.lease), (bob, Millis(700)), "the lease starts with the grant");
    assert_eq!(desk.lock("door").unwrap().earliest(), Some(UnixMs(desk.now.ms.0 + 700)));
    assert!(desk.release("door", "bob"));
    assert_eq!(desk.granted(), [eve]);
    assert_eq!((desk.engine.stats().grants, desk.engine.stats().waits), (3, 2));
    assert_eq!((desk.engine.stats().handover_release, desk.engine.stats().longest_queue), (2, 2));
}

#[test]
fn nobody_overtakes_a_waiter() {
    let mut desk = Desk::new();
    desk.take("book", &ask("reader").shared());
    let writer = desk.wait("book", 1, &ask("writer"));
    assert_eq!(desk.try_acquire("book", &ask("late").shared()), Ok(Acquired::Refused));
    let late = desk.wait("book", 2, &ask("late").shared());
    desk.told();
    assert!(desk.release("book", "reader"));
    assert_eq!(desk.granted(), [writer]);
    assert!(desk.release("book", "writer"));
    assert_eq!(desk.granted(), [late]);
}

#[test]
fn neighbours_at_the_head_are_granted_together() {
    let mut desk = Desk::new();
    desk.take("book", &ask("writer"));
    let first = desk.wait("book", 1, &ask("r1").shared());
    let second = desk.wait("book", 2, &ask("r2").shared());
    let writer = desk.wait("book", 3, &ask("w2"));
    desk.wait("book", 4, &ask("r3").shared());
    desk.told();
    assert!(desk.release("book", "writer"));
    assert_eq!(desk.granted(), [first, second]);
    assert!(desk.release("book", "r1") && desk.release("book", "r2"));
    assert_eq!(desk.granted(), [writer]);
}

#[test]
fn a_semaphore_hands_out_as_many_permits_as_the_one_in_front_allows() {
    let mut desk = Desk::new();
    for name in ["a", "b"] {
        desk.take("pool", &ask(name).limit(2));
    }
    assert_eq!(desk.try_acquire("pool", &ask("c").limit(2)), Ok(Acquired::Refused));
    let narrow = desk.wait("pool", 1, &ask("c").limit(2));
    assert_eq!(desk.try_acquire("pool", &ask("d").limit(9)), Ok(Acquired::Refused), "c is in front");
    let wide = desk.wait("pool", 2, &ask("d").limit(3));
    desk.told();
    assert!(desk.release("pool", "a"));
    assert_eq!(desk.granted(), [narrow, wide]);
    assert_eq!(desk.lock("pool").unwrap().largest_limit(), 3);
    assert_eq!(desk.try_acquire("pool", &ask("r").shared()), Ok(Acquired::Refused), "permits and readers do not mix");
}

#[test]
fn a_request_that_may_not_wait_is_one_try() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann"));
    let Desk { engine, keys, now } = &mut desk;
    let request = ask("bob").by(1);
    assert_eq!(engine.acquire(*now, at("door"), &request, keys), Ok(Acquired::Refused));
    assert_eq!(engine.acquire_many(*now, 0, &[b"door"], &request, keys), Ok(Acquired::Refused));
    assert_eq!(engine.waiters(), 0);
}

#[test]
fn a_second_request_of_a_token_takes_over_the_place_of_the_first() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann"));
    let first = desk.wait("door", 1, &ask("bob"));
    let eve = desk.wait("door", 2, &ask("eve"));
    desk.told();
    let second = desk.wait("door", 3, &ask("bob").shared().waiting(50));
    assert_eq!(desk.answers(), [(first, WaitResult::Replaced)]);
    let info = desk.info("door").unwrap();
    assert_eq!((info.waiting, info.waiters[0].mode, info.waiters[0].left), (2, Wanted::Shared, Some(Millis(50))));
    assert!(desk.release("door", "ann"));
    assert_eq!(desk.granted(), [second]);
    assert!(desk.release("door", "bob"));
    assert_eq!(desk.granted(), [eve]);
}

#[test]
fn a_try_of_a_token_that_waits_leaves_its_place_alone() {
    let mut desk = Desk::new();
    desk.take("book", &ask("ann").shared());
    let bob = desk.wait("book", 1, &ask("bob"));
    desk.told();
    assert_eq!(desk.try_acquire("book", &ask("bob").shared()), Ok(Acquired::Refused));
    assert!(desk.release("book", "ann"));
    assert_eq!(desk.granted(), [bob]);
}

#[test]
fn a_second_request_that_fits_at_the_head_is_granted_at_once_and_so_are_its_neighbours() {
    let mut desk = Desk::new();
    desk.take("book", &ask("ann").shared());
    let first = desk.wait("book", 1, &ask("bob"));
    let eve = desk.wait("book", 2, &ask("eve").shared());
    desk.told();
    desk.try_acquire("book", &ask("bob").shared().waiting(0)).unwrap().granted();
    let answers = desk.answers();
    assert_eq!(answers[0], (first, WaitResult::Replaced));
    assert!(matches!(&answers[1], (id, WaitResult::Granted(_)) if *id == eve));
    assert_eq!(desk.holders("book"), ["ann", "bob", "eve"]);
}

#[test]
fn whoever_leaves_the_head_of_the_line_makes_room() {
    let mut desk = Desk::new();
    desk.take("book", &ask("reader").shared());
    let writer = desk.wait("book", 1, &ask("writer"));
    let middle = desk.wait("book", 2, &ask("middle").shared());
    let last = desk.wait("book", 3, &ask("last").shared());
    desk.told();
    desk.engine.left(desk.now.ms, middle);
    assert_ne!(desk.engine.next_wakeup(), Wakeup::Now, "nobody's turn has come because of that");
    desk.engine.timed_out(desk.now.ms, writer);
    assert_eq!(desk.engine.next_wakeup(), Wakeup::Now);
    assert!(desk.told().is_empty(), "it does nothing by itself");
    let _ = desk.tick();
    assert_eq!(desk.granted(), [last]);
    assert_eq!(desk.engine.stats().timeouts, 1);
    desk.engine.timed_out(desk.now.ms, writer);
    desk.engine.left(desk.now.ms, writer);
    assert_eq!(desk.engine.stats().timeouts, 1, "once is enough");
}

#[test]
fn a_connection_that_ends_leaves_all_its_places() {
    let mut desk = Desk::new();
    desk.take("a", &ask("ann"));
    desk.take("b", &ask("ann"));
    desk.wait("a", 7, &ask("bob"));
    desk.wait_many(&["a", "b"], 7, &ask("bob"));
    assert_eq!(desk.engine.waiters(), 2);
    desk.engine.client_gone(desk.now.ms, client(7));
    assert_eq!(desk.engine.waiters(), 0);
    assert!(desk.release("a", "ann") && desk.release("b", "ann"));
    let _ = desk.tick();
    desk.assert_blank();
}

#[test]
fn a_lease_without_an_end_is_refused_and_one_that_got_too_long_while_waiting_is_cut() {
    let mut desk = Desk::new();
    let longest = i64::MAX - desk.now.ms.0;
    assert_eq!(desk.try_acquire("door", &ask("ann").lease(longest + 1)), Err(LockError::LeaseTooLong));
    desk.take("door", &ask("ann"));
    assert_eq!(desk.extend("door", "ann", longest + 1), Err(LockError::LeaseTooLong));
    desk.wait("door", 1, &ask("bob").lease(longest));
    desk.pass(10);
    assert!(desk.release("door", "ann"));
    assert_eq!(desk.lock("door").unwrap().earliest(), Some(UnixMs::MAX));
}

#[test]
fn when_the_fences_are_used_up_everybody_is_told() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann"));
    let bob = desk.wait("door", 1, &ask("bob"));
    let both = desk.wait_many(&["door", "gate"], 2, &ask("eve"));
    desk.engine.observe_fence(crate::core::fence::Fence(crate::core::limits::MAX_FENCE));
    desk.told();
    assert_eq!(desk.try_acquire("other", &ask("x")), Err(LockError::FencesUsedUp));
    assert_eq!(desk.acquire_many(&["other", "one"], 3, &ask("x")), Err(LockError::FencesUsedUp));
    assert!(desk.release("door", "ann"));
    let failed = WaitResult::Failed(LockError::FencesUsedUp);
    assert_eq!(desk.answers(), [(bob, failed.clone()), (both, failed)]);
    desk.assert_blank();
}

#[test]
fn only_a_lock_that_was_free_in_between_is_passed_on() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann").shared());
    desk.take("door", &ask("bob").shared());
    desk.wait("door", 3, &ask("eve"));
    desk.told();
    let passed_on = |desk: &mut Desk| desk.told().iter().any(|told| matches!(told, Told::PassedOn(_)));
    assert!(desk.release("door", "ann"));
    desk.take("door", &ask("bob").shared());
    assert!(!passed_on(&mut desk), "bob holds it all the time");
    assert!(desk.release("door", "bob"));
    assert!(passed_on(&mut desk), "it is eve's now");

    desk.wait("door", 4, &ask("fay"));
    desk.pass(1_000);
    let _ = desk.tick();
    assert!(passed_on(&mut desk), "a lease that ends frees it too");
}

#[test]
fn the_first_hundred_waiters_are_shown() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann").lease(120));
    for number in 0..120 {
        desk.wait("door", number + 1, &ask(&format!("w{number}")).shared().waiting(40));
        desk.pass(1);
    }
    let info = desk.info("door").unwrap();
    assert_eq!((info.waiting, info.waiters.len(), info.holders.len()), (120, 100, 0), "ann's lease is over");
    assert_eq!((info.mode, info.limit), (None, 0));
    assert_eq!((&info.waiters[99].token, info.waiters[99].mode), (&token("w99"), Wanted::Shared));
    assert_eq!((info.waiters[0].waited, info.waiters[0].left), (Millis(120), Some(Millis(0))));
    assert_eq!((info.waiters[99].waited, info.waiters[99].left), (Millis(21), Some(Millis(19))));
}
