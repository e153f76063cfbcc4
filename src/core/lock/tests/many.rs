//! Requests for several keys at once.

use super::world::*;
use crate::core::lock::{Acquired, LockError, WaitResult};

#[test]
fn all_keys_or_none_with_one_fence() {
    let mut world = World::new();
    world.take("b", &ask("ann"));
    assert_eq!(world.acquire_many(&["a", "b"], 1, &ask("bob")), Ok(Acquired::Refused));
    assert!(world.info("a").is_none());
    assert!(world.release("b", "ann"));
    let grant = world.acquire_many(&["b", "a", "b"], 1, &ask("bob")).unwrap().granted();
    for key in ["a", "b"] {
        assert_eq!(world.info(key).unwrap().holders[0].fence, grant.fence);
    }
    assert_eq!(world.release_many(&["a", "a", "b", "c"], "bob"), Ok(2), "a key named twice counts once");
    assert_eq!(world.release_many(&["a", "b"], "bob"), Ok(0));
    assert_eq!(world.engine.stats().grants, 2);
    world.assert_blank();
}

#[test]
fn repeated_it_is_a_renewal_and_partly_held_it_is_a_new_grant() {
    let mut world = World::new();
    let both = ask("ann").session();
    let fence = world.acquire_many(&["a", "b"], 1, &both).unwrap().granted().fence;
    world.wait("a", 2, &ask("bob"));
    assert_eq!(world.acquire_many(&["b", "a"], 3, &ask("ann")).unwrap().granted().fence, fence, "whoever waits");
    let more = world.acquire_many(&["a", "b", "c"], 3, &ask("ann")).unwrap().granted().fence;
    assert!(more > fence);
    for key in ["a", "b", "c"] {
        let holder = world.info(key).unwrap().holders[0].clone();
        assert_eq!((holder.fence, holder.session), (more, false), "a new grant, without SESSION");
    }
    world.take("d", &ask("ann"));
    assert!(world.acquire_many(&["c", "d"], 3, &ask("ann")).unwrap().granted().fence > more, "from different grants");
}

#[test]
fn a_hold_in_another_mode_is_an_error() {
    let mut world = World::new();
    world.take("b", &ask("ann").shared());
    for request in [ask("ann"), ask("ann").waiting(0)] {
        assert_eq!(world.acquire_many(&["a", "b"], 1, &request), Err(LockError::OtherMode));
    }
    assert!(world.info("a").is_none());
}

#[test]
fn it_waits_in_every_queue_and_is_granted_when_first_in_all() {
    let mut world = World::new();
    world.take("b", &ask("ann"));
    let early = world.wait("b", 1, &ask("early"));
    let both = world.wait_many(&["a", "b"], 2, &ask("bob"));
    assert_eq!(world.try_acquire("a", &ask("late")), Ok(Acquired::Refused), "a is free, but bob waits for it");
    let late = world.wait("a", 3, &ask("late"));
    world.told();
    assert!(world.release("b", "ann"));
    assert_eq!(world.granted(), [early]);
    assert!(world.release("b", "early"));
    assert_eq!(world.granted(), [both]);
    assert_eq!(world.release_many(&["a", "b"], "bob"), Ok(2));
    assert_eq!(world.granted(), [late]);
}

#[test]
fn two_of_them_over_the_same_keys_in_any_order_never_deadlock() {
    let mut world = World::new();
    world.take("a", &ask("ann"));
    let one = world.wait_many(&["a", "b"], 1, &ask("bob"));
    let other = world.wait_many(&["b", "a"], 2, &ask("eve"));
    let third = world.wait_many(&["c", "b"], 3, &ask("fay"));
    world.told();
    assert!(world.release("a", "ann"));
    assert_eq!(world.granted(), [one]);
    assert_eq!(world.release_many(&["b", "a"], "bob"), Ok(2));
    assert_eq!(world.granted(), [other]);
    assert_eq!(world.release_many(&["b", "a"], "eve"), Ok(2));
    assert_eq!(world.granted(), [third]);
}

#[test]
fn when_it_leaves_all_its_queues_move_on() {
    let mut world = World::new();
    world.take("b", &ask("ann"));
    let both = world.wait_many(&["a", "b", "c"], 1, &ask("bob"));
    let a = world.wait("a", 2, &ask("x"));
    let c = world.wait("c", 3, &ask("y"));
    world.told();
    world.engine.timed_out(world.now.ms, both);
    let _ = world.tick();
    let mut granted = world.granted();
    granted.sort_unstable();
    assert_eq!(granted, [a, c]);
}

