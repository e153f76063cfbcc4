//! What comes back when a grant is taken back that no client heard of.

use super::world::*;
use crate::core::lock::{Acquired, Claim, EndReason, Extension, Hold, Mode, WaitResult, WaiterId};
use crate::core::time::{Millis, UnixMs, Wakeup};

/// The hold of `name` on `key`, and the mode of the lock.
fn hold(world: &World, key: &str, name: &str) -> Option<(Mode, Hold)> {
    let lock = world.lock(key)?;
    Some((lock.mode(), lock.hold(&token(name))?.to_hold()))
}

/// Ann holds `a` with a long lease; another connection of hers was granted `a` and `b`, for a short time, and has not heard of it.
fn partly_held(session: bool) -> (World, Option<(Mode, Hold)>) {
    let mut world = World::new();
    let request = if session { ask("ann").session() } else { ask("ann") };
    world.acquire("a", 7, &request.lease(9_000)).unwrap().granted();
    let before = hold(&world, "a", "ann");
    world.take("b", &ask("bob"));
    let both = world.wait_many(&["a", "b"], 1, &ask("ann").lease(500));
    assert!(world.release("b", "bob"));
    assert_eq!(world.granted(), [both]);
    assert_ne!(hold(&world, "a", "ann"), before);
    (world, before)
}

#[test]
fn what_a_token_held_of_many_keys_is_held_as_before() {
    for session in [false, true] {
        let (mut world, before) = partly_held(session);
        world.wait("a", 3, &ask("eve"));
        world.engine.client_gone(world.now.ms, client(1));
        let shown = world.info("a").unwrap().holders[0].clone();
        assert_eq!((shown.fence, shown.left), (before.as_ref().unwrap().1.fence, Millis(9_000)));
        world.told();
        let _ = world.tick();
        assert_eq!((hold(&world, "a", "ann"), hold(&world, "b", "ann")), (before.clone(), None));
        let told = world.told();
        let (mode, back) = before.clone().unwrap();
        assert!(told.contains(&Told::Held(at("a").to_buf(), mode, back)), "replicas hear of it: {told:?}");
        assert!(told.contains(&Told::Ended(at("b").to_buf(), token("ann"), EndReason::Undelivered)));
        // Its lease is in the deadline index, and its session is tied to its own connection.
        world.engine.client_gone(world.now.ms, client(7));
        let _ = world.tick();
        assert_eq!(world.holders("a"), [if session { "eve" } else { "ann" }]);
    }
}

#[test]
fn the_lease_that_comes_back_ends_when_it_would_have() {
    let (mut world, before) = partly_held(false);
    world.engine.client_gone(world.now.ms, client(1));
    let Some((_, Hold { deadline: UnixMs(deadline), .. })) = before else { panic!("she held it") };
    let _ = world.tick();
    world.pass(deadline - world.now.ms.0 - 1);
    let _ = world.tick();
    assert_eq!(hold(&world, "a", "ann"), before);
    world.pass(1);
    let _ = world.tick();
    world.assert_blank();
}

#[test]
fn a_lease_that_is_over_meanwhile_does_not_come_back() {
    let mut world = World::new();
    world.take("a", &ask("ann").lease(100));
    world.take("b", &ask("bob"));
    world.wait_many(&["a", "b"], 1, &ask("ann"));
    assert!(world.release("b", "bob"));
    world.pass(100);
    let _ = world.tick();
    assert_eq!(world.holders("a"), ["ann"], "the grant has its own lease");
    world.told();
    world.engine.client_gone(world.now.ms, client(1));
    let _ = world.tick();
    assert!(world.told().contains(&Told::Ended(at("a").to_buf(), token("ann"), EndReason::Expired)));
    world.assert_blank();
}

#[test]
fn a_session_that_has_ended_meanwhile_does_not_come_back() {
    for earlier_first in [true, false] {
        let (mut world, _) = partly_held(true);
        let [first, second] = if earlier_first { [7, 1] } else { [1, 7] };
        world.engine.client_gone(world.now.ms, client(first));
        if earlier_first {
            let _ = world.tick();
            assert_eq!(world.holders("a"), ["ann"], "the grant is another connection's");
        }
        world.engine.client_gone(world.now.ms, client(second));
        assert!(world.holders("a").is_empty());
        let _ = world.tick();
        world.assert_blank();
    }
}

