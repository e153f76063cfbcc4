//! Histories of broken servers, made by hand: the judge must complain of each, and of nothing in those of a good one.

use std::collections::BTreeMap;

use super::{Books, Event, judge};
use crate::harness::Nothing;
use crate::history::{
    AboutLocks, AboutOrder, Fault, History, LockAnswer, LockCall, LockOp, Loss, Mode, Op, Outcome, SaleAnswer,
    SaleCall, SaleOp, Seen, Step, Time, Write, millis,
};

const SERVER: u16 = 1;
/// The wall clock when these histories begin, in milliseconds.
const UNIX: i64 = 1_000_000;

fn op<C, A>(client: usize, span: (Time, Time), call: C, outcome: Outcome<A>) -> Op<C, A> {
    let (invoked, returned) = (millis(span.0), millis(span.1));
    let line = client as u64;
    Op { client, line, server: SERVER, redirected: false, invoked, returned, call, outcome }
}

fn on(keys: &[&str], client: usize, span: (Time, Time), call: LockCall, outcome: Outcome<LockAnswer>) -> LockOp {
    op(client, span, AboutLocks { keys: keys.iter().map(ToString::to_string).collect(), call }, outcome)
}

fn ask(client: usize, mode: Mode, lease: Time, wait: Time) -> LockCall {
    let wait = (wait > 0).then_some(millis(wait));
    LockCall::Acquire { token: format!("t{client}"), mode, lease: millis(lease), wait, session: false }
}

/// A grant of the lock to a client, whose token is its number.
fn granted(client: usize, span: (Time, Time), fence: i64, lease: Time) -> LockOp {
    on(&["lock"], client, span, ask(client, Mode::Exclusive, lease, 0), Outcome::Done(LockAnswer::Granted(fence)))
}

fn shared(client: usize, span: (Time, Time), fence: i64, mode: Mode) -> LockOp {
    on(&["lock"], client, span, ask(client, mode, 1_000, 0), Outcome::Done(LockAnswer::Granted(fence)))
}

fn released(client: usize, span: (Time, Time), count: usize) -> LockOp {
    let call = LockCall::Release { token: format!("t{client}") };
    on(&["lock"], client, span, call, Outcome::Done(LockAnswer::Count(count)))
}

fn waited(client: usize, span: (Time, Time), fence: Option<i64>) -> LockOp {
    let answer = fence.map_or(LockAnswer::Null, LockAnswer::Granted);
    on(&["lock"], client, span, ask(client, Mode::Exclusive, 100, span.1 - span.0), Outcome::Done(answer))
}

fn looked(span: (Time, Time), waiters: &[usize]) -> LockOp {
    let waiters = waiters.iter().map(|client| format!("t{client}")).collect();
    on(&["lock"], 99, span, LockCall::Look, Outcome::Done(LockAnswer::Seen { holders: vec![], waiters }))
}

fn loss(since: Time, at: Time, until: Time) -> Loss {
    let (since, at, until) = (millis(since), millis(at), millis(until));
    Loss { server: SERVER, since, at, until, spares_replicated: false }
}

fn locks(mut ops: Vec<LockOp>) -> History {
    ops.sort_by_key(|op| op.invoked);
    History { locks: ops, began_unix_ms: UNIX, ..History::default() }
}

/// The rules that a history breaks.
#[track_caller]
fn broken(history: &History) -> Vec<&'static str> {
    let mut rules: Vec<_> = judge(history, &[]).violations.into_iter().map(|violation| violation.rule).collect();
    rules.dedup();
    rules
}

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
    // One who came when somebody stood in line.
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
    // One who got it in the end, long after it was free.
    let late = locks(vec![granted(1, (0, 1), 10, 9_000), released(1, (500, 501), 1), waited(2, (2, 3_000), Some(11))]);
    assert_eq!(broken(&late), ["no waiter forgotten"]);
    // While the server is down nobody is served.
    let mut down = history(500);
    down.faults.all = vec![Fault { kind: "kill -9", from: millis(600), to: millis(2_900), disturbs: true }];
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
    history.faults.all = vec![Fault { kind: "server frozen", from: millis(4_900), to: millis(8_000), disturbs: true }];
    assert_eq!(broken(&history), [""; 0]);
}

