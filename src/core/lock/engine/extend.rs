//! Requests that move the ends of holds.

use super::Engine;
use super::key_states::KeyState;
use super::lock_mut::Changed;
use super::transition::Transition;
use crate::core::key::KeyRef;
use crate::core::lock::claim::Claim;
use crate::core::lock::keyspace::{Found, Keyspace};
use crate::core::lock::terms::{Extension, LockError};
use crate::core::lock::value::{Hold, HoldRef};
use crate::core::time::{Now, UnixMs};

impl Extension {
    /// When the lease of a hold ends from now on, if `lease` from now is at `end`.
    fn deadline(self, hold: &Hold, end: UnixMs) -> UnixMs {
        if self.only_later { hold.deadline.max(end) } else { end }
    }
}

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
        let mut transition = self.command(now, &[at]);
        self.pardon(at, claim, keyspace);
        let (_, visit) = self.settle_then(&mut transition, at, keyspace, |engine, transition, open, _| {
            engine.end_own_if_over(transition, open, claim.token);
            let Some(hold) = claim.hold(open.lock).map(HoldRef::to_hold) else { return false };
            let deadline = extension.deadline(&hold, end);
            let changed = engine.set_hold(open, open.lock.mode(), Hold { deadline, ..hold });
            engine.heard_of(changed);
            true
        });
        self.finish_visit(&mut transition, at, visit, keyspace).ok_or(LockError::WrongType)
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
        let (mut transition, locks) = self.begin_many(now, db, keys, claim, keyspace);
        let states = self.settled_states(&mut transition, &locks, claim.token, keyspace);
        let is_claimed =
            |at: &KeyRef<'_>| matches!(keyspace.find(*at), Found::Lock(lock) if claim.hold(lock).is_some());
        let extended = if states.any(KeyState::Foreign) {
            Err(LockError::WrongType)
        } else if !locks.iter().all(is_claimed) {
            Ok(false)
        } else {
            self.extend_all(&mut transition, &locks, claim, extension, end, keyspace)
        };
        self.commit(&mut transition, keyspace);
        extended
    }

    /// Extends the claimed holds of all `locks`, or none of them if one is not there any more: see [`take_all`](super::take_all).
    fn extend_all<W: Keyspace>(
        &mut self,
        transition: &mut Transition,
        locks: &[KeyRef<'_>],
        claim: Claim<'_>,
        extension: Extension,
        end: UnixMs,
        keyspace: &mut W,
    ) -> Result<bool, LockError> {
        let mut changes: Vec<Changed> = Vec::with_capacity(locks.len());
        for at in locks {
            transition.step();
            let visit = self.visit(transition, *at, keyspace, |engine, _, open| {
                let hold = claim.hold(open.lock).map(HoldRef::to_hold)?;
                let deadline = extension.deadline(&hold, end);
                Some(engine.set_hold(open, open.lock.mode(), Hold { deadline, ..hold }))
            });
            let foreign = visit.is_none();
            let Some(changed) = visit.and_then(|visit| visit.result) else {
                for (at, before) in locks.iter().zip(changes.into_iter().filter_map(|changed| changed.before)) {
                    self.restore(transition, *at, before.hold.fence, Some(before), keyspace);
                }
                return if foreign { Err(LockError::WrongType) } else { Ok(false) };
            };
            changes.push(changed);
        }
        for changed in changes {
            self.heard_of(changed);
        }
        Ok(true)
    }
}
