//! Circles of tokens that would wait for each other.

use super::world::*;
use crate::core::lock::{Acquired, LockError, Request, WaitResult};

impl World {
    /// Asks for `keys`, for one alone or for several together, and waits if it must.
    fn asks(&mut self, keys: &[&str], by: u64, request: &Request) -> Result<Acquired, LockError> {
        let request = request.clone().waiting(0);
        match keys {
            [key] => self.acquire(key, by, &request),
            keys => self.acquire_many(keys, by, &request),
        }
    }

    /// Asserts that to wait for `keys` would close a circle over the keys `circle`.
    #[track_caller]
    fn refuses(&mut self, keys: &[&str], request: &Request, circle: &[&str]) {
        let before = (self.engine.waiters(), self.engine.stats().deadlocks);
        let circle = circle.iter().map(|key| at(key).to_buf()).collect();
        assert_eq!(self.asks(keys, 99, request), Ok(Acquired::Deadlock(circle)));
        assert_eq!((self.engine.waiters(), self.engine.stats().deadlocks), (before.0, before.1 + 1));
    }

    /// Asserts that it waits.
    #[track_caller]
    fn lets_wait(&mut self, keys: &[&str], request: &Request) {
        assert!(matches!(self.asks(keys, 98, request), Ok(Acquired::Parked(_))));
    }
}

#[test]
fn two_workers_with_two_locks_in_opposite_order() {
    let mut world = World::new();
    world.take("a", &ask("ann"));
    world.take("b", &ask("bob"));
    let ann = world.wait("b", 1, &ask("ann"));
    world.told();
    world.refuses(&["a"], &ask("bob"), &["a", "b"]);
    assert_eq!(world.try_acquire("a", &ask("bob")), Ok(Acquired::Refused), "who does not wait closes no circle");
    assert_eq!(world.told(), [], "nothing else changes");
    assert!(world.release("b", "bob"));
    assert_eq!(world.granted(), [ann]);
    // Now no token in between waits.
    world.lets_wait(&["a"], &ask("bob"));
}

#[test]
fn a_circle_of_many_is_named_from_one_end_to_the_other() {
    let names = ["a", "b", "c", "d", "e"];
    let mut world = World::new();
    for name in names {
        world.take(name, &ask(name));
    }
    for (name, next) in names.iter().zip(&names[1..]) {
        world.lets_wait(&[next], &ask(name));
    }
    world.lets_wait(&["c"], &ask("somebody else"));
    world.refuses(&["a"], &ask("e"), &["a", "b", "c", "d", "e"]);
    world.refuses(&["d"], &ask("e"), &["d", "e"]);
    // The same token over another connection is the same owner.
    world.refuses(&["b"], &ask("e").session(), &["b", "c", "d", "e"]);
}

#[test]
fn readers_and_a_writer() {
    let mut world = World::new();
    for reader in ["r1", "r2", "r3"] {
        world.take("book", &ask(reader).shared());
    }
    world.take("pen", &ask("writer"));
    world.lets_wait(&["pen"], &ask("r2"));
    world.refuses(&["book"], &ask("writer"), &["book", "pen"]);
    // To read it the writer need not wait, unless a request in front waits for the readers.
    world.take("book", &ask("writer").shared());
    assert!(world.release("book", "writer"));
    world.lets_wait(&["book"], &ask("other"));
    world.refuses(&["book"], &ask("writer").shared(), &["book", "pen"]);
    assert!(world.release("book", "r2"));
    world.lets_wait(&["book"], &ask("writer").shared());
}

#[test]
fn an_upgrade_takes_part() {
    let mut world = World::new();
    world.take("book", &ask("ann").shared());
    world.take("book", &ask("bob").shared());
    world.take("pen", &ask("ann"));
    world.lets_wait(&["pen"], &ask("bob"));
    world.refuses(&["book"], &ask("ann"), &["book", "pen"]);
    let bob = world.engine.waiting.ids().next().unwrap();
    world.engine.left(world.now.ms, bob);
    world.lets_wait(&["book"], &ask("ann"));
    world.refuses(&["pen"], &ask("bob"), &["pen", "book"]);
    world.refuses(&["book"], &ask("bob"), &["book"]);
}

