//! Holds that a request ends at its own key, because they are over and no turn of the timer has come yet.

use super::world::*;
use crate::core::lock::Acquired;
use crate::core::time::Wakeup;

#[test]
fn what_a_request_ends_at_its_key_is_given_to_the_first_in_line() {
    let requests: [fn(&mut World); 3] = [
        |world| assert_eq!(world.try_acquire("book", &ask("eve")), Ok(Acquired::Refused)),
        |world| assert_eq!(world.extend("book", "eve", 100), Ok(false)),
        |world| assert_eq!(world.acquire_many(&["book", "pen"], 99, &ask("eve")), Ok(Acquired::Refused)),
    ];
    for (number, request) in requests.into_iter().enumerate() {
        for readers in 1..=30 {
            let mut world = World::new();
            world.engine.bound = Some(5);
            for n in 0..readers {
                world.take("book", &ask(&format!("r{n}")).shared().lease(100));
            }
            let writer = world.wait("book", 1, &ask("writer"));
            world.pass(100);
            request(&mut world);
            while world.engine.tick(world.now, 16, &mut world.keys) == Wakeup::Now {}
            assert_eq!(world.granted(), [writer], "request {number}, {readers} readers");
        }
    }
}

#[test]
fn a_permit_that_its_own_token_finds_lost_is_given_to_the_first_in_line() {
    let mut world = World::new();
    for n in 1..=50 {
        world.acquire("pool", n, &ask(&format!("p{n}")).limit(50).session()).unwrap().granted();
        world.acquire(&format!("door {n}"), 100 + n, &ask("ann").session()).unwrap().granted();
    }
    let first = world.wait("pool", 99, &ask("bob").limit(50));
    for gone in (101..=150).chain([50]) {
        world.engine.client_gone(world.now.ms, client(gone));
    }
    assert_eq!(world.acquire("pool", 200, &ask("p50").limit(50).session()), Ok(Acquired::Refused));
    let _ = world.tick();
    assert_eq!(world.granted(), [first]);
}

#[test]
fn a_lock_that_its_token_finds_free_and_takes_loses_the_ttl_of_its_key() {
    for others in 0..=20 {
        let mut world = World::new();
        world.engine.bound = Some(5);
        for n in 0..others {
            world.take("book", &ask(&format!("r{n}")).shared().lease(100));
        }
        world.take("book", &ask("ann").shared().lease(101));
        world.pass(101);
        world.told();
        world.take("book", &ask("ann").shared());
        let told = world.told();
        let ended = told.iter().filter(|told| matches!(told, Told::Ended(..))).count();
        let is_passed_on = told.iter().any(|told| matches!(told, Told::PassedOn(_)));
        assert_eq!(is_passed_on, ended == others + 1, "{others} others");
    }
}
