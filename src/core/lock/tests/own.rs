//! What a token holds is no obstacle to what it waits for, wherever it stands in line.

use super::world::*;
use crate::core::lock::{Acquired, WaitResult};

#[test]
fn a_request_for_many_keys_is_granted_with_an_earlier_one_of_its_token() {
    let mut desk = Desk::new();
    desk.take("a", &ask("zoe"));
    let wide = desk.wait_many(&["a", "b", "d"], 1, &ask("ann"));
    let other = desk.wait_many(&["b", "c", "d"], 2, &ask("xen"));
    let narrow = desk.wait_many(&["b", "d"], 3, &ask("ann"));
    assert!(desk.release("a", "zoe"));
    assert_eq!(desk.granted(), [wide, narrow], "though another request stands between them at b and d");
    assert_eq!(desk.release_many(&["a", "b", "d"], "ann"), Ok(3));
    assert_eq!(desk.granted(), [other]);
}

#[test]
fn so_is_one_for_a_single_key() {
    let mut desk = Desk::new();
    desk.take("a", &ask("zoe"));
    let both = desk.wait_many(&["a", "b"], 1, &ask("ann"));
    let xen = desk.wait("b", 2, &ask("xen"));
    let single = desk.wait("b", 3, &ask("ann"));
    assert!(desk.release("a", "zoe"));
    assert_eq!(desk.granted(), [both, single]);
    let fence = desk.lock("b").unwrap().hold(&token("ann")).unwrap().fence;
    assert_eq!(desk.lock("a").unwrap().hold(&token("ann")).unwrap().fence, fence, "renewed, not granted anew");
    assert!(desk.release("b", "ann"));
    assert_eq!(desk.granted(), [xen]);
}

#[test]
fn a_grant_at_once_serves_those_of_its_token_that_wait() {
    let mut desk = Desk::new();
    desk.take("a", &ask("ann"));
    desk.take("b", &ask("zoe"));
    let xen = desk.wait("b", 1, &ask("xen"));
    let both = desk.wait_many(&["a", "b"], 2, &ask("ann"));
    let behind = desk.wait("b", 3, &ask("ann"));
    desk.delete("b");
    assert_eq!(desk.try_acquire("b", &ask("eve")), Ok(Acquired::Refused));
    assert_eq!(desk.granted(), [xen]);
    assert!(desk.release("b", "xen"));
    assert_eq!(desk.granted(), [both, behind]);
}

#[test]
fn a_renamed_lock_serves_those_of_its_token_that_wait_for_the_new_name() {
    let mut desk = Desk::new();
    desk.take("old", &ask("ann"));
    desk.take("new", &ask("zoe"));
    let xen = desk.wait("new", 1, &ask("xen"));
    let single = desk.wait("new", 2, &ask("ann"));
    let many = desk.wait_many(&["new", "more"], 3, &ask("ann"));
    desk.delete("new");
    let lock = desk.delete("old").unwrap();
    desk.keys.values.insert(at("new").to_buf(), Value::Lock(lock));
    let Some(Value::Lock(lock)) = desk.keys.values.get_mut(&at("new").to_buf()) else { panic!("it is there") };
    desk.engine.register(at("new"), lock);
    desk.told();
    let _ = desk.tick();
    assert_eq!(desk.granted(), [single, many]);
    assert!(desk.release("new", "ann"));
    assert_eq!(desk.granted(), [xen]);
}

#[test]
fn when_the_same_is_asked_again_the_earlier_request_has_its_answer() {
    // The earlier request is still in line only because the last command had done enough for others.
    let mut desk = Desk::new();
    desk.engine.bound = crate::core::lock::engine::Bound(3);
    desk.take("a", &ask("zoe"));
    let wide = desk.wait_many(&["a", "b", "d"], 1, &ask("ann"));
    desk.wait("b", 2, &ask("xen"));
    let narrow = desk.wait_many(&["b", "d"], 3, &ask("ann"));
    let single = desk.wait("d", 4, &ask("ann"));
    assert!(desk.release("a", "zoe"));
    assert_eq!(desk.granted(), [wide]);
    desk.acquire_many(&["d", "b"], 5, &ask("ann")).unwrap().granted();
    desk.acquire("d", 6, &ask("ann")).unwrap().granted();
    let mut told: Vec<_> = desk.answers().iter().map(|(waiter, _)| *waiter).collect();
    told.sort_unstable();
    assert_eq!(told, [narrow, single]);
    let _ = desk.tick();
    assert!(desk.answers().is_empty());
}

#[test]
fn a_request_that_takes_over_one_in_another_mode_leaves_it_in_line() {
    let mut desk = Desk::new();
    desk.take("book", &ask("ann").shared());
    desk.take("book", &ask("bob").shared());
    let upgrade = desk.wait("book", 1, &ask("ann"));
    desk.take("book", &ask("ann").shared());
    assert!(desk.answers().is_empty(), "the renewal of the shared hold does not end the wait for the whole lock");
    assert!(desk.release("book", "bob"));
    assert_eq!(desk.granted(), [upgrade]);
}

#[test]
fn many_requests_of_one_token_cost_what_they_ask_for() {
    const MANY: usize = if cfg!(miri) { 10 } else { 200 };
    let mut desk = Desk::new();
    let names: Vec<String> = (0..MANY).map(|n| format!("door {n}")).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    // Each wants all the doors and a gate of its own, which somebody else holds.
    let gates: Vec<String> = (0..MANY).map(|n| format!("gate {n}")).collect();
    desk.take("first", &ask("zoe"));
    let doors = desk.wait_many(&[&all[..], &["first"]].concat(), 1, &ask("ann"));
    for (number, gate) in gates.iter().enumerate() {
        desk.take(gate, &ask("zoe"));
        desk.wait_many(&[&all[..], &[gate.as_str()]].concat(), 2 + number as u64, &ask("ann"));
    }
    desk.keys.looks = 0;
    assert!(desk.release("first", "zoe"));
    assert_eq!(desk.granted(), [doors]);
    assert!(desk.keys.looks < 12 * MANY, "{} looks at {MANY} keys and {MANY} requests", desk.keys.looks);
    desk.keys.looks = 0;
    for gate in &gates {
        assert!(desk.release(gate, "zoe"));
    }
    assert_eq!(desk.granted().len(), MANY);
    assert!(desk.keys.looks < 12 * MANY * MANY, "{} looks for {MANY} grants of {MANY} keys", desk.keys.looks);
}

#[test]
fn a_time_limit_in_front_lets_go_on_who_was_looked_at_before() {
    let mut desk = Desk::new();
    desk.take("c", &ask("ann").lease(5));
    desk.wait_many(&["a", "c"], 1, &ask("bob").lease(500));
    desk.wait("a", 2, &ask("eve"));
    desk.line_up_many(&["a", "b"], 3, &ask("eve").waiting(30), "news");
    let both = desk.wait_many(&["b", "c"], 4, &ask("bob"));
    desk.told();
    desk.pass(100);
    let _ = desk.tick();
    // Ann's lease ends, bob has c, and still stands behind eve; then eve's time is over, too.
    assert!(desk.answers().iter().any(|(id, answer)| *id == both && matches!(answer, WaitResult::Granted(_))));
}
