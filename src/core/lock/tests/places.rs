//! Places in line that are kept for a while when connections end.

use super::world::*;
use crate::core::lock::{Acquired, Request, WaiterId};
use crate::core::time::Millis;

/// Ann holds the door; the others wait for it, each over the connection with the number of its position.
fn line(names: &[&str]) -> World {
    let mut world = World::new();
    world.engine.settings.place_grace = Millis(1_000);
    world.take("door", &ask("ann").lease(100_000));
    for (name, by) in names.iter().zip(1..) {
        world.wait("door", by, &ask(name));
    }
    world.told();
    world
}

impl World {
    fn disconnects(&mut self, by: u64) {
        self.engine.client_gone(self.now.ms, client(by));
    }

    fn waiting(&self, key: &str) -> Vec<String> {
        let waiters = self.info(key).map(|info| info.waiters).unwrap_or_default();
        waiters.iter().map(|waiter| String::from_utf8(waiter.token.text().to_vec()).unwrap()).collect()
    }
}

#[test]
fn who_asks_again_in_time_has_the_place_it_had() {
    for (after, expected) in [(0, ["a", "b", "c"]), (999, ["a", "b", "c"]), (1_000, ["a", "c", "b"])] {
        let mut world = line(&["a", "b", "c"]);
        world.disconnects(2);
        assert_eq!(
            (world.waiting("door"), world.engine.waiters(), world.engine.vacant_places()),
            (vec!["a".into(), "c".into()], 2, 1)
        );
        world.pass(after);
        let _ = world.tick();
        world.wait("door", 9, &ask("b"));
        assert_eq!(world.waiting("door"), expected, "after {after} ms");
        assert_eq!(world.engine.vacant_places(), 0);
    }
}

#[test]
fn nobody_waits_for_it_and_it_is_granted_nothing() {
    let mut world = line(&["a", "b", "c"]);
    world.disconnects(1);
    world.disconnects(2);
    assert!(world.release("door", "ann"));
    assert_eq!(world.holders("door"), ["c"]);
    // A new request is behind the kept places; one that comes back is not.
    world.wait("door", 4, &ask("d"));
    world.wait("door", 5, &ask("b"));
    world.wait("door", 6, &ask("a"));
    assert_eq!(world.waiting("door"), ["a", "b", "d"]);
    for name in ["c", "a", "b", "d"] {
        assert_eq!(world.holders("door"), [name]);
        assert!(world.release("door", name));
    }
    let _ = world.tick();
    world.assert_blank();
}

#[test]
fn it_ends_by_itself_and_by_release() {
    let mut world = line(&["a", "b"]);
    world.disconnects(1);
    world.disconnects(2);
    assert!(!world.release("door", "b"), "it held nothing");
    assert_eq!(world.engine.vacant_places(), 1);
    world.wait("door", 4, &ask("d"));
    world.wait("door", 5, &ask("b"));
    assert_eq!(world.waiting("door"), ["d", "b"]);
    world.pass(1_000);
    let _ = world.tick();
    assert_eq!(world.engine.vacant_places(), 0);
}

#[test]
fn it_is_kept_for_the_same_request_only() {
    for (again, keeps) in [
        (ask("b"), true),
        (ask("b").session().lease(7), true),
        (ask("b").shared(), false),
        (ask("b").limit(2), false),
        (ask("other"), false),
    ] {
        let mut world = line(&["a", "b", "c"]);
        world.disconnects(2);
        world.wait("door", 9, &again);
        assert_eq!(world.waiting("door")[1] != "c", keeps, "{again:?}");
    }
    let mut world = line(&["a", "b", "c"]);
    world.disconnects(2);
    assert_eq!(world.try_acquire("door", &ask("b")), Ok(Acquired::Refused), "without WAIT it is one try");
    world.wait_many(&["door", "gate"], 7, &ask("b"));
    assert_eq!(world.waiting("door"), ["a", "c", "b"]);
    // Whichever command asks for the door alone.
    world.wait_many(&["door"], 8, &ask("b"));
    assert_eq!(world.waiting("door"), ["a", "b", "c", "b"]);
    world.wait("door", 9, &ask("b"));
    assert_eq!(world.waiting("door"), ["a", "b", "c", "b"]);
}

#[test]
fn permits_of_any_number_are_the_same_request() {
    let mut world = World::new();
    world.engine.settings.place_grace = Millis(1_000);
    for name in ["ann", "bob"] {
        world.take("pool", &ask(name).limit(2));
    }
    for (name, by) in ["a", "b"].iter().zip(1..) {
        world.wait("pool", by, &ask(name).limit(2));
    }
    world.disconnects(1);
    world.wait("pool", 9, &ask("a").limit(1));
    assert_eq!(world.waiting("pool"), ["a", "b"]);
}

