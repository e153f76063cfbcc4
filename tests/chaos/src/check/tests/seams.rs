//! Grants that no client heard of, waits that end wrongly, and what is measured.

use super::super::standstills;
use super::*;
use crate::history::{Crash, Measure};

/// A request of a token for locks that waits for so long.
fn wants(
    token: &str,
    keys: &[&str],
    client: usize,
    span: (Time, Time),
    wait: Time,
    outcome: Outcome<LockAnswer>,
) -> LockOp {
    let wait = Some(millis(wait));
    let (token, mode, lease) = (token.to_owned(), Mode::Exclusive, millis(4_000));
    on(keys, client, span, LockCall::Acquire { token, mode, lease, wait, session: false }, outcome)
}

/// Adds beats: other clients had replies from the server all the time.
fn with_beats(mut history: History) -> History {
    history.beats = (0..100).map(|n| millis(n * 100)).collect();
    history.faults.all = standstills(&history);
    history
}

#[test]
fn a_grant_that_was_never_written_keeps_the_next_one_waiting_for_a_moment_only() {
    let history = |next, answer| {
        with_beats(locks(vec![
            granted(1, (0, 1), 10, 9_000),
            released(1, (500, 501), 1),
            wants("v", &["lock"], 2, (2, 520), 3_000, Outcome::Unwritten),
            wants("x", &["lock"], 3, (3, next), 3_000, Outcome::Done(answer)),
        ]))
    };
    assert_eq!(broken(&history(525, LockAnswer::Granted(12))), [""; 0]);
    assert_eq!(broken(&history(3_003, LockAnswer::Null)), ["no waiter forgotten"]);
    assert_eq!(broken(&history(2_600, LockAnswer::Granted(12))), ["no waiter forgotten"]);
    // Without another client, the machine itself may have stood still.
    let mut silent = history(2_600, LockAnswer::Granted(12));
    silent.beats.clear();
    silent.locks.push(looked((2_700, 2_701), &[]));
    silent.faults.all = standstills(&silent);
    assert_eq!(broken(&silent), [""; 0]);
}

#[test]
fn what_a_token_held_before_an_unwritten_grant_it_holds_after_it() {
    let history = |answer| {
        let extend = LockCall::Extend { token: "t1".into(), lease: millis(500) };
        with_beats(locks(vec![
            granted(1, (0, 1), 10, 9_000),
            wants("t1", &["lock", "other"], 2, (2, 20), 3_000, Outcome::Unwritten),
            on(&["lock"], 1, (30, 31), extend, Outcome::Done(LockAnswer::Count(answer))),
        ]))
    };
    assert_eq!(broken(&history(1)), [""; 0]);
    assert_eq!(broken(&history(0)), ["hold kept"]);
    let mut renewed = history(1);
    renewed.locks[2] = granted(1, (30, 31), 11, 500);
    assert_eq!(broken(&renewed), ["hold kept"], "another fence is another hold");
}

#[test]
fn a_wait_ends_early_only_for_another_one_of_its_token() {
    let history = |second: Vec<LockOp>| {
        let mut ops = vec![
            granted(1, (0, 1), 10, 9_000),
            wants("v", &["lock"], 2, (2, 100), 3_000, Outcome::Done(LockAnswer::Null)),
        ];
        ops.extend(second);
        with_beats(locks(ops))
    };
    let second = |span, outcome| wants("v", &["lock"], 3, span, 3_000, outcome);
    let refused = || Outcome::Refused("UNBLOCKED client unblocked via CLIENT UNBLOCK".into());
    assert_eq!(broken(&history(vec![])), ["a wait lasts its time"]);
    assert_eq!(broken(&history(vec![second((99, 3_100), Outcome::Done(LockAnswer::Null))])), [""; 0]);
    assert_eq!(broken(&history(vec![second((99, 100), refused())])), ["a wait lasts its time"]);
    // An administrator unblocked it.
    let mut unblocked = history(vec![]);
    unblocked.faults.all.push(fault("CLIENT UNBLOCK", (90, 110), Some(2)));
    assert_eq!(broken(&unblocked), [""; 0]);
}

#[test]
fn a_second_request_that_is_sent_away_says_nothing_of_a_grant_after_it() {
    let history = |second| {
        with_beats(locks(vec![
            granted(1, (0, 1), 10, 9_000),
            wants("t", &["lock"], 2, (2, 30), 3_000, Outcome::Done(LockAnswer::Granted(11))),
            wants("t", &["lock"], 3, second, 0, Outcome::Done(LockAnswer::Null)),
            released(1, (20, 21), 1),
        ]))
    };
    assert_eq!(broken(&history((10, 11))), [""; 0]);
    assert_eq!(broken(&history((40, 41))), ["hold kept"]);
}

#[test]
fn nobody_waits_for_a_lock_that_its_own_token_holds() {
    let history = |until, answer| {
        with_beats(locks(vec![
            wants("t", &["{l}1", "{l}2", "{l}3"], 1, (0, 1), 100, Outcome::Done(LockAnswer::Granted(10))),
            wants("t", &["{l}2", "{l}3"], 2, (2, until), 3_000, Outcome::Done(answer)),
        ]))
    };
    assert_eq!(broken(&history(5, LockAnswer::Granted(10))), [""; 0]);
    assert!(broken(&history(3_002, LockAnswer::Null)).contains(&"no obstacle to itself"));
    assert!(broken(&history(2_000, LockAnswer::Granted(11))).contains(&"no obstacle to itself"));
}

#[test]
fn an_error_that_nobody_caused_is_seen() {
    let history = |text: &str| {
        locks(vec![on(&["lock"], 1, (0, 1), ask(1, Mode::Exclusive, 9, 0), Outcome::Refused(text.into()))])
    };
    assert_eq!(broken(&history("READONLY You can't write against a read only replica.")), [""; 0]);
    assert_eq!(broken(&history("ERR timeout is out of range")), ["errors have a reason"]);
}

#[test]
fn what_is_beyond_its_bound_and_a_server_that_died_are_seen() {
    let measure = |value| Measure { what: "ms".into(), at: 5, value, most: 20 };
    let history = |measures| History { measures, ..History::default() };
    assert_eq!(broken(&history(vec![measure(20)])), [""; 0]);
    assert_eq!(broken(&history(vec![measure(3), measure(21)])), ["bounds"]);
    let crashes = vec![Crash { server: SERVER, log: "=== REDIS BUG REPORT START".into() }];
    assert_eq!(broken(&History { crashes, ..History::default() }), ["the server lives"]);
}
