//! Locks: exclusion, fences, order, waiting.

use super::super::standstills;
use super::sales::{TAKE, told};
use super::*;

#[test]
fn holds_one_after_the_other_are_right() {
    let history = locks(vec![
        granted(1, (0, 1), 10, 500),
        released(1, (20, 21), 1),
        // It was granted while the other one's release was on its way.
        granted(2, (2, 21), 11, 500),
        // The lease of 2 is over.
        granted(3, (521, 525), 12, 500),
    ]);
    assert_eq!(broken(&history), [""; 0]);
}

#[test]
fn two_holders_at_once_are_seen() {
    let history = locks(vec![granted(1, (0, 1), 10, 500), granted(2, (2, 3), 11, 500), released(1, (4, 5), 1)]);
    assert_eq!(broken(&history), ["mutual exclusion"]);
    let extended = on(
        &["lock"],
        1,
        (400, 401),
        LockCall::Extend { token: "t1".into(), lease: millis(500) },
        Outcome::Done(LockAnswer::Count(1)),
    );
    let history = locks(vec![granted(1, (0, 1), 10, 500), extended, granted(2, (600, 601), 11, 500)]);
    assert_eq!(broken(&history), ["mutual exclusion"]);
}

#[test]
fn a_hold_that_began_late_lasts_as_long_as_any() {
    // 2 waited from the start, but can only have been granted when the lease of 1 was over, at 500.
    let history =
        locks(vec![granted(1, (0, 1), 10, 500), granted(2, (2, 510), 11, 500), granted(3, (700, 701), 12, 500)]);
    assert_eq!(broken(&history), ["mutual exclusion"]);
}

#[test]
fn a_writer_among_readers_and_a_permit_too_many_are_seen() {
    let readers = [shared(1, (0, 1), 10, Mode::Shared), shared(2, (2, 3), 11, Mode::Shared)];
    assert_eq!(broken(&locks(readers.to_vec())), [""; 0]);
    let with_writer = [&readers[..], &[shared(3, (4, 5), 12, Mode::Exclusive)]].concat();
    assert_eq!(broken(&locks(with_writer)), ["mutual exclusion"]);
    let permit = |client, at, fence| shared(client, (at, at + 1), fence, Mode::Limit(2));
    let permits = [permit(1, 0, 10), permit(2, 2, 11), permit(3, 4, 12)];
    assert_eq!(broken(&locks(permits[..2].to_vec())), [""; 0]);
    assert_eq!(broken(&locks(permits.to_vec())), ["permits"]);
}

#[test]
fn a_hold_that_vanishes_is_seen_and_a_loss_that_is_allowed_forgiven() {
    let mut history = locks(vec![granted(1, (0, 1), 10, 500), released(1, (100, 101), 0)]);
    assert_eq!(broken(&history), ["hold kept"]);
    // The server was struck at 60 and may have forgotten what it granted since 50: that was before.
    history.faults.losses = vec![loss(50, 60, 70)];
    assert_eq!(broken(&history), ["hold kept"]);
    history.faults.losses = vec![loss(1, 60, 70)];
    assert_eq!(broken(&history), [""; 0]);

    let mut history = locks(vec![granted(1, (0, 1), 10, 500), granted(2, (80, 81), 11, 500)]);
    history.faults.losses = vec![loss(1, 60, 70)];
    let verdict = judge(&history, &[]);
    assert_eq!((verdict.violations, verdict.holds_lost), (vec![], 1));
    history.faults.losses = vec![loss(1, 90, 95)];
    assert_eq!(broken(&history), ["mutual exclusion"], "nothing is lost before it happens");
}

#[test]
fn a_clock_set_forward_ends_a_lease_sooner_by_just_that() {
    let mut history = locks(vec![granted(1, (0, 1), 10, 500), granted(2, (300, 301), 11, 500)]);
    assert_eq!(broken(&history), ["mutual exclusion"]);
    let step = |by_ms| Step { from: millis(100), to: millis(101), by_ms };
    history.faults.steps = vec![step(150)];
    assert_eq!(broken(&history), ["mutual exclusion"]);
    history.faults.steps = vec![step(250)];
    assert_eq!(broken(&history), [""; 0]);
}

#[test]
fn several_locks_are_held_together_or_not_at_all() {
    let both = ["lock", "other"];
    let grant = on(&both, 1, (0, 1), ask(1, Mode::Exclusive, 500, 0), Outcome::Done(LockAnswer::Granted(10)));
    let release = |count| {
        let call = LockCall::Release { token: "t1".into() };
        on(&both, 1, (10, 11), call, Outcome::Done(LockAnswer::Count(count)))
    };
    assert_eq!(broken(&locks(vec![grant.clone(), release(2)])), [""; 0]);
    assert_eq!(broken(&locks(vec![grant.clone(), release(1)])), ["all or none"]);
    let other = on(&["other"], 2, (2, 3), ask(2, Mode::Exclusive, 500, 0), Outcome::Done(LockAnswer::Granted(11)));
    assert_eq!(broken(&locks(vec![grant, other, release(2)])), ["mutual exclusion"]);
}

