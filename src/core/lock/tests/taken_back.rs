//! What comes back when a grant is taken back that nobody heard of.

use super::world::*;
use crate::core::lock::{EndReason, Hold, Mode, WaitResult};
use crate::core::time::UnixMs;

/// The hold of `name` on `key`, and the mode of the lock.
fn hold(desk: &Desk, key: &str, name: &str) -> Option<(Mode, Hold)> {
    let lock = desk.lock(key)?;
    Some((lock.mode(), lock.hold(&token(name))?.to_hold()))
}

/// Ann holds `a` with a long lease; another connection of hers was granted `a` and `b`, for a short time, and has not heard of it.
fn partly_held(session: bool) -> (Desk, Option<(Mode, Hold)>) {
    let mut desk = Desk::new();
    let request = if session { ask("ann").session() } else { ask("ann") };
    desk.acquire("a", 7, &request.lease(9_000)).unwrap().granted();
    let before = hold(&desk, "a", "ann");
    desk.take("b", &ask("bob"));
    let both = desk.wait_many(&["a", "b"], 1, &ask("ann").lease(500));
    assert!(desk.release("b", "bob"));
    assert_eq!(desk.granted(), [both]);
    assert_ne!(hold(&desk, "a", "ann"), before);
    (desk, before)
}

#[test]
fn what_a_token_held_of_many_keys_is_held_as_before() {
    for session in [false, true] {
        let (mut desk, before) = partly_held(session);
        desk.wait("a", 3, &ask("eve"));
        desk.engine.client_gone(desk.now.ms, client(1));
        let shown = desk.info("a").unwrap().holders[0].clone();
        assert_eq!((shown.fence, shown.left), (before.as_ref().unwrap().1.fence, crate::core::time::Millis(9_000)));
        desk.told();
        let _ = desk.tick();
        assert_eq!((hold(&desk, "a", "ann"), hold(&desk, "b", "ann")), (before.clone(), None));
        let told = desk.told();
        let (mode, back) = before.clone().unwrap();
        assert!(told.contains(&Told::Held(at("a").to_buf(), mode, back)), "replicas hear of it: {told:?}");
        assert!(told.contains(&Told::Ended(at("b").to_buf(), token("ann"), EndReason::Undelivered)));
        // Its lease is in the deadline index, and its session is tied to its own connection.
        desk.engine.client_gone(desk.now.ms, client(7));
        let _ = desk.tick();
        assert_eq!(desk.holders("a"), [if session { "eve" } else { "ann" }]);
    }
}

#[test]
fn the_lease_that_comes_back_ends_when_it_would_have() {
    let (mut desk, before) = partly_held(false);
    desk.engine.client_gone(desk.now.ms, client(1));
    let Some((_, Hold { deadline: UnixMs(deadline), .. })) = before else { panic!("she held it") };
    let _ = desk.tick();
    desk.pass(deadline - desk.now.ms.0 - 1);
    let _ = desk.tick();
    assert_eq!(hold(&desk, "a", "ann"), before);
    desk.pass(1);
    let _ = desk.tick();
    desk.assert_blank();
}

#[test]
fn a_lease_that_is_over_meanwhile_does_not_come_back() {
    let mut desk = Desk::new();
    desk.take("a", &ask("ann").lease(100));
    desk.take("b", &ask("bob"));
    desk.wait_many(&["a", "b"], 1, &ask("ann"));
    assert!(desk.release("b", "bob"));
    desk.pass(100);
    let _ = desk.tick();
    assert_eq!(desk.holders("a"), ["ann"], "the grant has its own lease");
    desk.told();
    desk.engine.client_gone(desk.now.ms, client(1));
    let _ = desk.tick();
    assert!(desk.told().contains(&Told::Ended(at("a").to_buf(), token("ann"), EndReason::Expired)));
    desk.assert_blank();
}

#[test]
fn a_session_that_has_ended_meanwhile_does_not_come_back() {
    for earlier_first in [true, false] {
        let (mut desk, _) = partly_held(true);
        let [first, second] = if earlier_first { [7, 1] } else { [1, 7] };
        desk.engine.client_gone(desk.now.ms, client(first));
        if earlier_first {
            let _ = desk.tick();
            assert_eq!(desk.holders("a"), ["ann"], "the grant is another connection's");
        }
        desk.engine.client_gone(desk.now.ms, client(second));
        assert!(desk.holders("a").is_empty());
        let _ = desk.tick();
        desk.assert_blank();
    }
}

#[test]
fn an_upgrade_that_is_taken_back_leaves_the_shared_hold_and_lets_others_share() {
    let mut desk = Desk::new();
    let fence = desk.take("book", &ask("ann").shared());
    desk.take("book", &ask("bob").shared());
    let upgrade = desk.wait("book", 1, &ask("ann"));
    let eve = desk.wait("book", 2, &ask("eve").shared());
    assert!(desk.release("book", "bob"));
    assert_eq!(desk.granted(), [upgrade]);
    desk.engine.client_gone(desk.now.ms, client(1));
    assert_eq!(desk.info("book").unwrap().mode, Some(Mode::Shared));
    let _ = desk.tick();
    assert_eq!(desk.granted(), [eve]);
    assert_eq!(desk.holders("book"), ["ann", "eve"]);
    assert_eq!(hold(&desk, "book", "ann").unwrap().1.fence, fence);
}