#[test]
fn what_the_token_holds_is_no_obstacle_though_others_wait_for_it() {
    let mut world = World::new();
    world.take("a", &ask("ann"));
    world.take("b", &ask("bob"));
    let eve = world.wait("a", 1, &ask("eve"));
    let both = world.wait_many(&["a", "b"], 2, &ask("ann"));
    world.told();
    assert!(world.release("b", "bob"));
    assert_eq!(world.granted(), [both]);
    assert_eq!(world.release_many(&["a", "b"], "ann"), Ok(2));
    assert_eq!(world.granted(), [eve]);
}

#[test]
fn if_the_token_loses_what_it_holds_it_waits_there_like_everybody() {
    let mut world = World::new();
    world.take("a", &ask("ann").lease(100));
    world.take("b", &ask("bob"));
    let eve = world.wait("a", 1, &ask("eve"));
    let both = world.wait_many(&["a", "b"], 2, &ask("ann"));
    world.told();
    world.pass(100);
    let _ = world.tick();
    assert_eq!(world.granted(), [eve]);
    assert!(world.release("b", "bob"));
    assert!(world.granted().is_empty());
    assert!(world.release("a", "eve"));
    assert_eq!(world.granted(), [both]);
}

#[test]
fn a_second_request_for_the_same_keys_takes_over_and_one_for_others_does_not() {
    let mut world = World::new();
    world.take("a", &ask("ann"));
    let first = world.wait_many(&["a", "b"], 1, &ask("bob"));
    let second = world.wait_many(&["b", "a", "a"], 2, &ask("bob"));
    assert_eq!(world.answers().last(), Some(&(first, WaitResult::Replaced)));
    let single = world.wait("a", 3, &ask("bob"));
    let wider = world.wait_many(&["a", "b", "c"], 4, &ask("bob"));
    assert!(world.answers().is_empty());
    // They are all bob's: what the first one gets, the others find in their own hands.
    assert!(world.release("a", "ann"));
    assert_eq!(world.granted(), [second, single, wider]);
    let fences: Vec<_> = ["a", "b", "c"].iter().map(|key| world.info(key).unwrap().holders[0].fence).collect();
    assert!(fences.iter().all(|fence| *fence == fences[0]));
    assert_eq!(world.engine.waiters(), 0);
}

#[test]
fn a_foreign_value_under_one_of_its_keys_fails_it() {
    let mut world = World::new();
    world.take("a", &ask("ann"));
    let both = world.wait_many(&["a", "b"], 1, &ask("bob"));
    let single = world.wait("a", 2, &ask("eve"));
    let behind = world.wait("b", 3, &ask("fay"));
    world.told();
    world.delete("a");
    world.keys.values.insert(at("a").to_buf(), Value::Foreign);
    let _ = world.tick();
    let answers = world.answers();
    let failed = WaitResult::Failed(LockError::WrongType);
    assert_eq!(answers[..2], [(both, failed.clone()), (single, failed)]);
    assert!(matches!(&answers[2], (id, WaitResult::Granted(_)) if *id == behind));
}

#[test]
fn what_is_released_leaves_no_key_though_its_only_waiter_fails_over_another_key() {
    let mut world = World::new();
    world.acquire_many(&["b", "c"], 1, &ask("ann")).unwrap().granted();
    let all = world.wait_many(&["a", "b", "c"], 2, &ask("bob"));
    world.told();
    world.keys.values.insert(at("a").to_buf(), Value::Foreign);
    assert_eq!(world.release_many(&["b", "c"], "ann"), Ok(2));
    assert_eq!(world.answers(), [(all, WaitResult::Failed(LockError::WrongType))]);
    assert!(world.lock("b").is_none() && world.lock("c").is_none());
    world.keys.values.clear();
    world.assert_blank();
}

#[test]
fn who_fails_over_one_key_stands_in_line_at_the_others_until_that_is_found_out() {
    for found_out in [false, true] {
        let mut world = World::new();
        world.engine.settings.detects_deadlocks = false;
        world.take("c", &ask("ann"));
        let all = world.wait_many(&["a", "b", "c"], 1, &ask("bob"));
        let ann = world.wait("b", 2, &ask("ann"));
        world.told();
        world.keys.values.insert(at("a").to_buf(), Value::Foreign);
        world.engine.vanished(at("a"), None);
        if found_out {
            let _ = world.tick();
        }
        assert_eq!(world.release_many(&["b", "c"], "ann"), Ok(if found_out { 2 } else { 1 }));
        let answers = world.answers();
        let failed = (all, WaitResult::Failed(LockError::WrongType));
        if found_out {
            assert_eq!((&answers[0], answers[1].0), (&failed, ann));
        } else {
            assert_eq!(answers, [(ann, WaitResult::Cancelled), failed]);
        }
    }
}

