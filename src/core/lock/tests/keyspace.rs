//! Locks as keys: deleted, renamed, flushed, swapped, loaded, replicated.

use super::world::*;
use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::lock::{Acquired, Engine, Found, Hold, Keyspace, Lock, Mode};
use crate::core::time::{UnixMs, Wakeup};

impl World {
    /// RENAME.
    fn rename(&mut self, from: &str, to: &str) {
        let lock = self.delete(from).unwrap();
        self.keys.values.insert(at(to).to_buf(), Value::Lock(lock));
        let Found::Lock(lock) = self.keys.find(at(to)) else { panic!("it was put there") };
        self.engine.register(at(to), lock);
    }
}

#[test]
fn deleting_the_key_hands_over() {
    let mut world = World::new();
    world.acquire("door", 9, &ask("ann").session()).unwrap().granted();
    let bob = world.wait("door", 1, &ask("bob"));
    world.told();
    world.delete("door");
    assert_eq!((world.engine.locks(), world.engine.next_wakeup()), (0, Wakeup::Now));
    assert!(!world.engine.knows(client(9)));
    let _ = world.tick();
    assert_eq!(world.granted(), [bob]);
}

#[test]
fn a_refused_request_makes_a_lock_known_that_was_put_there_without_a_word() {
    let mut world = World::new();
    world.take("door", &ask("ann").lease(100));
    let lock = world.delete("door").unwrap();
    world.keys.values.insert(at("gate").to_buf(), Value::Lock(lock));
    assert_eq!(world.engine.locks(), 0);
    assert!(matches!(world.try_acquire("gate", &ask("bob")), Ok(Acquired::Refused)));
    assert_eq!(world.engine.locks(), 1);
    world.pass(100);
    let _ = world.tick();
    assert!(world.lock("gate").is_none(), "its lease ends on time");
}

#[test]
fn a_key_that_went_without_a_word_is_noticed_when_its_lease_would_end() {
    let mut world = World::new();
    world.take("door", &ask("ann").lease(100));
    let bob = world.wait("door", 1, &ask("bob"));
    world.take("gate", &ask("ann").lease(100));
    world.keys.values.clear();
    world.told();
    world.pass(100);
    let _ = world.tick();
    assert_eq!(world.granted(), [bob]);
    assert_eq!(world.engine.locks(), 1);
}

#[test]
fn a_lock_that_was_destroyed_without_a_word_is_forgotten() {
    let mut world = World::new();
    world.acquire("door", 9, &ask("ann").session()).unwrap().granted();
    let bob = world.wait("door", 1, &ask("bob"));
    world.told();
    let Some(Value::Lock(lock)) = world.keys.values.remove(&at("door").to_buf()) else { panic!("it was taken") };
    let entry = lock.deadline_id().unwrap();
    world.engine.destroyed(entry);
    assert!(!world.engine.knows(client(9)));
    let _ = world.tick();
    assert_eq!(world.granted(), [bob]);
    // An entry that was closed in another way is nobody else's.
    world.engine.destroyed(entry);
    assert_eq!((world.engine.locks(), world.holders("door")), (1, vec!["bob".into()]));
}

#[test]
fn a_lock_that_is_gone_is_not_put_off_though_its_place_is_another_nodes() {
    let mut world = World::new();
    for key in ["door", "gate"] {
        world.take(key, &ask("ann").lease(100));
        world.keys.elsewhere.push(at(key).to_buf());
    }
    world.keys.values.remove(&at("door").to_buf());
    world.pass(100);
    let next = world.tick();
    assert_eq!(world.engine.locks(), 1, "the one that is still there");
    assert!(matches!(next, Wakeup::At(retry) if retry > world.now.ms), "{next:?}");
}

#[test]
fn a_rename_moves_the_holds_and_their_sessions_and_the_waiters_stay() {
    let mut world = World::new();
    world.acquire("door", 9, &ask("ann").session()).unwrap().granted();
    let bob = world.wait("door", 1, &ask("bob").lease(50_000));
    world.told();
    world.rename("door", "gate");
    let _ = world.tick();
    assert_eq!(world.granted(), [bob]);
    assert_eq!((world.holders("door"), world.holders("gate")), (vec!["bob".into()], vec!["ann".into()]));
    let fay = world.wait("gate", 2, &ask("fay"));
    world.engine.client_gone(world.now.ms, client(9));
    world.rename("gate", "yard");
    let _ = world.tick();
    assert_eq!(world.granted(), [fay], "the waiter stayed with the old name");
    assert!(world.holders("yard").is_empty() && world.lock("yard").is_none(), "the session ended on its way");
}

