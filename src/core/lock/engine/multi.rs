//! Requests for many keys: exclusive on all of them or on none, with one fence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Engine;
use super::lock_mut::Changed;
use super::transition::Transition;
use crate::core::fence::Fence;
use crate::core::ident::Ident;
use crate::core::key::{KeyBuf, KeyRef};
use crate::core::lock::keyspace::{Found, Keyspace};
use crate::core::lock::queue::{QueueId, Scope};
use crate::core::lock::stats::HandoverCause;
use crate::core::lock::terms::{Acquired, Answer, ClientId, Grant, LockError, Mode, Request, WaiterId};
use crate::core::lock::value::{Hold, Lock};
use crate::core::time::{Now, UnixMs};

/// How one of the keys stands to a token that wants them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyState {
    Free,
    /// Held by the token itself, exclusively.
    Own(Fence),
    /// Held by the token itself, in a mode that this request cannot change.
    OtherMode,
    Busy,
    Foreign,
}

impl KeyState {
    /// Whether nobody else holds the lock.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Free | Self::Own(_))
    }
}

/// A look at all the keys.
#[derive(Default)]
struct KeyStates {
    standings: Vec<KeyState>,
}

impl KeyStates {
    fn any(&self, standing: KeyState) -> bool {
        self.standings.contains(&standing)
    }

    /// The fence of the holds if the token has all of them from one grant.
    fn one_fence(&self) -> Option<Fence> {
        let first = *self.standings.first()?;
        match first {
            KeyState::Own(fence) if self.standings.iter().all(|other| *other == first) => Some(fence),
            _ => None,
        }
    }
}

impl Lock {
    pub(super) fn key_state(&self, token: &Ident) -> KeyState {
        match (self.hold(token), self.mode()) {
            _ if self.is_empty() => KeyState::Free,
            (Some(hold), Mode::Exclusive) => KeyState::Own(hold.fence),
            (Some(_), _) => KeyState::OtherMode,
            (None, _) => KeyState::Busy,
        }
    }
}

/// The keys in order, each once.
fn distinct<'a>(db: i32, keys: &[&'a [u8]]) -> Vec<KeyRef<'a>> {
    let keys: BTreeSet<&[u8]> = keys.iter().copied().collect();
    keys.into_iter().map(|key| KeyRef { db, key }).collect()
}

