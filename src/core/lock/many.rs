//! Requests for many keys: exclusive on all of them or on none, with one fence.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::engine::Engine;
use super::settle::Turn;
use super::stats::Cause;
use super::terms::{Acquired, Answer, ClientId, Found, Grant, LockError, Mode, Request, World};
use super::value::{Hold, Lock};
use super::waiting::WaiterId;
use crate::core::agenda::HomeId;
use crate::core::fence::Fence;
use crate::core::ident::Ident;
use crate::core::place::At;
use crate::core::time::{Now, UnixMs};

/// How one of the keys stands to a token that wants them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Free,
    /// Held by the token itself, exclusively.
    Own(Fence),
    /// Held by the token itself, in a mode that this request cannot change.
    OtherMode,
    Busy,
    Foreign,
}

/// A look at all the keys.
struct Survey {
    standings: Vec<Standing>,
    /// Where there is a lock that nobody holds any more.
    vacant: Vec<bool>,
    /// Why holds ended there that were over.
    over: Option<Cause>,
}

impl Survey {
    fn any(&self, standing: Standing) -> bool {
        self.standings.contains(&standing)
    }

    /// The fence of the holds if the token has all of them from one grant.
    fn one_fence(&self) -> Option<Fence> {
        let first = *self.standings.first()?;
        match first {
            Standing::Own(fence) if self.standings.iter().all(|other| *other == first) => Some(fence),
            _ => None,
        }
    }
}

impl Lock {
    fn standing(&self, token: &Ident) -> Standing {
        match (self.hold(token), self.mode()) {
            _ if self.is_empty() => Standing::Free,
            (Some(hold), Mode::Exclusive) => Standing::Own(hold.fence),
            (Some(_), _) => Standing::OtherMode,
            (None, _) => Standing::Busy,
        }
    }
}

