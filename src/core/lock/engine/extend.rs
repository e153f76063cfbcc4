//! Requests that move the ends of holds.

use smallvec::SmallVec;

use super::Engine;
use super::key_states::KeyState;
use super::transition::Transition;
use super::visit::{Changed, Visit};
use crate::core::key::KeyRef;
use crate::core::lock::hold::{Claim, Hold, HoldRef};
use crate::core::lock::keyspace::{Found, Keyspace};
use crate::core::lock::terms::{Extension, LockError};
use crate::core::time::{Now, UnixMs};

impl Engine {
    /// Moves the ends of the claimed holds of these locks, which are [`in_order`](super::in_order); `false` if one of them does not have it,
    /// and then none is extended.
    ///
    /// # Errors
    /// [`LockError::LeaseTooLong`], or [`LockError::WrongType`] if any of the keys holds something else. Then none is extended either.
    pub fn extend<W: Keyspace>(
        &mut self,
        now: Now,
        locks: &[KeyRef<'_>],
        claim: Claim<'_>,
        extension: Extension,
        keyspace: &mut W,
    ) -> Result<bool, LockError> {
        let end = now.ms.plus(extension.lease).ok_or(LockError::LeaseTooLong)?;
        let mut transition = Transition::command(self, keyspace, now, locks);
        // Without a fence the token means the hold that it knows. If a lost grant has replaced that hold, the hold is restored and extended.
        transition.adopt(locks, claim, |held| claim.fence.is_some() || !held.iter().any(|held| held.replaces));
        let extended = match transition.are_claimed(locks, claim) {
            Ok(true) => transition.extend_all(locks, claim, extension, end),
            not_claimed => not_claimed,
        };
        transition.commit();
        extended
    }
}

impl<W: Keyspace> Transition<'_, W> {
    /// Settles the keys; whether each of several has the claimed hold. Of a single one it is found out when it is extended.
    fn are_claimed(&mut self, locks: &[KeyRef<'_>], claim: Claim<'_>) -> Result<bool, LockError> {
        if let [at] = locks {
            self.settle(*at);
            return Ok(true);
        }
        if self.settled_states(locks, claim.token).contains(&KeyState::Foreign) {
            return Err(LockError::WrongType);
        }
        let mut is_claimed = |at| matches!(self.keyspace.find(at), Found::Lock(lock) if lock.claimed(claim).is_some());
        Ok(locks.iter().all(|at| is_claimed(*at)))
    }

    /// Extends the claimed holds of all `locks`, or none of them if one is not there any more: see [`take_all`](super::take_all).
    fn extend_all(
        &mut self,
        locks: &[KeyRef<'_>],
        claim: Claim<'_>,
        extension: Extension,
        end: UnixMs,
    ) -> Result<bool, LockError> {
        let mut changes: SmallVec<[Changed; 1]> = SmallVec::new();
        for at in locks {
            self.course.step();
            let extended = match self.open(*at) {
                None => Err(LockError::WrongType),
                Some(mut visit) => {
                    let changed = visit.extend(claim, extension, end);
                    let closed = visit.close();
                    self.keep(*at, closed);
                    Ok(changed)
                }
            };
            match extended {
                Ok(Some(changed)) => changes.push(changed),
                not_extended => {
                    for (at, before) in locks.iter().zip(changes.into_iter().filter_map(|changed| changed.before)) {
                        self.restore(*at, before.hold.fence, Some(before));
                    }
                    return not_extended.map(|_| false);
                }
            }
        }
        for changed in changes {
            self.engine.heard_of(changed);
        }
        Ok(true)
    }
}

impl Visit<'_> {
    /// Moves the end of the claimed hold, whose lease would end at `end`; `None` if there is none.
    fn extend(&mut self, claim: Claim<'_>, extension: Extension, end: UnixMs) -> Option<Changed> {
        self.end_own_if_over(claim.token);
        let hold = self.lock.claimed(claim).map(HoldRef::to_hold)?;
        let deadline = if extension.only_later { hold.deadline.max(end) } else { end };
        Some(self.set_hold(self.lock.mode(), Hold { deadline, ..hold }))
    }
}
