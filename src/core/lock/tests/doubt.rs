//! What was lost on the way to the engine is found out.

use super::world::{Told, Value, World, ask, at, client};
use crate::core::lock::EndReason;

#[test]
fn who_left_unnoticed_is_missed() {
    let mut world = World::new();
    world.acquire("lock", 1, &ask("a").session()).unwrap().granted();
    world.take("other", &ask("b"));
    let lost = world.wait("other", 2, &ask("c"));
    let next = world.wait("other", 3, &ask("d"));
    let heir = world.wait("lock", 3, &ask("e"));
    // The first client hung up, the second one's time is over.
    world.engine.reconcile(world.now.ms, |known| known != client(1), |waiter| waiter != lost);
    let _ = world.tick();
    assert_eq!(world.granted(), [heir]);
    assert!(world.release("other", "b"));
    assert_eq!(world.granted(), [next]);
}

#[test]
fn a_grant_that_may_have_been_told_stands_with_its_connection() {
    for connected in [true, false] {
        let mut world = World::new();
        world.take("lock", &ask("a"));
        world.wait("lock", 2, &ask("b"));
        world.release("lock", "a");
        world.told();
        world.engine.reconcile(world.now.ms, |_| connected, |_| false);
        let _ = world.tick();
        let taken_back = world.told().iter().any(|told| matches!(told, Told::Ended(_, _, EndReason::Undelivered)));
        assert_eq!((taken_back, world.holders("lock").len()), (!connected, usize::from(connected)));
        world.engine.client_gone(world.now.ms, client(2));
        let _ = world.tick();
        assert_eq!(world.holders("lock").len(), usize::from(connected), "it was delivered");
    }
}

#[test]
fn a_lock_that_vanished_or_moved_without_a_word_is_looked_for() {
    let mut world = World::new();
    world.take("gone", &ask("a"));
    world.acquire("from", 1, &ask("b").lease(50).session()).unwrap().granted();
    let heir = world.wait("gone", 2, &ask("c"));
    world.keys.values.remove(&at("gone").to_buf());
    let moved = world.keys.values.remove(&at("from").to_buf()).unwrap();
    world.keys.values.insert(at("to").to_buf(), moved);
    world.engine.reconcile(world.now.ms, |_| true, |_| true);
    let Some(Value::Lock(lock)) = world.keys.values.get_mut(&at("to").to_buf()) else { panic!("a lock") };
    world.engine.reregister(at("to"), lock);
    let _ = world.tick();
    assert_eq!(world.granted(), [heir]);
    let heir = world.wait("to", 3, &ask("d"));
    world.engine.client_gone(world.now.ms, client(1));
    let _ = world.tick();
    assert_eq!(world.granted(), [heir], "the session moved with the lock");
    world.pass(2_000);
    let _ = world.tick();
    for gone in [2, 3] {
        world.engine.client_gone(world.now.ms, client(gone));
    }
    let _ = world.tick();
    world.assert_blank();
}

#[test]
fn a_lock_that_was_left_free_in_its_key_is_discarded() {
    for known in [true, false] {
        let mut world = World::new();
        let fence = world.take("lock", &ask("a"));
        let Some(Value::Lock(lock)) = world.keys.values.get_mut(&at("lock").to_buf()) else { panic!("a lock") };
        lock.take(fence).unwrap();
        if !known {
            world.engine.deadlines.remove(lock.deadline_id().unwrap());
        }
        world.engine.reconcile(world.now.ms, |_| true, |_| true);
        world.engine.reregister(at("lock"), lock);
        let _ = world.tick();
        assert!(world.lock("lock").is_none());
        world.assert_blank();
    }
}

#[test]
fn whoever_is_parked_and_was_forgotten_gives_back_what_it_was_granted() {
    let mut world = World::new();
    world.take("lock", &ask("a"));
    let forgotten = world.wait("lock", 2, &ask("b"));
    let next = world.wait("lock", 3, &ask("c"));
    assert!(world.engine.is_queued(world.now.ms, forgotten));
    world.release("lock", "a");
    assert_eq!(world.granted(), [forgotten], "which it is not told");
    assert!(!world.engine.is_queued(world.now.ms, forgotten));
    let _ = world.tick();
    assert_eq!(world.granted(), [next]);
}