#[test]
fn a_request_for_many_keys_has_its_place_in_every_line() {
    for release in [false, true] {
        let mut world = World::new();
        world.engine.settings.place_grace = Millis(1_000);
        world.acquire_many(&["x", "y"], 99, &ask("ann").lease(100_000)).unwrap().granted();
        world.wait_many(&["x", "y"], 1, &ask("both"));
        world.wait("x", 2, &ask("one"));
        world.wait("y", 3, &ask("other"));
        world.disconnects(1);
        assert_eq!((world.waiting("x"), world.waiting("y")), (vec!["one".into()], vec!["other".into()]));
        if release {
            assert_eq!(world.release_many(&["y", "z"], "both"), Ok(0));
            assert_eq!(world.engine.vacant_places(), 0);
        }
        world.wait_many(&["y", "x", "y"], 4, &ask("both"));
        assert_eq!(world.waiting("x")[0] == "both", !release);
        assert_eq!(world.waiting("y")[0] == "both", !release);
    }
}

#[test]
fn who_finds_nobody_in_front_of_its_place_is_granted_at_once() {
    let mut world = World::new();
    world.engine.settings.place_grace = Millis(1_000);
    world.take("book", &ask("reader").shared());
    let first = world.wait("book", 1, &ask("writer"));
    world.wait("book", 2, &ask("b").shared());
    world.wait("book", 3, &ask("another writer"));
    world.disconnects(2);
    world.engine.timed_out(world.now.ms, first);
    let _ = world.tick();
    assert!(matches!(world.acquire("book", 4, &ask("c").shared().waiting(0)), Ok(Acquired::Parked(_))));
    world.acquire("book", 5, &ask("b").shared().waiting(0)).unwrap().granted();
    assert_eq!(world.engine.vacant_places(), 0);
}

#[test]
fn only_the_end_of_a_connection_keeps_it() {
    type Ends = fn(&mut World, WaiterId);
    let ends: [Ends; 3] = [
        |world, waiter| world.engine.timed_out(world.now.ms, waiter),
        |world, waiter| world.engine.left(world.now.ms, waiter),
        |world, _| assert!(!world.release("door", "b")),
    ];
    for end in ends {
        let mut world = line(&["a"]);
        let waiter = world.wait("door", 7, &ask("b"));
        end(&mut world, waiter);
        world.disconnects(7);
        assert_eq!(world.engine.vacant_places(), 0);
    }
    let mut world = line(&["a"]);
    world.disconnects(1);
    world.engine.demoted(world.now.ms);
    assert_eq!(world.engine.vacant_places(), 0, "the next primary knows nothing of it");
    let mut world = line(&["a"]);
    world.engine.settings.place_grace = Millis(0);
    world.disconnects(1);
    assert_eq!(world.engine.vacant_places(), 0);
}

#[test]
fn ten_thousand_of_them_in_front_cost_a_waiter_nothing() {
    const CROWD: u64 = if cfg!(miri) { 20 } else { 10_000 };
    let mut costs = Vec::new();
    for crowd in [1, CROWD] {
        let mut world = line(&[]);
        for number in 0..crowd {
            world.wait("door", number + 10, &ask(&format!("t{number}")));
        }
        world.wait("door", 1, &ask("one").lease(100_000));
        world.wait("door", 2, &ask("two").lease(100_000));
        for number in 0..crowd {
            world.disconnects(number + 10);
        }
        let _ = world.tick();
        assert_eq!(world.engine.vacant_places() as u64, crowd);
        world.keys.looks = 0;
        for (name, next) in [("ann", "one"), ("one", "two")] {
            assert!(world.release("door", name));
            assert_eq!(world.holders("door"), [next]);
        }
        costs.push(world.keys.looks);
        world.pass(1_000);
        while world.engine.vacant_places() > 0 {
            let _ = world.engine.tick(world.now, 100, &mut world.keys);
        }
        assert!(world.release("door", "two"));
        world.assert_blank();
    }
    assert_eq!(costs[0], costs[1]);
}

#[test]
fn it_is_kept_for_whoever_was_granted_the_lock_and_never_heard_of_it() {
    let mut world = line(&["a", "b", "c"]);
    assert!(world.release("door", "ann"));
    world.told();
    world.disconnects(1);
    let _ = world.tick();
    assert_eq!((world.holders("door"), world.engine.vacant_places()), (vec!["b".into()], 1));
    world.wait("door", 9, &ask("a"));
    assert_eq!(world.waiting("door"), ["a", "c"]);
    // A client that has read its grant, and then loses its connection, has no place.
    let b = world.engine.notes.unacked_of(client(2)).next().unwrap();
    world.engine.delivered(b);
    world.disconnects(2);
    assert_eq!(world.engine.vacant_places(), 0);
    // Nor has it who asks again before the grant is taken back: the grant stands.
    assert!(world.release("door", "b"));
    world.disconnects(9);
    world.acquire("door", 10, &resent("a")).unwrap().granted();
    assert_eq!((world.holders("door"), world.engine.vacant_places()), (vec!["a".into()], 0));
}

