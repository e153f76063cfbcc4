//! Locks go on without their holders: at the end of the lease when the client is stopped, at once when a holder with a session is
//! killed. That the lease ends a stopped hold is judged with all others; here it is counted.

use std::collections::BTreeMap;

use super::holds::Hold;
use super::{GRACE, Verdict};
use crate::history::{Fault, History, KILLED, LockAnswer, LockCall, LockOp, Mode, STOPPED, Time, Write, seconds};

/// Judges all locks.
pub fn check(history: &History, holds: &BTreeMap<&str, Vec<Hold<'_>>>, verdict: &mut Verdict) {
    for fault in &history.faults.all {
        let Some(client) = fault.client else { continue };
        let pairs = holds.values().flat_map(|holds| holds.windows(2));
        for pair in pairs.filter(|pair| pair[0].grant().client == client && pair[1].grant().client != client) {
            match &*fault.kind {
                KILLED => killed(history, fault, &pair[0], &pair[1], verdict),
                STOPPED => stopped(history, fault, &pair[0], pair[1].grant(), verdict),
                _ => {}
            }
        }
    }
}

/// Counts a lock that another token got while its holder was stopped, and whether the register refused that holder then.
fn stopped(history: &History, stop: &Fault, hold: &Hold<'_>, heir: &LockOp, verdict: &mut Verdict) {
    if (stop.from..stop.to).contains(&heir.returned) {
        let unheard = hold.grant().returned >= stop.to;
        verdict.unheard += usize::from(unheard);
        verdict.outlived += usize::from(!unheard);
        let late = |write: &&Write| write.key == hold.key && write.fence == hold.fence && write.at >= stop.to;
        verdict.refused += usize::from(history.writes.iter().filter(late).any(|write| !write.accepted));
    }
}

/// Judges a lock that was held when its holder was killed.
fn killed(history: &History, death: &Fault, hold: &Hold<'_>, heir: &Hold<'_>, verdict: &mut Verdict) {
    let next = heir.grant();
    let after = next.returned > death.from && !history.faults.hit(next);
    let alone = hold.mode == Mode::Exclusive && heir.mode == Mode::Exclusive;
    if !(hold.has_session() && after && alone && was_held(hold, death.from)) {
        return;
    }
    // A client of unknown fate may have held it in between.
    let key = hold.key.to_owned();
    let between =
        |op: &&LockOp| op.invoked < next.returned && op.returned > death.from && op.client != hold.grant().client;
    let unknown = history.locks.iter().filter(between).any(|op| op.is_unknown() && op.call.keys.contains(&key));
    if unknown || history.faults.disturbed_until(death.from, next.returned).is_some() {
        return;
    }
    let late = next.returned - death.from.max(next.invoked);
    if next.invoked < death.from {
        verdict.inherited += 1;
        verdict.longest_inheritance = verdict.longest_inheritance.max(late);
    }
    if late > GRACE {
        let what = format!("{key} took {} s to come from the dead {} to {}", seconds(late), hold.token, heir.token);
        verdict.blame(
            "session ends with its connection",
            what,
            vec![format!("{:?}", hold.grant()), format!("{next:?}")],
        );
    }
}

/// Whether it was held then, unless its lease ended sooner than it had to.
fn was_held(hold: &Hold<'_>, then: Time) -> bool {
    let given_back = hold.ops.iter().any(|op| matches!(op.call.call, LockCall::Release { .. }));
    let end = |op: &&LockOp| match (&op.call.call, op.answer()) {
        (LockCall::Acquire { lease, .. }, Some(LockAnswer::Granted(_)))
        | (LockCall::Extend { lease, .. }, Some(LockAnswer::Count(1))) => op.returned + lease,
        _ => 0,
    };
    !given_back && hold.ops.iter().map(end).max().is_some_and(|end| end > then)
}
