//! The journal: after the write of a newer holder there is none of an older one.

use super::Verdict;
use crate::history::History;

/// Judges what the value has at the end: the fence of each write, in the order in which the server has them.
pub fn check(history: &History, verdict: &mut Verdict) {
    verdict.stale_caught += history.stopped;
    for pair in history.journal.windows(2) {
        if let [newer, older] = pair
            && older < newer
        {
            verdict.blame("no late write", format!("a write with fence {older} after one with {newer}"), vec![]);
        }
    }
}
