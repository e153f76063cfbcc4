//! Fences: each grant of a lock has a larger one than every grant that was known before it was asked for.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Verdict;
use super::holds::fence_of;
use crate::history::{History, LockOp, Time};

/// One grant: the request that was first told of it, and when the token first asked.
struct Grant<'a> {
    op: &'a LockOp,
    token: &'a str,
    fence: i64,
    asked: Time,
}

/// Judges all locks.
pub fn check(history: &History, verdict: &mut Verdict) {
    let mut asked: HashMap<(&str, &str), Time> = HashMap::new();
    let mut granted: HashSet<(&str, &str, i64)> = HashSet::new();
    let mut locks: BTreeMap<&str, Vec<Grant<'_>>> = BTreeMap::new();
    for op in &history.locks {
        let Some(token) = op.call.call.token() else { continue };
        for key in &op.call.keys {
            let first = *asked.entry((key, token)).or_insert(op.invoked);
            let Some(fence) = fence_of(op) else { continue };
            // A token's own fence comes again when it renews.
            if granted.insert((key, token, fence)) {
                locks.entry(key).or_default().push(Grant { op, token, fence, asked: first });
            }
        }
    }
    for (key, grants) in locks {
        lock(key, &grants, verdict);
    }
}

fn lock(key: &str, grants: &[Grant<'_>], verdict: &mut Verdict) {
    let mut owners: HashMap<i64, &Grant<'_>> = HashMap::new();
    for grant in grants {
        if let Some(owner) = owners.insert(grant.fence, grant)
            && owner.token != grant.token
        {
            let story = vec![format!("{:?}", owner.op), format!("{:?}", grant.op)];
            verdict.blame("fence used once", format!("{} at {key}", grant.fence), story);
        }
    }
    let mut known: Vec<&Grant<'_>> = grants.iter().collect();
    known.sort_by_key(|grant| grant.op.returned);
    let mut asked: Vec<&Grant<'_>> = grants.iter().collect();
    asked.sort_by_key(|grant| grant.asked);
    let (mut known, mut largest) = (known.into_iter().peekable(), None::<&Grant<'_>>);
    for grant in asked {
        while let Some(earlier) = known.next_if(|earlier| earlier.op.returned < grant.asked) {
            if largest.is_none_or(|largest| largest.fence < earlier.fence) {
                largest = Some(earlier);
            }
        }
        if let Some(largest) = largest
            && largest.fence >= grant.fence
        {
            let story = vec![format!("{:?}", largest.op), format!("{:?}", grant.op)];
            verdict.blame("fences rise", format!("{} after {} at {key}", grant.fence, largest.fence), story);
        }
    }
}
