//! Locks that were renamed, and found again.

use super::world::*;

/// Takes the lock away from its name, as RENAME does, and says whether anybody should look for it.
fn rename(desk: &mut Desk, from: &str, to: &str) -> crate::core::unlinked::UnlinkedWatch {
    let Some(Value::Lock(mut lock)) = desk.keys.values.remove(&at(from).to_buf()) else { panic!("no lock") };
    let (entry, watch) = lock.mark_unlinked();
    desk.engine.vanished(at(from), entry);
    desk.keys.values.insert(at(to).to_buf(), Value::Lock(lock));
    watch
}

#[test]
fn a_renamed_lock_is_missing_until_somebody_meets_it() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann"));
    let watch = rename(&mut desk, "door", "gate");
    assert!(watch.is_missing());
    assert_eq!(desk.engine.locks(), 0);
    assert!(desk.release("gate", "ann"));
    assert!(!watch.is_missing());
    desk.assert_blank();
}

#[test]
fn the_session_of_a_renamed_lock_is_asked_about_once() {
    let mut desk = Desk::new();
    desk.acquire("door", 1, &ask("ann").session()).unwrap().granted();
    let _watch = rename(&mut desk, "door", "gate");
    // Nobody knows of the tie now.
    desk.engine.client_gone(desk.now.ms, client(1));
    assert_eq!(desk.holders("gate"), ["ann"]);
    assert_eq!(desk.extend("gate", "ann", 1_000), Ok(true));
    assert_eq!(desk.engine.next_wakeup(), crate::core::time::Wakeup::Now);
    let doubtful = desk.engine.take_unverified_sessions();
    assert!(doubtful.into_iter().eq([client(1)]));
    assert!(desk.engine.take_unverified_sessions().is_empty());
    desk.engine.client_gone(desk.now.ms, client(1));
    let _ = desk.tick();
    desk.assert_blank();
}

#[test]
fn the_waiters_of_a_lock_that_was_renamed_away_are_served() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann"));
    let bob = desk.acquire("door", 2, &ask("bob").waiting(0)).unwrap().parked();
    let _watch = rename(&mut desk, "door", "gate");
    let _ = desk.tick();
    assert_eq!(desk.granted(), [bob]);
    assert_eq!((desk.holders("door"), desk.holders("gate")), (vec!["bob".into()], vec!["ann".into()]));
}

#[test]
fn a_lock_that_is_destroyed_is_not_missed() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann"));
    let watch = rename(&mut desk, "door", "gate");
    desk.keys.values.clear();
    assert!(!watch.is_missing());
    desk.assert_blank();
}
