//! A waiter is refused when its time is over, and not before; and no request waits for a lock that its own token holds.

use std::collections::{BTreeMap, HashMap};

use super::holds::{BLUR, Hold};
use super::{GRACE, Verdict};
use crate::history::{History, LockAnswer, LockCall, LockOp, Mode, Time};

/// Judges all requests that waited.
pub fn check(history: &History, holds: &BTreeMap<&str, Vec<Hold<'_>>>, verdict: &mut Verdict) {
    let mut by_token: HashMap<&str, Vec<&LockOp>> = HashMap::new();
    for op in &history.locks {
        if let Some(token) = op.call.call.token() {
            by_token.entry(token).or_default().push(op);
        }
    }
    for op in &history.locks {
        let LockCall::Acquire { token, mode, wait: Some(wait), .. } = &op.call.call else { continue };
        let others = by_token[token.as_str()].iter().copied().filter(|other| !std::ptr::eq(*other, op));
        if op.answer() == Some(&LockAnswer::Null) && op.returned + BLUR < op.invoked + wait {
            early(history, op, others, verdict);
        } else if op.answer().is_some() && *mode == Mode::Exclusive {
            in_its_own_way(history, holds, op, verdict);
        }
    }
}

/// Judges a wait that ended before its time: another request of the token must have taken its place, or given it up.
fn early<'a>(history: &History, op: &LockOp, mut others: impl Iterator<Item = &'a LockOp>, verdict: &mut Verdict) {
    let taken_over = others.any(|other| {
        let meanwhile = other.invoked < op.returned && other.returned > op.invoked;
        match &other.call.call {
            // One that was itself sent away at once has taken nobody's place.
            LockCall::Acquire { .. } => {
                let stood = other.returned > op.returned + BLUR;
                meanwhile && (stood || other.is_unknown() || matches!(other.answer(), Some(LockAnswer::Granted(_))))
            }
            LockCall::Release { .. } => meanwhile,
            _ => false,
        }
    });
    let disturbed = history.faults.hit(op) || history.faults.disturbed_until(op.invoked, op.returned).is_some();
    if !taken_over && !disturbed && history.faults.steps.is_empty() {
        verdict.blame("a wait lasts its time", "told no too early".into(), vec![format!("{op:?}")]);
    }
}

/// Judges a wait for locks that its own token held meanwhile, all of them and alone: they are no obstacle to it.
fn in_its_own_way(history: &History, holds: &BTreeMap<&str, Vec<Hold<'_>>>, op: &LockOp, verdict: &mut Verdict) {
    let token = op.call.call.token();
    let held = op.call.keys.iter().map(|key| {
        let holds = holds.get(key.as_str()).into_iter().flatten();
        let own = holds.filter(|hold| Some(hold.token) == token && hold.mode == Mode::Exclusive);
        let spans = own.filter(|hold| !std::ptr::eq(hold.grant(), op));
        // As far as it was known without the request itself, which may have been granted in the end.
        let known =
            |hold: &Hold<'_>| hold.ops.iter().position(|other| std::ptr::eq(*other, op)).unwrap_or(hold.ops.len());
        let spans = spans.map(|hold| {
            (hold.grant().returned, hold.certain_before(0, &history.faults, known(hold).max(hold.granted + 1)))
        });
        // With several holds, the longest of them is enough to see it.
        spans.max_by_key(|(from, to)| to.saturating_sub(*from)).unwrap_or((Time::MAX, 0))
    });
    let (from, to) =
        held.fold((op.invoked, op.returned), |(from, to), (begun, ended)| (from.max(begun), to.min(ended)));
    let calm = !history.faults.hit(op) && history.faults.disturbed_until(from.saturating_sub(GRACE), to).is_none();
    if to > from.saturating_add(GRACE) && calm {
        let what = format!("{token:?} waited for {:?}, which it held", op.call.keys);
        verdict.blame("no obstacle to itself", what, vec![format!("{op:?}")]);
    }
}
