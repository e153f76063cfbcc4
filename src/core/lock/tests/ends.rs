//! How holds end: by time, with a connection, or because nobody ever heard of them.

use super::world::*;
use crate::core::lock::{Acquired, EndReason, WaitResult};
use crate::core::time::{Millis, UnixMs, Wakeup};

/// Why holds ended since this was asked last.
fn ends(desk: &mut Desk) -> Vec<EndReason> {
    desk.told()
        .into_iter()
        .filter_map(|told| if let Told::Ended(_, _, why) = told { Some(why) } else { None })
        .collect()
}

#[test]
fn a_lease_is_over_at_its_deadline_with_and_without_the_timer() {
    for timer in [true, false] {
        let mut desk = Desk::new();
        desk.take("door", &ask("ann").lease(100));
        assert_eq!(desk.engine.next_wakeup(), Wakeup::At(UnixMs(desk.now.ms.0 + 100)));
        desk.pass(99);
        let _ = desk.tick();
        assert_eq!(desk.holders("door"), ["ann"]);
        desk.pass(1);
        assert!(desk.info("door").is_none(), "not even shown any more");
        if timer {
            assert_eq!(desk.tick(), Wakeup::Never);
            desk.assert_blank();
        } else {
            assert!(!desk.release("door", "ann"));
        }
        assert_eq!(ends(&mut desk), [EndReason::Expired]);
        assert_eq!(desk.engine.stats().expirations, 1);
        desk.take("door", &ask("bob"));
    }
}

#[test]
fn the_timer_hands_over_a_lease_that_is_over() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann").lease(100));
    let bob = desk.wait("door", 1, &ask("bob"));
    desk.told();
    desk.pass(100);
    assert_eq!(desk.tick(), Wakeup::At(UnixMs(desk.now.ms.0 + 1_000)));
    assert_eq!(desk.granted(), [bob]);
    assert_eq!(desk.engine.stats().handover_expiry, 1);
}

#[test]
fn a_renewed_lease_ends_at_its_new_time() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann").lease(100));
    let first = desk.now.ms.0 + 100;
    desk.pass(50);
    desk.take("door", &ask("ann").lease(100));
    assert_eq!(desk.engine.next_wakeup(), Wakeup::At(UnixMs(first + 50)));
    desk.pass(50);
    assert_eq!(desk.tick(), Wakeup::At(UnixMs(first + 50)));
    assert_eq!(desk.holders("door"), ["ann"]);
}

#[test]
fn a_session_ends_with_its_connection_also_before_the_timer_comes_round() {
    for timer in [true, false] {
        let mut desk = Desk::new();
        desk.acquire("door", 7, &ask("ann").session()).unwrap().granted();
        desk.acquire("gate", 7, &ask("ann")).unwrap().granted();
        let bob = desk.wait("door", 2, &ask("bob"));
        assert!(desk.info("door").unwrap().holders[0].session);
        desk.told();
        desk.engine.client_gone(desk.now.ms, client(7));
        assert!(desk.told().is_empty(), "nothing may be written where this is called");
        assert!(desk.holders("door").is_empty());
        if timer {
            let _ = desk.tick();
        } else {
            assert_eq!(desk.try_acquire("door", &ask("eve")), Ok(Acquired::Refused), "bob is next");
        }
        assert_eq!(desk.granted(), [bob]);
        assert_eq!((desk.holders("door"), desk.holders("gate")), (vec!["bob".into()], vec!["ann".into()]));
        assert_eq!(desk.engine.stats().handover_disconnect, 1);
    }
}

#[test]
fn a_renewal_with_session_ties_the_hold_to_another_connection_and_one_without_leaves_it() {
    let mut desk = Desk::new();
    desk.acquire("door", 1, &ask("ann").session()).unwrap().granted();
    desk.acquire("door", 2, &ask("ann").session()).unwrap().granted();
    desk.acquire("door", 3, &ask("ann")).unwrap().granted();
    for bystander in [1, 3] {
        desk.engine.client_gone(desk.now.ms, client(bystander));
        let _ = desk.tick();
        assert_eq!(desk.holders("door"), ["ann"]);
    }
    assert!(desk.engine.knows(client(2)) && !desk.engine.knows(client(1)));
    desk.told();
    desk.engine.client_gone(desk.now.ms, client(2));
    assert_eq!(desk.tick(), Wakeup::Never);
    assert_eq!(ends(&mut desk), [EndReason::Disconnected]);
    desk.assert_blank();
}

