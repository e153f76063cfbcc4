//! Requests for many keys: exclusive locks on all of them or on none, with one fence. One for a single key is like any other for that key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Engine;
use super::key_states::KeyState;
use super::take_all::NotTaken;
use super::transition::Transition;
use crate::core::id::Ident;
use crate::core::key::{KeyBuf, KeyRef};
use crate::core::lock::keyspace::Keyspace;
use crate::core::lock::stats::HandoverCause;
use crate::core::lock::terms::{Acquired, Grant, LockError, Request, Wait, WaitResult, WaiterId};
use crate::core::lock::waiter::QueueId;
use crate::core::time::Now;

/// All `keys` of the database `db` in order, each once.
pub fn in_order<'k>(db: i32, keys: &[&'k [u8]]) -> Vec<KeyRef<'k>> {
    let keys: BTreeSet<&[u8]> = keys.iter().copied().collect();
    keys.into_iter().map(|key| KeyRef { db, key }).collect()
}

impl Engine {
    /// Asks for all these locks, which are [`in_order`], exclusively.
    ///
    /// A key that the token already holds is no obstacle, even if others wait for it. For the others the request waits in every queue with the
    /// same ticket. O(k log n) for k keys.
    ///
    /// # Errors
    /// See [`LockError`].
    pub fn acquire_many<W: Keyspace>(
        &mut self,
        now: Now,
        locks: &[KeyRef<'_>],
        request: &Request,
        keyspace: &mut W,
    ) -> Result<Acquired, LockError> {
        if let [at] = locks {
            return self.acquire(now, *at, request, keyspace);
        }
        now.ms.plus(request.lease).ok_or(LockError::LeaseTooLong)?;
        if locks.iter().any(|at| keyspace.has_moved(*at)) {
            return Err(LockError::Moved);
        }
        let mut transition = Transition::command(self, keyspace, now, locks);
        transition.adopt_same(locks, request);
        let states = transition.settled_states(locks, &request.token);
        let taken = transition.take_now(locks, &states, request);
        transition.serve();
        let answer = match taken {
            Ok(grant) => Ok(Acquired::Granted(grant)),
            Err(NotTaken::Failed(error)) => Err(error),
            Err(NotTaken::Obstacle(at)) => Ok(transition.wait(locks, Some(at), request, false)),
            Err(NotTaken::Lost(at, state)) => {
                let answer = state.error().map_or_else(|| Ok(transition.wait(locks, Some(at), request, false)), Err);
                // The lock may be free again already.
                transition.engine.look_later_at(at);
                answer
            }
        };
        // Only now: a lock that is empty may be handed to the request behind this one, which has joined the line at the end.
        transition.commit();
        answer
    }
}

impl<W: Keyspace> Transition<'_, W> {
    /// Settles all keys, and then looks how each of them stands for the token.
    pub(super) fn settled_states(&mut self, locks: &[KeyRef<'_>], token: &Ident) -> Vec<KeyState> {
        for at in locks {
            self.settle(*at);
        }
        locks.iter().map(|at| self.key_state(*at, token)).collect()
    }

    /// The state of the lock at `at`, after removing ended holds there.
    fn key_state(&mut self, at: KeyRef<'_>, token: &Ident) -> KeyState {
        let Some(mut visit) = self.open(at) else { return KeyState::Foreign };
        visit.end_own_if_over(token);
        let state = visit.lock.key_state(token);
        let closed = visit.close();
        self.keep(at, closed);
        state
    }

    /// Grants the request all `locks`, if they are free and no waiter is in front of it.
    fn take_now<'k>(
        &mut self,
        locks: &[KeyRef<'k>],
        states: &[KeyState],
        request: &Request,
    ) -> Result<Grant, NotTaken<'k>> {
        let unfit = [KeyState::Foreign, KeyState::OtherMode].into_iter().find(|state| states.contains(state));
        if let Some(error) = unfit.and_then(KeyState::error) {
            return Err(NotTaken::Failed(error));
        }
        let (asked, engine) = (request.for_keys(locks), &*self.engine);
        let ticket = engine.ticket_of(self.course.now.ms, asked, &request.wait);
        let is_mine = |at: KeyRef<'_>| engine.waiting.at(at).is_none_or(|queue| engine.is_first(queue, ticket));
        let is_obstacle = |(at, state): &(&KeyRef<'_>, &KeyState)| match state {
            KeyState::Own(_) => false,
            KeyState::Free => !is_mine(**at),
            _ => true,
        };
        if let Some((at, _)) = locks.iter().zip(states).find(is_obstacle) {
            return Err(NotTaken::Obstacle(*at));
        }
        let (grant, changes) = self.take_all(locks, states, request)?;
        for changed in changes {
            self.engine.heard_of(changed);
        }
        if request.wait != Wait::No {
            self.engine.vacant_places.take_up(asked);
        }
        // This answer also settles an earlier identical request of the token, so that one need not wait any more.
        if let Some(earlier) = self.engine.same_request(asked)
            && let Some(departed) = self.engine.waiting.leave(self.course.now.ms, earlier)
            && !request.repeats(&departed.waiter.request)
        {
            departed.waiter.request.wait.tell(earlier, WaitResult::Replaced, self.keyspace);
        }
        Ok(grant)
    }