#[test]
fn a_grant_on_its_way_follows_a_rename() {
    let mut world = World::new();
    world.take("door", &ask("ann"));
    world.wait("door", 1, &ask("bob"));
    assert!(world.release("door", "ann"));
    world.rename("door", "gate");
    world.engine.client_gone(world.now.ms, client(1));
    let _ = world.tick();
    world.assert_blank();
}

#[test]
fn flushing_frees_everything_and_hands_over() {
    let mut world = World::new();
    for key in ["a", "b"] {
        world.acquire(key, 9, &ask("ann").session()).unwrap().granted();
    }
    let bob = world.wait("a", 1, &ask("bob"));
    let other = KeyRef { db: 1, key: b"a" };
    let World { engine, keys, now } = &mut world;
    engine.acquire(*now, other, &ask("ann").session().by(9), keys).unwrap().granted();
    world.told();
    world.keys.values.retain(|place, _| place.as_key().db != 0);
    world.engine.flushed(Some(0));
    assert_eq!(world.engine.locks(), 1);
    let _ = world.tick();
    assert_eq!(world.granted(), [bob]);
    world.keys.values.clear();
    world.engine.flushed(None);
    world.engine.delivered(bob);
    let _ = world.tick();
    world.assert_blank();
}

#[test]
fn when_databases_are_swapped_holds_move_and_waiters_stay() {
    let mut world = World::new();
    world.acquire("door", 9, &ask("ann").session()).unwrap().granted();
    let bob = world.wait("door", 1, &ask("bob"));
    world.told();
    let values = std::mem::take(&mut world.keys.values);
    world.keys.values = values
        .into_iter()
        .map(|(place, value)| (KeyRef { db: 1 - place.as_key().db, ..place.as_key() }.to_buf(), value))
        .collect();
    world.engine.swapped(0, 1);
    let _ = world.tick();
    assert_eq!(world.granted(), [bob]);
    world.engine.client_gone(world.now.ms, client(9));
    let _ = world.tick();
    assert!(world.keys.values.keys().all(|place| place.as_key().db == 0), "ann's session ended in the other database");
}

fn restored(holds: &[(&str, u64)], world: &World) -> Lock {
    let mut lock = Lock::vacant();
    for (name, fence) in holds {
        let deadline = UnixMs(world.now.ms.0 + 500);
        lock.set(Mode::Shared, Hold { token: token(name), fence: Fence(*fence), deadline, limit: 0, session: None });
    }
    lock
}

#[test]
fn a_restored_lock_ends_on_time_and_its_fences_count() {
    for welcome in [true, false] {
        let mut world = World::new();
        let mut lock = restored(&[("ann", 7_000_000_000), ("bob", 7_000_000_001)], &world);
        if welcome {
            world.engine.register(at("door"), &mut lock);
        }
        world.keys.values.insert(at("door").to_buf(), Value::Lock(lock));
        if !welcome {
            // The engine was not told that the lock is there. The first request for it finds it.
            assert_eq!(world.take("door", &ask("ann").shared().lease(500)), Fence(7_000_000_000));
        }
        assert_eq!(world.engine.locks(), 1);
        assert!(world.take("gate", &ask("eve").lease(500)) > Fence(7_000_000_001));
        world.pass(500);
        let _ = world.tick();
        world.assert_blank();
    }
}

#[test]
fn a_lock_that_is_restored_over_a_queue_is_looked_at() {
    let mut world = World::new();
    world.take("a", &ask("ann"));
    world.take("b", &ask("x"));
    let both = world.wait_many(&["a", "b"], 1, &ask("bob"));
    world.told();
    // Both locks are replaced: one by a lock that bob holds himself, one by nothing.
    world.delete("a");
    world.delete("b");
    let mut lock = Lock::vacant();
    let hold =
        Hold { token: token("bob"), fence: Fence(5), deadline: UnixMs(world.now.ms.0 + 500), limit: 0, session: None };
    lock.set(Mode::Exclusive, hold);
    world.engine.register(at("a"), &mut lock);
    world.keys.values.insert(at("a").to_buf(), Value::Lock(lock));
    let _ = world.tick();
    assert_eq!(world.granted(), [both]);
}

/// A replica: what is applied to it, and what it has.
#[derive(Default)]
struct Replica {
    engine: Engine,
    keys: Keys,
}

impl Replica {
    fn held(&mut self, mode: Mode, name: &str, fence: u64, limit: u64) {
        let hold =
            Hold { token: token(name), fence: Fence(fence), deadline: UnixMs(5), limit, session: Some(client(1)) };
        for _ in 0..2 {
            self.engine.apply_held(at("door"), mode, hold.clone(), &mut self.keys).unwrap();
        }
    }

