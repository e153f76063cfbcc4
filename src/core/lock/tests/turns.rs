//! Kinds of work take turns, and no transition does much more than its share.

use std::time::{Duration, Instant};

use super::world::*;
use crate::core::lock::engine::Bound;
use crate::core::lock::{Acquired, WaiterId};
use crate::core::time::{Millis, Wakeup};

/// How many ticks of `budget` steps it takes until `done`, at most `most`.
fn ticks(desk: &mut Desk, budget: usize, most: usize, done: impl Fn(&mut Desk) -> bool) -> usize {
    for number in 1..=most {
        let Desk { engine, keys, now } = desk;
        let _ = engine.tick(*now, budget, keys);
        if done(desk) {
            return number;
        }
    }
    panic!("not within {most} ticks");
}

const MANY: usize = if cfg!(miri) { 50 } else { 2_000 };

/// Work of one kind, a lot of it.
fn burden(desk: &mut Desk, kind: usize) {
    for number in 0..MANY {
        let key = format!("busy {number}");
        match kind {
            0 => drop(desk.acquire(&key, 7, &ask("ann").session()).unwrap().granted()),
            1 => drop(desk.take(&key, &ask("ann").lease(50))),
            _ => {
                desk.take(&key, &ask("ann"));
                desk.wait(&key, 8, &ask("bob"));
                desk.delete(&key);
            }
        }
    }
    match kind {
        0 => desk.engine.client_gone(desk.now.ms, client(7)),
        1 => desk.pass(50),
        _ => {}
    }
}

#[test]
fn no_kind_of_work_waits_for_the_end_of_another() {
    for kind in 0..3 {
        // A lease that ends meanwhile, a session that ends meanwhile, a lock that is deleted meanwhile.
        for urgent in (0..3).filter(|urgent| *urgent != kind) {
            let mut desk = Desk::new();
            desk.acquire("door", 9, &if urgent == 0 { ask("eve").session() } else { ask("eve").lease(60) })
                .unwrap()
                .granted();
            let next = desk.wait("door", 10, &ask("fay"));
            burden(&mut desk, kind);
            desk.told();
            match urgent {
                0 => desk.engine.client_gone(desk.now.ms, client(9)),
                1 => desk.pass(60),
                _ => drop(desk.delete("door")),
            }
            let first = |desk: &mut Desk| desk.answers().iter().any(|(waiter, _)| *waiter == next);
            // Of the same kind as the session ends before it are only the steps of finding them.
            let most = if urgent == 0 { 2 * MANY.div_ceil(8) } else { 3 };
            assert!(ticks(&mut desk, 16, most.max(3), first) <= most, "{urgent} beside {kind}");
            assert!(desk.keys.values.len() > MANY / 2 || kind == 2, "{urgent} beside {kind}: most is still to be done");
        }
    }
}

#[test]
fn sessions_of_one_lock_that_end_together_are_ended_a_few_at_a_time() {
    for connections in [1, MANY] {
        let mut desk = Desk::new();
        desk.engine.bound = Bound(20);
        let mut last = 0;
        for number in 0..MANY {
            let gone = 1_000 + u64::try_from(number % connections).unwrap();
            let request = ask(&format!("gone {number}")).shared().session();
            last = desk.acquire("book", gone, &request).unwrap().granted().fence.0;
            desk.acquire("book", 8, &ask(&format!("here {number}")).shared().session()).unwrap().granted();
        }
        desk.told();
        for gone in 0..connections {
            desk.engine.client_gone(desk.now.ms, client(1_000 + u64::try_from(gone).unwrap()));
        }
        let ended = |desk: &mut Desk| desk.told().iter().filter(|told| matches!(told, Told::Ended(..))).count();
        for name in ["here 0", "here 1"] {
            assert!(desk.release("book", name));
            let count = ended(&mut desk);
            assert!((1..=30).contains(&count), "{count} holds ended in one command");
            assert!(desk.engine.notes.revoked().count() <= 30, "no command looks at them all");
        }
        // The hold of one that is not reached yet has ended all the same.
        let name = format!("gone {}", MANY - 1);
        assert!(!desk.holders("book").contains(&name));
        let again = desk.acquire("book", 10, &ask(&name).shared().lease(9_000)).unwrap().granted().fence;
        assert!(again.0 > last);
        ticks(&mut desk, 16, MANY, |desk| {
            assert!(ended(desk) <= 40);
            desk.engine.next_wakeup() != Wakeup::Now
        });
        assert_eq!(desk.lock("book").unwrap().holds().count(), MANY - 1);
        assert!(desk.release("book", &name));
        let writer = desk.wait("book", 9, &ask("writer"));
        desk.engine.client_gone(desk.now.ms, client(8));
        let _ = desk.tick();
        assert_eq!(desk.granted(), [writer]);
    }
}

