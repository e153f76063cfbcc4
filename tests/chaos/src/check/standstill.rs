//! Moments in which nobody heard anything from any server, and nothing had been done to them: the machine was busy elsewhere,
//! most of all its disk, or a server was with itself.

use super::Verdict;
use crate::history::{Fault, History, Time, millis, seconds};

/// What it is called in the table.
const KIND: &str = "standstill of the machine";

/// With thousands of requests a second, this is no coincidence.
const NOTABLE: Time = millis(300);

/// A machine that stands still for longer is not fit to run tests.
const MOST: Time = millis(3_000);

/// Finds them. Answers may be late on account of them as on account of a fault.
pub fn find(history: &History) -> Vec<Fault> {
    let locks = history.locks.iter().map(|op| (op.invoked, op.returned));
    let (invoked, mut returned): (Vec<Time>, Vec<Time>) =
        locks.chain(history.orders.iter().map(|op| (op.invoked, op.returned))).unzip();
    returned.extend(&history.beats);
    returned.sort_unstable();
    // A client that still waits when the others have left gets no reply for a while.
    let last = invoked.into_iter().max().unwrap_or(0);
    let gaps = returned.windows(2).map(|pair| (pair[0], pair[1])).filter(|(from, to)| to - from > NOTABLE);
    let calm = gaps.filter(|(from, to)| *from < last && history.faults.disturbed_until(*from, *to).is_none());
    calm.map(|(from, to)| Fault { kind: KIND.into(), from, to, client: None }).collect()
}

/// Judges how long they were.
pub fn check(history: &History, verdict: &mut Verdict) {
    for fault in history.faults.all.iter().filter(|fault| fault.kind == KIND && fault.to - fault.from > MOST) {
        let what = format!("nobody heard anything from {} to {}", seconds(fault.from), seconds(fault.to));
        verdict.blame("standstill", what, vec![]);
    }
}
