//! Kinds of work take turns, and no transition does much more than its share.

use std::time::{Duration, Instant};

use super::world::*;
use crate::core::lock::{Acquired, WaiterId};
use crate::core::time::{Millis, Wakeup};

/// How many ticks of `budget` steps it takes until `done`, at most `most`.
fn ticks(world: &mut World, budget: usize, most: usize, done: impl Fn(&mut World) -> bool) -> usize {
    for number in 1..=most {
        let World { engine, keys, now } = world;
        let _ = engine.tick(*now, budget, keys);
        if done(world) {
            return number;
        }
    }
    panic!("not within {most} ticks");
}

const MANY: usize = if cfg!(miri) { 50 } else { 2_000 };

/// Work of one kind, a lot of it.
fn burden(world: &mut World, kind: usize) {
    for number in 0..MANY {
        let key = format!("busy {number}");
        match kind {
            0 => drop(world.acquire(&key, 7, &ask("ann").session()).unwrap().granted()),
            1 => drop(world.take(&key, &ask("ann").lease(50))),
            _ => {
                world.take(&key, &ask("ann"));
                world.wait(&key, 8, &ask("bob"));
                world.delete(&key);
            }
        }
    }
    match kind {
        0 => world.engine.client_gone(world.now.ms, client(7)),
        1 => world.pass(50),
        _ => {}
    }
}

#[test]
fn no_kind_of_work_waits_for_the_end_of_another() {
    for kind in 0..3 {
        // A lease that ends meanwhile, a session that ends meanwhile, a lock that is deleted meanwhile.
        for urgent in (0..3).filter(|urgent| *urgent != kind) {
            let mut world = World::new();
            world
                .acquire("door", 9, &if urgent == 0 { ask("eve").session() } else { ask("eve").lease(60) })
                .unwrap()
                .granted();
            let next = world.wait("door", 10, &ask("fay"));
            burden(&mut world, kind);
            world.told();
            match urgent {
                0 => world.engine.client_gone(world.now.ms, client(9)),
                1 => world.pass(60),
                _ => drop(world.delete("door")),
            }
            let first = |world: &mut World| world.answers().iter().any(|(waiter, _)| *waiter == next);
            // Of the same kind as the session ends before it are only the steps of finding them.
            let most = if urgent == 0 { 2 * MANY.div_ceil(8) } else { 3 };
            assert!(ticks(&mut world, 16, most.max(3), first) <= most, "{urgent} beside {kind}");
            assert!(
                world.keys.values.len() > MANY / 2 || kind == 2,
                "{urgent} beside {kind}: most is still to be done"
            );
        }
    }
}

#[test]
fn sessions_of_one_lock_that_end_together_are_ended_a_few_at_a_time() {
    for connections in [1, MANY] {
        let mut world = World::new();
        world.engine.bound = Some(20);
        let mut last = 0;
        for number in 0..MANY {
            let gone = 1_000 + u64::try_from(number % connections).unwrap();
            let request = ask(&format!("gone {number}")).shared().session();
            last = world.acquire("book", gone, &request).unwrap().granted().fence.0;
            world.acquire("book", 8, &ask(&format!("here {number}")).shared().session()).unwrap().granted();
        }
        world.told();
        for gone in 0..connections {
            world.engine.client_gone(world.now.ms, client(1_000 + u64::try_from(gone).unwrap()));
        }
        let ended = |world: &mut World| world.told().iter().filter(|told| matches!(told, Told::Ended(..))).count();
        for name in ["here 0", "here 1"] {
            assert!(world.release("book", name));
            let count = ended(&mut world);
            assert!((1..=30).contains(&count), "{count} holds ended in one command");
            assert!(world.engine.notes.revoked().count() <= 30, "no command looks at them all");
        }
        // The hold of one that is not reached yet has ended all the same.
        let name = format!("gone {}", MANY - 1);
        assert!(!world.holders("book").contains(&name));
        let again = world.acquire("book", 10, &ask(&name).shared().lease(9_000)).unwrap().granted().fence;
        assert!(again.0 > last);
        ticks(&mut world, 16, MANY, |world| {
            assert!(ended(world) <= 40);
            world.engine.next_wakeup() != Wakeup::Now
        });
        assert_eq!(world.lock("book").unwrap().holds().count(), MANY - 1);
        assert!(world.release("book", &name));
        let writer = world.wait("book", 9, &ask("writer"));
        world.engine.client_gone(world.now.ms, client(8));
        let _ = world.tick();
        assert_eq!(world.granted(), [writer]);
    }
}

