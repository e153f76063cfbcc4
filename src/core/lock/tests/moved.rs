//! A slot that moves key by key: a command grants no lock that may be another node's by now.

use super::world::*;
use crate::core::lock::WaitResult;

/// `both` waits for j and k; "holder" holds j. The key k has moved to another node, where it is held.
fn half_moved() -> Desk {
    let mut desk = Desk::new();
    desk.take("j", &ask("holder").lease(500));
    desk.take("k", &ask("other"));
    desk.wait_many(&["j", "k"], 1, &ask("both"));
    desk.delete("k");
    desk.keys.elsewhere.push(at("k").to_buf());
    let _ = desk.tick();
    desk.told();
    desk
}

fn grants_neither(mut desk: Desk) {
    assert_eq!(desk.granted(), []);
    assert_eq!(desk.holders("k"), [""; 0]);
    assert!(!desk.holders("j").contains(&"both".into()));
    // The move is called off, and the lock is free after all.
    desk.keys.elsewhere.clear();
    desk.pass(1_000);
    let _ = desk.tick();
    assert_eq!(desk.granted().len(), 1);
    assert_eq!((desk.holders("j"), desk.holders("k")), (vec!["both".into()], vec!["both".into()]));
}

#[test]
fn no_release_grants_a_key_that_has_moved() {
    let mut desk = half_moved();
    assert!(desk.release("j", "holder"));
    grants_neither(desk);
    let mut desk = half_moved();
    assert_eq!(desk.release_many(&["i", "j"], "holder"), Ok(1));
    grants_neither(desk);
}

#[test]
fn nor_does_a_command_that_finds_a_lease_over() {
    let after = |command: &dyn Fn(&mut Desk)| {
        let mut desk = half_moved();
        desk.pass(500);
        command(&mut desk);
        grants_neither(desk);
    };
    after(&|desk| assert_eq!(desk.extend("j", "holder", 1_000), Ok(false)));
    after(&|desk| assert_eq!(desk.extend_many(&["i", "j"], "holder", 1_000), Ok(false)));
    after(&|desk| assert!(!desk.release("j", "nobody")));
    after(&|desk| drop(desk.try_acquire("j", &ask("late"))));
    after(&|desk| drop(desk.acquire_many(&["i", "j"], 9, &ask("late"))));
}

#[test]
fn nor_does_the_end_of_a_wait_in_front() {
    let mut desk = half_moved();
    let behind = desk.wait("k", 2, &ask("behind"));
    desk.told();
    assert!(!desk.release("j", "both"));
    assert!(matches!(desk.answers()[..], [(_, WaitResult::Cancelled)]), "only the request that was cancelled");
    desk.keys.elsewhere.clear();
    desk.pass(1_000);
    let _ = desk.tick();
    assert_eq!(desk.granted(), [behind]);
}

#[test]
fn a_key_that_the_command_names_is_not_asked_about() {
    let mut desk = Desk::new();
    desk.take("j", &ask("holder"));
    let next = desk.wait("j", 1, &ask("next"));
    desk.keys.asked = 0;
    desk.told();
    assert!(desk.release("j", "holder"));
    assert_eq!((desk.granted(), desk.keys.asked), (vec![next], 0));
    let both = desk.wait_many(&["j", "k"], 2, &ask("both"));
    desk.keys.asked = 0;
    desk.told();
    assert_eq!(desk.release_many(&["k", "j"], "next"), Ok(1));
    assert_eq!((desk.granted(), desk.keys.asked), (vec![both], 0));
}