#[test]
fn nothing_comes_back_once_the_token_has_heard_of_the_grant() {
    for what in ["delivered", "extended", "renewed", "released"] {
        let (mut desk, before) = partly_held(false);
        let now = hold(&desk, "a", "ann");
        match what {
            "delivered" => {
                let waiter = desk.engine.notes.unacked().next().unwrap();
                desk.engine.delivered(waiter);
            }
            "extended" => assert_eq!(desk.extend("a", "ann", 500), Ok(true)),
            "renewed" => assert_eq!(desk.take("a", &ask("ann").lease(500)), now.as_ref().unwrap().1.fence),
            _ => assert!(desk.release("a", "ann")),
        }
        desk.engine.client_gone(desk.now.ms, client(1));
        let _ = desk.tick();
        assert_ne!(hold(&desk, "a", "ann"), before, "{what}");
        assert_eq!(hold(&desk, "a", "ann"), now.filter(|_| what != "released"), "{what}");
    }
}

#[test]
fn it_comes_back_under_the_name_that_the_lock_has_then() {
    let (mut desk, before) = partly_held(true);
    let lock = desk.delete("a").unwrap();
    desk.keys.values.insert(at("c").to_buf(), Value::Lock(lock));
    let Some(Value::Lock(lock)) = desk.keys.values.get_mut(&at("c").to_buf()) else { panic!("it is there") };
    desk.engine.register(at("c"), lock);
    desk.engine.client_gone(desk.now.ms, client(1));
    let _ = desk.tick();
    assert_eq!(hold(&desk, "c", "ann"), before);
    desk.engine.client_gone(desk.now.ms, client(7));
    let _ = desk.tick();
    desk.assert_blank();
}

#[test]
fn a_session_that_has_ended_does_not_come_back_under_another_name_either() {
    let (mut desk, _) = partly_held(true);
    desk.engine.client_gone(desk.now.ms, client(7));
    let _ = desk.tick();
    let lock = desk.delete("a").unwrap();
    desk.keys.values.insert(at("c").to_buf(), Value::Lock(lock));
    let Some(Value::Lock(lock)) = desk.keys.values.get_mut(&at("c").to_buf()) else { panic!("it is there") };
    desk.engine.register(at("c"), lock);
    assert_eq!(desk.holders("c"), ["ann"], "the grant is another connection's");
    desk.engine.client_gone(desk.now.ms, client(1));
    let _ = desk.tick();
    desk.assert_blank();
}

#[test]
fn nothing_comes_back_on_a_server_that_has_been_a_replica() {
    let (mut desk, before) = partly_held(false);
    desk.engine.client_gone(desk.now.ms, client(1));
    desk.engine.demoted(desk.now.ms);
    let _ = desk.tick();
    assert_ne!(hold(&desk, "a", "ann"), before, "the other server has replicated the grant");
    assert_eq!(desk.holders("b"), ["ann"]);
}

#[test]
fn of_two_grants_on_their_way_each_is_taken_back_by_itself() {
    // Both were made in one step: a and b to connection 1, then a, b and c to connection 2.
    for gone in [[1, 2], [2, 1]] {
        let mut desk = Desk::new();
        desk.take("a", &ask("ann").lease(9_000));
        let before = hold(&desk, "a", "ann");
        desk.take("b", &ask("bob"));
        let two = desk.wait_many(&["a", "b"], 1, &ask("ann"));
        let three = desk.wait_many(&["a", "b", "c"], 2, &ask("ann"));
        assert!(desk.release("b", "bob"));
        assert_eq!(desk.granted(), [two, three]);
        desk.engine.client_gone(desk.now.ms, client(gone[0]));
        let _ = desk.tick();
        let of = |desk: &Desk, key| hold(desk, key, "ann").map(|(_, hold)| hold.fence);
        assert_eq!(of(&desk, "a"), of(&desk, "b"));
        assert_eq!(of(&desk, "c"), if gone[0] == 1 { of(&desk, "a") } else { None });
        desk.engine.client_gone(desk.now.ms, client(gone[1]));
        let _ = desk.tick();
        assert_eq!((hold(&desk, "a", "ann"), of(&desk, "b"), of(&desk, "c")), (before, None, None));
        assert!(desk.answers().iter().all(|(_, answer)| !matches!(answer, WaitResult::Granted(_))));
    }
}

#[test]
fn nothing_is_left_of_a_grant_that_ended_before_the_one_that_replaced_it_was_taken_back() {
    let mut desk = Desk::new();
    desk.acquire("a", 7, &ask("ann").shared().session()).unwrap().granted();
    desk.take("a", &ask("bob").shared());
    desk.take("b", &ask("eve"));
    desk.wait("a", 1, &ask("ann"));
    assert!(desk.release("a", "bob"));
    desk.wait_many(&["a", "b"], 2, &ask("ann"));
    assert!(desk.release("b", "eve"));
    assert_eq!(desk.granted().len(), 2);
    for gone in [7, 2, 1] {
        desk.engine.client_gone(desk.now.ms, client(gone));
        let _ = desk.tick();
    }
    desk.assert_blank();
}