#[test]
fn an_upgrade_that_is_taken_back_leaves_the_shared_hold_and_lets_others_share() {
    let mut world = World::new();
    let fence = world.take("book", &ask("ann").shared());
    world.take("book", &ask("bob").shared());
    let upgrade = world.wait("book", 1, &ask("ann"));
    let eve = world.wait("book", 2, &ask("eve").shared());
    assert!(world.release("book", "bob"));
    assert_eq!(world.granted(), [upgrade]);
    world.engine.client_gone(world.now.ms, client(1));
    assert_eq!(world.info("book").unwrap().mode, Some(Mode::Shared));
    let _ = world.tick();
    assert_eq!(world.granted(), [eve]);
    assert_eq!(world.holders("book"), ["ann", "eve"]);
    assert_eq!(hold(&world, "book", "ann").unwrap().1.fence, fence);
}

#[test]
fn nothing_comes_back_once_the_token_has_heard_of_the_grant() {
    for what in ["delivered", "extended", "renewed", "released"] {
        let (mut world, before) = partly_held(false);
        let now = hold(&world, "a", "ann");
        match what {
            "delivered" => {
                let waiter = world.engine.notes.unacked().next().unwrap();
                world.engine.delivered(waiter);
            }
            "extended" => assert_eq!(world.extend("a", "ann", 500), Ok(true)),
            "renewed" => assert_eq!(world.take("a", &ask("ann").lease(500)), now.as_ref().unwrap().1.fence),
            _ => assert!(world.release("a", "ann")),
        }
        world.engine.client_gone(world.now.ms, client(1));
        let _ = world.tick();
        assert_ne!(hold(&world, "a", "ann"), before, "{what}");
        assert_eq!(hold(&world, "a", "ann"), now.filter(|_| what != "released"), "{what}");
    }
}

#[test]
fn it_comes_back_under_the_name_that_the_lock_has_then() {
    let (mut world, before) = partly_held(true);
    let lock = world.delete("a").unwrap();
    world.keys.values.insert(at("c").to_buf(), Value::Lock(lock));
    let Some(Value::Lock(lock)) = world.keys.values.get_mut(&at("c").to_buf()) else { panic!("it is there") };
    world.engine.register(at("c"), lock);
    world.engine.client_gone(world.now.ms, client(1));
    let _ = world.tick();
    assert_eq!(hold(&world, "c", "ann"), before);
    world.engine.client_gone(world.now.ms, client(7));
    let _ = world.tick();
    world.assert_blank();
}

#[test]
fn a_session_that_has_ended_does_not_come_back_under_another_name_either() {
    let (mut world, _) = partly_held(true);
    world.engine.client_gone(world.now.ms, client(7));
    let _ = world.tick();
    let lock = world.delete("a").unwrap();
    world.keys.values.insert(at("c").to_buf(), Value::Lock(lock));
    let Some(Value::Lock(lock)) = world.keys.values.get_mut(&at("c").to_buf()) else { panic!("it is there") };
    world.engine.register(at("c"), lock);
    assert_eq!(world.holders("c"), ["ann"], "the grant is another connection's");
    world.engine.client_gone(world.now.ms, client(1));
    let _ = world.tick();
    world.assert_blank();
}

#[test]
fn nothing_comes_back_on_a_server_that_has_been_a_replica() {
    let (mut world, before) = partly_held(false);
    world.engine.client_gone(world.now.ms, client(1));
    world.engine.demoted(world.now.ms);
    let _ = world.tick();
    assert_ne!(hold(&world, "a", "ann"), before, "the other server has replicated the grant");
    assert_eq!(world.holders("b"), ["ann"]);
}

#[test]
fn of_two_grants_on_their_way_each_is_taken_back_by_itself() {
    // Both were made in one step: a and b to connection 1, then a, b and c to connection 2.
    for gone in [[1, 2], [2, 1]] {
        let mut world = World::new();
        world.take("a", &ask("ann").lease(9_000));
        let before = hold(&world, "a", "ann");
        world.take("b", &ask("bob"));
        let two = world.wait_many(&["a", "b"], 1, &ask("ann"));
        let three = world.wait_many(&["a", "b", "c"], 2, &ask("ann"));
        assert!(world.release("b", "bob"));
        assert_eq!(world.granted(), [two, three]);
        world.engine.client_gone(world.now.ms, client(gone[0]));
        let _ = world.tick();
        let of = |world: &World, key| hold(world, key, "ann").map(|(_, hold)| hold.fence);
        assert_eq!(of(&world, "a"), of(&world, "b"));
        assert_eq!(of(&world, "c"), if gone[0] == 1 { of(&world, "a") } else { None });
        world.engine.client_gone(world.now.ms, client(gone[1]));
        let _ = world.tick();
        assert_eq!((hold(&world, "a", "ann"), of(&world, "b"), of(&world, "c")), (before, None, None));
        assert!(world.answers().iter().all(|(_, answer)| !matches!(answer, WaitResult::Granted(_))));
    }
}

