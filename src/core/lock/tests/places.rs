//! Places in line that are kept for a while when connections end.

use super::world::*;
use crate::core::lock::{Acquired, Request, WaiterId};
use crate::core::time::Millis;

/// Ann holds the door; the others wait for it, each over the connection with the number of its position.
fn line(names: &[&str]) -> Desk {
    let mut desk = Desk::new();
    desk.engine.settings.place_grace = Millis(1_000);
    desk.take("door", &ask("ann").lease(100_000));
    for (name, by) in names.iter().zip(1..) {
        desk.wait("door", by, &ask(name));
    }
    desk.told();
    desk
}

impl Desk {
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
        let mut desk = line(&["a", "b", "c"]);
        desk.disconnects(2);
        assert_eq!(
            (desk.waiting("door"), desk.engine.waiters(), desk.engine.vacant_places()),
            (vec!["a".into(), "c".into()], 2, 1)
        );
        desk.pass(after);
        let _ = desk.tick();
        desk.wait("door", 9, &ask("b"));
        assert_eq!(desk.waiting("door"), expected, "after {after} ms");
        assert_eq!(desk.engine.vacant_places(), 0);
    }
}

#[test]
fn nobody_waits_for_it_and_it_is_granted_nothing() {
    let mut desk = line(&["a", "b", "c"]);
    desk.disconnects(1);
    desk.disconnects(2);
    assert!(desk.release("door", "ann"));
    assert_eq!(desk.holders("door"), ["c"]);
    // Who comes meanwhile is behind, and who comes back is not.
    desk.wait("door", 4, &ask("d"));
    desk.wait("door", 5, &ask("b"));
    desk.wait("door", 6, &ask("a"));
    assert_eq!(desk.waiting("door"), ["a", "b", "d"]);
    for name in ["c", "a", "b", "d"] {
        assert_eq!(desk.holders("door"), [name]);
        assert!(desk.release("door", name));
    }
    let _ = desk.tick();
    desk.assert_blank();
}

#[test]
fn it_ends_by_itself_and_by_release() {
    let mut desk = line(&["a", "b"]);
    desk.disconnects(1);
    desk.disconnects(2);
    assert!(!desk.release("door", "b"), "it held nothing");
    assert_eq!(desk.engine.vacant_places(), 1);
    desk.wait("door", 4, &ask("d"));
    desk.wait("door", 5, &ask("b"));
    assert_eq!(desk.waiting("door"), ["d", "b"]);
    desk.pass(1_000);
    let _ = desk.tick();
    assert_eq!(desk.engine.vacant_places(), 0);
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
        let mut desk = line(&["a", "b", "c"]);
        desk.disconnects(2);
        desk.wait("door", 9, &again);
        assert_eq!(desk.waiting("door")[1] != "c", keeps, "{again:?}");
    }
    let mut desk = line(&["a", "b", "c"]);
    desk.disconnects(2);
    assert_eq!(desk.try_acquire("door", &ask("b")), Ok(Acquired::Refused), "without WAIT it is one try");
    desk.wait_many(&["door"], 8, &ask("b"));
    desk.wait("door", 9, &ask("b"));
    assert_eq!(desk.waiting("door"), ["a", "b", "c", "b"]);
}

#[test]
fn permits_of_any_number_are_the_same_request() {
    let mut desk = Desk::new();
    desk.engine.settings.place_grace = Millis(1_000);
    for name in ["ann", "bob"] {
        desk.take("pool", &ask(name).limit(2));
    }
    for (name, by) in ["a", "b"].iter().zip(1..) {
        desk.wait("pool", by, &ask(name).limit(2));
    }
    desk.disconnects(1);
    desk.wait("pool", 9, &ask("a").limit(1));
    assert_eq!(desk.waiting("pool"), ["a", "b"]);
}

#[test]
fn a_request_for_many_keys_has_its_place_in_every_line() {
    for release in [false, true] {
        let mut desk = Desk::new();
        desk.engine.settings.place_grace = Millis(1_000);
        desk.acquire_many(&["x", "y"], 99, &ask("ann").lease(100_000)).unwrap().granted();
        desk.wait_many(&["x", "y"], 1, &ask("both"));
        desk.wait("x", 2, &ask("one"));
        desk.wait("y", 3, &ask("other"));
        desk.disconnects(1);
        assert_eq!((desk.waiting("x"), desk.waiting("y")), (vec!["one".into()], vec!["other".into()]));
        if release {
            assert_eq!(desk.release_many(&["y", "z"], "both"), Ok(0));
            assert_eq!(desk.engine.vacant_places(), 0);
        }
        desk.wait_many(&["y", "x", "y"], 4, &ask("both"));
        assert_eq!(desk.waiting("x")[0] == "both", !release);
        assert_eq!(desk.waiting("y")[0] == "both", !release);
    }
}

