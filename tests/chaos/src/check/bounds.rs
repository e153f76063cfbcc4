//! What was measured stays within its bounds, servers live, and errors have a reason.

use super::Verdict;
use crate::history::{History, Op, Outcome, seconds};

/// The first words of an error with a known cause: the cluster's, the memory's, the disk's, the administrator's, or a new primary's.
const REASONS: [&str; 15] = [
    "no connection",
    "ASK ",
    "CANCELLED ",
    "CLUSTERDOWN ",
    "LOADING ",
    "MASTERDOWN ",
    "MISCONF ",
    "MOVED ",
    "NOREPLICAS ",
    "OOM ",
    "READONLY ",
    "REDIRECT ",
    "TRYAGAIN ",
    "UNBLOCKED ",
    "WRONGTYPE ",
];

/// Judges the whole history.
pub fn check(history: &History, verdict: &mut Verdict) {
    for crash in &history.crashes {
        let story = crash.log.lines().map(str::to_owned).collect();
        verdict.blame("the server lives", format!("the server at {} crashed", crash.server), story);
    }
    for measure in history.measures.iter().filter(|measure| measure.value > measure.most) {
        let what =
            format!("{} of at most {} {}, at {}", measure.value, measure.most, measure.what, seconds(measure.at));
        verdict.blame("bounds", what, vec![]);
    }
    history.locks.iter().for_each(|op| explained(op, verdict));
    history.orders.iter().for_each(|op| explained(op, verdict));
}

/// The clients ask for nothing that is wrong in itself, so no error may say so.
fn explained<C, A>(op: &Op<C, A>, verdict: &mut Verdict)
where
    Op<C, A>: std::fmt::Debug,
{
    if let Outcome::Refused(text) = &op.outcome
        && !REASONS.iter().any(|reason| text.starts_with(reason))
    {
        verdict.blame("errors have a reason", text.clone(), vec![format!("{op:?}")]);
    }
}
