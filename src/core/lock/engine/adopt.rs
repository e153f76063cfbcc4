//! Grants whose replies were lost, and whose tokens send another command over another connection.
//!
//! Such a grant stands if the command uses its hold and succeeds. Otherwise it is left to be taken back.

use std::slice;

use smallvec::SmallVec;

use super::transition::Transition;
use crate::core::fence::Fence;
use crate::core::key::KeyRef;
use crate::core::lock::hold::Claim;
use crate::core::lock::keyspace::{Found, Keyspace};
use crate::core::lock::notes::HoldId;
use crate::core::lock::terms::{Mode, Request};

impl<W: Keyspace> Transition<'_, W> {
    /// Adopts the holds of the token on `locks` if `request` renews them.
    pub(super) fn adopt_same(&mut self, locks: &[KeyRef<'_>], request: &Request) {
        let mode = request.mode.mode();
        self.adopt(locks, Claim::of(&request.token), |held| {
            held.iter().all(|(_, as_now)| *as_now == mode)
                && held.windows(2).all(|two| fence(two.first()) == fence(two.last()))
        });
    }

    /// Adopts each claimed hold of `locks`, unless one of the keys holds a value of another type.
    pub(super) fn adopt_each(&mut self, locks: &[KeyRef<'_>], claim: Claim<'_>) {
        if self.engine.notes.any_revoked() && !locks.iter().any(|at| self.is_foreign(*at)) {
            for at in locks {
                self.adopt(slice::from_ref(at), claim, |_| true);
            }
        }
    }

    /// Adopts the claimed holds of `locks` if each of them has one, and they are `such`.
    pub(super) fn adopt(
        &mut self,
        locks: &[KeyRef<'_>],
        claim: Claim<'_>,
        such: impl FnOnce(&[(HoldId, Mode)]) -> bool,
    ) {
        if !self.engine.notes.any_revoked() {
            return;
        }
        let held = locks.iter().map(|at| self.claimed(*at, claim)).collect::<Option<SmallVec<[_; 1]>>>();
        for (hold, _) in held.filter(|held| such(held)).into_iter().flatten() {
            self.engine.notes.pardon(hold);
        }
    }

    /// The claimed hold of the lock at `at`, and its mode, unless it is over by its lease or its session.
    fn claimed(&mut self, at: KeyRef<'_>, claim: Claim<'_>) -> Option<(HoldId, Mode)> {
        let Found::Lock(lock) = self.keyspace.find(at) else { return None };
        let hold = lock.claimed(claim).filter(|hold| !hold.deadline.reached(self.course.now.ms))?;
        let id = (lock.deadline_id()?, hold.fence);
        (!self.engine.notes.is_disconnected(id)).then_some((id, lock.mode()))
    }
}

fn fence(held: Option<&(HoldId, Mode)>) -> Option<Fence> {
    held.map(|((_, fence), _)| *fence)
}
