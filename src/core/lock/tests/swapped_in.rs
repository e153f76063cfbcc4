//! Another module puts a lock in the place of one that is being granted together with others.

use super::world::*;
use crate::core::lock::{Acquired, EndReason, Hold, HoldRef, LockError, WaitResult};
use crate::core::time::Millis;

/// Zoe holds `o`, which another module moves to `to` at `event` of `key`.
fn meddled(event: Event, key: &'static str, to: &'static str) -> Desk {
    let mut desk = Desk::new();
    desk.take("o", &ask("zoe"));
    desk.keys.meddling = Some(Meddling { event, key, from: "o", to });
    desk
}

/// The engine hears that what was at `o` is at `to` now.
fn heard(desk: &mut Desk, to: &str) {
    let Some(Value::Lock(lock)) = desk.keys.values.get_mut(&at(to).to_buf()) else { panic!("it is there") };
    desk.engine.vanished(at("o"), lock.deadline_id());
    desk.engine.register(at(to), lock);
}

fn hold(desk: &Desk, key: &str, name: &str) -> Option<Hold> {
    desk.lock(key)?.hold(&token(name)).map(HoldRef::to_hold)
}

#[test]
fn then_none_is_granted() {
    for (event, to) in [(Event::Made, "l"), (Event::Over, "j"), (Event::Over, "l")] {
        let mut desk = meddled(event, "k", to);
        assert_eq!(desk.acquire_many(&["j", "k", "l"], 1, &ask("ann")), Ok(Acquired::Refused));
        assert_eq!(desk.holders(to), ["zoe"]);
        assert_eq!(desk.keys.values.len(), 1, "{event:?} {to}");
        heard(&mut desk, to);
        assert!(desk.release(to, "zoe"));
        let _ = desk.tick();
        desk.assert_blank();
    }
}

#[test]
fn replicas_hear_that_what_was_granted_is_taken_back() {
    let mut desk = meddled(Event::Made, "k", "l");
    desk.told();
    assert_eq!(desk.acquire_many(&["k", "l"], 1, &ask("ann")), Ok(Acquired::Refused));
    let told = desk.told();
    assert!(matches!(&told[1], Told::Held(key, ..) if key.as_key() == at("k")), "{told:?}");
    let k = at("k").to_buf();
    assert_eq!(told[2..], [Told::Ended(k.clone(), token("ann"), EndReason::Undelivered), Told::Deleted(k)]);
}

#[test]
fn what_the_token_held_of_them_is_held_as_before() {
    for renewed in [false, true] {
        let event = if renewed { Event::Over } else { Event::Made };
        let mut desk = meddled(event, "k", "l");
        let held = if renewed { vec!["j", "k", "l"] } else { vec!["kk"] };
        desk.keys.meddling = None;
        desk.acquire_many(&held, 7, &ask("ann").session().lease(9_000)).unwrap().granted();
        desk.keys.meddling = Some(Meddling { event, key: "k", from: "o", to: "l" });
        let kept = if renewed { ["j", "k"] } else { ["kk", "kk"] };
        let before = kept.map(|key| hold(&desk, key, "ann"));
        let keys = if renewed { held } else { vec!["k", "kk", "l"] };
        assert_eq!(desk.acquire_many(&keys, 1, &ask("ann").lease(500)), Ok(Acquired::Refused));
        assert_eq!(kept.map(|key| hold(&desk, key, "ann")), before);
        assert_eq!(desk.holders("l"), ["zoe"]);
        heard(&mut desk, "l");
        // It still ends with the connection that it was tied to.
        desk.engine.client_gone(desk.now.ms, client(7));
        assert!(desk.release("l", "zoe"));
        let _ = desk.tick();
        let _ = desk.delete("l");
        let _ = desk.tick();
        desk.assert_blank();
    }
}

#[test]
fn who_waits_stays_in_line() {
    let mut desk = meddled(Event::Made, "k", "l");
    desk.take("l", &ask("bob"));
    let ann = desk.wait_many(&["k", "l"], 1, &ask("ann"));
    let eve = desk.wait("l", 2, &ask("eve"));
    desk.told();
    assert!(desk.release("l", "bob"));
    assert!(desk.granted().is_empty());
    assert!(desk.lock("k").is_none());
    heard(&mut desk, "l");
    let _ = desk.tick();
    assert!(desk.release("l", "zoe"));
    assert_eq!(desk.granted(), [ann]);
    assert_eq!(desk.release_many(&["k", "l"], "ann"), Ok(2));
    assert_eq!(desk.granted(), [eve]);
}

#[test]
fn who_may_wait_does() {
    let mut desk = meddled(Event::Made, "k", "l");
    let ann = desk.acquire_many(&["k", "l"], 1, &ask("ann").waiting(0)).unwrap().parked();
    heard(&mut desk, "l");
    let _ = desk.tick();
    assert!(desk.granted().is_empty());
    assert!(desk.release("l", "zoe"));
    assert_eq!(desk.granted(), [ann]);
}

#[test]
fn another_value_in_its_place_is_the_wrong_type() {
    for waits in [false, true] {
        let mut desk = Desk::new();
        desk.keys.values.insert(at("o").to_buf(), Value::Foreign);
        let meddling = Some(Meddling { event: Event::Made, key: "k", from: "o", to: "l" });
        if waits {
            desk.take("k", &ask("bob"));
            let ann = desk.wait_many(&["k", "l"], 1, &ask("ann"));
            desk.keys.meddling = meddling;
            desk.delete("k");
            let _ = desk.tick();
            assert_eq!(desk.answers(), [(ann, WaitResult::Failed(LockError::WrongType))]);
        } else {
            desk.keys.meddling = meddling;
            assert_eq!(desk.acquire_many(&["k", "l"], 1, &ask("ann")), Err(LockError::WrongType));
        }
        desk.keys.values.remove(&at("l").to_buf());
        let _ = desk.tick();
        desk.assert_blank();
    }
}

#[test]
fn a_hold_that_is_replaced_while_several_are_extended_leaves_the_others_as_they_were() {
    for to in ["a", "b", "c"] {
        let mut desk = meddled(Event::Over, "c", to);
        desk.keys.meddling.take();
        for key in ["a", "b", "c"] {
            desk.take(key, &ask("ann").lease(100));
        }
        desk.keys.meddling = Some(Meddling { event: Event::Over, key: "c", from: "o", to });
        assert_eq!(desk.extend_many(&["a", "b", "c"], "ann", 5_000), Ok(false));
        for key in ["a", "b", "c"].into_iter().filter(|key| *key != to) {
            assert_eq!(desk.info(key).unwrap().holders[0].left, Millis(100), "{key}");
        }
    }
}