#[test]
fn who_finds_nobody_in_front_of_its_place_is_granted_at_once() {
    let mut desk = Desk::new();
    desk.engine.settings.place_grace = Millis(1_000);
    desk.take("book", &ask("reader").shared());
    let first = desk.wait("book", 1, &ask("writer"));
    desk.wait("book", 2, &ask("b").shared());
    desk.wait("book", 3, &ask("another writer"));
    desk.disconnects(2);
    desk.engine.timed_out(desk.now.ms, first);
    let _ = desk.tick();
    assert!(matches!(desk.acquire("book", 4, &ask("c").shared().waiting(0)), Ok(Acquired::Parked(_))));
    desk.acquire("book", 5, &ask("b").shared().waiting(0)).unwrap().granted();
    assert_eq!(desk.engine.vacant_places(), 0);
}

#[test]
fn only_the_end_of_a_connection_keeps_it() {
    type Ends = fn(&mut Desk, WaiterId);
    let ends: [Ends; 3] = [
        |desk, waiter| desk.engine.timed_out(desk.now.ms, waiter),
        |desk, waiter| desk.engine.left(desk.now.ms, waiter),
        |desk, _| assert!(!desk.release("door", "b")),
    ];
    for end in ends {
        let mut desk = line(&["a"]);
        let waiter = desk.wait("door", 7, &ask("b"));
        end(&mut desk, waiter);
        desk.disconnects(7);
        assert_eq!(desk.engine.vacant_places(), 0);
    }
    let mut desk = line(&["a"]);
    desk.disconnects(1);
    desk.engine.demoted(desk.now.ms);
    assert_eq!(desk.engine.vacant_places(), 0, "the next primary knows nothing of it");
    let mut desk = line(&["a"]);
    desk.engine.settings.place_grace = Millis(0);
    desk.disconnects(1);
    assert_eq!(desk.engine.vacant_places(), 0);
}

#[test]
fn ten_thousand_of_them_in_front_cost_a_waiter_nothing() {
    const CROWD: u64 = if cfg!(miri) { 20 } else { 10_000 };
    let mut costs = Vec::new();
    for crowd in [1, CROWD] {
        let mut desk = line(&[]);
        for number in 0..crowd {
            desk.wait("door", number + 10, &ask(&format!("t{number}")));
        }
        desk.wait("door", 1, &ask("one").lease(100_000));
        desk.wait("door", 2, &ask("two").lease(100_000));
        for number in 0..crowd {
            desk.disconnects(number + 10);
        }
        let _ = desk.tick();
        assert_eq!(desk.engine.vacant_places() as u64, crowd);
        desk.keys.looks = 0;
        for (name, next) in [("ann", "one"), ("one", "two")] {
            assert!(desk.release("door", name));
            assert_eq!(desk.holders("door"), [next]);
        }
        costs.push(desk.keys.looks);
        desk.pass(1_000);
        while desk.engine.vacant_places() > 0 {
            let _ = desk.engine.tick(desk.now, 100, &mut desk.keys);
        }
        assert!(desk.release("door", "two"));
        desk.assert_blank();
    }
    assert_eq!(costs[0], costs[1]);
}

#[test]
fn it_is_kept_for_whoever_was_granted_the_lock_and_never_heard_of_it() {
    let mut desk = line(&["a", "b", "c"]);
    assert!(desk.release("door", "ann"));
    desk.told();
    desk.disconnects(1);
    let _ = desk.tick();
    assert_eq!((desk.holders("door"), desk.engine.vacant_places()), (vec!["b".into()], 1));
    desk.wait("door", 9, &ask("a"));
    assert_eq!(desk.waiting("door"), ["a", "c"]);
    // Whoever has read its grant, and loses its connection then, has no place.
    let b = desk.engine.notes.unacked_of(client(2)).next().unwrap();
    desk.engine.delivered(b);
    desk.disconnects(2);
    assert_eq!(desk.engine.vacant_places(), 0);
    // Nor has it who asks again before the grant is taken back: the grant stands.
    assert!(desk.release("door", "b"));
    desk.disconnects(9);
    desk.acquire("door", 10, &resent("a")).unwrap().granted();
    assert_eq!((desk.holders("door"), desk.engine.vacant_places()), (vec!["a".into()], 0));
}

#[test]
fn so_it_is_for_requests_for_many_keys_and_upgrades() {
    let mut desk = Desk::new();
    desk.engine.settings.place_grace = Millis(1_000);
    desk.take("x", &ask("ann").lease(100_000));
    desk.wait_many(&["y", "x"], 1, &ask("both"));
    desk.wait("x", 2, &ask("one"));
    desk.wait("y", 3, &ask("other"));
    assert!(desk.release("x", "ann"));
    desk.disconnects(1);
    let _ = desk.tick();
    assert_eq!((desk.holders("x"), desk.holders("y")), (vec!["one".into()], vec!["other".into()]));
    desk.wait("x", 4, &ask("late"));
    desk.wait_many(&["x", "y"], 5, &ask("both"));
    assert_eq!(desk.waiting("x"), ["both", "late"]);

    let mut desk = Desk::new();
    desk.engine.settings.place_grace = Millis(1_000);
    for name in ["ann", "bob"] {
        desk.take("book", &ask(name).shared().lease(100_000));
    }
    desk.wait("book", 1, &ask("bob"));
    desk.wait("book", 2, &ask("writer"));
    assert!(desk.release("book", "ann"));
    desk.disconnects(1);
    let _ = desk.tick();
    // It is a reader as before, and alone.
    assert_eq!(desk.holders("book"), ["bob"]);
    desk.acquire("book", 3, &resent("bob")).unwrap().granted();
    assert_eq!((desk.waiting("book"), desk.engine.vacant_places()), (vec!["writer".into()], 0));
}