/// The keys in order, each once.
fn distinct<'a>(db: i32, keys: &[&'a [u8]]) -> Vec<At<'a>> {
    let keys: BTreeSet<&[u8]> = keys.iter().copied().collect();
    keys.into_iter().map(|key| At { db, key }).collect()
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
    pub fn acquire_many<W: World>(
        &mut self,
        now: Now,
        db: i32,
        keys: &[&[u8]],
        client: ClientId,
        request: &Request,
        may_wait: bool,
        world: &mut W,
    ) -> Result<Acquired, LockError> {
        now.ms.plus(request.lease).ok_or(LockError::LeaseTooLong)?;
        let places = distinct(db, keys);
        let mut turn = Turn::command(now);
        self.another_request(client);
        for at in &places {
            self.spare(*at, &request.token, world);
        }
        for at in &places {
            self.settle_at(&mut turn, *at, world);
        }
        let survey = self.survey(&mut turn, &places, &request.token, world);
        for (at, vacant) in places.iter().zip(&survey.vacant) {
            turn.vacated.extend(vacant.then(|| Arc::new(at.keep())));
        }
        let taken = if survey.any(Standing::Foreign) {
            Err(LockError::WrongType)
        } else if survey.any(Standing::OtherMode) {
            Err(LockError::OtherMode)
        } else if places.iter().zip(&survey.standings).all(|(at, standing)| match standing {
            Standing::Own(_) => true,
            Standing::Free => self.waiting.at(*at).is_none(),
            _ => false,
        }) {
            self.take_all(&mut turn, &places, &survey, client, request, world).map(|(grant, _)| Some(grant))
        } else {
            Ok(None)
        };
        self.finish(&mut turn, world);
        match taken? {
            Some(grant) => Ok(Acquired::Granted(grant)),
            None if may_wait && request.wait.is_some() => {
                Ok(self.park(now, &places, true, client, request, false, world))
            }
            None => Ok(Acquired::Refused),
        }
    }

    /// Ends the holds of `token` on the locks of `keys`; how many there were.
    ///
    /// # Errors
    /// [`LockError::WrongType`] if any of the keys holds something else; then nothing was released.
    pub fn release_many<W: World>(
        &mut self,
        now: Now,
        db: i32,
        keys: &[&[u8]],
        token: &Ident,
        world: &mut W,
    ) -> Result<u64, LockError> {
        let places = distinct(db, keys);
        let mut turn = Turn::command(now);
        for at in &places {
            self.spare(*at, token, world);
        }
        for at in &places {
            self.settle_at(&mut turn, *at, world);
        }
        let foreign = places.iter().any(|at| matches!(world.find(*at), Found::Foreign));
        turn.cause = Cause::Release;
        let mut released = 0_u64;
        for at in places.iter().filter(|_| !foreign) {
            let visit = self.visit(&mut turn, *at, world, |engine, turn, open| engine.release_hold(turn, open, token));
            let queue = self.waiting.at(*at);
            if visit.is_some_and(|visit| self.hand_on(&mut turn, *at, queue, visit, world)) {
                released = released.saturating_add(1);
            }
        }
        self.finish(&mut turn, world);
        if foreign { Err(LockError::WrongType) } else { Ok(released) }
    }

    /// Grants the request `waiter` for many keys if it is first in line, and its keys are free, wherever its token does
    /// not hold the key already.
    pub(super) fn admit_many<W: World>(&mut self, turn: &mut Turn, waiter: WaiterId, world: &mut W) {
        if turn.in_vain.contains(&waiter) {
            return;
        }
        let Some(parked) = self.waiting.waiter(waiter) else { return };
        let (token, over) = (parked.request.token.clone(), turn.over);
        let queues: Vec<_> = parked.scope.queues().to_vec();
        let mut kept = Vec::with_capacity(queues.len());
        for queue in &queues {
            let Some(place) = self.waiting.queue(*queue).map(|queue| queue.place.clone()) else { return };
            let first = self.waiting.head(*queue) == Some(waiter);
            if !first && !self.holds_alone(turn, place.at(), &token, world) {
                turn.in_vain.insert(waiter);
                return;
            }
            if turn.outside && !world.may_grant(place.at()) {
                self.put_off(turn, *queue);
                return;
            }
            kept.push(place);
        }
        let places: Vec<At<'_>> = kept.iter().map(|place| place.at()).collect();
        let survey = self.survey(turn, &places, &token, world);
        turn.over = over.or(survey.over);
        for (place, vacant) in kept.iter().zip(&survey.vacant) {
            turn.vacated.extend(vacant.then(|| place.clone()));
        }
        if let Some((queue, _)) = queues.iter().zip(&survey.standings).find(|(_, it)| **it == Standing::Foreign) {
            self.refuse_all(turn, *queue, world);
        }
        if !survey.standings.iter().all(|standing| matches!(standing, Standing::Free | Standing::Own(_))) {
            turn.in_vain.insert(waiter);
            return;
        }
        let Some(departed) = self.waiting.leave(waiter) else { return };
        let (client, request) = (departed.waiter.client, departed.waiter.request.clone());
        turn.work.extend(departed.headed.iter().copied());
        turn.step();
        turn.stir();
        match self.take_all(turn, &places, &survey, client, &request, world) {
            Ok((grant, homes)) => {
                self.stats.handed_over(turn.cause());
                if survey.one_fence() != Some(grant.fence)
                    && self.owe(turn.now.ms, waiter, &departed.waiter, grant.fence, homes)
                {
                    world.look_first(waiter, client);
                }
                world.answer(waiter, Answer::Granted(grant));
            }
            Err(error) => world.answer(waiter, Answer::Failed(error)),
        }
    }

    /// Looks at all `places`, ending what has lapsed there.
    fn survey<W: World>(&mut self, turn: &mut Turn, places: &[At<'_>], token: &Ident, world: &mut W) -> Survey {
        let mut survey = Survey { standings: Vec::with_capacity(places.len()), vacant: Vec::new(), over: None };
        for at in places {
            let visit = self.visit(turn, *at, world, |_, _, open| open.lock.standing(token));
            survey.over = survey.over.or(turn.over);
            survey.vacant.push(visit.as_ref().is_some_and(|visit| visit.vacant.is_some()));
            survey.standings.push(visit.map_or(Standing::Foreign, |visit| visit.result));
        }
        survey
    }

    /// Gives the token all `places`. If it has them all from one grant, that is renewed: fence and sessions stay. Else
    /// it is a new grant in every respect, also where the token held before.
    fn take_all<W: World>(
        &mut self,
        turn: &mut Turn,
        places: &[At<'_>],
        survey: &Survey,
        client: ClientId,
        request: &Request,
        world: &mut W,
    ) -> Result<(Grant, BTreeSet<HomeId>), LockError> {
        turn.stir();
        let renewed = survey.one_fence();
        let fence = renewed.map_or_else(|| self.issue(turn), Ok)?;
        let token = &request.token;
        let deadline = turn.now.ms.plus(request.lease).unwrap_or(UnixMs::MAX);
        let mut homes = BTreeSet::new();
        for at in places {
            let visit = self.visit(turn, *at, world, |engine, _, open| {
                let before = open.lock.hold(token).filter(|_| renewed.is_some()).and_then(|hold| hold.session);
                let session = if request.session { Some(client) } else { before };
                let hold = Hold { token: token.clone(), fence, deadline, limit: 0, session };
                engine.set_hold(open, Mode::Exclusive, hold)
            });
            homes.extend(visit.map(|visit| visit.result));
            if renewed.is_none() {
                turn.work.extend(self.waiting.linked(*at, token));
            }
        }
        Ok((Grant { token: token.clone(), fence, lease: deadline.left(turn.now.ms) }, homes))
    }
    /// Whether `token` holds the lock at `at` exclusively, and that is not over.
    fn holds_alone<W: World>(&self, turn: &Turn, at: At<'_>, token: &Ident, world: &mut W) -> bool {
        let Found::Lock(lock) = world.find(at) else { return false };
        lock.mode() == Mode::Exclusive
            && lock.hold(token).is_some_and(|hold| !hold.deadline.reached(turn.now.ms) && !self.is_forfeit(lock, hold))
    }
}
