//! How holds end: by time, with a connection, or because nobody ever heard of them.

use super::world::*;
use crate::core::lock::{Acquired, EndReason, WaitResult};
use crate::core::time::{Millis, UnixMs, Wakeup};

/// Why holds ended since this was asked last.
fn ends(world: &mut World) -> Vec<EndReason> {
    world
        .told()
        .into_iter()
        .filter_map(|told| if let Told::Ended(_, _, why) = told { Some(why) } else { None })
        .collect()
}

#[test]
fn a_lease_is_over_at_its_deadline_with_and_without_the_timer() {
    for timer in [true, false] {
        let mut world = World::new();
        world.take("door", &ask("ann").lease(100));
        assert_eq!(world.engine.next_wakeup(), Wakeup::At(UnixMs(world.now.ms.0 + 100)));
        world.pass(99);
        let _ = world.tick();
        assert_eq!(world.holders("door"), ["ann"]);
        world.pass(1);
        assert!(world.info("door").is_none(), "not even shown any more");
        if timer {
            assert_eq!(world.tick(), Wakeup::Never);
            world.assert_blank();
        } else {
            assert!(!world.release("door", "ann"));
        }
        assert_eq!(ends(&mut world), [EndReason::Expired]);
        assert_eq!(world.engine.stats().expirations, 1);
        world.take("door", &ask("bob"));
    }
}

#[test]
fn the_timer_hands_over_a_lease_that_is_over() {
    let mut world = World::new();
    world.take("door", &ask("ann").lease(100));
    let bob = world.wait("door", 1, &ask("bob"));
    world.told();
    world.pass(100);
    assert_eq!(world.tick(), Wakeup::At(UnixMs(world.now.ms.0 + 1_000)));
    assert_eq!(world.granted(), [bob]);
    assert_eq!(world.engine.stats().handover_expiry, 1);
}

#[test]
fn a_renewed_lease_ends_at_its_new_time() {
    let mut world = World::new();
    world.take("door", &ask("ann").lease(100));
    let first = world.now.ms.0 + 100;
    world.pass(50);
    world.take("door", &ask("ann").lease(100));
    assert_eq!(world.engine.next_wakeup(), Wakeup::At(UnixMs(first + 50)));
    world.pass(50);
    assert_eq!(world.tick(), Wakeup::At(UnixMs(first + 50)));
    assert_eq!(world.holders("door"), ["ann"]);
}

#[test]
fn a_session_ends_with_its_connection_also_before_the_timer_comes_round() {
    for timer in [true, false] {
        let mut world = World::new();
        world.acquire("door", 7, &ask("ann").session()).unwrap().granted();
        world.acquire("gate", 7, &ask("ann")).unwrap().granted();
        let bob = world.wait("door", 2, &ask("bob"));
        assert!(world.info("door").unwrap().holders[0].session);
        world.told();
        world.engine.client_gone(world.now.ms, client(7));
        assert!(world.told().is_empty(), "nothing may be written where this is called");
        assert!(world.holders("door").is_empty());
        if timer {
            let _ = world.tick();
        } else {
            assert_eq!(world.try_acquire("door", &ask("eve")), Ok(Acquired::Refused), "bob is next");
        }
        assert_eq!(world.granted(), [bob]);
        assert_eq!((world.holders("door"), world.holders("gate")), (vec!["bob".into()], vec!["ann".into()]));
        assert_eq!(world.engine.stats().handover_disconnect, 1);
    }
}

#[test]
fn a_renewal_with_session_ties_the_hold_to_another_connection_and_one_without_leaves_it() {
    let mut world = World::new();
    world.acquire("door", 1, &ask("ann").session()).unwrap().granted();
    world.acquire("door", 2, &ask("ann").session()).unwrap().granted();
    world.acquire("door", 3, &ask("ann")).unwrap().granted();
    for bystander in [1, 3] {
        world.engine.client_gone(world.now.ms, client(bystander));
        let _ = world.tick();
        assert_eq!(world.holders("door"), ["ann"]);
    }
    assert!(world.engine.knows(client(2)) && !world.engine.knows(client(1)));
    world.told();
    world.engine.client_gone(world.now.ms, client(2));
    assert_eq!(world.tick(), Wakeup::Never);
    assert_eq!(ends(&mut world), [EndReason::Disconnected]);
    world.assert_blank();
}