impl Engine {
    /// Asks for the locks of all `keys` of the database `db`, exclusively, for `client`. A key named twice counts once.
    ///
    /// Keys that the token holds already are no obstacle, whoever waits for them; for the others it waits in every queue
    /// from one ticket. O(k log n) for k keys.
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
        may_wait: bool,
        keyspace: &mut W,
    ) -> Result<Acquired, LockError> {
        now.ms.plus(request.lease).ok_or(LockError::LeaseTooLong)?;
        let places = distinct(db, keys);
        let mut transition = self.command(now, places.len());
        self.another_request(client);
        for at in &places {
            self.pardon(*at, &request.token, keyspace);
        }
        for at in &places {
            self.settle_at(&mut transition, *at, keyspace);
        }
        let mut survey = KeyStates::default();
        for at in &places {
            self.key_states(&mut transition, *at, &request.token, &mut survey, keyspace);
        }
        let patient = may_wait && request.wait.is_some();
        // Its place is in front of those who came after it.
        let earlier = self.same_request(&places, &request.token);
        let mine = |queue: QueueId| patient && earlier.is_some() && self.waiting.head(queue) == earlier;
        let mut seen = places.iter().zip(&survey.standings);
        let obstacle = seen.find(|(at, standing)| match standing {
            KeyState::Own(_) => false,
            KeyState::Free => self.waiting.at(**at).is_some_and(|queue| !mine(queue)),
            _ => true,
        });
        let taken = if survey.any(KeyState::Foreign) {
            Err(LockError::WrongType)
        } else if survey.any(KeyState::OtherMode) {
            Err(LockError::OtherMode)
        } else if obstacle.is_some() {
            Ok(None)
        } else {
            // What this request is answered the one that asked the same before need not wait for any more.
            if let Some(earlier) = earlier
                && self.waiting.leave(earlier).is_some()
            {
                keyspace.answer(earlier, Answer::Refused);
            }
            self.take_all(&mut transition, &places, &survey, client, request, keyspace).map(|(grant, changes)| {
                for changed in changes {
                    self.heard_of(changed);
                }
                Some(grant)
            })
        };
        let obstacle = obstacle.map(|(at, _)| *at);
        self.commit(&mut transition, keyspace);
        match taken? {
            Some(grant) => Ok(Acquired::Granted(grant)),
            None if patient => Ok(self.park(now, &places, obstacle, client, request, false, keyspace)),
            None => Ok(Acquired::Refused),
        }
    }

    /// Ends the holds of `token` on the locks of `keys`; how many there were.
    ///
    /// # Errors
    /// [`LockError::WrongType`] if any of the keys holds something else; then nothing was released.
    pub fn release_many<W: Keyspace>(
        &mut self,
        now: Now,
        db: i32,
        keys: &[&[u8]],
        token: &Ident,
        keyspace: &mut W,
    ) -> Result<u64, LockError> {
        let places = distinct(db, keys);
        let mut transition = self.command(now, places.len());
        for at in &places {
            self.pardon(*at, token, keyspace);
        }
        for at in &places {
            self.settle_at(&mut transition, *at, keyspace);
        }
        let foreign = places.iter().any(|at| matches!(keyspace.find(*at), Found::Foreign));
        transition.cause = HandoverCause::Release;
        let mut released = 0_u64;
        for at in places.iter().filter(|_| !foreign) {
            let visit = self.visit(&mut transition, *at, keyspace, |engine, transition, open| {
                engine.release_hold(transition, open, token)
            });
            let queue = self.waiting.at(*at);
            if visit.is_some_and(|visit| self.defer_handover(&mut transition, *at, queue, visit, keyspace)) {
                released = released.saturating_add(1);
            }
        }
        self.commit(&mut transition, keyspace);
        if foreign { Err(LockError::WrongType) } else { Ok(released) }
    }

    /// Grants the request `waiter` for many keys if it is first in line, and its keys are free, wherever its token does
    /// not hold the key already, and says whether it did. If not, one that it cannot have becomes its obstacle.
    ///
    /// The obstacle that it has is looked at first: nearly always it is still there.
    pub(super) fn grant_multi<W: Keyspace>(
        &mut self,
        transition: &mut Transition,
        waiter: WaiterId,
        keyspace: &mut W,
    ) -> bool {
        let Some(parked) = self.waiting.waiter(waiter) else { return false };
        let (token, mut over) = (parked.request.token.clone(), transition.over);
        let queues: Vec<_> = parked.obstacle.into_iter().chain(parked.scope.queues().iter().copied()).collect();
        let mut survey = KeyStates::default();
        let mut places: BTreeMap<QueueId, Arc<KeyBuf>> = BTreeMap::new();
        for queue in queues {
            let Some(place) = self.waiting.queue(queue).map(|queue| queue.place.clone()) else { return false };
            if places.insert(queue, place.clone()).is_some() {
                continue;
            }
            transition.step();
            if transition.outside && !keyspace.owns_slot(place.as_key()) {
                transition.blocked_multi.insert(waiter);
                self.waiting.block_multi_at(waiter, queue);
                self.put_off(transition, queue, keyspace);
                return false;
            }
            let standing = self.key_states(transition, place.as_key(), &token, &mut survey, keyspace);
            over = over.or(transition.over);
            let first = self.waiting.head(queue) == Some(waiter);
            if standing == KeyState::Foreign {
                self.refuse_all(transition, queue, keyspace);
            }
            if !(matches!(standing, KeyState::Own(_)) || (first && standing == KeyState::Free)) {
                transition.blocked_multi.insert(waiter);
                self.waiting.block_multi_at(waiter, queue);
                if let Some(over) = transition.over {
                    // Not for this one, but there may be room for the first in line now.
                    self.waiting.mark(queue, over);
                    transition.work.push(queue);
                }
                return false;
            }
        }
        transition.over = over;
        let Some(departed) = self.waiting.leave(waiter) else { return false };
        let (client, request) = (departed.waiter.client, departed.waiter.request.clone());
        let places: Vec<KeyRef<'_>> = places.values().map(|place| place.as_key()).collect();
        match self.take_all(transition, &places, &survey, client, &request, keyspace) {
            Ok((grant, changes)) => {
                self.stats.handed_over(transition.cause());
                if survey.one_fence() == Some(grant.fence) {
                    for changed in changes {
                        self.heard_of(changed);
                    }
                } else {
                    let entries = changes.iter().map(|changed| changed.entry);
                    if self.owe(transition.now.ms, waiter, &departed.waiter, grant.fence, entries) {
                        keyspace.look_first(waiter, client);
                    }
                    for Changed { entry, before } in changes {
                        self.keep_replaced(entry, grant.fence, before);
                    }
                }
                keyspace.answer(waiter, Answer::Granted(grant));
            }
            Err(error) => {
                transition.work.extend(departed.headed);
                keyspace.answer(waiter, Answer::Failed(error));
            }
        }
        true
    }

    /// Looks at the lock at `at` for `survey`, ending what has lapsed there.
    fn key_states<W: Keyspace>(
        &mut self,
        transition: &mut Transition,
        at: KeyRef<'_>,
        token: &Ident,
        survey: &mut KeyStates,
        keyspace: &mut W,
    ) -> KeyState {
        let visit = self.visit(transition, at, keyspace, |engine, transition, open| {
            engine.end_own_if_over(transition, open, token);
            open.lock.key_state(token)
        });
        let standing = visit.as_ref().map_or(KeyState::Foreign, |visit| visit.result);
        if visit.is_some_and(|visit| visit.vacant.is_some()) {
            transition.vacated.push(Arc::new(at.to_buf()));
        }
        survey.standings.push(standing);
        standing
    }

    /// The request of `token` for exactly these places that waits.
    fn same_request(&self, places: &[KeyRef<'_>], token: &Ident) -> Option<WaiterId> {
        let mut queues: Vec<QueueId> = places.iter().map(|at| self.waiting.at(*at)).collect::<Option<_>>()?;
        queues.sort_unstable();
        self.waiting.waiting_request(token, &Scope::Many(queues.into()))
    }

    /// Gives the token all `places`. If it has them all from one grant, that is renewed: fence and sessions stay. Else
    /// it is a new grant in every respect, also where the token held before.
    fn take_all<W: Keyspace>(
        &mut self,
        transition: &mut Transition,
        places: &[KeyRef<'_>],
        survey: &KeyStates,
        client: ClientId,
        request: &Request,
        keyspace: &mut W,
    ) -> Result<(Grant, Vec<Changed>), LockError> {
        transition.progress();
        let renewed = survey.one_fence();
        let fence = renewed.map_or_else(|| self.issue(transition), Ok)?;
        let token = &request.token;
        let deadline = transition.now.ms.plus(request.lease).unwrap_or(UnixMs::MAX);
        let mut changes = Vec::with_capacity(places.len());
        for at in places {
            transition.step();
            let visit = self.visit(transition, *at, keyspace, |engine, _, open| {
                let before = open.lock.hold(token).filter(|_| renewed.is_some()).and_then(|hold| hold.session);
                let session = if request.session { Some(client) } else { before };
                let hold = Hold { token: token.clone(), fence, deadline, limit: 0, session };
                engine.set_hold(open, Mode::Exclusive, hold)
            });
            changes.extend(visit.map(|visit| visit.result));
            if renewed.is_none() {
                self.look_at_own(transition, *at, token);
            }
        }
        Ok((Grant { token: token.clone(), fence, lease: deadline.left(transition.now.ms) }, changes))
    }
}
