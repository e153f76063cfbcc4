//! Guarded commands: those that run only while a token holds a lock.

use super::Engine;
use crate::core::lock::hold::Claim;
use crate::core::lock::stats::count;
use crate::core::lock::value::Lock;
use crate::core::time::Now;

impl Engine {
    /// Whether `lock` has the claimed hold at `now`, in any mode; a refusal is counted.
    ///
    /// Changes no hold. A hold that has ended but is not removed yet does not count.
    pub fn guards(&mut self, now: Now, lock: Option<&Lock>, claim: Claim<'_>) -> bool {
        let held = lock
            .and_then(|lock| self.standing_hold(lock, lock.hold(claim.token)?))
            .is_some_and(|(_, hold)| !hold.deadline.reached(now.ms) && claim.admits(hold.fence));
        if !held {
            count(&mut self.stats.guards_refused);
        }
        held
    }

    /// Counts a guarded command that ran.
    pub fn guarded(&mut self) {
        count(&mut self.stats.guards);
    }
}
