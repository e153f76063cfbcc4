//! Grants whose replies were lost, and whose tokens send another command over another connection.
//!
//! Such a grant stands if the command uses its hold and succeeds. Otherwise it is left to be taken back.

use std::slice;

use smallvec::SmallVec;

use super::transition::Transition;
use crate::core::key::KeyRef;
use crate::core::lock::hold::{Claim, HoldRef};
use crate::core::lock::keyspace::{Found, Keyspace};
use crate::core::lock::notes::HoldId;
use crate::core::lock::terms::{Mode, Request};

/// A claimed hold.
pub(super) struct Claimed {
    id: HoldId,
    mode: Mode,
    /// Whether it is a lost grant that has replaced a hold of its token, which is restored when the grant is taken back.
    pub(super) replaces: bool,
}

impl<W: Keyspace> Transition<'_, W> {
    /// Adopts the holds of the token on `locks` if `request` renews them.
    pub(super) fn adopt_same(&mut self, locks: &[KeyRef<'_>], request: &Request) {
        let mode = request.mode.mode();
        self.adopt(locks, Claim::of(&request.token), |held| {
            let first = held.first().map(|first| first.id.1);
            held.iter().all(|held| held.mode == mode && Some(held.id.1) == first)
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
    pub(super) fn adopt(&mut self, locks: &[KeyRef<'_>], claim: Claim<'_>, such: impl FnOnce(&[Claimed]) -> bool) {
        if !self.engine.notes.any_revoked() {
            return;
        }
        let held = locks.iter().map(|at| self.claimed(*at, claim)).collect::<Option<SmallVec<[_; 1]>>>();
        for Claimed { id, .. } in held.filter(|held| such(held)).into_iter().flatten() {
            self.engine.notes.pardon(id);
        }
    }

    /// The claimed hold of the lock at `at`, unless it is over by its lease or its session.
    fn claimed(&mut self, at: KeyRef<'_>, claim: Claim<'_>) -> Option<Claimed> {
        let Self { engine, keyspace, course, .. } = self;
        let Found::Lock(lock) = keyspace.find(at) else { return None };
        engine.register(at, lock);
        let is_live = |hold: &HoldRef<'_>| !hold.deadline.reached(course.now.ms);
        let hold = lock.claimed(claim).filter(is_live)?;
        let id = (lock.deadline_id()?, hold.fence);
        let standing = engine.standing_hold(lock, hold).map(|(_, standing)| standing).filter(is_live);
        let replaces = standing.is_some_and(|standing| standing.fence != hold.fence);
        (!engine.notes.is_disconnected(id)).then_some(Claimed { id, mode: lock.mode(), replaces })
    }
}
