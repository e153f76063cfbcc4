//! Grants whose reply is on its way to a connection.

use super::world::*;
use crate::core::lock::Acquired;

#[test]
fn who_does_not_wait_gets_a_lock_whose_grant_will_be_taken_back() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann"));
    desk.wait("door", 1, &ask("bob"));
    assert!(desk.release("door", "ann"));
    assert!(matches!(desk.try_acquire("door", &ask("eve")), Ok(Acquired::Refused)), "it is bob's");
    desk.engine.client_gone(desk.now.ms, client(1));
    desk.try_acquire("door", &ask("eve")).unwrap().granted();
    assert_eq!(desk.holders("door"), ["eve"]);
}

#[test]
fn a_hold_that_its_owner_uses_or_that_is_over_is_on_its_way_no_more() {
    for ended in ["released", "renewed", "extended", "over"] {
        let mut desk = Desk::new();
        desk.take("door", &ask("ann"));
        desk.wait("door", 1, &ask("bob"));
        assert!(desk.release("door", "ann"));
        assert!(desk.engine.knows(client(1)));
        match ended {
            "released" => assert!(desk.release("door", "bob")),
            "renewed" => drop(desk.take("door", &ask("bob"))),
            "extended" => assert_eq!(desk.extend("door", "bob", 9_000), Ok(true)),
            _ => {
                desk.pass(5_000);
                let _ = desk.tick();
            }
        }
        assert!(!desk.engine.knows(client(1)), "{ended}");
    }
}

#[test]
fn where_a_client_cannot_be_blocked_nothing_changes() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann"));
    let bob = desk.wait("door", 1, &ask("bob"));
    desk.wait("door", 2, &ask("eve"));
    let before = desk.info("door");
    desk.told();
    desk.keys.unblockable = true;
    for request in [ask("bob"), ask("new")] {
        let request = request.waiting(0);
        assert_eq!(desk.acquire("door", 3, &request), Ok(Acquired::Refused));
        assert_eq!(desk.acquire_many(&["door", "gate"], 3, &request), Ok(Acquired::Refused));
    }
    assert_eq!((desk.info("door"), desk.info("gate")), (before, None));
    assert!(desk.told().is_empty());
    desk.keys.unblockable = false;
    assert!(desk.release("door", "ann"));
    assert_eq!(desk.granted(), [bob]);
    assert_eq!(desk.lock("door").unwrap().holds().count(), 1);
    assert_eq!(desk.engine.stats().waits, 2);
}