#[test]
fn it_is_not_taken_up_in_front_of_a_holder_that_passed_it_and_has_to_go_first() {
    let mut desk = Desk::new();
    desk.engine.settings.place_grace = Millis(1_000);
    desk.take("x", &ask("carl").lease(100_000));
    desk.take("y", &ask("dave").lease(100_000));
    desk.wait_many(&["x", "y"], 1, &ask("ann"));
    desk.wait("x", 2, &ask("bob").lease(100_000));
    desk.disconnects(1);
    assert!(desk.release("x", "carl"));
    desk.wait("y", 3, &ask("bob"));
    desk.wait_many(&["x", "y"], 4, &ask("ann"));
    // In front of bob she would wait for his x, and he for her.
    assert_eq!((desk.waiting("x"), desk.waiting("y")), (vec!["ann".into()], vec!["bob".into(), "ann".into()]));
    assert!(desk.release("y", "dave"));
    assert_eq!(desk.holders("y"), ["bob"]);
    assert!(desk.release("x", "bob") && desk.release("y", "bob"));
    assert_eq!((desk.holders("x"), desk.holders("y")), (vec!["ann".into()], vec!["ann".into()]));
}

/// Bob and carl have permits, and bob waits for dave, who is behind ann, unless she `leaves`, and eve in the line for a third one.
fn pool(ann: u64, leaves: bool) -> Desk {
    let mut desk = Desk::new();
    desk.engine.settings.place_grace = Millis(1_000);
    for name in ["bob", "carl"] {
        desk.take("pool", &ask(name).limit(9).lease(100_000));
    }
    desk.take("y", &ask("dave").lease(100_000));
    desk.wait("pool", 1, &ask("ann").limit(ann));
    desk.wait("pool", 2, &ask("eve").limit(2));
    desk.wait("pool", 3, &ask("dave").limit(9));
    if leaves {
        desk.disconnects(1);
    }
    desk.wait("y", 4, &ask("bob"));
    desk
}

#[test]
fn a_request_with_fewer_permits_is_no_obstacle_to_those_who_must_go_first() {
    for (name, before, leaves) in [("resent", 1, true), ("replaced", 2, false)] {
        let mut desk = pool(before, leaves);
        // She would wait for both to go, and one of them for dave, who would wait behind her.
        desk.wait("pool", 5, &ask("ann").limit(1));
        assert_eq!(desk.waiting("pool"), ["eve", "dave", "ann"], "{name}");
        assert!(desk.release("pool", "carl") && desk.release("y", "dave"));
        assert_eq!((desk.holders("pool").len(), desk.holders("y")), (3, vec!["bob".into()]), "{name}");
        for name in ["bob", "eve", "dave"] {
            assert!(desk.release("pool", name));
        }
        assert_eq!(desk.holders("pool"), ["ann"], "{name}");
    }
}

#[test]
fn who_goes_last_lets_those_behind_go_on_in_the_same_step() {
    let mut desk = Desk::new();
    for name in ["bob", "carl"] {
        desk.take("pool", &ask(name).limit(9).lease(100_000));
    }
    desk.take("y", &ask("dave").lease(100_000));
    desk.wait("pool", 1, &ask("ann").limit(2));
    desk.wait("pool", 3, &ask("dave").limit(9));
    desk.wait("y", 4, &ask("bob"));
    desk.wait("pool", 5, &ask("ann").limit(1));
    assert_eq!(
        (desk.waiting("pool"), desk.holders("pool")),
        (vec!["ann".into()], ["bob", "carl", "dave"].map(String::from).into())
    );
}

/// A request as clients resend it.
fn resent(name: &str) -> Request {
    ask(name).waiting(0)
}

#[test]
fn whoever_resends_again_and_again_stays_where_it_was() {
    let mut desk = line(&["a", "b", "c"]);
    for round in 0..20 {
        for (name, by) in ["c", "a", "b"].iter().zip(0..) {
            desk.disconnects(if round == 0 { [3, 1, 2][by] } else { 100 * round + by as u64 });
            desk.acquire("door", 100 * (round + 1) + by as u64, &resent(name)).unwrap().parked();
        }
        desk.pass(900);
        let _ = desk.tick();
        assert_eq!(desk.waiting("door"), ["a", "b", "c"]);
    }
}