    /// Grants the request `waiter` for many keys if it is first in line for each key and each key is free, except keys that its token
    /// already holds. Returns whether it was granted. If not, one of the keys that it cannot have becomes its obstacle.
    pub(super) fn grant_multi(&mut self, waiter: WaiterId) -> bool {
        let Some((keys, states, cause)) = self.free_keys(waiter) else { return false };
        let Some(request) = self.engine.waiting.waiter(waiter).map(|waiter| waiter.request.clone()) else {
            return false;
        };
        let locks: Vec<KeyRef<'_>> = keys.iter().map(|key| key.as_key()).collect();
        let taken = self.take_all(&locks, &states, &request);
        if let Err(NotTaken::Lost(at, state)) = taken {
            self.stay_in_line(waiter, at, state);
            return false;
        }
        let place = self.engine.place_of(waiter);
        let Some(departed) = self.engine.waiting.leave(self.course.now.ms, waiter) else { return false };
        let answer = match taken {
            Ok((grant, changes)) => {
                self.engine.stats.handed_over(cause);
                self.engine.note_grant(waiter, departed.waiter.parked(), grant.fence, place, changes);
                WaitResult::Granted(grant)
            }
            Err(NotTaken::Failed(error)) => {
                self.course.work.extend(departed.headed);
                WaitResult::Failed(error)
            }
            Err(NotTaken::Obstacle(_) | NotTaken::Lost(..)) => return false,
        };
        departed.waiter.request.wait.tell(waiter, answer, self.keyspace);
        true
    }

    /// The keys of the request `waiter` for many keys, their states, and why they are available; `None` if it cannot have one of them.
    ///
    /// The current obstacle is checked first, because usually it is still there.
    fn free_keys(&mut self, waiter: WaiterId) -> Option<(Vec<Arc<KeyBuf>>, Vec<KeyState>, HandoverCause)> {
        let parked = self.engine.waiting.waiter(waiter)?;
        // Looking at the next lock forgets why this one was available.
        let (token, mut over) = (parked.request.token.clone(), self.course.over);
        let queues: Vec<_> = parked.obstacle.into_iter().chain(parked.scope.queues().iter().copied()).collect();
        let mut states = Vec::with_capacity(queues.len());
        let mut keys: BTreeMap<QueueId, Arc<KeyBuf>> = BTreeMap::new();
        for queue in queues {
            let key = self.engine.waiting.queue(queue)?.key.clone();
            if keys.insert(queue, key.clone()).is_some() {
                continue;
            }
            self.course.step();
            if !self.may_grant(key.as_key()) {
                self.block_multi_at(waiter, queue);
                self.put_off(queue);
                return None;
            }
            let state = self.key_state(key.as_key(), &token);
            states.push(state);
            over = over.or(self.course.over);
            let is_first = self.engine.waiting.head(queue) == Some(waiter);
            if state == KeyState::Foreign {
                self.refuse_all(queue);
            }
            if !(matches!(state, KeyState::Own(_)) || (is_first && state == KeyState::Free)) {
                self.block_multi_at(waiter, queue);
                return None;
            }
        }
        Some((keys.into_values().collect(), states, over.unwrap_or(self.course.cause)))
    }

    /// The request `waiter` for many keys cannot have that of `queue`.
    fn block_multi_at(&mut self, waiter: WaiterId, queue: QueueId) {
        self.course.blocked_multi.insert(waiter);
        self.engine.waiting.block_multi_at(waiter, queue);
    }

    /// The request `waiter` for many keys was about to be granted, but the lock at `at` is not available any more.
    fn stay_in_line(&mut self, waiter: WaiterId, at: KeyRef<'_>, state: KeyState) {
        let Some(queue) = self.engine.waiting.at(at) else { return };
        if state == KeyState::Foreign {
            self.refuse_all(queue);
        }
        self.block_multi_at(waiter, queue);
        // The lock may be free again already.
        self.engine.look_later_at(at);
    }
}
