//! Requests that move the ends of holds.

use super::Engine;
use super::key_states::KeyState;
use super::multi::in_order;
use super::transition::Transition;
use super::visit::{Changed, Visit};
use crate::core::key::KeyRef;
use crate::core::lock::hold::{Claim, Hold, HoldRef};
use crate::core::lock::keyspace::{Found, Keyspace};
use crate::core::lock::terms::{Extension, LockError};
use crate::core::time::{Now, UnixMs};

impl Engine {
    /// Moves the end of the claimed hold; `false` if there is none.
    ///
    /// # Errors
    /// [`LockError::WrongType`] or [`LockError::LeaseTooLong`].
    pub fn extend<W: Keyspace>(
        &mut self,
        now: Now,
        at: KeyRef<'_>,
        claim: Claim<'_>,
        extension: Extension,
        keyspace: &mut W,
    ) -> Result<bool, LockError> {
        let end = now.ms.plus(extension.lease).ok_or(LockError::LeaseTooLong)?;
        let named = [at];
        let mut transition = Transition::command(self, keyspace, now, &named, claim);
        transition.settle(at);
        let extended = match transition.open(at) {
            None => Err(LockError::WrongType),
            Some(mut visit) => {
                visit.end_own_if_over(claim.token);
                let changed = visit.extend(claim, extension, end);
                let is_extended = changed.is_some();
                if let Some(changed) = changed {
                    visit.engine.heard_of(changed);
                }
                let closed = visit.close();
                transition.finish(at, closed);
                Ok(is_extended)
            }
        };
        transition.commit();
        extended
    }

    /// Moves the ends of the claimed holds of the locks of all `keys`; `false` if one of these does not have it, and then none is extended.
    ///
    /// # Errors
    /// [`LockError::LeaseTooLong`], or [`LockError::WrongType`] if any of the keys holds something else. Then none is extended either.
    pub fn extend_many<W: Keyspace>(
        &mut self,
        now: Now,
        db: i32,
        keys: &[&[u8]],
        claim: Claim<'_>,
        extension: Extension,
        keyspace: &mut W,
    ) -> Result<bool, LockError> {
        let end = now.ms.plus(extension.lease).ok_or(LockError::LeaseTooLong)?;
        let locks = in_order(db, keys);
        let mut transition = Transition::command(self, keyspace, now, &locks, claim);
        let states = transition.settled_states(&locks, claim.token);
        let extended = if states.contains(&KeyState::Foreign) {
            Err(LockError::WrongType)
        } else if !locks.iter().all(|at| transition.is_claimed(*at, claim)) {
            Ok(false)
        } else {
            transition.extend_all(&locks, claim, extension, end)
        };
        transition.commit();
        extended
    }
}

impl<W: Keyspace> Transition<'_, W> {
    fn is_claimed(&mut self, at: KeyRef<'_>, claim: Claim<'_>) -> bool {
        matches!(self.keyspace.find(at), Found::Lock(lock) if lock.claimed(claim).is_some())
    }

    /// Extends the claimed holds of all `locks`, or none of them if one is not there any more: see [`take_all`](super::take_all).
    fn extend_all(
        &mut self,
        locks: &[KeyRef<'_>],
        claim: Claim<'_>,
        extension: Extension,
        end: UnixMs,
    ) -> Result<bool, LockError> {
        let mut changes: Vec<Changed> = Vec::with_capacity(locks.len());
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
        let hold = self.lock.claimed(claim).map(HoldRef::to_hold)?;
        let deadline = if extension.only_later { hold.deadline.max(end) } else { end };
        Some(self.set_hold(self.lock.mode(), Hold { deadline, ..hold }))
    }
}
