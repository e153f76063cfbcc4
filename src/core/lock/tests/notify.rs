//! Requests whose clients are not blocked: place, outcome, time limit.

use super::world::*;
use crate::core::lock::{Acquired, Dismissed, LockError, WaitResult};
use crate::core::slot::Slot;
use crate::core::time::{Millis, UnixMs, Wakeup};

#[track_caller]
fn is_granted((channel, about, outcome): &(String, String, WaitResult)) -> (&str, &str) {
    assert!(matches!(outcome, WaitResult::Granted(_)), "{outcome:?}");
    (channel, about)
}

#[test]
fn they_stand_in_line_with_the_parked_and_are_told_on_their_channel() {
    let mut world = World::new();
    world.take("door", &ask("ann"));
    assert_eq!(world.line_up("door", 1, &ask("bob").lease(700), "b"), 1);
    let eve = world.wait("door", 2, &ask("eve"));
    assert_eq!(world.line_up("door", 1, &ask("joe"), "j"), 3);
    assert_eq!((world.engine.waiters(), world.engine.notified()), (3, 2));
    let clients: Vec<_> = world.info("door").unwrap().waiters.iter().map(|waiter| waiter.client).collect();
    assert_eq!(clients, [1, 2, 1].map(|number| Some(client(number))));
    world.told();
    assert!(world.release("door", "ann"));
    let published = world.published();
    assert_eq!(is_granted(&published[0]), ("b", "door"));
    // It counts as delivered, so the end of the connection takes nothing back.
    assert_eq!(world.engine.notes.unacked_of(client(1)).next(), None);
    world.engine.client_gone(world.now.ms, client(1));
    let _ = world.tick();
    assert_eq!((world.holders("door"), world.engine.waiters()), (vec!["bob".to_owned()], 1));
    assert!(world.release("door", "bob"));
    assert_eq!(world.granted(), [eve]);
}

#[test]
fn the_place_is_that_in_the_longest_queue_and_asking_again_keeps_it() {
    let mut world = World::new();
    world.take("a", &ask("ann"));
    for (number, name) in (2..).zip(["b1", "b2", "b3"]) {
        assert_eq!(world.line_up("a", number, &ask(name), "c"), number - 1);
    }
    assert_eq!(world.line_up_many(&["b", "a"], 5, &ask("many"), "c"), 4);
    assert_eq!(world.line_up("b", 5, &ask("last"), "c"), 2);
    world.told();
    world.engine.client_gone(world.now.ms, client(2));
    assert_eq!(world.line_up("a", 3, &ask("b2"), "c"), 1);
    assert_eq!(world.line_up_many(&["a", "b"], 5, &ask("many"), "c"), 3);
    assert_eq!(world.published(), [], "the same requests once more");
    assert_eq!(world.line_up("a", 4, &ask("b3"), "other"), 2);
    assert_eq!(world.published(), [("c".into(), "a".into(), WaitResult::Replaced)]);
}

#[test]
fn its_time_is_over_at_its_own_millisecond_whoever_comes_first() {
    let mut world = World::new();
    world.take("book", &ask("reader").shared().lease(10_000));
    world.line_up("book", 1, &ask("writer").waiting(100), "w");
    let late = world.wait("book", 2, &ask("late").shared());
    assert_eq!(world.engine.next_wakeup(), Wakeup::At(UnixMs(world.now.ms.0 + 100)));
    world.told();
    world.pass(100);
    let _ = world.tick();
    let told = world.told();
    let timeout = Told::Published(notice("w", "book"), WaitResult::TimedOut);
    assert_eq!(told[0], timeout);
    assert!(
        told.iter().any(|told| matches!(told, Told::Answered(id, WaitResult::Granted(_)) if *id == late)),
        "{told:?}"
    );
    // A release that comes before the timer grants nothing to a request that waits no longer.
    world.line_up("book", 1, &ask("writer").waiting(100), "w");
    let last = world.wait("book", 2, &ask("last"));
    world.release("book", "late");
    world.told();
    world.pass(100);
    assert!(world.release("book", "reader"));
    let told = world.told();
    assert!(told.contains(&timeout), "{told:?}");
    assert!(
        told.iter().any(|told| matches!(told, Told::Answered(id, WaitResult::Granted(_)) if *id == last)),
        "{told:?}"
    );
    assert_eq!(world.engine.stats().timeouts, 2);
}

