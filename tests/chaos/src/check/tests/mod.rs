//! Histories of broken servers, made by hand: the judge must complain of each, and of nothing in those of a good one.

mod carts;
mod clients;
mod journal;
mod lines;
mod locks;
mod sales;
mod seams;

use harness::Nothing;

use super::judge;
use crate::history::{
    AboutLocks, AboutOrder, Fault, History, KILLED, LockAnswer, LockCall, LockOp, Loss, Mode, Op, Outcome, STOPPED,
    SaleAnswer, SaleCall, SaleOp, Seen, Step, Time, Write, millis,
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

/// The same with a session.
fn session(client: usize, span: (Time, Time), fence: i64, lease: Time) -> LockOp {
    let mut op = granted(client, span, fence, lease);
    if let LockCall::Acquire { session, .. } = &mut op.call.call {
        *session = true;
    }
    op
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

fn fault(kind: &'static str, span: (Time, Time), client: Option<usize>) -> Fault {
    Fault { kind: kind.into(), from: millis(span.0), to: millis(span.1), client }
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