#[test]
fn so_it_is_for_requests_for_many_keys_and_upgrades() {
    let mut world = World::new();
    world.engine.settings.place_grace = Millis(1_000);
    world.take("x", &ask("ann").lease(100_000));
    world.wait_many(&["y", "x"], 1, &ask("both"));
    world.wait("x", 2, &ask("one"));
    world.wait("y", 3, &ask("other"));
    assert!(world.release("x", "ann"));
    world.disconnects(1);
    let _ = world.tick();
    assert_eq!((world.holders("x"), world.holders("y")), (vec!["one".into()], vec!["other".into()]));
    world.wait("x", 4, &ask("late"));
    world.wait_many(&["x", "y"], 5, &ask("both"));
    assert_eq!(world.waiting("x"), ["both", "late"]);

    let mut world = World::new();
    world.engine.settings.place_grace = Millis(1_000);
    for name in ["ann", "bob"] {
        world.take("book", &ask(name).shared().lease(100_000));
    }
    world.wait("book", 1, &ask("bob"));
    world.wait("book", 2, &ask("writer"));
    assert!(world.release("book", "ann"));
    world.disconnects(1);
    let _ = world.tick();
    // It is a reader as before, and alone.
    assert_eq!(world.holders("book"), ["bob"]);
    world.acquire("book", 3, &resent("bob")).unwrap().granted();
    assert_eq!((world.waiting("book"), world.engine.vacant_places()), (vec!["writer".into()], 0));
}

#[test]
fn it_is_not_taken_up_in_front_of_a_holder_that_passed_it_and_has_to_go_first() {
    let mut world = World::new();
    world.engine.settings.place_grace = Millis(1_000);
    world.take("x", &ask("carl").lease(100_000));
    world.take("y", &ask("dave").lease(100_000));
    world.wait_many(&["x", "y"], 1, &ask("ann"));
    world.wait("x", 2, &ask("bob").lease(100_000));
    world.disconnects(1);
    assert!(world.release("x", "carl"));
    world.wait("y", 3, &ask("bob"));
    world.wait_many(&["x", "y"], 4, &ask("ann"));
    // In front of bob she would wait for his x, and he for her.
    assert_eq!((world.waiting("x"), world.waiting("y")), (vec!["ann".into()], vec!["bob".into(), "ann".into()]));
    assert!(world.release("y", "dave"));
    assert_eq!(world.holders("y"), ["bob"]);
    assert!(world.release("x", "bob") && world.release("y", "bob"));
    assert_eq!((world.holders("x"), world.holders("y")), (vec!["ann".into()], vec!["ann".into()]));
}

/// Bob and carl have permits, and bob waits for dave, who is behind ann, unless she `leaves`, and eve in the line for a third one.
fn pool(ann: u64, leaves: bool) -> World {
    let mut world = World::new();
    world.engine.settings.place_grace = Millis(1_000);
    for name in ["bob", "carl"] {
        world.take("pool", &ask(name).limit(9).lease(100_000));
    }
    world.take("y", &ask("dave").lease(100_000));
    world.wait("pool", 1, &ask("ann").limit(ann));
    world.wait("pool", 2, &ask("eve").limit(2));
    world.wait("pool", 3, &ask("dave").limit(9));
    if leaves {
        world.disconnects(1);
    }
    world.wait("y", 4, &ask("bob"));
    world
}

#[test]
fn a_request_with_fewer_permits_is_no_obstacle_to_those_who_must_go_first() {
    for (name, before, leaves) in [("resent", 1, true), ("replaced", 2, false)] {
        let mut world = pool(before, leaves);
        // She would wait for both to go, and one of them for dave, who would wait behind her.
        world.wait("pool", 5, &ask("ann").limit(1));
        assert_eq!(world.waiting("pool"), ["eve", "dave", "ann"], "{name}");
        assert!(world.release("pool", "carl") && world.release("y", "dave"));
        assert_eq!((world.holders("pool").len(), world.holders("y")), (3, vec!["bob".into()]), "{name}");
        for name in ["bob", "eve", "dave"] {
            assert!(world.release("pool", name));
        }
        assert_eq!(world.holders("pool"), ["ann"], "{name}");
    }
}

#[test]
fn who_goes_last_lets_those_behind_go_on_in_the_same_step() {
    let mut world = World::new();
    for name in ["bob", "carl"] {
        world.take("pool", &ask(name).limit(9).lease(100_000));
    }
    world.take("y", &ask("dave").lease(100_000));
    world.wait("pool", 1, &ask("ann").limit(2));
    world.wait("pool", 3, &ask("dave").limit(9));
    world.wait("y", 4, &ask("bob"));
    world.wait("pool", 5, &ask("ann").limit(1));
    assert_eq!(
        (world.waiting("pool"), world.holders("pool")),
        (vec!["ann".into()], ["bob", "carl", "dave"].map(String::from).into())
    );
}

/// A request as clients resend it.
fn resent(name: &str) -> Request {
    ask(name).waiting(0)
}

#[test]
fn whoever_resends_again_and_again_stays_where_it_was() {
    let mut world = line(&["a", "b", "c"]);
    for round in 0..20 {
        for (name, by) in ["c", "a", "b"].iter().zip(0..) {
            world.disconnects(if round == 0 { [3, 1, 2][by] } else { 100 * round + by as u64 });
            world.acquire("door", 100 * (round + 1) + by as u64, &resent(name)).unwrap().parked();
        }
        world.pass(900);
        let _ = world.tick();
        assert_eq!(world.waiting("door"), ["a", "b", "c"]);
    }
}