#[test]
fn a_lapse_on_one_key_is_seen_by_a_request_that_comes_for_another() {
    let mut world = World::new();
    world.take("a", &ask("ann").lease(100));
    world.take("b", &ask("bob"));
    let both = world.wait_many(&["a", "b"], 1, &ask("eve"));
    world.told();
    world.pass(100);
    assert!(world.release("b", "bob"));
    assert_eq!(world.granted(), [both], "though the timer has not looked at a yet");
}

#[test]
fn requests_for_many_keys_cost_as_much_as_there_are_keys() {
    const KEYS: usize = if cfg!(miri) { 30 } else { 1_000 };
    let mut world = World::new();
    let names: Vec<String> = (0..=KEYS).map(|n| format!("door {n}")).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    world.take(all[KEYS], &ask("other"));
    world.acquire_many(&all[..KEYS], 1, &ask("ann")).unwrap().granted();
    let bob = world.acquire_many(&all, 2, &ask("bob").waiting(0)).unwrap().parked();
    world.keys.looks = 0;
    let eve = world.acquire_many(&all, 3, &ask("eve").waiting(0)).unwrap().parked();
    assert_eq!(world.release_many(&all, "ann").unwrap(), u64::try_from(KEYS).unwrap());
    assert!(world.release(all[KEYS], "other"));
    assert_eq!(world.release_many(&all, "bob").unwrap(), u64::try_from(KEYS + 1).unwrap());
    assert_eq!(world.granted(), [bob, eve]);
    assert!(world.keys.looks < 50 * KEYS, "{} looks at {KEYS} keys", world.keys.looks);
}

#[test]
fn what_is_over_is_not_the_tokens_own_any_more() {
    for expire in [true, false] {
        let mut world = World::new();
        world.acquire("a", 7, &ask("ann").session().lease(100)).unwrap().granted();
        world.take("b", &ask("bob"));
        let eve = world.wait("a", 1, &ask("eve"));
        world.wait_many(&["a", "b"], 2, &ask("ann"));
        world.told();
        if expire {
            world.pass(100);
        } else {
            world.engine.client_gone(world.now.ms, client(7));
        }
        assert!(world.release("b", "bob"));
        let _ = world.tick();
        assert_eq!(world.granted(), [eve], "she was first at a");
    }
}

#[test]
fn all_are_extended_or_none() {
    let mut world = World::new();
    world.acquire_many(&["a", "b"], 1, &ask("ann").lease(100)).unwrap().granted();
    world.take("c", &ask("ann").lease(9_000).shared());
    world.take("c", &ask("bob").lease(500).shared());
    world.take("d", &ask("bob"));
    let lefts = |world: &World, key| -> Vec<i64> {
        world.info(key).unwrap().holders.iter().map(|holder| holder.left.0).collect()
    };
    for keys in [&["a", "b", "d"][..], &["a", "nothing", "b"], &["d"]] {
        assert_eq!(world.extend_many(keys, "ann", 5_000), Ok(false), "{keys:?}");
        assert_eq!((lefts(&world, "a"), lefts(&world, "b")), (vec![100], vec![100]));
    }
    world.told();
    assert_eq!(world.extend_many(&["c", "b", "a", "b"], "ann", 5_000), Ok(true));
    assert_eq!(world.told().len(), 3, "a key named twice counts once");
    assert_eq!(
        (lefts(&world, "a"), lefts(&world, "b"), lefts(&world, "c")),
        (vec![5_000], vec![5_000], vec![9_000, 500])
    );
    world.pass(5_000);
    assert_eq!(world.extend_many(&["a", "c"], "ann", 5_000), Ok(false), "it never revives");
    world.keys.values.insert(at("text").to_buf(), Value::Foreign);
    assert_eq!(world.extend_many(&["nothing", "text"], "ann", 5_000), Err(LockError::WrongType));
    assert_eq!(world.extend_many(&["c"], "ann", i64::MAX), Err(LockError::LeaseTooLong));
}

#[test]
fn the_cause_of_a_hand_over_is_the_end_of_the_lease_that_was_in_the_way() {
    let mut world = World::new();
    world.take("a", &ask("ann"));
    world.take("b", &ask("bob").lease(9_000));
    world.wait_many(&["a", "b"], 1, &ask("eve"));
    assert!(world.release("b", "bob"));
    world.pass(1_000);
    // The next request for the key ends the lease.
    assert_eq!(world.try_acquire("a", &ask("zoe")), Ok(Acquired::Refused));
    assert_eq!((world.holders("a"), world.engine.stats().handover_expiry), (vec!["eve".into()], 1));
}
