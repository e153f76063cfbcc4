//! Holds, put together from requests: what is certain about each, and what is possible.

use std::collections::{BTreeMap, HashMap};

use super::GRACE;
use crate::history::{Faults, History, LockAnswer, LockCall, LockOp, Mode, Outcome, Time, millis};

/// The server counts in milliseconds, and its clock and ours are read at different moments.
pub const BLUR: Time = millis(3);

/// One token's hold of one lock.
pub struct Hold<'a> {
    pub key: &'a str,
    pub token: &'a str,
    pub fence: i64,
    pub mode: Mode,
    /// All requests of this token about this lock, in the order in which they were made.
    pub ops: Vec<&'a LockOp>,
    /// Which of them was the first to be granted this fence.
    pub granted: usize,
    /// Until when the connection that a session is bound to was certainly there; `None` without a session.
    session: Option<Time>,
}

/// All holds, by lock, in the order of their fences.
pub fn holds(history: &History) -> BTreeMap<&str, Vec<Hold<'_>>> {
    let mut alive: HashMap<u64, Time> = HashMap::new();
    let mut requests: BTreeMap<(&str, &str), Vec<&LockOp>> = BTreeMap::new();
    for op in &history.locks {
        if op.answer().is_some() {
            alive.insert(op.line, op.invoked);
        }
        if let Some(token) = op.call.call.token() {
            for key in &op.call.keys {
                requests.entry((key, token)).or_default().push(op);
            }
        }
    }
    let mut found: BTreeMap<&str, Vec<Hold<'_>>> = BTreeMap::new();
    for ((key, token), ops) in requests {
        let mut fences = vec![];
        for (granted, op) in ops.iter().enumerate() {
            let (Some(fence), LockCall::Acquire { mode, .. }) = (fence_of(op), &op.call.call) else { continue };
            if fences.contains(&fence) {
                continue;
            }
            fences.push(fence);
            let session = ops.iter().any(|op| matches!(op.call.call, LockCall::Acquire { session: true, .. }));
            // A request without a reply may yet bind the session to a connection that is gone.
            let lost = ops.iter().any(|op| op.is_unknown());
            let there = if lost { 0 } else { alive.get(&op.line).copied().unwrap_or(0) };
            let session = session.then_some(there);
            let hold = Hold { key, token, fence, mode: *mode, ops: ops.clone(), granted, session };
            found.entry(key).or_default().push(hold);
        }
    }
    for holds in found.values_mut() {
        holds.sort_by_key(|hold| hold.fence);
    }
    found
}

/// The fence that this request was granted.
pub fn fence_of(op: &LockOp) -> Option<i64> {
    match op.answer() {
        Some(LockAnswer::Granted(fence)) => Some(*fence),
        _ => None,
    }
}

impl Hold<'_> {
    /// The request that was the first to be granted this fence.
    pub fn grant(&self) -> &LockOp {
        self.ops[self.granted]
    }

    /// Whether it ends with its connection.
    pub fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// Whether this grant was a beginning for certain, and not the repetition of one whose reply was lost.
    pub fn is_first(&self) -> bool {
        !self.ops[..self.granted].iter().any(|op| op.is_unknown())
    }

    /// The earliest moment at which this hold may have ended, if it began after `began` and nothing was lost.
    pub fn promised(&self, began: Time) -> Time {
        self.kept(began, |_| true, self.ops.len())
    }

    /// The earliest moment at which this hold may have ended, for all that was lost.
    pub fn certain(&self, began: Time, faults: &Faults) -> Time {
        self.certain_before(began, faults, self.ops.len())
    }

    /// The same, as it was known before request number `end` of this token.
    pub fn certain_before(&self, began: Time, faults: &Faults, end: usize) -> Time {
        let mut earliest = self.kept(began, |_| true, end);
        for loss in &faults.losses {
            if self.ops[self.granted..end].iter().any(|op| loss.takes(op)) {
                earliest = earliest.min(self.kept(began, |op| !loss.takes(op), end).max(loss.at));
            }
        }
        for step in &faults.steps {
            let ahead = Time::try_from(step.by_ms.max(0) * 1_000).unwrap_or(0);
            if earliest >= step.from && self.grant().invoked <= step.to {
                earliest = earliest.saturating_sub(ahead).max(step.from.min(earliest));
            }
        }
        earliest
    }

    /// The earliest end, when of the requests before number `end` only those count that are `there`.
    fn kept(&self, began: Time, there: impl Fn(&LockOp) -> bool, end: usize) -> Time {
        let grant = self.grant();
        if !there(grant) {
            return 0;
        }
        let began = if self.is_first() { began.max(grant.invoked) } else { grant.invoked };
        let mut earliest = Time::MAX;
        for (place, op) in self.ops.iter().enumerate().take(end).skip(self.granted) {
            if !there(op) {
                continue;
            }
            let from = if place == self.granted { began } else { op.invoked };
            match (&op.call.call, op.answer()) {
                (LockCall::Acquire { lease, .. }, Some(LockAnswer::Granted(fence))) if *fence == self.fence => {
                    earliest = (from + lease).saturating_sub(BLUR);
                }
                (LockCall::Extend { lease, .. }, Some(LockAnswer::Count(1))) => {
                    earliest = (from + lease).saturating_sub(BLUR);
                }
                (LockCall::Acquire { lease, .. } | LockCall::Extend { lease, .. }, None) if op.is_unknown() => {
                    earliest = earliest.min((from + lease).saturating_sub(BLUR));
                }
                (LockCall::Release { .. }, None) if op.is_unknown() => earliest = earliest.min(op.invoked),
                // A grant here is that of another hold of this token.
                (LockCall::Release { .. }, Some(_)) | (LockCall::Acquire { .. }, Some(LockAnswer::Granted(_))) => {
                    earliest = earliest.min(op.invoked);
                    break;
                }
                _ => {}
            }
        }
        self.session.map_or(earliest, |there| earliest.min(there.max(began)))
    }
}

/// The span in which a request may have led to a hold; `None` if it cannot have.
pub fn possible(op: &LockOp, faults: &Faults) -> Option<(Time, Time)> {
    let (LockCall::Acquire { lease, .. } | LockCall::Extend { lease, .. }) = &op.call.call else { return None };
    let (wait, session) = match &op.call.call {
        LockCall::Acquire { wait, session, .. } => (wait.unwrap_or(0), *session),
        _ => (0, false),
    };
    let death = faults.death(op.client);
    let end = match op.answer() {
        Some(LockAnswer::Granted(_) | LockAnswer::Count(1)) => op.returned + lease,
        // A dead client stands in no line.
        None if op.is_unknown() && death.is_some_and(|death| death.to > op.invoked) => op.returned + lease,
        // It may be carried out as late as when the server wakes up.
        None if op.is_unknown() => {
            let late = faults.disturbed_until(op.invoked, op.returned).unwrap_or(0).max(op.returned);
            late + wait + lease
        }
        // Until the server has noticed that nobody is there any more.
        None if op.outcome == Outcome::Unwritten => op.returned + GRACE,
        _ => return None,
    };
    let end = death.filter(|_| session).map_or(end, |death| end.min(death.to.max(op.returned) + GRACE));
    Some((op.invoked, end + faults.set_back() + BLUR))
}
