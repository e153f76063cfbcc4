//! Grants whose reply is on its way to a connection.

use super::world::*;
use crate::core::lock::Acquired;

#[test]
fn who_does_not_wait_gets_a_lock_whose_grant_will_be_taken_back() {
    let mut world = World::new();
    world.take("door", &ask("ann"));
    world.wait("door", 1, &ask("bob"));
    assert!(world.release("door", "ann"));
    assert!(matches!(world.try_acquire("door", &ask("eve")), Ok(Acquired::Refused)), "it is bob's");
    world.engine.client_gone(world.now.ms, client(1));
    world.try_acquire("door", &ask("eve")).unwrap().granted();
    assert_eq!(world.holders("door"), ["eve"]);
}

#[test]
fn a_hold_that_its_owner_uses_or_that_is_over_is_on_its_way_no_more() {
    for ended in ["released", "renewed", "extended", "over"] {
        let mut world = World::new();
        world.take("door", &ask("ann"));
        world.wait("door", 1, &ask("bob"));
        assert!(world.release("door", "ann"));
        assert!(world.engine.knows(client(1)));
        match ended {
            "released" => assert!(world.release("door", "bob")),
            "renewed" => drop(world.take("door", &ask("bob"))),
            "extended" => assert_eq!(world.extend("door", "bob", 9_000), Ok(true)),
            _ => {
                world.pass(5_000);
                let _ = world.tick();
            }
        }
        assert!(!world.engine.knows(client(1)), "{ended}");
    }
}

#[test]
fn where_a_client_cannot_be_blocked_nothing_changes() {
    let mut world = World::new();
    world.take("door", &ask("ann"));
    let bob = world.wait("door", 1, &ask("bob"));
    world.wait("door", 2, &ask("eve"));
    let before = world.info("door");
    world.told();
    world.keys.unblockable = true;
    for request in [ask("bob"), ask("new")] {
        let request = request.waiting(0);
        assert_eq!(world.acquire("door", 3, &request), Ok(Acquired::Refused));
        assert_eq!(world.acquire_many(&["door", "gate"], 3, &request), Ok(Acquired::Refused));
    }
    assert_eq!((world.info("door"), world.info("gate")), (before, None));
    assert!(world.told().is_empty());
    world.keys.unblockable = false;
    assert!(world.release("door", "ann"));
    assert_eq!(world.granted(), [bob]);
    assert_eq!(world.lock("door").unwrap().holds().count(), 1);
    assert_eq!(world.engine.stats().waits, 2);
}
