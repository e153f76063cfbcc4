//! Requests for many keys: exclusive locks on all of them or on none, with one fence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Engine;
use super::key_states::{KeyState, KeyStates};
use super::lock_mut::Changed;
use super::take_all::NotTaken;
use super::transition::Transition;
use crate::core::id::Ident;
use crate::core::key::{KeyBuf, KeyRef};
use crate::core::lock::claim::Claim;
use crate::core::lock::keyspace::{Found, Keyspace};
use crate::core::lock::terms::{Acquired, ClientId, LockError, Request, Wait, WaitResult, WaiterId};
use crate::core::lock::tickets::Ticket;
use crate::core::lock::unacked::UnackedGrant;
use crate::core::lock::waiter::{Departed, QueueId};
use crate::core::time::Now;

impl Engine {
    /// Asks for the locks of all `keys` of the database `db`, exclusively, for `client`. A key named twice counts once.
    ///
    /// A key that the token already holds is no obstacle, whoever waits for it. For the others the request waits in every queue with the
    /// same ticket. O(k log n) for k keys.
    ///
    /// # Errors
    /// See [`LockError`].
    #[expect(clippy::too_many_arguments, reason = "one request in one situation")]
    pub fn acquire_many<W: Keyspace>(
        &mut self,
        now: Now,
        db: i32,
        keys: &[&[u8]],
        client: ClientId,
        request: &Request,
        wait: Wait<'_>,
        keyspace: &mut W,
    ) -> Result<Acquired, LockError> {
        now.ms.plus(request.lease).ok_or(LockError::LeaseTooLong)?;
        let (mut transition, locks) = self.begin_many(now, db, keys, Claim::of(&request.token), keyspace);
        let states = self.settled_states(&mut transition, &locks, &request.token, keyspace);
        let patient = !matches!(wait, Wait::No) && request.wait.is_some();
        // A repeated request keeps its position, in front of later requests.
        let asked = request.for_keys(&locks, true);
        let earlier = self.same_request(asked);
        let ticket = self.earlier_ticket(now.ms, asked, earlier).filter(|_| patient);
        let mine = |queue: QueueId| self.is_first(queue, ticket.unwrap_or(Ticket::LAST));
        let mut seen = locks.iter().zip(&states.all);
        let obstacle = seen.find(|(at, state)| match state {
            KeyState::Own(_) => false,
            KeyState::Free => self.waiting.at(**at).is_some_and(|queue| !mine(queue)),
            _ => true,
        });
        let mut lost = None;
        let taken = if states.any(KeyState::Foreign) {
            Err(LockError::WrongType)
        } else if states.any(KeyState::OtherMode) {
            Err(LockError::OtherMode)
        } else if obstacle.is_some() {
            Ok(None)
        } else {
            match self.take_all(&mut transition, &locks, &states, Some(client), request, keyspace) {
                Ok((grant, changes)) => {
                    for changed in changes {
                        self.heard_of(changed);
                    }
                    if patient {
                        self.vacant_places.take_up(asked);
                    }
                    // This answer also settles an earlier identical request of the token, so that one need not wait any more.
                    if let Some(earlier) = earlier
                        && let Some(departed) = self.waiting.leave(now.ms, earlier)
                    {
                        departed.waiter.recipient.tell_replaced(earlier, wait, keyspace);
                    }
                    Ok(Some(grant))
                }
                Err(NotTaken::Failed(error)) => Err(error),
                Err(NotTaken::Lost(at, state)) => {
                    lost = Some(at);
                    state.error().map_or(Ok(None), Err)
                }
            }
        };
        let obstacle = lost.or(obstacle.map(|(at, _)| *at));
        self.settle(&mut transition, keyspace);
        let answer = match taken {
            Err(error) => Err(error),
            Ok(Some(grant)) => Ok(Acquired::Granted(grant)),
            Ok(None) if patient => Ok(match self.position(now.ms, &locks, true, request, false, keyspace) {
                Ok(place) => self.wait(&mut transition, &locks, obstacle, client, request, wait, place, keyspace),
                Err(circle) => Acquired::Deadlock(circle),
            }),
            Ok(None) => Ok(Acquired::Refused),
        };
        if let Some(lost) = lost.filter(|_| patient) {
            self.look_later_at(lost);
        }
        // Only now: a lock that is empty may be handed to the request behind this one, which has joined the line at the end.
        self.commit(&mut transition, keyspace);
        answer
    }

