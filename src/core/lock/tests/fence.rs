//! Commands on one hold of a token, named by its fence.

use super::world::*;
use crate::core::fence::Fence;
use crate::core::lock::{Claim, Extension, in_order};
use crate::core::time::Millis;

impl World {
    fn release_of(&mut self, key: &str, name: &str, fence: Fence) -> bool {
        let token = token(name);
        let claim = Claim { token: &token, fence: Some(fence) };
        self.engine.release(self.now, &[at(key)], claim, &mut self.keys).unwrap() == 1
    }

    fn extend_all_of(&mut self, keys: &[&str], name: &str, fence: Fence) -> bool {
        let (token, keys): (_, Vec<&[u8]>) = (token(name), keys.iter().map(|key| key.as_bytes()).collect());
        let (claim, extension) =
            (Claim { token: &token, fence: Some(fence) }, Extension { lease: Millis(9_000), only_later: false });
        self.engine.extend(self.now, &in_order(0, &keys), claim, extension, &mut self.keys).unwrap()
    }
}

#[test]
fn a_late_release_does_not_end_a_later_hold() {
    let mut world = World::new();
    let first = world.take("door", &ask("ann"));
    assert!(world.release_of("door", "ann", first));
    let second = world.take("door", &ask("ann"));
    world.told();
    assert!(!world.release_of("door", "ann", first));
    assert_eq!(world.told(), [], "and replicas hear nothing");
    assert!(!world.release_of("door", "bob", second), "a fence is no token");
    assert!(world.release_of("door", "ann", second));
    world.assert_blank();
}

#[test]
fn a_request_that_waits_goes_on_waiting() {
    let mut world = World::new();
    let held = world.take("book", &ask("ann").shared());
    world.take("book", &ask("bob").shared());
    let upgrade = world.wait("book", 1, &ask("ann"));
    world.told();
    assert!(world.release_of("book", "ann", held));
    assert_eq!(world.answers(), []);
    assert!(world.release("book", "bob"));
    assert_eq!(world.granted(), [upgrade]);
}

#[test]
fn several_are_extended_only_if_each_has_the_fence() {
    let mut world = World::new();
    let both = world.acquire_many(&["a", "b"], 1, &ask("ann")).unwrap().granted().fence;
    world.take("c", &ask("ann"));
    world.told();
    assert!(!world.extend_all_of(&["a", "c"], "ann", both));
    assert_eq!(world.told(), [], "not even for a moment");
    assert!(world.extend_all_of(&["b", "a"], "ann", both));
}

#[test]
fn a_grant_that_was_never_delivered_stands_for_who_names_its_fence() {
    for named in [true, false] {
        let mut world = World::new();
        let earlier = world.take("door", &ask("eve"));
        let waiter = world.wait("door", 1, &ask("ann"));
        assert!(world.release_of("door", "eve", earlier));
        assert_eq!(world.granted(), [waiter]);
        let fence = world.lock("door").unwrap().holds().next().unwrap().fence;
        world.engine.client_gone(world.now.ms, client(1));
        assert_eq!(world.release_of("door", "ann", if named { fence } else { earlier }), named);
        let _ = world.tick();
        world.assert_blank();
    }
}