#[test]
fn a_permit_may_become_free_outside_of_the_circle() {
    let mut world = World::new();
    world.take("pool", &ask("p1").limit(2));
    world.take("pool", &ask("p2").limit(2));
    world.take("door", &ask("ann"));
    world.lets_wait(&["door"], &ask("p1"));
    // One permit is enough, and p2 waits for nothing.
    world.lets_wait(&["pool"], &ask("ann").limit(2));
    // If p2 waits for ann or for p1, no token gives a permit back.
    world.refuses(&["door"], &ask("p2"), &["door", "pool"]);
    assert!(world.release("pool", "p2"));
    // As many must go as are too many.
    let mut world = World::new();
    for permit in ["p1", "p2", "p3"] {
        world.take("pool", &ask(permit).limit(3));
    }
    world.take("door", &ask("ann"));
    world.lets_wait(&["door"], &ask("p1"));
    world.lets_wait(&["door"], &ask("p2"));
    world.lets_wait(&["pool"], &ask("ann").limit(3));
    world.refuses(&["pool"], &ask("ann").limit(2), &["pool", "door"]);
    world.refuses(&["pool"], &ask("ann"), &["pool", "door"]);
}

#[test]
fn requests_for_many_keys_take_part() {
    let mut world = World::new();
    world.take("a", &ask("ann"));
    world.take("b", &ask("bob"));
    world.lets_wait(&["b", "c"], &ask("ann"));
    world.refuses(&["a", "d"], &ask("bob"), &["a", "b"]);
    world.refuses(&["d", "a"], &ask("bob"), &["a", "b"]);
    // What it holds itself is no obstacle.
    world.refuses(&["a", "b"], &ask("bob"), &["a", "b"]);
    world.lets_wait(&["c"], &ask("eve"));
    assert!(matches!(world.asks(&["b", "d"], 1, &ask("bob")), Ok(Acquired::Granted(_))));
    // c is free, but ann is in front there, and she waits for bob.
    world.refuses(&["c"], &ask("bob"), &["c", "b"]);
    world.refuses(&["c", "e"], &ask("bob"), &["c", "b"]);
}

#[test]
fn what_is_over_keeps_nobody_waiting() {
    for ends in ["lease", "session", "release", "deleted", "time limit", "no"] {
        let mut world = World::new();
        world.acquire("a", 7, &ask("ann").session().lease(100)).unwrap().granted();
        world.take("b", &ask("bob").lease(9_000));
        let ann = world.wait("b", 1, &ask("ann"));
        match ends {
            "lease" => world.pass(100),
            "session" => world.engine.client_gone(world.now.ms, client(7)),
            "release" => assert!(world.release("a", "ann")),
            "deleted" => drop(world.delete("a")),
            "time limit" => world.engine.timed_out(world.now.ms, ann),
            _ => {}
        }
        match world.asks(&["a"], 2, &ask("bob")).unwrap() {
            Acquired::Deadlock(_) => assert_eq!(ends, "no"),
            Acquired::Parked(_) => assert_eq!(ends, "time limit"),
            Acquired::Granted(_) => assert!(["lease", "session", "release", "deleted"].contains(&ends)),
            Acquired::Refused | Acquired::Full | Acquired::Notified { .. } => panic!("{ends}"),
        }
    }
}

#[test]
fn a_request_in_line_stays_there_when_it_is_repeated_and_refused() {
    let mut world = World::new();
    world.engine.settings.detects_deadlocks = false;
    world.take("a", &ask("ann"));
    world.take("b", &ask("bob"));
    world.lets_wait(&["b"], &ask("ann"));
    let bob = world.wait("a", 2, &ask("bob"));
    world.engine.settings.detects_deadlocks = true;
    world.told();
    world.refuses(&["a"], &ask("bob"), &["a", "b"]);
    assert_eq!(world.told(), []);
    assert!(world.release("a", "ann"));
    assert_eq!(world.granted(), [bob]);
}

#[test]
fn a_token_that_asks_again_does_not_wait_for_itself() {
    let mut world = World::new();
    world.take("a", &ask("ann"));
    world.take("b", &ask("bob"));
    let first = world.wait("b", 1, &ask("ann"));
    world.told();
    world.lets_wait(&["b"], &ask("ann"));
    assert_eq!(world.answers(), [(first, WaitResult::Replaced)]);
    world.lets_wait(&["b", "c"], &ask("ann"));
}

#[test]
fn whoever_would_only_wait_for_a_circle_waits() {
    let mut world = World::new();
    world.engine.settings.detects_deadlocks = false;
    world.take("a", &ask("ann"));
    world.take("b", &ask("bob"));
    world.lets_wait(&["b"], &ask("ann"));
    world.lets_wait(&["a"], &ask("bob"));
    world.engine.settings.detects_deadlocks = true;
    world.take("c", &ask("eve"));
    world.lets_wait(&["a"], &ask("eve"));
}

