//! A slot that moves key by key: a command grants no lock that may be another node's by now.

use super::world::*;
use crate::core::lock::WaitResult;

/// `both` waits for j and k; "holder" holds j. The key k has moved to another node, where it is held.
fn half_moved() -> World {
    let mut world = World::new();
    world.take("j", &ask("holder").lease(500));
    world.take("k", &ask("other"));
    world.wait_many(&["j", "k"], 1, &ask("both"));
    world.delete("k");
    world.keys.elsewhere.push(at("k").to_buf());
    let _ = world.tick();
    world.told();
    world
}

fn grants_neither(mut world: World) {
    assert_eq!(world.granted(), []);
    assert_eq!(world.holders("k"), [""; 0]);
    assert!(!world.holders("j").contains(&"both".into()));
    // The move is called off, and the lock is free after all.
    world.keys.elsewhere.clear();
    world.pass(1_000);
    let _ = world.tick();
    assert_eq!(world.granted().len(), 1);
    assert_eq!((world.holders("j"), world.holders("k")), (vec!["both".into()], vec!["both".into()]));
}

#[test]
fn no_release_grants_a_key_that_has_moved() {
    let mut world = half_moved();
    assert!(world.release("j", "holder"));
    grants_neither(world);
    let mut world = half_moved();
    assert_eq!(world.release_many(&["i", "j"], "holder"), Ok(1));
    grants_neither(world);
}

#[test]
fn nor_does_a_command_that_finds_a_lease_over() {
    let after = |command: &dyn Fn(&mut World)| {
        let mut world = half_moved();
        world.pass(500);
        command(&mut world);
        grants_neither(world);
    };
    after(&|world| assert_eq!(world.extend("j", "holder", 1_000), Ok(false)));
    after(&|world| assert_eq!(world.extend_many(&["i", "j"], "holder", 1_000), Ok(false)));
    after(&|world| assert!(!world.release("j", "nobody")));
    after(&|world| drop(world.try_acquire("j", &ask("late"))));
    after(&|world| drop(world.acquire_many(&["i", "j"], 9, &ask("late"))));
}

#[test]
fn nor_does_the_end_of_a_wait_in_front() {
    let mut world = half_moved();
    let behind = world.wait("k", 2, &ask("behind"));
    world.told();
    assert!(!world.release("j", "both"));
    assert!(matches!(world.answers()[..], [(_, WaitResult::Cancelled)]), "only the request that was cancelled");
    world.keys.elsewhere.clear();
    world.pass(1_000);
    let _ = world.tick();
    assert_eq!(world.granted(), [behind]);
}

#[test]
fn a_key_that_the_command_names_is_not_asked_about() {
    let mut world = World::new();
    world.take("j", &ask("holder"));
    let next = world.wait("j", 1, &ask("next"));
    world.keys.asked = 0;
    world.told();
    assert!(world.release("j", "holder"));
    assert_eq!((world.granted(), world.keys.asked), (vec![next], 0));
    let both = world.wait_many(&["j", "k"], 2, &ask("both"));
    world.keys.asked = 0;
    world.told();
    assert_eq!(world.release_many(&["k", "j"], "next"), Ok(1));
    assert_eq!((world.granted(), world.keys.asked), (vec![both], 0));
}