#[test]
fn who_waits_for_nothing_else_leaves_no_key_behind() {
    let mut world = World::new();
    world.take("a", &ask("ann").lease(50));
    world.take("b", &ask("ann").lease(50));
    world.line_up_many(&["a", "b"], 1, &ask("bob").waiting(50), "c");
    world.pass(50);
    assert!(!world.release("a", "ann"));
    let _ = world.tick();
    world.assert_blank();
}

#[test]
fn a_demotion_ends_all_of_them_and_the_first_in_line_hears_first() {
    let mut world = World::new();
    world.take("door", &ask("ann"));
    for (by, name) in [(1, "bob"), (2, "eve"), (3, "joe")] {
        world.line_up("door", by, &ask(name), name);
    }
    let parked = world.wait("door", 4, &ask("zoe"));
    world.told();
    world.engine.demoted(world.now.ms);
    assert_eq!((world.engine.waiters(), world.engine.notified()), (1, 0));
    let channels = |world: &mut World, most: usize| -> Vec<String> {
        let taken = world.engine.take_dismissed(most).into_iter();
        let channel = |dismissed| match dismissed {
            Dismissed::Demoted(notice) => String::from_utf8(notice.channel.to_vec()).unwrap(),
            moved @ Dismissed::Moved(..) => panic!("{moved:?}"),
        };
        taken.map(channel).collect()
    };
    assert_eq!(channels(&mut world, 2), ["bob", "eve"]);
    assert_eq!(channels(&mut world, 2), ["joe"]);
    assert!(channels(&mut world, 2).is_empty());
    assert_eq!(world.told(), [], "the server answers the others");
    world.engine.left(world.now.ms, parked);
}

#[test]
fn whoever_waits_for_a_slot_that_has_moved_is_sent_on_and_the_others_stay() {
    let mut world = World::new();
    for key in ["{a}1", "{b}1"] {
        world.take(key, &ask("ann"));
    }
    world.line_up("{a}1", 1, &ask("bob"), "bob");
    world.line_up("{b}1", 1, &ask("eve"), "eve");
    world.line_up_many(&["{a}2", "{a}1"], 2, &ask("joe"), "joe");
    let parked = world.wait("{a}2", 3, &ask("zoe"));
    world.told();
    let gone = Slot::of(b"a");
    world.engine.slots_moved(world.now.ms, |slot| slot == gone);
    let moved = |name: &str, about: &str| Dismissed::Moved(notice(name, about), gone);
    assert_eq!(world.engine.take_dismissed(9), [moved("bob", "{a}1"), moved("joe", "{a}2+{a}1")]);
    assert_eq!((world.engine.waiters(), world.engine.notified()), (2, 1));
    let _ = world.tick();
    assert_eq!(world.granted(), [parked], "nobody is in front any more, and here the test's keyspace is not asked");
}

#[test]
fn a_request_without_a_connection_stands_until_its_end() {
    let mut world = World::new();
    world.take("door", &ask("ann"));
    let now = world.now;
    let request = ask("bob").notified(notice("s", "door"));
    let asked = world.engine.acquire(now, at("door"), &request, &mut world.keys);
    assert_eq!(asked.unwrap().notified().1, 1);
    assert_eq!(world.info("door").unwrap().waiters[0].client, None);
    world.engine.client_gone(now.ms, client(9));
    world.told();
    assert!(world.release("door", "ann"));
    assert_eq!(is_granted(&world.published()[0]), ("s", "door"));
}

#[test]
fn what_is_refused_is_refused_at_once() {
    let mut world = World::new();
    world.take("door", &ask("ann").limit(2));
    let news = notice("n", "door");
    let mut tell = |request: &crate::core::lock::Request| {
        world.engine.acquire(world.now, at("door"), &request.by(1), &mut world.keys)
    };
    assert_eq!(tell(&ask("ann").shared().notified(news.clone())), Err(LockError::OtherMode));
    assert_eq!(tell(&ask("bob")), Ok(Acquired::Refused), "a request that does not wait");
    let grant = tell(&ask("bob").limit(2).notified(news)).unwrap().granted();
    assert_eq!(grant.lease, Millis(1_000));
    assert_eq!(world.published(), []);
}