#[test]
fn upgrade_and_downgrade_keep_the_session() {
    let mut world = World::new();
    world.acquire("book", 1, &ask("ann").shared().session()).unwrap().granted();
    world.acquire("book", 2, &ask("ann")).unwrap().granted();
    world.acquire("book", 2, &ask("ann").shared()).unwrap().granted();
    world.engine.client_gone(world.now.ms, client(1));
    let _ = world.tick();
    world.assert_blank();
}

#[test]
fn a_token_that_asks_again_does_not_save_a_session_that_is_over() {
    let mut world = World::new();
    let first = world.acquire("door", 1, &ask("ann").session()).unwrap().granted().fence;
    world.engine.client_gone(world.now.ms, client(1));
    let second = world.acquire("door", 2, &ask("ann").session()).unwrap().granted().fence;
    assert!(second > first);
    let _ = world.tick();
    assert_eq!(world.holders("door"), ["ann"]);
    assert_eq!(world.engine.last_fence(), second.0);
}

/// A lock that was granted to a waiter of connection 1, with another waiter behind it. Nothing is delivered yet.
fn undelivered() -> (World, crate::core::lock::WaiterId, crate::core::lock::WaiterId) {
    let mut world = World::new();
    world.take("door", &ask("ann"));
    let bob = world.wait("door", 1, &ask("bob"));
    let eve = world.wait("door", 2, &ask("eve"));
    assert!(world.release("door", "ann"));
    world.told();
    (world, bob, eve)
}

#[test]
fn a_grant_that_never_reached_its_connection_is_taken_back() {
    for gone in [true, false] {
        let (mut world, bob, eve) = undelivered();
        // Either the connection ended, or the server sent the client away with an error of its own.
        if gone {
            world.engine.client_gone(world.now.ms, client(1));
        } else {
            world.engine.left(world.now.ms, bob);
        }
        assert!(world.told().is_empty());
        let _ = world.tick();
        let told = world.told();
        assert!(matches!(&told[0], Told::PassedOn(_)));
        assert!(matches!(&told[1], Told::Ended(_, name, EndReason::Undelivered) if *name == token("bob")));
        assert!(matches!(told.last(), Some(Told::Answered(id, WaitResult::Granted(_))) if *id == eve));
    }
}

#[test]
fn a_grant_that_was_delivered_is_not_taken_back() {
    let (mut world, bob, _) = undelivered();
    world.engine.delivered(bob);
    world.engine.client_gone(world.now.ms, client(1));
    world.engine.left(world.now.ms, bob);
    let _ = world.tick();
    assert_eq!(world.holders("door"), ["bob"]);
}

#[test]
fn a_grant_that_its_token_renewed_from_elsewhere_stands() {
    // Before the connection is known to be gone, or after; by asking again, or by extending.
    for (before, extend) in [(true, true), (true, false), (false, true), (false, false)] {
        let (mut world, bob, _) = undelivered();
        if !before {
            world.engine.client_gone(world.now.ms, client(1));
        }
        if extend {
            assert_eq!(world.extend("door", "bob", 500), Ok(true));
        } else {
            let fence = world.lock("door").unwrap().hold(&token("bob")).unwrap().fence;
            assert_eq!(world.acquire("door", 5, &ask("bob")).unwrap().granted().fence, fence);
        }
        if before {
            world.engine.client_gone(world.now.ms, client(1));
        }
        let _ = world.tick();
        assert_eq!(world.holders("door"), ["bob"], "before {before}, extend {extend}");
        world.engine.delivered(bob);
        assert!(world.release("door", "bob") && world.release("door", "eve"));
        world.engine.client_gone(world.now.ms, client(2));
        let _ = world.tick();
        world.assert_blank();
    }
}

#[test]
fn a_lost_grant_can_still_be_released_by_its_token() {
    let (mut world, _, eve) = undelivered();
    world.engine.client_gone(world.now.ms, client(1));
    assert!(world.release("door", "bob"));
    assert_eq!(world.granted(), [eve]);
}