#[test]
fn nothing_is_left_of_a_grant_that_ended_before_the_one_that_replaced_it_was_taken_back() {
    let mut world = World::new();
    world.acquire("a", 7, &ask("ann").shared().session()).unwrap().granted();
    world.take("a", &ask("bob").shared());
    world.take("b", &ask("eve"));
    world.wait("a", 1, &ask("ann"));
    assert!(world.release("a", "bob"));
    world.wait_many(&["a", "b"], 2, &ask("ann"));
    assert!(world.release("b", "eve"));
    assert_eq!(world.granted().len(), 2);
    for gone in [7, 2, 1] {
        world.engine.client_gone(world.now.ms, client(gone));
        let _ = world.tick();
    }
    world.assert_blank();
}

/// Ann's requests for `a` and `b` and for `b` alone, over connections 1 and 2, are granted the same hold of `b`. Eve waits behind.
fn granted_twice() -> (World, [WaiterId; 2]) {
    let mut world = World::new();
    world.take("b", &ask("zoe"));
    let both = world.wait_many(&["a", "b"], 1, &ask("ann"));
    let single = world.wait("b", 2, &ask("ann"));
    world.wait("b", 3, &ask("eve"));
    assert!(world.release("b", "zoe"));
    assert_eq!(world.granted(), [both, single]);
    (world, [both, single])
}

#[test]
fn what_two_requests_were_granted_is_taken_back_if_neither_is_delivered() {
    for gone in [[1, 2], [2, 1]] {
        let (mut world, _) = granted_twice();
        world.engine.client_gone(world.now.ms, client(gone[0]));
        let _ = world.tick();
        assert_eq!(world.holders("b"), ["ann"], "the other request may still be told");
        assert_eq!(world.lock("a").is_some(), gone[0] == 2);
        world.engine.client_gone(world.now.ms, client(gone[1]));
        let _ = world.tick();
        assert_eq!((world.holders("b"), world.lock("a").is_some()), (vec!["eve".to_owned()], false));
    }
    for (delivered, gone) in [(0, 2), (1, 1)] {
        for delivered_first in [true, false] {
            let (mut world, granted) = granted_twice();
            if delivered_first {
                world.engine.delivered(granted[delivered]);
            }
            world.engine.client_gone(world.now.ms, client(gone));
            let _ = world.tick();
            world.engine.delivered(granted[delivered]);
            let _ = world.tick();
            assert_eq!(world.holders("b"), ["ann"]);
            assert_eq!(world.lock("a").is_some(), delivered == 0, "only the request for both was told of a");
            assert!(!world.engine.knows(client(1)) && !world.engine.knows(client(2)));
        }
    }
}

#[test]
fn what_two_requests_were_granted_is_taken_back_under_its_new_name() {
    let (mut world, _) = granted_twice();
    let lock = world.delete("b").unwrap();
    world.keys.values.insert(at("c").to_buf(), Value::Lock(lock));
    let Some(Value::Lock(lock)) = world.keys.values.get_mut(&at("c").to_buf()) else { panic!("it is there") };
    world.engine.register(at("c"), lock);
    for gone in [1, 2] {
        let _ = world.tick();
        assert_eq!(world.holders("c"), ["ann"]);
        world.engine.client_gone(world.now.ms, client(gone));
    }
    let _ = world.tick();
    assert!(world.lock("c").is_none());
}

