//! Taking the keys of one request: all of them or none.
//!
//! The server notifies listeners of other modules at once when a key is created, and when an opened key turns out to have expired. These
//! listeners may replace a lock that was already checked. So each lock is checked again when it is taken.

use super::key_states::{KeyState, one_fence};
use super::transition::Transition;
use super::visit::Changed;
use crate::core::fence::Fence;
use crate::core::key::KeyRef;
use crate::core::lock::hold::Hold;
use crate::core::lock::keyspace::Keyspace;
use crate::core::lock::notes::Before;
use crate::core::lock::terms::{EndReason, Grant, LockError, Mode, Request};
use crate::core::lock::value::Lock;
use crate::core::time::UnixMs;

/// A grant of many keys, while it is written to each of them.
struct ManyGrant<'a> {
    request: &'a Request,
    fence: Fence,
    deadline: UnixMs,
    /// Whether it renews an earlier grant, whose fence and sessions stay.
    renews: bool,
}

/// Why no key was taken.
pub(super) enum NotTaken<'a> {
    Failed(LockError),
    /// Another token holds this key, or waits for it in front.
    Obstacle(KeyRef<'a>),
    /// This key is not available any more.
    Lost(KeyRef<'a>, KeyState),
}

impl ManyGrant<'_> {
    /// Whether a key in this state can be taken.
    fn fits(&self, state: KeyState) -> bool {
        if self.renews { state == KeyState::Own(self.fence) } else { state.is_open() }
    }

    /// The token's hold of `lock` from now on.
    fn hold(&self, lock: &Lock) -> Hold {
        let token = self.request.token.clone();
        let before = lock.hold(&token).filter(|_| self.renews).and_then(|hold| hold.session);
        let session = if self.request.session { self.request.client } else { before };
        Hold { token, fence: self.fence, deadline: self.deadline, limit: 0, session }
    }
}

impl<W: Keyspace> Transition<'_, W> {
    /// Gives the token all `locks`. If it holds all of them from one grant, that grant is renewed: fence and sessions stay. Otherwise it
    /// is a new grant in every respect, also for keys that the token already held.
    ///
    /// Each key is checked once more. If one is not available any more, nothing is taken.
    pub(super) fn take_all<'k>(
        &mut self,
        locks: &[KeyRef<'k>],
        states: &[KeyState],
        request: &Request,
    ) -> Result<(Grant, Vec<Changed>), NotTaken<'k>> {
        self.course.progress();
        let (now, renewed) = (self.course.now, one_fence(states));
        let fence = renewed.map_or_else(|| self.engine.issue(now), Ok).map_err(NotTaken::Failed)?;
        let deadline = now.ms.plus(request.lease).unwrap_or(UnixMs::MAX);
        let all = ManyGrant { request, fence, deadline, renews: renewed.is_some() };
        let mut changes = Vec::with_capacity(locks.len());
        for at in locks {
            match self.take_one(*at, &all) {
                Ok(changed) => changes.push(changed),
                Err(state) => {
                    for (at, changed) in locks.iter().zip(changes) {
                        self.give_back(*at, &all, changed);
                    }
                    return Err(NotTaken::Lost(*at, state));
                }
            }
        }
        Ok((Grant { token: request.token.clone(), fence, lease: deadline.left(now.ms) }, changes))
    }

    /// Gives the token the lock at `at`, one of the keys of `all`. If it is not available any more, returns its state.
    fn take_one(&mut self, at: KeyRef<'_>, all: &ManyGrant<'_>) -> Result<Changed, KeyState> {
        self.course.step();
        let Some(mut visit) = self.open(at) else { return Err(KeyState::Foreign) };
        let state = visit.lock.key_state(&all.request.token);
        let taken = if all.fits(state) {
            let hold = all.hold(visit.lock);
            let changed = visit.set_hold(Mode::Exclusive, hold);
            if !all.renews {
                visit.look_at_own(&all.request.token);
            }
            Ok(changed)
        } else {
            Err(state)
        };
        let closed = visit.close();
        self.keep(at, closed);
        taken
    }

    /// Undoes one key of a grant that failed on another key.
    fn give_back(&mut self, at: KeyRef<'_>, all: &ManyGrant<'_>, Changed { entry, before }: Changed) {
        let earlier = if all.renews {
            before
        } else {
            // Revoked as if its connection had ended: the next visit takes it back, under whatever key the lock is then.
            self.engine.notes.keep_before((entry, all.fence), before);
            self.engine.revoke((entry, all.fence), EndReason::Undelivered);
            None
        };
        self.restore(at, all.fence, earlier);
    }

    /// Puts the hold `fence` of the lock at `at` back to what it was `before`, if it is still there.
    pub(super) fn restore(&mut self, at: KeyRef<'_>, fence: Fence, before: Option<Before>) {
        let Some(mut visit) = self.open(at) else { return };
        if let Some(before) = before
            && visit.lock.hold_of(fence).is_some()
        {
            let _ = visit.set_hold(before.mode, before.hold);
        }
        let closed = visit.close();
        self.keep(at, closed);
    }
}