    fn ended(&mut self, name: &str) {
        for _ in 0..2 {
            self.engine.apply_ended(at("door"), &token(name), &mut self.keys).unwrap();
        }
    }

    fn holds(&mut self) -> Vec<(Ident, Fence, u64)> {
        match self.keys.find(at("door")) {
            Found::Lock(lock) => lock.holds().map(|hold| (hold.token.clone(), hold.fence, hold.limit)).collect(),
            _ => Vec::new(),
        }
    }
}

#[test]
fn a_replica_does_what_it_is_told_and_nothing_else() {
    let mut replica = Replica::default();
    replica.held(Mode::Limit, "ann", 3, 2);
    replica.held(Mode::Limit, "bob", 4, 0);
    assert_eq!(replica.holds(), [(token("ann"), Fence(3), 2), (token("bob"), Fence(4), 1)], "deadlines do not count");
    replica.ended("ann");
    replica.ended("nobody");
    replica.held(Mode::Shared, "bob", 4, 9);
    assert_eq!(replica.holds(), [(token("bob"), Fence(4), 0)]);
    // What a primary would have ended first must not stay beside the new one.
    replica.held(Mode::Shared, "eve", 5, 0);
    replica.held(Mode::Shared, "fay", 5, 0);
    assert_eq!(replica.holds(), [(token("bob"), Fence(4), 0), (token("fay"), Fence(5), 0)], "one hold per fence");
    replica.held(Mode::Exclusive, "ann", 6, 0);
    assert_eq!(replica.holds(), [(token("ann"), Fence(6), 0)]);
    assert!(replica.keys.told.iter().all(|told| matches!(told, Told::Put(_))), "{:?}", replica.keys.told);
    replica.ended("ann");
    assert!(replica.keys.values.is_empty() && replica.engine.is_blank());
    assert_eq!((replica.engine.last_fence(), replica.engine.stats().grants), (6, 0));
}

#[test]
fn effects_do_not_touch_a_foreign_value() {
    let mut replica = Replica::default();
    replica.keys.values.insert(at("door").to_buf(), Value::Foreign);
    let hold = Hold { token: token("ann"), fence: Fence(1), deadline: UnixMs(5), limit: 0, session: None };
    assert!(replica.engine.apply_held(at("door"), Mode::Shared, hold, &mut replica.keys).is_err());
    assert!(replica.engine.apply_ended(at("door"), &token("ann"), &mut replica.keys).is_err());
    assert!(replica.keys.told.is_empty());
}

#[test]
fn applying_effects_ends_nothing_by_itself() {
    let mut world = World::new();
    world.acquire("book", 7, &ask("ann").shared().session()).unwrap().granted();
    world.engine.client_gone(world.now.ms, client(7));
    world.told();
    let hold = Hold { token: token("bob"), fence: Fence(9), deadline: UnixMs(-5), limit: 0, session: None };
    for _ in 0..2 {
        world.engine.apply_held(at("book"), Mode::Shared, hold.clone(), &mut world.keys).unwrap();
    }
    assert_eq!(world.lock("book").unwrap().len(), 2);
    assert!(world.told().is_empty());
}

#[test]
fn who_waits_where_effects_are_applied_is_looked_after() {
    let hold = |name: &str, fence| Hold {
        token: token(name),
        fence: Fence(fence),
        deadline: UnixMs(i64::MAX),
        limit: 0,
        session: None,
    };
    let mut world = World::new();
    // The holder's end, a mode that leaves room, and another lock that the waiter for both now has.
    for key in ["ended", "shared", "a"] {
        world.take(key, &ask("ann"));
    }
    let first = world.wait("ended", 1, &ask("bob"));
    let reader = world.wait("shared", 2, &ask("bob").shared());
    let both = world.wait_many(&["a", "b"], 3, &ask("bob"));
    world.told();
    world.engine.apply_ended(at("ended"), &token("ann"), &mut world.keys).unwrap();
    let shared = hold("ann", u64::from(u32::MAX));
    world.engine.apply_held(at("shared"), Mode::Shared, shared, &mut world.keys).unwrap();
    world.engine.apply_held(at("a"), Mode::Exclusive, hold("bob", u64::from(u32::MAX)), &mut world.keys).unwrap();
    assert!(world.granted().is_empty(), "an effect decides nothing");
    assert_eq!(world.engine.next_wakeup(), Wakeup::Now);
    let _ = world.tick();
    assert_eq!(world.granted(), [first, reader, both]);
}
