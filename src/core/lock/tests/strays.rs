//! Locks that were renamed, and found again.

use super::world::*;

/// Takes the lock away from its name, as RENAME does, and says whether a search for it is needed.
fn rename(world: &mut World, from: &str, to: &str) -> crate::core::unlinked::UnlinkedWatch {
    let Some(Value::Lock(mut lock)) = world.keys.values.remove(&at(from).to_buf()) else { panic!("no lock") };
    let (entry, watch) = lock.mark_unlinked();
    world.engine.vanished(at(from), entry);
    world.keys.values.insert(at(to).to_buf(), Value::Lock(lock));
    watch
}

#[test]
fn a_renamed_lock_is_missing_until_somebody_meets_it() {
    let mut world = World::new();
    world.take("door", &ask("ann"));
    let watch = rename(&mut world, "door", "gate");
    assert!(watch.is_missing());
    assert_eq!(world.engine.locks(), 0);
    assert!(world.release("gate", "ann"));
    assert!(!watch.is_missing());
    world.assert_blank();
}

#[test]
fn the_session_of_a_renamed_lock_is_asked_about_once() {
    let mut world = World::new();
    world.acquire("door", 1, &ask("ann").session()).unwrap().granted();
    let _watch = rename(&mut world, "door", "gate");
    // No index knows of the tie now.
    world.engine.client_gone(world.now.ms, client(1));
    assert_eq!(world.holders("gate"), ["ann"]);
    assert_eq!(world.extend("gate", "ann", 1_000), Ok(true));
    assert_eq!(world.engine.next_wakeup(), crate::core::time::Wakeup::Now);
    let unverified = world.engine.take_unverified_sessions();
    assert!(unverified.into_iter().eq([client(1)]));
    assert!(world.engine.take_unverified_sessions().is_empty());
    world.engine.client_gone(world.now.ms, client(1));
    let _ = world.tick();
    world.assert_blank();
}

#[test]
fn the_waiters_of_a_lock_that_was_renamed_away_are_served() {
    let mut world = World::new();
    world.take("door", &ask("ann"));
    let bob = world.acquire("door", 2, &ask("bob").waiting(0)).unwrap().parked();
    let _watch = rename(&mut world, "door", "gate");
    let _ = world.tick();
    assert_eq!(world.granted(), [bob]);
    assert_eq!((world.holders("door"), world.holders("gate")), (vec!["bob".into()], vec!["ann".into()]));
}

#[test]
fn a_lock_that_is_destroyed_is_not_missed() {
    let mut world = World::new();
    world.take("door", &ask("ann"));
    let watch = rename(&mut world, "door", "gate");
    world.keys.values.clear();
    assert!(!watch.is_missing());
    world.assert_blank();
}