#[test]
fn upgrade_and_downgrade_keep_the_session() {
    let mut desk = Desk::new();
    desk.acquire("book", 1, &ask("ann").shared().session()).unwrap().granted();
    desk.acquire("book", 2, &ask("ann")).unwrap().granted();
    desk.acquire("book", 2, &ask("ann").shared()).unwrap().granted();
    desk.engine.client_gone(desk.now.ms, client(1));
    let _ = desk.tick();
    desk.assert_blank();
}

#[test]
fn a_token_that_asks_again_does_not_save_a_session_that_is_over() {
    let mut desk = Desk::new();
    let first = desk.acquire("door", 1, &ask("ann").session()).unwrap().granted().fence;
    desk.engine.client_gone(desk.now.ms, client(1));
    let second = desk.acquire("door", 2, &ask("ann").session()).unwrap().granted().fence;
    assert!(second > first);
    let _ = desk.tick();
    assert_eq!(desk.holders("door"), ["ann"]);
    assert_eq!(desk.engine.last_fence(), second.0);
}

/// A lock that was granted to a waiter of connection 1, with another waiter behind it. Nothing is delivered yet.
fn undelivered() -> (Desk, crate::core::lock::WaiterId, crate::core::lock::WaiterId) {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann"));
    let bob = desk.wait("door", 1, &ask("bob"));
    let eve = desk.wait("door", 2, &ask("eve"));
    assert!(desk.release("door", "ann"));
    desk.told();
    (desk, bob, eve)
}

#[test]
fn a_grant_that_never_reached_its_connection_is_taken_back() {
    for gone in [true, false] {
        let (mut desk, bob, eve) = undelivered();
        // Either the connection ended, or the server sent the client away with an error of its own.
        if gone {
            desk.engine.client_gone(desk.now.ms, client(1));
        } else {
            desk.engine.left(desk.now.ms, bob);
        }
        assert!(desk.told().is_empty());
        let _ = desk.tick();
        let told = desk.told();
        assert!(matches!(&told[0], Told::PassedOn(_)));
        assert!(matches!(&told[1], Told::Ended(_, name, EndReason::Undelivered) if *name == token("bob")));
        assert!(matches!(told.last(), Some(Told::Answered(id, WaitResult::Granted(_))) if *id == eve));
    }
}

#[test]
fn a_grant_that_was_delivered_is_not_taken_back() {
    let (mut desk, bob, _) = undelivered();
    desk.engine.delivered(bob);
    desk.engine.client_gone(desk.now.ms, client(1));
    desk.engine.left(desk.now.ms, bob);
    let _ = desk.tick();
    assert_eq!(desk.holders("door"), ["bob"]);
}

#[test]
fn a_grant_that_its_token_renewed_from_elsewhere_stands() {
    // Before the connection is known to be gone, or after; by asking again, or by extending.
    for (before, extend) in [(true, true), (true, false), (false, true), (false, false)] {
        let (mut desk, bob, _) = undelivered();
        if !before {
            desk.engine.client_gone(desk.now.ms, client(1));
        }
        if extend {
            assert_eq!(desk.extend("door", "bob", 500), Ok(true));
        } else {
            let fence = desk.lock("door").unwrap().hold(&token("bob")).unwrap().fence;
            assert_eq!(desk.acquire("door", 5, &ask("bob")).unwrap().granted().fence, fence);
        }
        if before {
            desk.engine.client_gone(desk.now.ms, client(1));
        }
        let _ = desk.tick();
        assert_eq!(desk.holders("door"), ["bob"], "before {before}, extend {extend}");
        desk.engine.delivered(bob);
        assert!(desk.release("door", "bob") && desk.release("door", "eve"));
        desk.engine.client_gone(desk.now.ms, client(2));
        let _ = desk.tick();
        desk.assert_blank();
    }
}

#[test]
fn a_lost_grant_can_still_be_released_by_its_token() {
    let (mut desk, _, eve) = undelivered();
    desk.engine.client_gone(desk.now.ms, client(1));
    assert!(desk.release("door", "bob"));
    assert_eq!(desk.granted(), [eve]);
}