    /// Begins the transition of a request for all `keys` by the token of `claim`; also returns these in order, each once.
    pub(super) fn begin_many<'k, W: Keyspace>(
        &mut self,
        now: Now,
        db: i32,
        keys: &[&'k [u8]],
        claim: Claim<'_>,
        keyspace: &mut W,
    ) -> (Transition<'k>, Vec<KeyRef<'k>>) {
        let keys: BTreeSet<&[u8]> = keys.iter().copied().collect();
        let locks: Vec<_> = keys.into_iter().map(|key| KeyRef { db, key }).collect();
        for at in &locks {
            self.pardon(*at, claim, keyspace);
        }
        (self.command(now, &locks), locks)
    }

    /// Settles all keys, and then looks how each of them stands for `token`.
    pub(super) fn settled_states<W: Keyspace>(
        &mut self,
        transition: &mut Transition,
        locks: &[KeyRef<'_>],
        token: &Ident,
        keyspace: &mut W,
    ) -> KeyStates {
        for at in locks {
            self.settle_at(transition, *at, keyspace);
        }
        let mut states = KeyStates::default();
        for at in locks {
            self.key_states(transition, *at, token, &mut states, keyspace);
        }
        states
    }

    /// Ends the claimed holds of the locks of `keys`, and, unless the claim names a fence, every request of the token that waits for any of
    /// them; returns how many holds there were.
    ///
    /// # Errors
    /// [`LockError::WrongType`] if any of the keys holds something else; then nothing was released.
    pub fn release_many<W: Keyspace>(
        &mut self,
        now: Now,
        db: i32,
        keys: &[&[u8]],
        claim: Claim<'_>,
        keyspace: &mut W,
    ) -> Result<u64, LockError> {
        let (mut transition, locks) = self.begin_many(now, db, keys, claim, keyspace);
        self.cancel(&mut transition, &locks, claim, keyspace);
        for at in &locks {
            self.settle_at(&mut transition, *at, keyspace);
        }
        let foreign = locks.iter().any(|at| matches!(keyspace.find(*at), Found::Foreign));
        let mut released = 0_u64;
        for at in locks.iter().filter(|_| !foreign) {
            let visit = self.visit(&mut transition, *at, keyspace, |engine, transition, open| {
                engine.release_hold(transition, open, claim)
            });
            let queue = self.waiting.at(*at);
            if visit.is_some_and(|visit| self.defer_handover(&mut transition, *at, queue, visit, keyspace)) {
                released = released.saturating_add(1);
            }
        }
        self.commit(&mut transition, keyspace);
        if foreign { Err(LockError::WrongType) } else { Ok(released) }
    }

    /// Grants the request `waiter` for many keys if it is first in line for each key and each key is free, except keys that its token
    /// already holds. Returns whether it was granted. If not, one of the keys that it cannot have becomes its obstacle.
    ///
    /// The current obstacle is checked first, because usually it is still there.
    pub(super) fn grant_multi<W: Keyspace>(
        &mut self,
        transition: &mut Transition,
        waiter: WaiterId,
        keyspace: &mut W,
    ) -> bool {
        let Some(parked) = self.waiting.waiter(waiter) else { return false };
        let (token, mut over) = (parked.request.token.clone(), transition.over);
        let queues: Vec<_> = parked.obstacle.into_iter().chain(parked.scope.queues().iter().copied()).collect();
        let mut states = KeyStates::default();
        let mut by_queue: BTreeMap<QueueId, Arc<KeyBuf>> = BTreeMap::new();
        for queue in queues {
            let Some(key) = self.waiting.queue(queue).map(|queue| queue.key.clone()) else { return false };
            if by_queue.insert(queue, key.clone()).is_some() {
                continue;
            }
            transition.step();
            if !transition.may_grant(key.as_key(), keyspace) {
                transition.blocked_multi.insert(waiter);
                self.waiting.block_multi_at(waiter, queue);
                self.put_off(transition, queue, keyspace);
                return false;
            }
            let state = self.key_states(transition, key.as_key(), &token, &mut states, keyspace);
            over = over.or(transition.over);
            let first = self.waiting.head(queue) == Some(waiter);
            if state == KeyState::Foreign {
                self.refuse_all(transition, queue, keyspace);
            }
            if !(matches!(state, KeyState::Own(_)) || (first && state == KeyState::Free)) {
                transition.blocked_multi.insert(waiter);
                self.waiting.block_multi_at(waiter, queue);
                if let Some(over) = transition.over {
                    // This waiter cannot have it, but the first in line may now.
                    self.waiting.set_dirty(queue, over);
                    transition.work.push(queue);
                }
                return false;
            }
        }
        // Looking at the locks once more forgets why they were available.
        let cause = over.unwrap_or(transition.cause);
        let Some(parked) = self.waiting.waiter(waiter) else { return false };
        let (client, request) = (parked.recipient.client(), parked.request.clone());
        let keys: Vec<KeyRef<'_>> = by_queue.values().map(|key| key.as_key()).collect();
        let taken = self.take_all(transition, &keys, &states, client, &request, keyspace);
        if let Err(NotTaken::Lost(at, state)) = taken {
            self.stay_in_line(transition, waiter, at, state, keyspace);
            return false;
        }
        let place = self.place_of(waiter);
        let Some(Departed { waiter: left, headed }) = self.waiting.leave(transition.now.ms, waiter) else {
            return false;
        };
        match taken {
            Ok((grant, changes)) => {
                self.stats.handed_over(cause);
                let is_new = states.one_fence() != Some(grant.fence);
                if let Some(client) = left.recipient.parked().filter(|_| is_new) {
                    let (fence, entries) = (grant.fence, changes.iter().map(|changed| changed.entry).collect());
                    self.unacked.track(waiter, UnackedGrant { client, fence, entries, place });
                    for Changed { entry, before } in changes {
                        self.keep_replaced(entry, grant.fence, before);
                    }
                } else {
                    for changed in changes {
                        self.heard_of(changed);
                    }
                }
                left.recipient.tell(waiter, WaitResult::Granted(grant), keyspace);
            }
            Err(NotTaken::Failed(error)) => {
                transition.work.extend(headed);
                left.recipient.tell(waiter, WaitResult::Failed(error), keyspace);
            }
            Err(NotTaken::Lost(..)) => {}
        }
        true
    }

    /// The request `waiter` for many keys was about to be granted, but the lock at `at` is not available any more.
    fn stay_in_line<W: Keyspace>(
        &mut self,
        transition: &mut Transition,
        waiter: WaiterId,
        at: KeyRef<'_>,
        state: KeyState,
        keyspace: &mut W,
    ) {
        let Some(queue) = self.waiting.at(at) else { return };
        if state == KeyState::Foreign {
            self.refuse_all(transition, queue, keyspace);
        }
        transition.blocked_multi.insert(waiter);
        self.waiting.block_multi_at(waiter, queue);
        // The lock may be free again already.
        self.look_later_at(at);
    }

    /// Reads the state of the lock at `at` into `states`, after removing ended holds there.
    pub(super) fn key_states<W: Keyspace>(
        &mut self,
        transition: &mut Transition,
        at: KeyRef<'_>,
        token: &Ident,
        states: &mut KeyStates,
        keyspace: &mut W,
    ) -> KeyState {
        let visit = self.visit(transition, at, keyspace, |engine, transition, open| {
            engine.end_own_if_over(transition, open, token);
            open.lock.key_state(token)
        });
        let state = visit.as_ref().map_or(KeyState::Foreign, |visit| visit.result);
        if visit.is_some_and(|visit| visit.emptied.is_some()) {
            transition.emptied.push(Arc::new(at.to_buf()));
        }
        states.all.push(state);
        state
    }
}
