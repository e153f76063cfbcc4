//! Mutual exclusion: while a hold certainly lasts, nobody has the lock in a way that does not go with it.

use std::collections::{BTreeMap, HashMap};

use super::Verdict;
use super::holds::{Hold, fence_of};
use crate::history::{History, LockAnswer, LockCall, Mode, Time, Write};

/// Judges all locks.
pub fn check(history: &History, holds: &BTreeMap<&str, Vec<Hold<'_>>>, verdict: &mut Verdict) {
    let mut ends = HashMap::new();
    for holds in holds.values() {
        lock(history, holds, &mut ends, verdict);
    }
    register(history, holds, &ends, verdict);
}

/// When a hold ended at the earliest: as promised, and for all that was lost.
#[derive(Clone, Copy)]
struct Ends {
    promised: Time,
    certain: Time,
    /// It was granted by a server that had been replaced, so it meant nothing.
    void: bool,
}

/// Judges one lock. A grant with a larger fence came later; so it must not have returned before the holds that it does not go
/// with can have ended. Nor can it have begun before that, which is what is known of one that waited.
fn lock<'a>(history: &History, holds: &'a [Hold<'a>], ends: &mut HashMap<(&'a str, i64), Ends>, verdict: &mut Verdict) {
    let faults = &history.faults;
    let mut before: Vec<(&Hold<'_>, Ends)> = vec![];
    for hold in holds {
        let began = before.iter().filter(|(other, _)| !goes_with(other.mode, hold.mode));
        let began = began.map(|(_, ends)| ends.certain).max().unwrap_or(0);
        let void = faults.losses.iter().any(|loss| loss.voids(hold.grant()));
        let own = Ends { promised: hold.promised(began), certain: hold.certain(began, faults), void };
        if void {
            verdict.holds_lost += 1;
        } else {
            together(hold, &before, verdict);
            vanished(history, hold, began, verdict);
        }
        // Nothing that is over by then can be in the way of anything later.
        before.retain(|(_, ends)| ends.promised.max(ends.certain) >= hold.grant().invoked);
        before.push((hold, own));
        ends.insert((hold.key, hold.fence), own);
    }
}

/// Judges a grant by the holds before it that may still last.
fn together(hold: &Hold<'_>, before: &[(&Hold<'_>, Ends)], verdict: &mut Verdict) {
    let returned = hold.grant().returned;
    let in_the_way = |(other, _): &&(&Hold<'_>, Ends)| !goes_with(other.mode, hold.mode);
    for (other, _) in before.iter().filter(in_the_way).filter(|(_, ends)| ends.certain > returned) {
        let what = format!("{} is held by {} and {} at once", hold.key, other.token, hold.token);
        verdict.blame("mutual exclusion", what, story(&[other, hold]));
    }
    let lost = |ends: &Ends| ends.promised > returned && ends.certain <= returned;
    verdict.holds_lost += before.iter().filter(in_the_way).filter(|(_, ends)| lost(ends)).count();
    if let Mode::Limit(most) = hold.mode {
        let permits =
            before.iter().filter(|(other, ends)| matches!(other.mode, Mode::Limit(_)) && ends.certain > returned);
        let permits: Vec<_> = permits.map(|(other, _)| *other).chain([hold]).collect();
        if permits.len() > most {
            let what = format!("{} has {} holders, of at most {most}", hold.key, permits.len());
            verdict.blame("permits", what, story(&permits));
        }
    }
}

fn goes_with(one: Mode, other: Mode) -> bool {
    matches!((one, other), (Mode::Shared, Mode::Shared) | (Mode::Limit(_), Mode::Limit(_)))
}

/// A holder that was told, within its lease, that it holds nothing.
fn vanished(history: &History, hold: &Hold<'_>, began: Time, verdict: &mut Verdict) {
    // Another request of the token that was asked before the grant was known may have been answered before it, too.
    let known = hold.grant().returned;
    for (place, op) in hold.ops.iter().enumerate().skip(hold.granted + 1).filter(|(_, op)| op.invoked >= known) {
        let gone = match (&op.call.call, op.answer()) {
            (LockCall::Release { .. }, Some(LockAnswer::Count(count))) => {
                if (1..op.call.keys.len()).contains(count) {
                    let what = format!("{} had only some of {:?}", hold.token, op.call.keys);
                    verdict.blame("all or none", what, story(&[hold]));
                }
                *count == 0
            }
            (LockCall::Extend { .. }, Some(LockAnswer::Count(0)))
            | (LockCall::Acquire { .. }, Some(LockAnswer::Null)) => true,
            (LockCall::Acquire { .. }, Some(LockAnswer::Granted(_))) => fence_of(op) != Some(hold.fence),
            _ => false,
        };
        if gone {
            if op.returned < hold.certain_before(began, &history.faults, place) {
                let what = format!("{} lost {} within its lease", hold.token, hold.key);
                verdict.blame("hold kept", what, story(&[hold]));
            }
            return;
        }
    }
}

/// Judges the registers: they refuse only a client that is not the holder any more. While there are two primaries the one that had been
/// replaced may give larger fences than the other; then the register serves the client that came there first, and never both.
fn register(
    history: &History,
    holds: &BTreeMap<&str, Vec<Hold<'_>>>,
    ends: &HashMap<(&str, i64), Ends>,
    verdict: &mut Verdict,
) {
    for write in history.writes.iter().filter(|write| !write.accepted) {
        let Some(end) = ends.get(&(write.key.as_str(), write.fence)) else { continue };
        let newer = |other: &&Write| other.key == write.key && other.fence > write.fence && other.at <= write.at;
        let newer = history.writes.iter().filter(newer).filter(|other| other.accepted);
        let counts = newer.filter_map(|other| ends.get(&(other.key.as_str(), other.fence))).any(|ends| !ends.void);
        if write.at >= end.promised {
            verdict.stale_caught += 1;
        } else if write.at >= end.certain || !counts {
            verdict.lost_caught += 1;
        } else {
            let of = holds.get(write.key.as_str()).into_iter().flatten().filter(|hold| hold.fence == write.fence);
            let mut story = story(&of.collect::<Vec<_>>());
            story.push(format!("{write:?}"));
            verdict.blame("fence of the holder", format!("{} was refused as stale", write.token), story);
        }
    }
}

/// The requests of these holds, in the order in which they were made.
fn story(holds: &[&Hold<'_>]) -> Vec<String> {
    let mut ops: Vec<_> = holds.iter().flat_map(|hold| &hold.ops).collect();
    ops.sort_by_key(|op| op.invoked);
    ops.iter().map(|op| format!("{op:?}")).collect()
}