#[test]
fn a_grant_for_many_keys_is_taken_back_on_all_of_them_or_where_it_was_not_renewed() {
    for renewed in [false, true] {
        let mut desk = Desk::new();
        desk.take("b", &ask("ann"));
        let all = desk.wait_many(&["a", "b", "c"], 1, &ask("bob"));
        assert!(desk.release("b", "ann"));
        assert!(desk.granted().contains(&all));
        if renewed {
            desk.take("c", &ask("bob"));
        }
        desk.engine.client_gone(desk.now.ms, client(1));
        let _ = desk.tick();
        assert!(desk.holders("a").is_empty() && desk.holders("b").is_empty());
        assert_eq!(desk.holders("c").len(), usize::from(renewed));
    }
}

#[test]
fn work_is_spread_over_ticks_by_the_budget() {
    let mut desk = Desk::new();
    for number in 0..if cfg!(miri) { 20 } else { 50 } {
        desk.take(&format!("k{number}"), &ask("ann").lease(100));
        desk.acquire(&format!("s{number}"), 1, &ask("ann").session()).unwrap().granted();
        desk.take("crowd", &ask(&format!("r{number}")).shared().lease(100));
    }
    desk.pass(100);
    desk.engine.client_gone(desk.now.ms, client(1));
    desk.told();
    let mut ticks = 0;
    loop {
        let Desk { engine, keys, now } = &mut desk;
        let next = engine.tick(*now, 10, keys);
        assert!(ends(&mut desk).len() <= 20, "no tick does much more than it may");
        ticks += 1;
        if next != Wakeup::Now {
            break;
        }
    }
    assert!(ticks >= 5, "{ticks}");
    desk.assert_blank();
}

#[test]
fn the_last_step_of_a_budget_still_hands_over() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann").lease(100));
    let bob = desk.wait("door", 1, &ask("bob"));
    desk.pass(100);
    desk.told();
    let Desk { engine, keys, now } = &mut desk;
    let _ = engine.tick(*now, 1, keys);
    assert!(!desk.keys.told.iter().any(|told| matches!(told, Told::Deleted(_))), "the value stays in its key");
    assert_eq!(desk.granted(), [bob]);
}

#[test]
fn the_shortest_lease_of_those_that_were_granted_together_counts() {
    let mut desk = Desk::new();
    desk.take("book", &ask("ann"));
    desk.wait("book", 1, &ask("bob").shared().lease(500));
    desk.wait("book", 2, &ask("eve").shared().lease(100));
    desk.delete("book");
    assert_eq!(desk.tick(), Wakeup::At(UnixMs(desk.now.ms.0 + 100)));
}

#[test]
fn nothing_is_done_where_this_node_does_not_serve_the_key() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann").lease(100));
    desk.acquire("gate", 7, &ask("ann").session()).unwrap().granted();
    let bob = desk.wait("door", 1, &ask("bob"));
    let eve = desk.wait("gate", 2, &ask("eve"));
    desk.told();
    desk.keys.elsewhere = vec![at("door").to_buf(), at("gate").to_buf()];
    desk.pass(100);
    desk.engine.client_gone(desk.now.ms, client(7));
    let Wakeup::At(retry) = desk.tick() else { panic!("it must not spin") };
    assert!(desk.told().is_empty() && retry.left(desk.now.ms) > Millis(10));
    desk.keys.elsewhere.clear();
    desk.pass(retry.left(desk.now.ms).0);
    let _ = desk.tick();
    let mut granted = desk.granted();
    granted.sort_unstable();
    assert_eq!(granted, [bob, eve]);
}

#[test]
fn the_end_of_a_connection_with_many_sessions_is_worked_off_step_by_step() {
    let mut desk = Desk::new();
    for number in 0..40 {
        desk.acquire(&format!("lock-{number}"), 1, &ask("a").session()).unwrap().granted();
    }
    let heir = desk.wait("lock-39", 2, &ask("b"));
    desk.engine.client_gone(desk.now.ms, client(1));
    // All are over at once, for whoever asks, and few are ended by one turn of the timer.
    assert!((0..40).all(|number| desk.info(&format!("lock-{number}")).is_none_or(|info| info.mode.is_none())));
    desk.take("lock-7", &ask("c"));
    assert_eq!(desk.engine.tick(desk.now, 10, &mut desk.keys), Wakeup::Now);
    assert!(desk.keys.values.len() > 20, "{}", desk.keys.values.len());
    let _ = desk.tick();
    assert_eq!(desk.granted(), [heir]);
    assert_eq!(desk.keys.values.len(), 2);
}
