//! Commands on one hold of a token, named by its fence.

use super::world::*;
use crate::core::fence::Fence;
use crate::core::lock::{Claim, Extension};
use crate::core::time::Millis;

impl Desk {
    fn release_of(&mut self, key: &str, name: &str, fence: Fence) -> bool {
        let token = token(name);
        let claim = Claim { token: &token, fence: Some(fence) };
        self.engine.release(self.now, at(key), claim, &mut self.keys).unwrap()
    }

    fn extend_all_of(&mut self, keys: &[&str], name: &str, fence: Fence) -> bool {
        let (token, keys): (_, Vec<&[u8]>) = (token(name), keys.iter().map(|key| key.as_bytes()).collect());
        let (claim, extension) =
            (Claim { token: &token, fence: Some(fence) }, Extension { lease: Millis(9_000), only_later: false });
        self.engine.extend_many(self.now, 0, &keys, claim, extension, &mut self.keys).unwrap()
    }
}

#[test]
fn a_late_release_does_not_end_a_later_hold() {
    let mut desk = Desk::new();
    let first = desk.take("door", &ask("ann"));
    assert!(desk.release_of("door", "ann", first));
    let second = desk.take("door", &ask("ann"));
    desk.told();
    assert!(!desk.release_of("door", "ann", first));
    assert_eq!(desk.told(), [], "and replicas hear nothing");
    assert!(!desk.release_of("door", "bob", second), "a fence is no token");
    assert!(desk.release_of("door", "ann", second));
    desk.assert_blank();
}

#[test]
fn a_request_that_waits_goes_on_waiting() {
    let mut desk = Desk::new();
    let held = desk.take("book", &ask("ann").shared());
    desk.take("book", &ask("bob").shared());
    let upgrade = desk.wait("book", 1, &ask("ann"));
    desk.told();
    assert!(desk.release_of("book", "ann", held));
    assert_eq!(desk.answers(), []);
    assert!(desk.release("book", "bob"));
    assert_eq!(desk.granted(), [upgrade]);
}

#[test]
fn several_are_extended_only_if_each_has_the_fence() {
    let mut desk = Desk::new();
    let both = desk.acquire_many(&["a", "b"], 1, &ask("ann")).unwrap().granted().fence;
    desk.take("c", &ask("ann"));
    desk.told();
    assert!(!desk.extend_all_of(&["a", "c"], "ann", both));
    assert_eq!(desk.told(), [], "not even for a moment");
    assert!(desk.extend_all_of(&["b", "a"], "ann", both));
}

#[test]
fn a_grant_that_was_never_delivered_stands_for_who_names_its_fence() {
    for named in [true, false] {
        let mut desk = Desk::new();
        let earlier = desk.take("door", &ask("eve"));
        let waiter = desk.wait("door", 1, &ask("ann"));
        assert!(desk.release_of("door", "eve", earlier));
        assert_eq!(desk.granted(), [waiter]);
        let fence = desk.lock("door").unwrap().holds().next().unwrap().fence;
        desk.engine.client_gone(desk.now.ms, client(1));
        assert_eq!(desk.release_of("door", "ann", if named { fence } else { earlier }), named);
        let _ = desk.tick();
        desk.assert_blank();
    }
}
