//! No waiter is forgotten: while a request waits for a lock, another one may hold the lock, and every request is answered in time.

use std::collections::{BTreeMap, HashMap};

use super::holds::possible;
use super::{GRACE, Verdict};
use crate::history::{Faults, History, LockCall, LockOp, Op, Time, seconds};
use crate::route::PATIENCE;

/// Judges all requests.
pub fn check(history: &History, verdict: &mut Verdict) {
    // When each connection was last known to be there.
    let mut alive = HashMap::new();
    for op in &history.locks {
        let wait = match op.call.call {
            LockCall::Acquire { wait, .. } => wait.unwrap_or(0),
            _ => 0,
        };
        answered(op, wait, &mut alive, &history.faults, verdict);
    }
    for op in &history.orders {
        answered(op, 0, &mut alive, &history.faults, verdict);
    }
    for ops in families(history).values() {
        family(ops, &history.faults, verdict);
    }
}

/// A request is answered in time, unless something was going on since its connection was last heard of, or with its client.
fn answered<C, A>(op: &Op<C, A>, wait: Time, alive: &mut HashMap<u64, Time>, faults: &Faults, verdict: &mut Verdict)
where
    Op<C, A>: std::fmt::Debug,
{
    let late = op.returned - op.invoked > wait + PATIENCE / 2;
    let since = alive.insert(op.line, op.returned).unwrap_or(op.invoked);
    let calm = faults.disturbed_until(since.saturating_sub(GRACE), op.returned).is_none();
    if calm && faults.set_back() == 0 && (late || op.is_unknown()) && !faults.hit(op) {
        let what = if late { "too late" } else { "not at all" };
        verdict.blame("every request answered", what.into(), vec![format!("{op:?}")]);
    }
}

/// Locks that are taken together by one request stand and fall together: a waiter for two holds back the requests behind it.
fn families(history: &History) -> BTreeMap<&str, Vec<&LockOp>> {
    let mut families: BTreeMap<&str, Vec<&LockOp>> = BTreeMap::new();
    for op in &history.locks {
        let key = op.call.keys[0].as_str();
        let family = key.find('}').map_or(key, |end| &key[..end]);
        families.entry(family).or_default().push(op);
    }
    families
}

fn family(ops: &[&LockOp], faults: &Faults, verdict: &mut Verdict) {
    let mut released: HashMap<&str, &LockOp> = HashMap::new();
    for op in ops.iter().filter(|op| op.answer().is_some()) {
        if let LockCall::Release { token } = &op.call.call {
            released.entry(token).or_insert(op);
        }
    }
    // A lock that was granted to a stopped client was held for its lease, at some time in this span.
    let (deaf, heard): (Vec<&LockOp>, Vec<&LockOp>) =
        ops.iter().copied().partition(|op| op.answer().is_some() && faults.hit(op));
    let unheard: Vec<(Time, Time, Time)> = deaf.into_iter().filter_map(|op| at_some_time(op, faults)).collect();
    let mut spans: Vec<(Time, Time)> = heard.iter().filter_map(|op| held(op, &released, faults)).collect();
    spans.sort_unstable();
    let mut gaps = vec![];
    let mut end = 0;
    for (from, to) in spans {
        if from > end + GRACE {
            gaps.push((end, from));
        }
        end = end.max(to);
    }
    gaps.push((end, Time::MAX));
    for op in heard.iter().filter(|op| op.answer().is_some() && matches!(op.call.call, LockCall::Acquire { .. })) {
        let first = gaps.partition_point(|(_, to)| *to < op.invoked);
        for (from, to) in gaps[first..].iter().take_while(|(from, _)| *from < op.returned) {
            let (from, to) = (op.invoked.max(*from), op.returned.min(*to));
            let excused: Time =
                unheard.iter().filter(|(begin, end, _)| *begin < to && *end > from).map(|(_, _, lease)| lease).sum();
            if to > from + GRACE + excused && faults.disturbed_until(from.saturating_sub(GRACE), to).is_none() {
                let what = format!("{} stood free from {} to {}", op.call.keys[0], seconds(from), seconds(to));
                verdict.blame("no waiter forgotten", what, vec![format!("{op:?}")]);
            }
        }
    }
}

/// The span in which a client may have held a lock because of this request, and for how long at most.
fn at_some_time(op: &LockOp, faults: &Faults) -> Option<(Time, Time, Time)> {
    let (from, to) = possible(op, faults)?;
    match op.call.call {
        LockCall::Acquire { lease, .. } | LockCall::Extend { lease, .. } => Some((from, to, lease)),
        _ => None,
    }
}

/// The span in which a client may have held a lock because of this request. A waiter that was granted counts from the moment it knew,
/// for a grant that came late is what this looks for.
fn held(op: &LockOp, released: &HashMap<&str, &LockOp>, faults: &Faults) -> Option<(Time, Time)> {
    let (invoked, to) = possible(op, faults)?;
    let from = if op.answer().is_some() { op.returned } else { invoked };
    // What was given back is free from then on, unless that may be lost.
    let given = op.call.call.token().and_then(|token| released.get(token));
    let free = given.filter(|given| !op.is_unknown() && !faults.losses.iter().any(|loss| loss.takes(given)));
    Some((from, free.map_or(to, |given| to.min(given.returned.max(from)))))
}