const TAKE: SaleCall = SaleCall::Take { units: 2, hold: None };
const HOLD: SaleCall = SaleCall::Take { units: 2, hold: Some(millis(100)) };

fn order(span: (Time, Time), call: SaleCall, outcome: Outcome<SaleAnswer>) -> SaleOp {
    op(1, span, AboutOrder { sale: "sale".into(), id: "id".into(), call, replicated: false }, outcome)
}

fn told(span: (Time, Time), call: SaleCall, status: &str, units: i64, deadline: i64) -> SaleOp {
    let answer = SaleAnswer::Status { status: status.into(), units, remaining: 5, deadline };
    order(span, call, Outcome::Done(answer))
}

fn seen(span: (Time, Time), state: &str, units: i64) -> SaleOp {
    let seen = (units > 0).then(|| Seen { state: state.into(), units, deadline: -1 });
    order(span, SaleCall::See, Outcome::Done(SaleAnswer::Order(seen)))
}

fn orders(ops: Vec<SaleOp>) -> History {
    History { orders: ops, began_unix_ms: UNIX, ..History::default() }
}

#[test]
fn an_order_that_is_forgotten_is_seen() {
    let mut history = orders(vec![told((0, 1), TAKE, "OK", 2, -1), seen((100, 101), "", 0)]);
    assert_eq!(broken(&history), ["orders"]);
    history.faults.losses = vec![loss(2, 50, 60)];
    assert_eq!(broken(&history), ["orders"], "it was older than what may be lost");
    history.faults.losses = vec![loss(1, 50, 60)];
    let verdict = judge(&history, &[]);
    assert_eq!((verdict.violations, verdict.orders_lost), (vec![], 1));
    history.faults.losses[0].spares_replicated = true;
    history.orders[0].call.replicated = true;
    assert_eq!(broken(&history), ["orders"], "WAIT said that a replica has it");
    history.faults.losses = vec![Loss { server: SERVER + 1, ..loss(1, 50, 60) }];
    assert_eq!(broken(&history), ["orders"], "another server was struck");
}

#[test]
fn what_comes_back_is_what_was_and_nothing_else() {
    // Sold, confirmed to be, lost: never sold. But never cancelled.
    let history = |state, units| {
        let mut history = orders(vec![
            told((0, 1), HOLD, "OK", 2, UNIX + 100),
            told((10, 11), SaleCall::Confirm, "OK", 2, -1),
            seen((100, 101), state, units),
        ]);
        history.faults.losses = vec![loss(5, 50, 60)];
        history
    };
    assert_eq!(broken(&history("sold", 2)), [""; 0]);
    // The hold was older; its confirmation was lost, and it lapsed.
    assert_eq!(broken(&history("expired", 2)), [""; 0]);
    assert_eq!(broken(&history("cancelled", 2)), ["orders"]);
    assert_eq!(broken(&history("", 0)), ["orders"]);
}

#[test]
fn an_id_that_buys_twice_is_seen() {
    let again = |status| orders(vec![told((0, 1), TAKE, "OK", 2, -1), told((10, 11), TAKE, status, 2, -1)]);
    assert_eq!(broken(&again("DUPLICATE")), [""; 0]);
    assert_eq!(broken(&again("OK")), ["orders"]);
    // Two at the same time: one of them was first.
    let both = |second| orders(vec![told((0, 9), TAKE, second, 2, -1), told((1, 8), TAKE, "OK", 2, -1)]);
    assert_eq!(broken(&both("DUPLICATE")), [""; 0]);
    assert_eq!(broken(&both("OK")), ["orders"]);
    // The first request had no reply; the second one tells what came of it.
    let lost = |status| {
        let unknown = order((0, 1), TAKE, Outcome::Unknown(Nothing::Closed));
        let again = told((10, 11), TAKE, status, 2, -1);
        let mut history = orders(vec![unknown, again, told((20, 21), TAKE, "DUPLICATE", 2, -1)]);
        history.faults.all = vec![Fault { kind: "CLIENT KILL", from: 0, to: millis(1), disturbs: true }];
        history
    };
    assert_eq!(broken(&lost("DUPLICATE")), [""; 0]);
    assert_eq!(broken(&lost("OK")), [""; 0]);
    assert_eq!(broken(&lost("CANCELLED")), ["orders"]);
}