#[test]
fn the_end_of_many_requests_for_the_same_keys_looks_at_each_key_but_once_or_twice() {
    const KEYS: usize = if cfg!(miri) { 5 } else { 50 };
    for bound in [10_000, 20] {
        let mut world = World::new();
        world.engine.bound = Some(bound);
        let names: Vec<String> = (0..KEYS).map(|number| format!("door {number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        world.acquire_many(&names, 1, &ask("ann")).unwrap().granted();
        for number in 0..20 {
            let own = format!("own {number}");
            let keys: Vec<&str> = names.iter().copied().chain([own.as_str()]).collect();
            world.wait_many(&keys, 100 + number, &ask("bob"));
        }
        let eve = world.wait_many(&names, 2, &ask("eve"));
        world.told();
        world.keys.looks = 0;
        assert!(!world.release(names[0], "bob"));
        // Each hears at once, and none is shown or counted any more, whatever is left to the timer.
        assert_eq!(world.answers().len(), 20);
        assert!(world.keys.looks <= 4 * (KEYS + 20), "{} looks", world.keys.looks);
        assert_eq!(world.engine.waiting.has_retired(), bound == 20);
        assert_eq!((world.engine.waiters(), world.info(names[1]).unwrap().waiting), (1, 1));
        assert_eq!(world.info("own 19"), None);
        world.take("own 19", &ask("zoe"));
        assert_eq!(world.engine.next_wakeup() == Wakeup::Now, bound == 20);
        let most = ticks(&mut world, 16, 10 * KEYS, |world| world.engine.next_wakeup() != Wakeup::Now);
        assert!(bound > 20 || most > KEYS, "a step for each queue that a request leaves: {most}");
        assert_eq!(world.release_many(&names, "ann"), Ok(u64::try_from(KEYS).unwrap()));
        let _ = world.tick();
        assert_eq!(world.granted(), [eve]);
        assert_eq!(world.release_many(&names, "eve"), Ok(u64::try_from(KEYS).unwrap()));
        assert!(world.release("own 19", "zoe"));
        world.engine.client_gone(world.now.ms, client(2));
        let _ = world.tick();
        world.assert_blank();
    }
}

/// `many` requests by NOTIFY of one connection, each for a key of its own and one that all want; how long their end takes with the connection.
fn end_together(many: usize, grace: Millis, token_of: impl Fn(usize) -> String) -> Duration {
    let mut world = World::new();
    world.engine.settings.place_grace = grace;
    world.engine.settings.detects_deadlocks = false;
    world.take("all", &ask("ann").lease(1_000_000));
    for number in 0..many {
        let own = format!("own {number}");
        world.line_up_many(&["all", &own], 7, &ask(&token_of(number)), "c");
    }
    let began = Instant::now();
    world.engine.client_gone(world.now.ms, client(7));
    let took = began.elapsed();
    assert_eq!(world.engine.waiters(), 0);
    assert_eq!(world.engine.vacant_places(), if grace == Millis(0) { 0 } else { many });
    world.pass(grace.0);
    while world.engine.vacant_places() > 0 {
        let _ = world.tick();
    }
    assert!(world.release("all", "ann"));
    let _ = world.tick();
    world.assert_blank();
    took
}

/// One token once took 130 times as long as many, because each request was looked for among all of its token.
#[test]
fn many_requests_of_one_token_end_as_those_of_many_tokens_do() {
    const REQUESTS: usize = if cfg!(miri) { 20 } else { 20_000 };
    for grace in [0, 60_000].map(Millis) {
        let few = end_together(REQUESTS, grace, |_| "bob".to_owned());
        let many = end_together(REQUESTS, grace, |number| format!("t{number}"));
        assert!(few < many * 5 + Duration::from_millis(1), "{few:?} with one token, {many:?} with many");
    }
}

/// Does `work` while it says that there is more, and prints how long the longest step took.
fn longest(what: &str, world: &mut World, mut work: impl FnMut(&mut World, usize) -> bool) {
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    for number in 0.. {
        let start = Instant::now();
        let more = work(world, number);
        longest = longest.max(start.elapsed());
        if !more {
            break;
        }
    }
    println!("{what}: the longest step {longest:?}, all {:?}", began.elapsed());
}

#[test]
#[ignore = "a measurement"]
fn the_longest_steps() {
    let tick = |world: &mut World, _| {
        let World { engine, keys, now } = world;
        engine.tick(*now, 16, keys) == Wakeup::Now
    };
    let mut world = World::new();
    for number in 0..100_000 {
        world.acquire("book", 7, &ask(&format!("t{number}")).shared().session()).unwrap().granted();
    }
    world.engine.client_gone(world.now.ms, client(7));
    longest("100,000 sessions of one lock end", &mut world, tick);

    let mut world = World::new();
    world.engine.settings.place_grace = Millis(60_000);
    world.take("door", &ask("ann").lease(1_000_000));
    let mut order: Vec<u64> = (0..100_000).collect();
    for number in &order {
        world.line_up("door", 1_000 + number, &ask(&format!("t{number}")), "c");
    }
    for number in &order {
        world.engine.client_gone(world.now.ms, client(1_000 + number));
    }
    fastrand::Rng::with_seed(1).shuffle(&mut order);
    let back = move |world: &mut World, number: usize| {
        world.line_up("door", 7, &ask(&format!("t{}", order[number])), "c");
        number + 1 < order.len()
    };
    longest("100,000 come back to their places", &mut world, back);

    let mut world = World::new();
    let names: Vec<String> = (0..1_000).map(|number| format!("door {number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.acquire_many(&names, 1, &ask("ann")).unwrap().granted();
    for number in 0..200 {
        let own = format!("own {number}");
        let keys: Vec<&str> = names.iter().copied().chain([own.as_str()]).collect();
        world.wait_many(&keys, 100 + number, &ask("bob"));
    }
    let release = |world: &mut World, _| world.release("door 0", "bob");
    longest("a token that waits in 200 requests for 1,000 keys is released", &mut world, release);
    for (whose, token) in [("one token", "bob"), ("as many tokens", "t")] {
        let token_of = |number| if token == "t" { format!("t{number}") } else { token.to_owned() };
        println!(
            "50,000 requests of {whose} end with their connection: {:?}",
            end_together(50_000, Millis(60_000), token_of)
        );
    }
}

#[test]
fn a_clock_that_is_set_back_keeps_nothing_from_being_tried_again() {
    for down in [true, false] {
        let mut world = World::new();
        world.pass(3_600_000);
        world.take("door", &ask("ann"));
        let bob = world.wait("door", 1, &ask("bob"));
        world.delete("door");
        world.keys.down = down;
        world.keys.elsewhere = vec![at("door").to_buf()];
        let _ = world.tick();
        world.keys.down = false;
        world.keys.elsewhere.clear();
        world.now = crate::core::time::Now::from_micros(world.now.us - 3_000_000_000);
        let _ = world.tick();
        assert_eq!(world.granted(), [bob], "{down}");
    }
}

#[test]
fn requests_for_many_keys_are_granted_one_a_turn() {
    const KEYS: usize = if cfg!(miri) { 5 } else { 100 };
    let mut world = World::new();
    let gates: Vec<String> = (0..20).map(|n| format!("gate {n}")).collect();
    let gates: Vec<&str> = gates.iter().map(String::as_str).collect();
    world.acquire_many(&gates, 1, &ask("zoe").lease(100)).unwrap().granted();
    for (number, gate) in gates.iter().enumerate() {
        let keys: Vec<String> = (0..KEYS).map(|n| format!("{gate}, door {n}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).chain([*gate]).collect();
        world.wait_many(&keys, 2 + number as u64, &ask(&format!("w{number}")));
    }
    world.told();
    world.pass(100);
    let mut granted = 0;
    for _ in 0..1_000 {
        let World { engine, keys, now } = &mut world;
        let next = engine.tick(*now, 16, keys);
        let some = world.granted().len();
        assert!(some <= if cfg!(miri) { 4 } else { 1 }, "{some} in one tick");
        granted += some;
        if next != Wakeup::Now {
            break;
        }
    }
    assert_eq!(granted, 20);
}

#[test]
fn what_a_command_sets_off_beyond_a_bound_is_left_to_the_timer_and_nobody_overtakes() {
    let mut world = World::new();
    world.engine.bound = Some(20);
    world.take("book", &ask("ann"));
    let readers: Vec<WaiterId> =
        (0..100).map(|n| world.wait("book", n + 1, &ask(&format!("r{n}")).shared().lease(9_000))).collect();
    world.told();
    assert!(world.release("book", "ann"));
    let mut granted = world.granted();
    assert!((1..=25).contains(&granted.len()), "{}", granted.len());
    assert_eq!(world.engine.next_wakeup(), Wakeup::Now);
    // A request that comes now does some of the work, too, and stands behind all of them.
    assert_eq!(world.try_acquire("book", &ask("eve").shared()), Ok(Acquired::Refused));
    let late = world.wait("book", 200, &ask("late").shared());
    while world.engine.tick(world.now, 16, &mut world.keys) == Wakeup::Now {}
    granted.extend(world.granted());
    assert_eq!(granted[..100], readers);
    assert_eq!(granted[100..], [late]);
}

#[test]
fn a_command_ends_no_more_than_a_bound_and_yet_its_own_hold_is_over_in_time() {
    let mut world = World::new();
    world.engine.bound = Some(5);
    let mut fences = Vec::new();
    for number in 0..50 {
        fences.push(world.take("book", &ask(&format!("r{number}")).shared().lease(100)));
    }
    world.pass(100);
    world.told();
    assert_eq!(world.extend("book", "r49", 1_000), Ok(false), "it never revives");
    assert!(!world.release("book", "r48"));
    assert!(world.take("book", &ask("r47").shared()) > fences[49]);
    assert!(world.lock("book").unwrap().len() > 10, "many are still to be ended");
    assert_eq!(world.try_acquire("book", &ask("eve")), Ok(Acquired::Refused));
    while world.engine.tick(world.now, 16, &mut world.keys) == Wakeup::Now {}
    assert_eq!(world.holders("book"), ["r47"]);
    assert_eq!(world.engine.stats().expirations, 50);
}

#[test]
fn a_command_leaves_no_vacant_lock_behind() {
    let mut world = World::new();
    world.engine.bound = Some(0);
    let names: Vec<String> = (0..9).map(|n| format!("k{n}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    world.acquire_many(&keys, 1, &ask("ann")).unwrap().granted();
    for key in &keys {
        world.wait_many(&[*key, "x"], 2, &ask(&format!("for {key}")));
    }
    world.wait("x", 3, &ask("last"));
    assert_eq!(world.release_many(&keys, "ann"), Ok(9));
    for value in world.keys.values.values() {
        assert!(!matches!(value, Value::Lock(lock) if lock.is_empty()));
    }
}

#[test]
fn where_the_whole_cluster_is_down_one_question_is_enough() {
    let mut world = World::new();
    for number in 0..MANY {
        world.take(&format!("k{number}"), &ask("ann").lease(100));
        world.acquire(&format!("s{number}"), 7, &ask("ann").session()).unwrap().granted();
    }
    world.pass(100);
    world.engine.client_gone(world.now.ms, client(7));
    world.keys.down = true;
    for _ in 0..5 {
        let Wakeup::At(retry) = world.tick() else { panic!("it must not spin") };
        assert_eq!(world.tick(), Wakeup::At(retry));
        world.pass(retry.left(world.now.ms).0);
    }
    assert_eq!(world.keys.asked, 5);
    world.keys.down = false;
    while world.engine.tick(world.now, 500, &mut world.keys) == Wakeup::Now {}
    world.pass(200);
    while world.engine.tick(world.now, 500, &mut world.keys) == Wakeup::Now {}
    world.assert_blank();
}

#[test]
fn where_the_whole_cluster_is_down_waits_end_in_their_time() {
    let mut world = World::new();
    for number in 0..MANY {
        world.take(&format!("k{number}"), &ask("ann").lease(100));
        world.line_up(&format!("k{number}"), 1, &ask("bob").waiting(150), "news");
    }
    world.pass(100);
    world.keys.down = true;
    let Wakeup::At(retry) = world.tick() else { panic!("it must not spin") };
    assert_eq!(retry, world.now.ms.plus(Millis(50)).unwrap(), "the first of the waits ends before the next try");
    world.pass(50);
    while world.tick() == Wakeup::Now {}
    assert_eq!(world.engine.notified(), 0);
}

#[test]
fn what_is_refused_key_by_key_is_asked_again_at_a_bounded_rate() {
    let mut world = World::new();
    for number in 0..MANY {
        world.take(&format!("k{number}"), &ask("ann").lease(100));
        world.keys.elsewhere.push(at(&format!("k{number}")).to_buf());
    }
    world.pass(100);
    let start = world.now.ms;
    let _ = world.tick();
    assert_eq!(world.keys.asked, MANY);
    let rest = if cfg!(miri) { 100 } else { 1_000 };
    while start.plus(Millis(rest)).unwrap().left(world.now.ms).0 > 0 {
        match world.tick() {
            Wakeup::At(next) => world.pass(next.left(world.now.ms).0.max(1)),
            other => panic!("{other:?}"),
        }
    }
    let again = world.keys.asked - MANY;
    assert!(again <= 11 * usize::try_from(rest).unwrap(), "{again} in a second");
}
