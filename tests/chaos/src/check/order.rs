//! First come, first served: requests that were seen in line are served in that order, and before all later ones.

use std::collections::{BTreeMap, HashMap};

use super::Verdict;
use super::holds::fence_of;
use crate::history::{History, LockAnswer, LockCall, LockOp, Time};

/// The grants of one lock that nothing was special about.
#[derive(Default)]
struct Served<'a> {
    by_token: HashMap<&'a str, Vec<&'a LockOp>>,
    /// In the order in which they were asked for; the first requests of their tokens.
    all: Vec<&'a LockOp>,
    /// The smallest fence from each place of `all` on.
    smallest: Vec<usize>,
}

/// Judges all locks.
pub fn check(history: &History, verdict: &mut Verdict) {
    let mut served = served(history);
    for lock in served.values_mut() {
        let mut smallest = lock.all.len().saturating_sub(1);
        lock.smallest = vec![smallest; lock.all.len()];
        for place in (0..lock.all.len()).rev() {
            if fence_of(lock.all[place]) < fence_of(lock.all[smallest]) {
                smallest = place;
            }
            lock.smallest[place] = smallest;
        }
    }
    for look in &history.locks {
        if let (LockCall::Look, Some(LockAnswer::Seen { waiters, .. })) = (&look.call.call, look.answer())
            && let Some(served) = served.get(&(look.call.keys[0].as_str(), look.server))
        {
            queue(look, waiters, served, verdict);
        }
    }
}

/// The grants of each lock by each server.
fn served(history: &History) -> BTreeMap<(&str, u16), Served<'_>> {
    let mut served: BTreeMap<(&str, u16), Served<'_>> = BTreeMap::new();
    let mut begun: HashMap<&str, Time> = HashMap::new();
    for op in &history.locks {
        let LockCall::Acquire { token, .. } = &op.call.call else { continue };
        let first = *begun.entry(token).or_insert(op.invoked) == op.invoked;
        // A request that was sent to another server began to wait there.
        if fence_of(op).is_none() || op.redirected {
            continue;
        }
        for key in &op.call.keys {
            let lock = served.entry((key, op.server)).or_default();
            lock.by_token.entry(token).or_default().push(op);
            if first {
                lock.all.push(op);
            }
        }
    }
    served
}

/// Judges one look at a queue.
fn queue(look: &LockOp, waiters: &[String], served: &Served<'_>, verdict: &mut Verdict) {
    // The request that was waiting when the server was looked at.
    let waited = |token: &String| {
        let ops = served.by_token.get(token.as_str())?;
        ops.iter().find(|op| op.invoked < look.invoked && op.returned > look.returned)
    };
    let mut last: Option<&LockOp> = None;
    for op in waiters.iter().filter_map(waited) {
        if let Some(last) = last
            && fence_of(last) >= fence_of(op)
        {
            blame(look, last, op, verdict);
        }
        last = Some(op);
    }
    let later = served.all.partition_point(|op| op.invoked <= look.returned);
    if let (Some(last), Some(place)) = (last, served.smallest.get(later))
        && fence_of(served.all[*place]) < fence_of(last)
    {
        blame(look, last, served.all[*place], verdict);
    }
}

fn blame(look: &LockOp, first: &LockOp, second: &LockOp, verdict: &mut Verdict) {
    let what = format!("{:?} was served before {:?}", second.call.call.token(), first.call.call.token());
    let mut story = [look, first, second];
    story.sort_by_key(|op| op.invoked);
    verdict.blame("order of service", what, story.map(|op| format!("{op:?}")).into());
}
