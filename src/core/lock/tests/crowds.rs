//! Many at once: nothing may cost more than its own share.

use std::time::{Duration, Instant};

use super::world::*;
use crate::core::lock::Acquired;
use crate::core::time::Wakeup;

/// Enough to tell a square from a line, and few for Miri.
const MANY: u64 = if cfg!(miri) { 40 } else { 10_000 };

/// What took a line of steps takes far less than this even on a busy machine and without optimisation; a square does not.
const PATIENCE: Duration = Duration::from_secs(20);

fn crowd(world: &mut World, shared: bool) -> Vec<crate::core::lock::WaiterId> {
    let request = |number: u64| {
        let request = ask(&format!("waiter-{number}"));
        if shared { request.shared() } else { request }
    };
    (0..MANY).map(|number| world.wait("door", number + 1, &request(number))).collect()
}

#[test]
fn ten_thousand_are_granted_one_by_one_in_order() {
    let mut world = World::new();
    world.take("door", &ask("first"));
    let waiters = crowd(&mut world, false);
    assert_eq!(world.engine.stats().longest_queue, MANY);
    let start = Instant::now();
    let mut holder = "first".to_owned();
    for (number, waiter) in waiters.into_iter().enumerate() {
        world.told();
        assert!(world.release("door", &holder));
        assert_eq!(world.granted(), [waiter]);
        world.engine.delivered(waiter);
        holder = format!("waiter-{number}");
    }
    assert!(cfg!(miri) || start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    assert!(world.release("door", &holder));
    world.assert_blank();
}

#[test]
fn ten_thousand_time_out_together() {
    let mut world = World::new();
    world.take("door", &ask("first"));
    let waiters = crowd(&mut world, false);
    let start = Instant::now();
    // From the middle outwards: neither end of the line is special.
    let (front, back) = waiters.split_at(waiters.len() / 2);
    for waiter in back.iter().chain(front.iter().rev()) {
        world.engine.timed_out(world.now.ms, *waiter);
        assert!(world.tick() != Wakeup::Now);
    }
    assert!(cfg!(miri) || start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    assert_eq!((world.engine.stats().timeouts, world.engine.waiters()), (MANY, 0));
}

#[test]
fn ten_thousand_readers_come_in_by_the_budget_and_leave() {
    let mut world = World::new();
    world.take("door", &ask("first").lease(100));
    let waiters = crowd(&mut world, true);
    world.pass(100);
    let start = Instant::now();
    let mut granted = Vec::new();
    loop {
        let World { engine, keys, now } = &mut world;
        let next = engine.tick(*now, 500, keys);
        let some = world.granted();
        assert!(some.len() <= 501, "{}", some.len());
        granted.extend(some);
        if next != Wakeup::Now {
            break;
        }
        assert_eq!(world.try_acquire("door", &ask("barger")), Ok(Acquired::Refused));
        // A command does some of it, too.
        granted.extend(world.granted());
    }
    assert_eq!(granted, waiters);
    let lock = world.lock("door").unwrap();
    assert_eq!(lock.len() as u64, MANY);
    assert!(lock.memory() > lock.len() * 60 && lock.effort() == lock.len());
    for (number, waiter) in granted.into_iter().enumerate() {
        world.engine.delivered(waiter);
        assert!(world.release("door", &format!("waiter-{number}")));
    }
    assert!(cfg!(miri) || start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    world.assert_blank();
}

#[test]
fn ten_thousand_connections_end_at_once() {
    let mut world = World::new();
    for number in 0..MANY {
        let request = ask(&format!("reader-{number}")).shared().session();
        world.acquire("door", number + 1, &request).unwrap().granted();
    }
    let start = Instant::now();
    for number in 0..MANY {
        world.engine.client_gone(world.now.ms, client(number + 1));
    }
    let World { engine, keys, now } = &mut world;
    while engine.tick(*now, 100, keys) == Wakeup::Now {}
    assert!(cfg!(miri) || start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    world.assert_blank();
}

#[test]
fn a_lock_cycle_leaves_nothing_behind() {
    let mut world = World::new();
    world.take("other", &ask("keeper"));
    for _ in 0..MANY {
        world.take("door", &ask("ann"));
        assert!(world.release("door", "ann"));
    }
    assert_eq!(world.engine.locks(), 1);
    assert!(world.release("other", "keeper"));
    world.assert_blank();
}