#[test]
fn only_a_command_that_succeeds_keeps_a_grant_that_was_not_delivered() {
    type Command = fn(&mut World) -> bool;
    let commands: [(Command, bool); 8] = [
        (|world| world.extend_many(&["a", "b"], "ann", 9_000) == Ok(true), false),
        (|world| world.acquire("a", 9, &ask("ann").limit(2)).unwrap() != Acquired::Refused, false),
        (|world| world.acquire("a", 9, &ask("ann").shared()).unwrap() != Acquired::Refused, false),
        (|world| world.acquire_many(&["a", "b"], 9, &ask("ann")).unwrap() != Acquired::Refused, false),
        (|world| world.extend_many(&["a", "foreign"], "ann", 9_000).is_ok(), false),
        (|world| world.release_many(&["a", "foreign"], "ann").is_ok(), false),
        (|world| world.extend_many(&["a"], "ann", 9_000) == Ok(true), true),
        (|world| world.acquire_many(&["a"], 9, &ask("ann")).unwrap() != Acquired::Refused, true),
    ];
    for (number, (command, keeps)) in commands.into_iter().enumerate() {
        let mut world = World::new();
        world.take("a", &ask("zoe"));
        world.take("b", &ask("zoe"));
        world.keys.values.insert(at("foreign").to_buf(), Value::Foreign);
        world.wait("a", 1, &ask("ann"));
        world.wait("a", 2, &ask("eve"));
        assert!(world.release("a", "zoe"));
        world.engine.client_gone(world.now.ms, client(1));
        assert_eq!(command(&mut world), keeps, "{number}");
        let _ = world.tick();
        assert_eq!(world.holders("a"), [if keeps { "ann" } else { "eve" }], "{number}");
    }
}

#[test]
fn without_a_fence_a_token_extends_the_hold_that_it_knows() {
    // Of `a` and `b` the token knows only its earlier hold of `a`.
    for (keys, extended) in [(&["a"][..], true), (&["a", "b"], false)] {
        let (mut world, before) = partly_held(false);
        let next = world.wait("b", 2, &ask("eve"));
        world.told();
        world.engine.client_gone(world.now.ms, client(1));
        assert_eq!(world.extend_many(keys, "ann", 500), Ok(extended));
        let _ = world.tick();
        assert_eq!((hold(&world, "a", "ann"), world.granted()), (before, vec![next]), "{keys:?}");
    }
}

#[test]
fn a_token_keeps_a_lost_grant_that_it_names_or_if_it_knows_no_other_hold() {
    for names_it in [true, false] {
        let mut world = World::new();
        world.take("a", &ask("ann").lease(if names_it { 9_000 } else { 100 }));
        world.take("b", &ask("bob"));
        world.wait_many(&["a", "b"], 1, &ask("ann"));
        assert!(world.release("b", "bob"));
        world.pass(100);
        let granted = hold(&world, "a", "ann").unwrap().1.fence;
        world.engine.client_gone(world.now.ms, client(1));
        let (token, extension) = (token("ann"), Extension { lease: Millis(9_000), only_later: false });
        let claim = Claim { token: &token, fence: Some(granted).filter(|_| names_it) };
        assert_eq!(world.engine.extend(world.now, &[at("a")], claim, extension, &mut world.keys), Ok(true));
        let _ = world.tick();
        assert_eq!(hold(&world, "a", "ann").unwrap().1.fence, granted);
        assert!(world.lock("b").is_none(), "of that key no command has told the token");
    }
}

#[test]
fn a_lock_that_is_searched_for_loses_a_grant_that_is_taken_back_when_it_is_found() {
    let (mut world, before) = partly_held(false);
    world.engine.client_gone(world.now.ms, client(1));
    let lock = world.delete("a").unwrap();
    world.engine.is_searching = true;
    let _ = world.tick();
    world.keys.values.insert(at("c").to_buf(), Value::Lock(lock));
    let Some(Value::Lock(lock)) = world.keys.values.get_mut(&at("c").to_buf()) else { panic!("it is there") };
    world.engine.register(at("c"), lock);
    world.engine.is_searching = false;
    let _ = world.tick();
    assert_eq!(hold(&world, "c", "ann"), before);
    assert!(world.release("c", "ann"));
    // The retry of the search finds nothing to do.
    world.pass(100);
    assert_eq!(world.tick(), Wakeup::Never);
    world.assert_blank();
}

#[test]
fn a_grant_that_is_taken_back_is_forgotten_when_its_lock_was_not_found() {
    let (mut world, _) = partly_held(false);
    world.engine.client_gone(world.now.ms, client(1));
    world.delete("a").unwrap();
    for is_searching in [true, true, false] {
        world.engine.is_searching = is_searching;
        let wakeup = world.tick();
        assert_eq!(wakeup != Wakeup::Never, is_searching);
        world.pass(100);
    }
    world.assert_blank();
}
