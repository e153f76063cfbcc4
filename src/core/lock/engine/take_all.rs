//! Taking the keys of one request: all of them or none.
//!
//! The server notifies listeners of other modules at once when a key is created, and when an opened key turns out to have expired. These
//! listeners may replace a lock that was already checked. So each lock is checked again when it is taken.

use std::sync::Arc;

use super::Engine;
use super::key_states::{KeyState, KeyStates};
use super::lock_mut::Changed;
use super::transition::Transition;
use crate::core::fence::Fence;
use crate::core::key::KeyRef;
use crate::core::lock::keyspace::Keyspace;
use crate::core::lock::replaced::Before;
use crate::core::lock::terms::{ClientId, EndReason, Grant, LockError, Mode, Request};
use crate::core::lock::value::{Hold, Lock};
use crate::core::time::UnixMs;

/// A grant of many keys, while it is written to each of them.
struct ManyGrant<'a> {
    request: &'a Request,
    client: Option<ClientId>,
    fence: Fence,
    deadline: UnixMs,
    /// Whether it renews an earlier grant, whose fence and sessions stay.
    renews: bool,
}

/// Why no key was taken.
pub(super) enum NotTaken<'a> {
    Failed(LockError),
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
        let session = if self.request.session { self.client } else { before };
        Hold { token, fence: self.fence, deadline: self.deadline, limit: 0, session }
    }
}

impl Engine {
    /// Gives the token all `places`. If it holds all of them from one grant, that grant is renewed: fence and sessions stay. Otherwise it
    /// is a new grant in every respect, also for keys that the token already held.
    ///
    /// Each key is checked once more. If one is not available any more, nothing is taken.
    pub(super) fn take_all<'a, W: Keyspace>(
        &mut self,
        transition: &mut Transition,
        locks: &[KeyRef<'a>],
        states: &KeyStates,
        client: Option<ClientId>,
        request: &Request,
        keyspace: &mut W,
    ) -> Result<(Grant, Vec<Changed>), NotTaken<'a>> {
        transition.progress();
        let renewed = states.one_fence();
        let fence = renewed.map_or_else(|| self.issue(transition), Ok).map_err(NotTaken::Failed)?;
        let deadline = transition.now.ms.plus(request.lease).unwrap_or(UnixMs::MAX);
        let all = ManyGrant { request, client, fence, deadline, renews: renewed.is_some() };
        let mut changes = Vec::with_capacity(locks.len());
        for at in locks {
            match self.take_one(transition, *at, &all, keyspace) {
                Ok(changed) => changes.push(changed),
                Err(state) => {
                    for (at, changed) in locks.iter().zip(changes) {
                        self.give_back(transition, *at, &all, changed, keyspace);
                    }
                    return Err(NotTaken::Lost(*at, state));
                }
            }
        }
        Ok((Grant { token: request.token.clone(), fence, lease: deadline.left(transition.now.ms) }, changes))
    }

    /// Gives the token the lock at `at`, one of the keys of `all`. If it is not available any more, returns its state.
    fn take_one<W: Keyspace>(
        &mut self,
        transition: &mut Transition,
        at: KeyRef<'_>,
        all: &ManyGrant<'_>,
        keyspace: &mut W,
    ) -> Result<Changed, KeyState> {
        transition.step();
        let visit = self.visit(transition, at, keyspace, |engine, _, open| {
            let state = open.lock.key_state(&all.request.token);
            if !all.fits(state) {
                return Err(state);
            }
            let hold = all.hold(open.lock);
            Ok(engine.set_hold(open, Mode::Exclusive, hold))
        });
        let Some(visit) = visit else { return Err(KeyState::Foreign) };
        transition.emptied.extend(visit.emptied.map(|_| Arc::new(at.to_buf())));
        if !all.renews && visit.result.is_ok() {
            self.look_at_own(transition, at, &all.request.token);
        }
        visit.result
    }

    /// Undoes one key of a grant that failed on another key.
    fn give_back<W: Keyspace>(
        &mut self,
        transition: &mut Transition,
        at: KeyRef<'_>,
        all: &ManyGrant<'_>,
        changed: Changed,
        keyspace: &mut W,
    ) {
        let Changed { entry, before } = changed;
        let earlier = if all.renews {
            before
        } else {
            // Revoked as if its connection had ended: the next visit takes it back, under whatever key the lock is then.
            self.keep_replaced(entry, all.fence, before);
            self.revoke(entry, all.fence, EndReason::Undelivered);
            None
        };
        self.restore(transition, at, all.fence, earlier, keyspace);
    }

    /// Puts the hold `fence` of the lock at `at` back to what it was `before`, if it is still there.
    pub(super) fn restore<W: Keyspace>(
        &mut self,
        transition: &mut Transition,
        at: KeyRef<'_>,
        fence: Fence,
        before: Option<Before>,
        keyspace: &mut W,
    ) {
        let visit = self.visit(transition, at, keyspace, |engine, _, open| {
            if let Some(before) = before
                && open.lock.hold_of(fence).is_some()
            {
                let _ = engine.set_hold(open, before.mode, before.hold);
            }
        });
        transition.emptied.extend(visit.and_then(|visit| visit.emptied).map(|_| Arc::new(at.to_buf())));
    }
}
