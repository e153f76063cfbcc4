//! Another module puts a lock in the place of one that is being granted together with others.

use super::world::*;
use crate::core::lock::{Acquired, EndReason, Hold, HoldRef, LockError, WaitResult};
use crate::core::time::Millis;

/// Zoe holds `o`, which another module moves to `to` at `event` of `key`.
fn meddled(event: Event, key: &'static str, to: &'static str) -> World {
    let mut world = World::new();
    world.take("o", &ask("zoe"));
    world.keys.meddling = Some(Meddling { event, key, from: "o", to });
    world
}

/// The engine hears that what was at `o` is at `to` now.
fn heard(world: &mut World, to: &str) {
    let Some(Value::Lock(lock)) = world.keys.values.get_mut(&at(to).to_buf()) else { panic!("it is there") };
    world.engine.vanished(at("o"), lock.deadline_id());
    world.engine.register(at(to), lock);
}

fn hold(world: &World, key: &str, name: &str) -> Option<Hold> {
    world.lock(key)?.hold(&token(name)).map(HoldRef::to_hold)
}

#[test]
fn then_none_is_granted() {
    for (event, to) in [(Event::Made, "l"), (Event::Over, "j"), (Event::Over, "l")] {
        let mut world = meddled(event, "k", to);
        assert_eq!(world.acquire_many(&["j", "k", "l"], 1, &ask("ann")), Ok(Acquired::Refused));
        assert_eq!(world.holders(to), ["zoe"]);
        assert_eq!(world.keys.values.len(), 1, "{event:?} {to}");
        heard(&mut world, to);
        assert!(world.release(to, "zoe"));
        let _ = world.tick();
        world.assert_blank();
    }
}

#[test]
fn replicas_hear_that_what_was_granted_is_taken_back() {
    let mut world = meddled(Event::Made, "k", "l");
    world.told();
    assert_eq!(world.acquire_many(&["k", "l"], 1, &ask("ann")), Ok(Acquired::Refused));
    let told = world.told();
    assert!(matches!(&told[1], Told::Held(key, ..) if key.as_key() == at("k")), "{told:?}");
    let k = at("k").to_buf();
    assert_eq!(told[2..], [Told::Ended(k.clone(), token("ann"), EndReason::Undelivered), Told::Deleted(k)]);
}

#[test]
fn what_the_token_held_of_them_is_held_as_before() {
    for renewed in [false, true] {
        let event = if renewed { Event::Over } else { Event::Made };
        let mut world = meddled(event, "k", "l");
        let held = if renewed { vec!["j", "k", "l"] } else { vec!["kk"] };
        world.keys.meddling = None;
        world.acquire_many(&held, 7, &ask("ann").session().lease(9_000)).unwrap().granted();
        world.keys.meddling = Some(Meddling { event, key: "k", from: "o", to: "l" });
        let kept = if renewed { ["j", "k"] } else { ["kk", "kk"] };
        let before = kept.map(|key| hold(&world, key, "ann"));
        let keys = if renewed { held } else { vec!["k", "kk", "l"] };
        assert_eq!(world.acquire_many(&keys, 1, &ask("ann").lease(500)), Ok(Acquired::Refused));
        assert_eq!(kept.map(|key| hold(&world, key, "ann")), before);
        assert_eq!(world.holders("l"), ["zoe"]);
        heard(&mut world, "l");
        // It still ends with the connection that it was tied to.
        world.engine.client_gone(world.now.ms, client(7));
        assert!(world.release("l", "zoe"));
        let _ = world.tick();
        let _ = world.delete("l");
        let _ = world.tick();
        world.assert_blank();
    }
}

#[test]
fn who_waits_stays_in_line() {
    let mut world = meddled(Event::Made, "k", "l");
    world.take("l", &ask("bob"));
    let ann = world.wait_many(&["k", "l"], 1, &ask("ann"));
    let eve = world.wait("l", 2, &ask("eve"));
    world.told();
    assert!(world.release("l", "bob"));
    assert!(world.granted().is_empty());
    assert!(world.lock("k").is_none());
    heard(&mut world, "l");
    let _ = world.tick();
    assert!(world.release("l", "zoe"));
    assert_eq!(world.granted(), [ann]);
    assert_eq!(world.release_many(&["k", "l"], "ann"), Ok(2));
    assert_eq!(world.granted(), [eve]);
}

#[test]
fn who_may_wait_does() {
    let mut world = meddled(Event::Made, "k", "l");
    let ann = world.acquire_many(&["k", "l"], 1, &ask("ann").waiting(0)).unwrap().parked();
    heard(&mut world, "l");
    let _ = world.tick();
    assert!(world.granted().is_empty());
    assert!(world.release("l", "zoe"));
    assert_eq!(world.granted(), [ann]);
}

#[test]
fn another_value_in_its_place_is_the_wrong_type() {
    for waits in [false, true] {
        let mut world = World::new();
        world.keys.values.insert(at("o").to_buf(), Value::Foreign);
        let meddling = Some(Meddling { event: Event::Made, key: "k", from: "o", to: "l" });
        if waits {
            world.take("k", &ask("bob"));
            let ann = world.wait_many(&["k", "l"], 1, &ask("ann"));
            world.keys.meddling = meddling;
            world.delete("k");
            let _ = world.tick();
            assert_eq!(world.answers(), [(ann, WaitResult::Failed(LockError::WrongType))]);
        } else {
            world.keys.meddling = meddling;
            assert_eq!(world.acquire_many(&["k", "l"], 1, &ask("ann")), Err(LockError::WrongType));
        }
        world.keys.values.remove(&at("l").to_buf());
        let _ = world.tick();
        world.assert_blank();
    }
}

#[test]
fn a_hold_that_is_replaced_while_several_are_extended_leaves_the_others_as_they_were() {
    for to in ["a", "b", "c"] {
        let mut world = meddled(Event::Over, "c", to);
        world.keys.meddling.take();
        for key in ["a", "b", "c"] {
            world.take(key, &ask("ann").lease(100));
        }
        world.keys.meddling = Some(Meddling { event: Event::Over, key: "c", from: "o", to });
        assert_eq!(world.extend_many(&["a", "b", "c"], "ann", 5_000), Ok(false));
        for key in ["a", "b", "c"].into_iter().filter(|key| *key != to) {
            assert_eq!(world.info(key).unwrap().holders[0].left, Millis(100), "{key}");
        }
    }
}