#[test]
fn a_hold_lapses_at_its_deadline_and_not_otherwise() {
    let ends = |at: Time, status, units| {
        let hold = told((0, 1), HOLD, "OK", 2, UNIX + 100);
        orders(vec![hold, told((at, at + 1), SaleCall::Cancel, status, units, -1)])
    };
    assert_eq!(broken(&ends(50, "OK", 0)), [""; 0]);
    assert_eq!(broken(&ends(50, "EXPIRED", 0)), ["orders"]);
    assert_eq!(broken(&ends(200, "EXPIRED", 0)), [""; 0]);
    assert_eq!(broken(&ends(200, "OK", 0)), ["orders"]);
    assert_eq!(broken(&orders(vec![told((0, 1), HOLD, "OK", 2, UNIX + 150)])), ["orders"], "a deadline of its own");
}

#[test]
fn the_story_ends_with_the_answer_that_cannot_be() {
    let history = orders(vec![
        told((0, 1), TAKE, "OK", 2, -1),
        told((2, 3), SaleCall::Confirm, "CANCELLED", 0, -1),
        seen((4, 5), "sold", 2),
    ]);
    let verdict = judge(&history, &[]);
    assert_eq!(verdict.violations[0].story.len(), 2);
}

/// A sale of five units with one order of two.
fn books() -> Books {
    let event = |seq, kind: &str, units| Event { seq, kind: kind.into(), id: "id".into(), units };
    let info = [("total", 5), ("remaining", 3), ("held", 0), ("sold", 2), ("seq", 2)];
    Books {
        sale: "sale".into(),
        total: 5,
        info: info.map(|(name, value)| (name.into(), value)).into(),
        orders: BTreeMap::from([("id".into(), Seen { state: "sold".into(), units: 2, deadline: -1 })]),
        read: (millis(500), millis(501)),
        events: vec![event(1, "ok", 2), event(2, "confirm", 2)],
    }
}

#[test]
fn an_order_that_is_not_in_the_books_is_seen() {
    let rules = |books: &Books| {
        let history = orders(vec![told((0, 1), TAKE, "OK", 2, -1)]);
        judge(&history, std::slice::from_ref(books))
            .violations
            .into_iter()
            .map(|violation| violation.rule)
            .collect::<Vec<_>>()
    };
    let mut books = books();
    assert_eq!(rules(&books), [""; 0]);
    books.orders = BTreeMap::new();
    assert!(rules(&books).contains(&"orders"));
}

#[test]
fn a_hole_in_what_is_left_is_seen() {
    let buy = |id: &str, at| {
        let mut op = told((at, at + 1), TAKE, "OK", 2, -1);
        op.call.id = id.into();
        op
    };
    let rules = |first: &str, second: &str| {
        let mut history = orders(vec![buy(first, 10), buy(second, 20)]);
        history.faults.losses = vec![loss(1, 50, 60)];
        judge(&history, &[books()]).violations.into_iter().map(|violation| violation.rule).collect::<Vec<_>>()
    };
    // Only the order `id` is in the books.
    assert_eq!(rules("id", "gone"), [""; 0]);
    assert_eq!(rules("gone", "id"), ["no holes"]);
}

#[test]
fn books_that_do_not_agree_are_seen() {
    let broken = |change: fn(&mut Books)| {
        let mut books = books();
        change(&mut books);
        let violations = judge(&History::default(), &[books]).violations;
        violations.into_iter().map(|violation| violation.rule).collect::<Vec<_>>()
    };
    assert_eq!(broken(|_| ()), [""; 0]);
    assert_eq!(broken(|books| books.total = 6), ["conservation"]);
    assert!(broken(|books| books.orders.clear()).contains(&"conservation"));
    assert_eq!(broken(|books| drop(books.events.pop())), ["stream"]);
    assert_eq!(broken(|books| books.events[1].seq = 3), ["stream"]);
    assert_eq!(broken(|books| books.events[1].kind = "cancel".into()), ["stream"]);
    assert_eq!(broken(|books| books.events[1].id = "other".into()), ["stream"]);
    assert_eq!(broken(|books| books.info.extend([("remaining".into(), 4)])), ["conservation"]);
    assert_eq!(broken(|books| books.info.extend([("seq".into(), 3)])), ["stream"]);
}