#[test]
fn beyond_its_bound_the_search_claims_nothing() {
    for (length, found) in [(300, true), (1_200, false)] {
        let mut world = World::new();
        let names: Vec<String> = (0..length).map(|number| format!("t{number}")).collect();
        for name in &names {
            world.take(name, &ask(name));
        }
        for pair in names.windows(2) {
            world.lets_wait(&[&pair[1]], &ask(&pair[0]));
        }
        let closes = world.asks(&[&names[0]], 1, &ask(&names[length - 1])).unwrap();
        assert_eq!(matches!(closes, Acquired::Deadlock(circle) if circle.len() == length), found);
    }
}

#[test]
fn each_lock_of_a_request_that_is_in_between_counts() {
    for (in_between, found) in [(3, true), (60, false)] {
        let mut world = World::new();
        let keys: Vec<String> = (0..300).map(|number| format!("k{number}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        world.take("own", &ask("ann"));
        world.take(keys[0], &ask("bob"));
        world.lets_wait(&["own"], &ask("bob"));
        world.lets_wait(&keys, &ask("first"));
        for number in 1..in_between {
            world.lets_wait(&keys[1..], &ask(&format!("t{number}")));
        }
        // One waits for the other, up to the first, which waits for bob.
        let closes = world.asks(&keys[1..], 1, &ask("ann")).unwrap();
        assert_eq!(matches!(closes, Acquired::Deadlock(_)), found, "{in_between}");
    }
}

#[test]
fn where_no_holder_waits_the_line_is_not_looked_at() {
    let mut world = World::new();
    world.take("door", &ask("ann"));
    let mut cost = |number: u64| {
        let before = world.keys.looks;
        world.wait("door", number + 1, &ask(&format!("t{number}")));
        world.keys.looks - before
    };
    let first = cost(0);
    assert!((1..200).all(|number| cost(number) <= first + 1));
}

#[test]
fn a_circle_that_a_grant_closes_for_a_token_with_two_requests_ends_with_a_lease_or_a_time_limit() {
    let mut world = World::new();
    world.take("x", &ask("bob").lease(9_000));
    world.take("y", &ask("carl").lease(9_000));
    world.wait("x", 1, &ask("ann").lease(100));
    world.wait("y", 2, &ask("ann"));
    // When ann is done with x, carl has it. That she waits for his y as well is no circle yet: the request for x may come from another task of hers.
    world.lets_wait(&["x"], &ask("carl"));
    assert!(world.release("x", "bob"));
    assert_eq!((world.holders("x"), world.holders("y")), (vec!["ann".to_owned()], vec!["carl".to_owned()]));
    // No request is made now, so none is refused. One that is made again is refused.
    world.refuses(&["y"], &ask("ann"), &["y", "x"]);
    world.refuses(&["x"], &ask("carl"), &["x", "y"]);
    world.pass(100);
    let _ = world.tick();
    assert_eq!(world.holders("x"), ["carl"]);
}

#[test]
fn whoever_is_in_front_is_seen_behind_a_holder_that_wants_more() {
    let mut world = World::new();
    world.take("a", &ask("ann"));
    world.take("b", &ask("bob"));
    world.take("c", &ask("eve"));
    world.lets_wait(&["a", "b"], &ask("zoe"));
    // In line at b like all others, but for c only.
    world.lets_wait(&["b", "c"], &ask("bob"));
    world.refuses(&["b"], &ask("ann"), &["b", "a"]);
}

#[test]
fn what_an_expired_grant_replaced_keeps_nobody_waiting() {
    let mut world = World::new();
    world.take("a", &ask("ann").lease(9_000));
    world.take("b", &ask("eve"));
    world.take("c", &ask("bob").lease(9_000));
    let both = world.wait_many(&["a", "b"], 1, &ask("ann").lease(5));
    assert!(world.release("b", "eve"));
    assert_eq!(world.granted(), [both]);
    world.lets_wait(&["a"], &ask("bob"));
    world.pass(5);
    world.engine.client_gone(world.now.ms, client(1));
    // No command has visited a since. The grant is over by its lease, and bob is next there.
    world.lets_wait(&["c"], &ask("ann"));
    let _ = world.tick();
    assert_eq!(world.holders("a"), ["bob"]);
}