#[test]
fn a_grant_for_many_keys_is_taken_back_on_all_of_them_or_where_it_was_not_renewed() {
    for renewed in [false, true] {
        let mut world = World::new();
        world.take("b", &ask("ann"));
        let all = world.wait_many(&["a", "b", "c"], 1, &ask("bob"));
        assert!(world.release("b", "ann"));
        assert!(world.granted().contains(&all));
        if renewed {
            world.take("c", &ask("bob"));
        }
        world.engine.client_gone(world.now.ms, client(1));
        let _ = world.tick();
        assert!(world.holders("a").is_empty() && world.holders("b").is_empty());
        assert_eq!(world.holders("c").len(), usize::from(renewed));
    }
}

#[test]
fn work_is_spread_over_ticks_by_the_budget() {
    let mut world = World::new();
    for number in 0..if cfg!(miri) { 20 } else { 50 } {
        world.take(&format!("k{number}"), &ask("ann").lease(100));
        world.acquire(&format!("s{number}"), 1, &ask("ann").session()).unwrap().granted();
        world.take("crowd", &ask(&format!("r{number}")).shared().lease(100));
    }
    world.pass(100);
    world.engine.client_gone(world.now.ms, client(1));
    world.told();
    let mut ticks = 0;
    loop {
        let World { engine, keys, now } = &mut world;
        let next = engine.tick(*now, 10, keys);
        assert!(ends(&mut world).len() <= 20, "no tick does much more than it may");
        ticks += 1;
        if next != Wakeup::Now {
            break;
        }
    }
    assert!(ticks >= 5, "{ticks}");
    world.assert_blank();
}

#[test]
fn the_last_step_of_a_budget_still_hands_over() {
    let mut world = World::new();
    world.take("door", &ask("ann").lease(100));
    let bob = world.wait("door", 1, &ask("bob"));
    world.pass(100);
    world.told();
    let World { engine, keys, now } = &mut world;
    let _ = engine.tick(*now, 1, keys);
    assert!(!world.keys.told.iter().any(|told| matches!(told, Told::Deleted(_))), "the value stays in its key");
    assert_eq!(world.granted(), [bob]);
}

#[test]
fn the_shortest_lease_of_those_that_were_granted_together_counts() {
    let mut world = World::new();
    world.take("book", &ask("ann"));
    world.wait("book", 1, &ask("bob").shared().lease(500));
    world.wait("book", 2, &ask("eve").shared().lease(100));
    world.delete("book");
    assert_eq!(world.tick(), Wakeup::At(UnixMs(world.now.ms.0 + 100)));
}

#[test]
fn nothing_is_done_where_this_node_does_not_serve_the_key() {
    let mut world = World::new();
    world.take("door", &ask("ann").lease(100));
    world.acquire("gate", 7, &ask("ann").session()).unwrap().granted();
    let bob = world.wait("door", 1, &ask("bob"));
    let eve = world.wait("gate", 2, &ask("eve"));
    world.told();
    world.keys.elsewhere = vec![at("door").to_buf(), at("gate").to_buf()];
    world.pass(100);
    world.engine.client_gone(world.now.ms, client(7));
    let Wakeup::At(retry) = world.tick() else { panic!("it must not spin") };
    assert!(world.told().is_empty() && retry.left(world.now.ms) > Millis(10));
    world.keys.elsewhere.clear();
    world.pass(retry.left(world.now.ms).0);
    let _ = world.tick();
    let mut granted = world.granted();
    granted.sort_unstable();
    assert_eq!(granted, [bob, eve]);
}

#[test]
fn the_end_of_a_connection_with_many_sessions_is_worked_off_step_by_step() {
    let mut world = World::new();
    for number in 0..40 {
        world.acquire(&format!("lock-{number}"), 1, &ask("a").session()).unwrap().granted();
    }
    let heir = world.wait("lock-39", 2, &ask("b"));
    world.engine.client_gone(world.now.ms, client(1));
    // All are over at once, for every request, and few are ended by one turn of the timer.
    assert!((0..40).all(|number| world.info(&format!("lock-{number}")).is_none_or(|info| info.mode.is_none())));
    world.take("lock-7", &ask("c"));
    assert_eq!(world.engine.tick(world.now, 10, &mut world.keys), Wakeup::Now);
    assert!(world.keys.values.len() > 20, "{}", world.keys.values.len());
    let _ = world.tick();
    assert_eq!(world.granted(), [heir]);
    assert_eq!(world.keys.values.len(), 2);
}
