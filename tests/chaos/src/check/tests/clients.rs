//! Clients that are stopped and killed.

use super::*;

#[test]
fn a_stopped_waiter_has_its_lease_and_no_more() {
    let history = |next, to| {
        let mut history = locks(vec![
            granted(1, (0, 1), 10, 9_000),
            released(1, (500, 501), 1),
            // It got the lock at 501, for 100 ms.
            waited(2, (2, 3_000), Some(11)),
            waited(3, (3, next), Some(12)),
        ]);
        history.faults.all = vec![fault(STOPPED, (400, to), Some(2))];
        history
    };
    let verdict = judge(&history(610, 2_999), &[]);
    assert_eq!((verdict.violations, verdict.unheard), (vec![], 1));
    // Only its own lateness has an excuse.
    assert_eq!(broken(&history(2_000, 2_999)), ["no waiter forgotten"]);
    let mut other = history(610, 2_999);
    other.faults.all[0].client = Some(3);
    assert_eq!(broken(&other), ["no waiter forgotten"]);
}

#[test]
fn a_stopped_holder_has_its_lease_and_no_more() {
    let history = |next| {
        let mut history = locks(vec![granted(1, (0, 1), 10, 500), waited(2, (2, next), Some(11))]);
        history.faults.all = vec![fault(STOPPED, (100, 2_500), Some(1))];
        history
    };
    let verdict = judge(&history(510), &[]);
    assert_eq!((verdict.violations, verdict.outlived), (vec![], 1));
    assert_eq!(broken(&history(400)), ["mutual exclusion"]);
    assert_eq!(broken(&history(1_600)), ["no waiter forgotten"]);
}

#[test]
fn the_lock_of_a_killed_holder_goes_on_at_once_with_a_session_and_at_the_leases_end_without() {
    let history = |hold, next| {
        let mut history = locks(vec![hold, waited(2, (2, next), Some(11))]);
        history.faults.all = vec![fault(KILLED, (500, 502), Some(1))];
        history
    };
    let verdict = judge(&history(session(1, (0, 1), 10, 4_000), 510), &[]);
    assert_eq!((verdict.violations, verdict.inherited, verdict.longest_inheritance), (vec![], 1, millis(10)));
    assert_eq!(broken(&history(session(1, (0, 1), 10, 4_000), 1_600)), ["session ends with its connection"]);
    // A later request waited as long.
    let mut later = history(session(1, (0, 1), 10, 4_000), 1_000);
    later.locks[1] = waited(2, (600, 1_700), Some(11));
    assert_eq!(broken(&later), ["session ends with its connection"]);
    later.locks[1] = waited(2, (600, 601), Some(11));
    let verdict = judge(&later, &[]);
    assert_eq!((verdict.violations, verdict.inherited), (vec![], 0));
    assert_eq!(broken(&history(granted(1, (0, 1), 10, 1_590), 1_600)), [""; 0]);
    assert_eq!(broken(&history(granted(1, (0, 1), 10, 4_000), 510)), ["mutual exclusion"]);
}

#[test]
fn what_a_killed_client_had_asked_for_keeps_nobody_out() {
    let history = |next| {
        let asked = Op::sent(
            1,
            SERVER,
            millis(2),
            AboutLocks { keys: vec!["lock".into()], call: ask(1, Mode::Exclusive, 100, 9_000) },
        );
        let asked = LockOp { returned: millis(502), ..asked };
        let mut history = locks(vec![granted(3, (0, 1), 10, 400), asked, waited(2, (3, next), Some(11))]);
        history.faults.all = vec![fault(KILLED, (500, 502), Some(1))];
        history
    };
    assert_eq!(broken(&history(610)), [""; 0]);
    assert_eq!(broken(&history(1_700)), ["no waiter forgotten"]);
    let mut spared = history(610);
    spared.faults.all.clear();
    assert_eq!(broken(&spared), ["every request answered"]);
}
