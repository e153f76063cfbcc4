//! A lock that is free is granted: a request without a wait is refused only if another token may hold the lock or stand in line.

use std::collections::{BTreeMap, HashMap};

use super::Verdict;
use super::holds::possible;
use crate::history::{History, LockAnswer, LockCall, LockOp, Time};

/// Spans in which a lock may not have been free: beginning, and the latest end of it and all that began before.
type Spans = Vec<(Time, Time)>;

/// Judges all locks.
pub fn check(history: &History, verdict: &mut Verdict) {
    let spans = spans(history);
    for op in &history.locks {
        let LockCall::Acquire { token, wait: None, .. } = &op.call.call else { continue };
        if op.answer() != Some(&LockAnswer::Null) {
            continue;
        }
        let in_the_way = |key: &String| {
            let spans = &spans[key.as_str()];
            let begun = spans.partition_point(|(from, _)| *from <= op.returned);
            begun > 0 && spans[begun - 1].1 >= op.invoked
        };
        if !op.call.keys.iter().any(in_the_way) {
            let about = |other: &&LockOp| other.call.keys.iter().any(|key| op.call.keys.contains(key));
            let before = history.locks.iter().filter(|other| other.invoked <= op.invoked).filter(about);
            let mut story: Vec<String> = before.rev().take(5).map(|other| format!("{other:?}")).collect();
            story.reverse();
            verdict.blame("a free lock is granted", format!("{token} was refused {:?}", op.call.keys), story);
        }
    }
}

fn spans(history: &History) -> BTreeMap<&str, Spans> {
    let faults = &history.faults;
    // What was given back for certain is free from then on.
    let mut released: HashMap<(&str, &str), Time> = HashMap::new();
    for op in history.locks.iter().filter(|op| op.answer().is_some()) {
        if let LockCall::Release { token } = &op.call.call
            && !faults.losses.iter().any(|loss| loss.takes(op))
        {
            for key in &op.call.keys {
                released.entry((key, token)).or_insert(op.returned);
            }
        }
    }
    let mut spans: BTreeMap<&str, Spans> = BTreeMap::new();
    for op in &history.locks {
        let Some(token) = op.call.call.token() else { continue };
        for key in &op.call.keys {
            let spans = spans.entry(key).or_default();
            if let Some((from, to)) = possible(op, faults) {
                let given = released.get(&(key, token)).filter(|_| !op.is_unknown());
                spans.push((from, given.map_or(to, |given| to.min(*given))));
            }
            if matches!(op.call.call, LockCall::Acquire { wait: Some(_), .. }) {
                let late = faults.disturbed_until(op.invoked, op.returned).filter(|_| op.is_unknown());
                spans.push((op.invoked, op.returned.max(late.unwrap_or(0))));
            }
        }
    }
    for spans in spans.values_mut() {
        spans.sort_unstable();
        let mut latest = 0;
        for (_, to) in spans {
            latest = latest.max(*to);
            *to = latest;
        }
    }
    spans
}