#[test]
fn fences_that_go_back_or_come_twice_are_seen() {
    let history =
        |fence| locks(vec![granted(1, (0, 1), 10, 5), released(1, (2, 3), 1), granted(2, (20, 21), fence, 5)]);
    assert_eq!(broken(&history(11)), [""; 0]);
    assert!(broken(&history(9)).contains(&"fences rise"));
    assert!(broken(&history(10)).contains(&"fence used once"));
}

#[test]
fn the_holder_is_never_refused_and_others_may_be() {
    let mut history = locks(vec![granted(1, (0, 1), 10, 500), granted(2, (600, 601), 11, 500)]);
    let write = |client: i64, at, accepted| {
        let (key, token) = ("lock".into(), format!("t{client}"));
        Write { key, token, fence: 9 + client, at: millis(at), accepted }
    };
    history.writes = vec![write(2, 610, true), write(1, 700, false)];
    let verdict = judge(&history, &[]);
    assert_eq!((verdict.violations, verdict.stale_caught), (vec![], 1));

    history.writes = vec![write(2, 610, true), write(1, 400, false)];
    history.writes[0].at = 0;
    assert_eq!(broken(&history), ["fence of the holder"]);
    // A primary that had been replaced granted the larger fence.
    history.faults.losses = vec![loss(600, 600, 700)];
    let verdict = judge(&history, &[]);
    assert_eq!((verdict.violations, verdict.lost_caught), (vec![], 1));
    // The hold itself was lost.
    history.faults.losses = vec![loss(1, 300, 310)];
    let verdict = judge(&history, &[]);
    assert_eq!((verdict.violations, verdict.lost_caught), (vec![], 1));
}

#[test]
fn who_stood_in_line_first_is_served_first() {
    let line = |first, second| {
        locks(vec![
            granted(1, (0, 1), 10, 100),
            waited(2, (2, 110), Some(first)),
            waited(3, (3, 220), Some(second)),
            looked((10, 11), &[2, 3]),
        ])
    };
    assert_eq!(broken(&line(11, 12)), [""; 0]);
    assert!(broken(&line(12, 11)).contains(&"order of service"));
    // A request that came when another one stood in line.
    let mut history = line(12, 13);
    history.locks.push(waited(4, (20, 105), Some(11)));
    assert!(broken(&history).contains(&"order of service"));
}

#[test]
fn a_waiter_beside_a_free_lock_is_seen() {
    let history = |release| {
        locks(vec![granted(1, (0, 1), 10, 9_000), released(1, (release, release + 1), 1), waited(2, (2, 3_000), None)])
    };
    assert_eq!(broken(&history(2_500)), [""; 0]);
    assert_eq!(broken(&history(500)), ["no waiter forgotten"]);
    // A request that got it in the end, long after it was free.
    let late = locks(vec![granted(1, (0, 1), 10, 9_000), released(1, (500, 501), 1), waited(2, (2, 3_000), Some(11))]);
    assert_eq!(broken(&late), ["no waiter forgotten"]);
    // While the server is down no request is served.
    let mut down = history(500);
    down.faults.all = vec![fault("kill -9", (600, 2_900), None)];
    assert_eq!(broken(&down), [""; 0]);
}

#[test]
fn a_free_lock_that_is_refused_is_seen() {
    let refused = |at| on(&["lock"], 2, (at, at + 1), ask(2, Mode::Exclusive, 100, 0), Outcome::Done(LockAnswer::Null));
    let history = |at| locks(vec![granted(1, (0, 1), 10, 500), released(1, (20, 21), 1), refused(at)]);
    assert_eq!(broken(&history(10)), [""; 0]);
    assert_eq!(broken(&history(30)), ["a free lock is granted"]);
    // Its release was lost.
    let mut lost = history(30);
    lost.faults.losses = vec![loss(15, 25, 28)];
    assert_eq!(broken(&lost), [""; 0]);
}

#[test]
fn a_request_without_an_answer_needs_a_reason() {
    let silent = Outcome::Unknown(Nothing::Silence);
    let mut history = locks(vec![on(&["lock"], 1, (5_000, 7_000), ask(1, Mode::Exclusive, 100, 0), silent)]);
    assert_eq!(broken(&history), ["every request answered"]);
    history.faults.all = vec![fault("server frozen", (4_900, 8_000), None)];
    assert_eq!(broken(&history), [""; 0]);
}

#[test]
fn a_standstill_is_an_excuse_but_not_for_long() {
    let late = |until| {
        let mut history = locks(vec![granted(1, (5_000, 5_001), 10, 100), granted(2, (5_002, until), 11, 100)]);
        history.faults.all = standstills(&history);
        broken(&history)
    };
    assert_eq!(late(6_500), [""; 0]);
    assert_eq!(late(8_500), ["standstill"]);
    // Another client was answered meanwhile.
    let mut history = locks(vec![granted(1, (5_000, 5_001), 10, 100), granted(2, (5_002, 6_500), 11, 100)]);
    history.orders = (0..8).map(|n| told((5_000 + n * 200, 5_001 + n * 200), TAKE, "DUPLICATE", 2, -1)).collect();
    history.faults.all = standstills(&history);
    assert!(broken(&history).contains(&"every request answered"));
}