#[test]
fn the_end_of_many_requests_for_the_same_keys_looks_at_each_key_but_once_or_twice() {
    const KEYS: usize = if cfg!(miri) { 5 } else { 50 };
    for bound in [10_000, 20] {
        let mut desk = Desk::new();
        desk.engine.bound = Bound(bound);
        let names: Vec<String> = (0..KEYS).map(|number| format!("door {number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        desk.acquire_many(&names, 1, &ask("ann")).unwrap().granted();
        for number in 0..20 {
            let own = format!("own {number}");
            let keys: Vec<&str> = names.iter().copied().chain([own.as_str()]).collect();
            desk.wait_many(&keys, 100 + number, &ask("bob"));
        }
        let eve = desk.wait_many(&names, 2, &ask("eve"));
        desk.told();
        desk.keys.looks = 0;
        assert!(!desk.release(names[0], "bob"));
        // Each hears at once, and none is shown or counted any more, whatever is left to the timer.
        assert_eq!(desk.answers().len(), 20);
        assert!(desk.keys.looks <= 4 * (KEYS + 20), "{} looks", desk.keys.looks);
        assert_eq!(desk.engine.waiting.has_retired(), bound == 20);
        assert_eq!((desk.engine.waiters(), desk.info(names[1]).unwrap().waiting), (1, 1));
        assert_eq!(desk.info("own 19"), None);
        desk.take("own 19", &ask("zoe"));
        assert_eq!(desk.engine.next_wakeup() == Wakeup::Now, bound == 20);
        let most = ticks(&mut desk, 16, 10 * KEYS, |desk| desk.engine.next_wakeup() != Wakeup::Now);
        assert!(bound > 20 || most > KEYS, "a step for each queue that a request leaves: {most}");
        assert_eq!(desk.release_many(&names, "ann"), Ok(u64::try_from(KEYS).unwrap()));
        let _ = desk.tick();
        assert_eq!(desk.granted(), [eve]);
        assert_eq!(desk.release_many(&names, "eve"), Ok(u64::try_from(KEYS).unwrap()));
        assert!(desk.release("own 19", "zoe"));
        desk.engine.client_gone(desk.now.ms, client(2));
        let _ = desk.tick();
        desk.assert_blank();
    }
}

/// Does `work` while it says that there is more, and prints how long the longest step took.
fn longest(what: &str, desk: &mut Desk, mut work: impl FnMut(&mut Desk, usize) -> bool) {
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    for number in 0.. {
        let start = Instant::now();
        let more = work(desk, number);
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
    let tick = |desk: &mut Desk, _| {
        let Desk { engine, keys, now } = desk;
        engine.tick(*now, 16, keys) == Wakeup::Now
    };
    let mut desk = Desk::new();
    for number in 0..100_000 {
        desk.acquire("book", 7, &ask(&format!("t{number}")).shared().session()).unwrap().granted();
    }
    desk.engine.client_gone(desk.now.ms, client(7));
    longest("100,000 sessions of one lock end", &mut desk, tick);

    let mut desk = Desk::new();
    desk.engine.settings.place_grace = Millis(60_000);
    desk.take("door", &ask("ann").lease(1_000_000));
    let mut order: Vec<u64> = (0..100_000).collect();
    for number in &order {
        desk.line_up("door", 1_000 + number, &ask(&format!("t{number}")), "c");
    }
    for number in &order {
        desk.engine.client_gone(desk.now.ms, client(1_000 + number));
    }
    fastrand::Rng::with_seed(1).shuffle(&mut order);
    let back = move |desk: &mut Desk, number: usize| {
        desk.line_up("door", 7, &ask(&format!("t{}", order[number])), "c");
        number + 1 < order.len()
    };
    longest("100,000 come back to their places", &mut desk, back);

    let mut desk = Desk::new();
    let names: Vec<String> = (0..1_000).map(|number| format!("door {number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    desk.acquire_many(&names, 1, &ask("ann")).unwrap().granted();
    for number in 0..200 {
        let own = format!("own {number}");
        let keys: Vec<&str> = names.iter().copied().chain([own.as_str()]).collect();
        desk.wait_many(&keys, 100 + number, &ask("bob"));
    }
    let release = |desk: &mut Desk, _| desk.release("door 0", "bob");
    longest("a token that waits in 200 requests for 1,000 keys is released", &mut desk, release);
}

#[test]
fn a_clock_that_is_set_back_keeps_nothing_from_being_tried_again() {
    for down in [true, false] {
        let mut desk = Desk::new();
        desk.pass(3_600_000);
        desk.take("door", &ask("ann"));
        let bob = desk.wait("door", 1, &ask("bob"));
        desk.delete("door");
        desk.keys.down = down;
        desk.keys.elsewhere = vec![at("door").to_buf()];
        let _ = desk.tick();
        desk.keys.down = false;
        desk.keys.elsewhere.clear();
        desk.now = crate::core::time::Now::from_micros(desk.now.us - 3_000_000_000);
        let _ = desk.tick();
        assert_eq!(desk.granted(), [bob], "{down}");
    }
}

#[test]
fn requests_for_many_keys_are_granted_one_a_turn() {
    const KEYS: usize = if cfg!(miri) { 5 } else { 100 };
    let mut desk = Desk::new();
    let gates: Vec<String> = (0..20).map(|n| format!("gate {n}")).collect();
    let gates: Vec<&str> = gates.iter().map(String::as_str).collect();
    desk.acquire_many(&gates, 1, &ask("zoe").lease(100)).unwrap().granted();
    for (number, gate) in gates.iter().enumerate() {
        let keys: Vec<String> = (0..KEYS).map(|n| format!("{gate}, door {n}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).chain([*gate]).collect();
        desk.wait_many(&keys, 2 + number as u64, &ask(&format!("w{number}")));
    }
    desk.told();
    desk.pass(100);
    let mut granted = 0;
    for _ in 0..1_000 {
        let Desk { engine, keys, now } = &mut desk;
        let next = engine.tick(*now, 16, keys);
        let some = desk.granted().len();
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
    let mut desk = Desk::new();
    desk.engine.bound = Bound(20);
    desk.take("book", &ask("ann"));
    let readers: Vec<WaiterId> =
        (0..100).map(|n| desk.wait("book", n + 1, &ask(&format!("r{n}")).shared().lease(9_000))).collect();
    desk.told();
    assert!(desk.release("book", "ann"));
    let mut granted = desk.granted();
    assert!((1..=25).contains(&granted.len()), "{}", granted.len());
    assert_eq!(desk.engine.next_wakeup(), Wakeup::Now);
    // One who comes now does some of it, too, and stands behind all of them.
    assert_eq!(desk.try_acquire("book", &ask("eve").shared()), Ok(Acquired::Refused));
    let late = desk.wait("book", 200, &ask("late").shared());
    while desk.engine.tick(desk.now, 16, &mut desk.keys) == Wakeup::Now {}
    granted.extend(desk.granted());
    assert_eq!(granted[..100], readers);
    assert_eq!(granted[100..], [late]);
}

#[test]
fn a_command_ends_no_more_than_a_bound_and_yet_its_own_hold_is_over_in_time() {
    let mut desk = Desk::new();
    desk.engine.bound = Bound(5);
    let mut fences = Vec::new();
    for number in 0..50 {
        fences.push(desk.take("book", &ask(&format!("r{number}")).shared().lease(100)));
    }
    desk.pass(100);
    desk.told();
    assert_eq!(desk.extend("book", "r49", 1_000), Ok(false), "it never revives");
    assert!(!desk.release("book", "r48"));
    assert!(desk.take("book", &ask("r47").shared()) > fences[49]);
    assert!(desk.lock("book").unwrap().len() > 10, "many are still to be ended");
    assert_eq!(desk.try_acquire("book", &ask("eve")), Ok(Acquired::Refused));
    while desk.engine.tick(desk.now, 16, &mut desk.keys) == Wakeup::Now {}
    assert_eq!(desk.holders("book"), ["r47"]);
    assert_eq!(desk.engine.stats().expirations, 50);
}

#[test]
fn a_command_leaves_no_vacant_lock_behind() {
    let mut desk = Desk::new();
    desk.engine.bound = Bound(0);
    let names: Vec<String> = (0..9).map(|n| format!("k{n}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    desk.acquire_many(&keys, 1, &ask("ann")).unwrap().granted();
    for key in &keys {
        desk.wait_many(&[*key, "x"], 2, &ask(&format!("for {key}")));
    }
    desk.wait("x", 3, &ask("last"));
    assert_eq!(desk.release_many(&keys, "ann"), Ok(9));
    for value in desk.keys.values.values() {
        assert!(!matches!(value, Value::Lock(lock) if lock.is_empty()));
    }
}

#[test]
fn where_the_whole_cluster_is_down_one_question_is_enough() {
    let mut desk = Desk::new();
    for number in 0..MANY {
        desk.take(&format!("k{number}"), &ask("ann").lease(100));
        desk.acquire(&format!("s{number}"), 7, &ask("ann").session()).unwrap().granted();
    }
    desk.pass(100);
    desk.engine.client_gone(desk.now.ms, client(7));
    desk.keys.down = true;
    for _ in 0..5 {
        let Wakeup::At(retry) = desk.tick() else { panic!("it must not spin") };
        assert_eq!(desk.tick(), Wakeup::At(retry));
        desk.pass(retry.left(desk.now.ms).0);
    }
    assert_eq!(desk.keys.asked, 5);
    desk.keys.down = false;
    while desk.engine.tick(desk.now, 500, &mut desk.keys) == Wakeup::Now {}
    desk.pass(200);
    while desk.engine.tick(desk.now, 500, &mut desk.keys) == Wakeup::Now {}
    desk.assert_blank();
}

#[test]
fn what_is_refused_key_by_key_is_asked_again_at_a_bounded_rate() {
    let mut desk = Desk::new();
    for number in 0..MANY {
        desk.take(&format!("k{number}"), &ask("ann").lease(100));
        desk.keys.elsewhere.push(at(&format!("k{number}")).to_buf());
    }
    desk.pass(100);
    let start = desk.now.ms;
    let _ = desk.tick();
    assert_eq!(desk.keys.asked, MANY);
    let rest = if cfg!(miri) { 100 } else { 1_000 };
    while start.plus(Millis(rest)).unwrap().left(desk.now.ms).0 > 0 {
        match desk.tick() {
            Wakeup::At(next) => desk.pass(next.left(desk.now.ms).0.max(1)),
            other => panic!("{other:?}"),
        }
    }
    let again = desk.keys.asked - MANY;
    assert!(again <= 11 * usize::try_from(rest).unwrap(), "{again} in a second");
}
