//! What was lost on the way to the engine is found out.

use super::world::{Desk, Told, Value, ask, at, client};
use crate::core::lock::EndReason;

#[test]
fn who_left_unnoticed_is_missed() {
    let mut desk = Desk::new();
    desk.acquire("lock", 1, &ask("a").session()).unwrap().granted();
    desk.take("other", &ask("b"));
    let lost = desk.wait("other", 2, &ask("c"));
    let next = desk.wait("other", 3, &ask("d"));
    let heir = desk.wait("lock", 3, &ask("e"));
    // The first client hung up, the second one's time is over.
    desk.engine.reconcile(desk.now.ms, |known| known != client(1), |waiter| waiter != lost);
    let _ = desk.tick();
    assert_eq!(desk.granted(), [heir]);
    assert!(desk.release("other", "b"));
    assert_eq!(desk.granted(), [next]);
}

#[test]
fn a_grant_that_may_have_been_told_stands_with_its_connection() {
    for connected in [true, false] {
        let mut desk = Desk::new();
        desk.take("lock", &ask("a"));
        desk.wait("lock", 2, &ask("b"));
        desk.release("lock", "a");
        desk.told();
        desk.engine.reconcile(desk.now.ms, |_| connected, |_| false);
        let _ = desk.tick();
        let taken_back = desk.told().iter().any(|told| matches!(told, Told::Ended(_, _, EndReason::Undelivered)));
        assert_eq!((taken_back, desk.holders("lock").len()), (!connected, usize::from(connected)));
        desk.engine.client_gone(desk.now.ms, client(2));
        let _ = desk.tick();
        assert_eq!(desk.holders("lock").len(), usize::from(connected), "it was delivered");
    }
}

#[test]
fn a_lock_that_vanished_or_moved_without_a_word_is_looked_for() {
    let mut desk = Desk::new();
    desk.take("gone", &ask("a"));
    desk.acquire("from", 1, &ask("b").lease(50).session()).unwrap().granted();
    let heir = desk.wait("gone", 2, &ask("c"));
    desk.keys.values.remove(&at("gone").to_buf());
    let moved = desk.keys.values.remove(&at("from").to_buf()).unwrap();
    desk.keys.values.insert(at("to").to_buf(), moved);
    desk.engine.reconcile(desk.now.ms, |_| true, |_| true);
    let Some(Value::Lock(lock)) = desk.keys.values.get_mut(&at("to").to_buf()) else { panic!("a lock") };
    desk.engine.reregister(at("to"), lock);
    let _ = desk.tick();
    assert_eq!(desk.granted(), [heir]);
    let heir = desk.wait("to", 3, &ask("d"));
    desk.engine.client_gone(desk.now.ms, client(1));
    let _ = desk.tick();
    assert_eq!(desk.granted(), [heir], "the session moved with the lock");
    desk.pass(2_000);
    let _ = desk.tick();
    for gone in [2, 3] {
        desk.engine.client_gone(desk.now.ms, client(gone));
    }
    let _ = desk.tick();
    desk.assert_blank();
}

#[test]
fn a_lock_that_was_left_free_in_its_key_is_discarded() {
    for known in [true, false] {
        let mut desk = Desk::new();
        let fence = desk.take("lock", &ask("a"));
        let Some(Value::Lock(lock)) = desk.keys.values.get_mut(&at("lock").to_buf()) else { panic!("a lock") };
        lock.take(fence).unwrap();
        if !known {
            desk.engine.deadlines.remove(lock.deadline_id().unwrap());
        }
        desk.engine.reconcile(desk.now.ms, |_| true, |_| true);
        desk.engine.reregister(at("lock"), lock);
        let _ = desk.tick();
        assert!(desk.lock("lock").is_none());
        desk.assert_blank();
    }
}

#[test]
fn whoever_is_parked_and_was_forgotten_gives_back_what_it_was_granted() {
    let mut desk = Desk::new();
    desk.take("lock", &ask("a"));
    let forgotten = desk.wait("lock", 2, &ask("b"));
    let next = desk.wait("lock", 3, &ask("c"));
    assert!(desk.engine.is_queued(desk.now.ms, forgotten));
    desk.release("lock", "a");
    assert_eq!(desk.granted(), [forgotten], "which it is not told");
    assert!(!desk.engine.is_queued(desk.now.ms, forgotten));
    let _ = desk.tick();
    assert_eq!(desk.granted(), [next]);
}
