//! How a place is brought up to date, and how its lock is changed.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::engine::Engine;
use super::stats::{Cause, count};
use super::terms::{Answer, ClientId, End, Found, Grant, LockError, Mode, Request, World};
use super::value::{Hold, Lock};
use super::verdict::Verdict;
use super::waiting::{QueueId, Scope, WaiterId};
use crate::core::agenda::HomeId;
use crate::core::fence::Fence;
use crate::core::ident::Ident;
use crate::core::place::{At, Place};
use crate::core::time::{Now, UnixMs};

/// One transition on its way.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) now: Now,
    /// Whether no command asked for it.
    pub(super) outside: bool,
    /// How much more may be done at once.
    pub(super) steps: usize,
    /// What makes room for waiters, unless it is a lapse.
    pub(super) cause: Cause,
    /// Whether the last visit ended a lease that was over.
    pub(super) lapsed: bool,
    /// The queues to look at.
    pub(super) work: VecDeque<QueueId>,
    /// Places whose locks may be vacant. Somebody may still take them over in this turn.
    pub(super) vacated: Vec<Arc<Place>>,
}

/// What the world must be told once the lock is no longer borrowed from it.
#[derive(Debug)]
pub(super) enum News {
    Held(Mode, Hold),
    Ended(Ident, End),
    Answered(WaiterId, Answer),
}

/// What came of a visit to a lock.
pub(super) struct Visit<R> {
    pub(super) result: R,
    /// The key now keeps a lock that nobody holds. It must be granted to somebody or discarded in the same transition.
    pub(super) vacant: Option<HomeId>,
}

/// Which hold is meant.
#[derive(Clone, Copy)]
pub(super) enum Which<'a> {
    /// The token's.
    Of(&'a Ident),
    /// The one with this fence, if it is tied to this connection.
    Tied(Fence, ClientId),
    /// The one with this fence.
    Numbered(Fence),
}

impl Turn {
    pub(super) fn command(now: Now) -> Self {
        Self {
            now,
            outside: false,
            steps: usize::MAX,
            cause: Cause::Other,
            lapsed: false,
            work: VecDeque::new(),
            vacated: Vec::new(),
        }
    }

    pub(super) fn outside(now: Now, steps: usize) -> Self {
        Self { outside: true, steps, ..Self::command(now) }
    }

    /// A transition that knows no time, in which nothing lapses.
    pub(super) fn timeless() -> Self {
        Self::command(Now { ms: UnixMs(i64::MIN), us: 0 })
    }

    /// What makes room for a waiter at the lock visited last.
    pub(super) fn cause(&self) -> Cause {
        if self.lapsed { Cause::Expiry } else { self.cause }
    }

    pub(super) fn step(&mut self) {
        self.steps = self.steps.saturating_sub(1);
    }
}

impl News {
    fn tell<W: World>(self, at: At<'_>, world: &mut W) {
        match self {
            Self::Held(mode, hold) => world.held(at, mode, &hold),
            Self::Ended(token, why) => world.ended(at, &token, why),
            Self::Answered(waiter, answer) => world.answer(waiter, answer),
        }
    }
}

impl Engine {
    /// Opens the lock at `at`, or a vacant one if there is nothing, ends what has lapsed, and lets `change` change it.
    /// What comes of it is kept and told. `None` if the key holds something else.
    pub(super) fn visit<W: World, R>(
        &mut self,
        turn: &mut Turn,
        at: At<'_>,
        world: &mut W,
        change: impl FnOnce(&mut Self, &mut Turn, &mut Lock, &mut Vec<News>) -> R,
    ) -> Option<Visit<R>> {
        let mut news = std::mem::take(&mut self.news);
        let mut fresh = Lock::vacant();
        let mut vacant = None;
        let mut passed_on = false;
        let result = match world.find(at) {
            Found::Foreign => None,
            Found::Nothing => {
                turn.lapsed = false;
                let result = change(self, turn, &mut fresh, &mut news);
                self.keep_time(&fresh);
                Some(result)
            }
            Found::Lock(lock) => {
                self.welcome(at, lock);
                turn.lapsed = self.lapse(turn, lock, &mut news);
                let was_free = lock.is_empty();
                let result = change(self, turn, lock, &mut news);
                passed_on = was_free && !lock.is_empty();
                self.keep_time(lock);
                vacant = lock.home().filter(|_| lock.is_empty());
                Some(result)
            }
        };
        if !fresh.is_empty() {
            world.put(at, fresh);
        }
        if passed_on {
            world.passed_on(at);
        }
        for item in news.drain(..) {
            item.tell(at, world);
        }
        self.news = news;
        result.map(|result| Visit { result, vacant })
    }

    /// Brings the agenda up to date with the leases of `lock`.
    fn keep_time(&mut self, lock: &Lock) {
        if let (Some(home), Some(earliest)) = (lock.home(), lock.earliest()) {
            self.agenda.rearm(home, earliest);
        }
    }

    /// Discards the lock at `at`, whose home is given if it is vacant.
    pub(super) fn close<W: World>(&mut self, at: At<'_>, vacant: Option<HomeId>, world: &mut W) {
        if let Some(home) = vacant {
            self.agenda.disarm(home);
            world.delete(at);
        }
    }

    /// Ends the leases of `lock` that are over, as far as the turn's steps go; `true` if there were any.
    fn lapse(&mut self, turn: &mut Turn, lock: &mut Lock, news: &mut Vec<News>) -> bool {
        let before = news.len();
        while turn.steps > 0
            && let Some(hold) = lock.take_lapsed(turn.now.ms)
        {
            turn.step();
            count(&mut self.stats.lapses);
            self.untie(lock, &hold);
            news.push(News::Ended(hold.token, End::Lapsed));
        }
        news.len() > before
    }

    fn untie(&mut self, lock: &Lock, ended: &Hold) {
        if let (Some(client), Some(home)) = (ended.session, lock.home()) {
            self.sessions.untie(client, (home, ended.fence));
        }
    }

    /// Makes `hold` its token's hold of `lock`.
    pub(super) fn set_hold(
        &mut self,
        at: At<'_>,
        lock: &mut Lock,
        mode: Mode,
        hold: Hold,
        news: &mut Vec<News>,
    ) -> HomeId {
        let home = lock.home().unwrap_or_else(|| self.agenda.arm(at, hold.deadline));
        lock.set_home(Some(home));
        let (session, fence) = (hold.session, hold.fence);
        news.push(News::Held(mode, hold.clone()));
        if let Some(before) = lock.set(mode, hold) {
            self.untie(lock, &before);
            self.undelivered.prove(before.fence, home);
        }
        if let Some(client) = session {
            self.sessions.tie(client, (home, fence));
        }
        home
    }

    /// Ends the hold of `lock` that has `fence`.
    pub(super) fn end_hold(&mut self, lock: &mut Lock, fence: Fence, why: End, news: &mut Vec<News>) {
        if let Some(hold) = lock.take(fence) {
            self.untie(lock, &hold);
            news.push(News::Ended(hold.token, why));
        }
    }

    /// Ends one hold of the lock at `at` and leaves it to [`finish`](Self::finish) to hand over.
    /// Whether there was such a hold; `None` on a foreign value.
    pub(super) fn end<W: World>(
        &mut self,
        turn: &mut Turn,
        at: At<'_>,
        which: Which<'_>,
        why: End,
        world: &mut W,
    ) -> Option<bool> {
        let visit = self.visit(turn, at, world, |engine, _, lock, news| {
            let hold = match which {
                Which::Of(token) => lock.hold(token),
                Which::Tied(fence, client) => lock.hold_of(fence).filter(|hold| hold.session == Some(client)),
                Which::Numbered(fence) => lock.hold_of(fence),
            };
            let Some(fence) = hold.map(|hold| hold.fence) else { return false };
            engine.end_hold(lock, fence, why, news);
            true
        })?;
        match self.waiting.at(at) {
            // Other holds of this lock may be about to end too. They all end before anybody takes their place.
            Some(queue) if turn.outside && visit.vacant.is_none() => self.look_later(queue, turn.cause),
            // Whoever is next takes the lock over as it is; if nobody fits, it is discarded. That cannot wait.
            Some(queue) => {
                turn.steps = turn.steps.max(1);
                turn.work.push_back(queue);
            }
            None => self.close(at, visit.vacant, world),
        }
        Some(visit.result)
    }

    /// Gives the token its hold, as `verdict` says.
    #[expect(clippy::too_many_arguments, reason = "one request in one situation")]
    pub(super) fn enter(
        &mut self,
        turn: &mut Turn,
        at: At<'_>,
        lock: &mut Lock,
        verdict: Verdict,
        client: ClientId,
        request: &Request,
        news: &mut Vec<News>,
    ) -> Result<Grant, LockError> {
        let before = lock.hold(&request.token);
        let session = if request.session { Some(client) } else { before.and_then(|hold| hold.session) };
        let fence = match before {
            Some(before) if !verdict.needs_a_fence() => before.fence,
            _ => self.issue(turn)?,
        };
        let token = request.token.clone();
        let deadline = turn.now.ms.plus(request.lease).unwrap_or(UnixMs::MAX);
        let hold = Hold { token: token.clone(), fence, deadline, limit: request.mode.limit(), session };
        self.set_hold(at, lock, request.mode.mode(), hold, news);
        if lock.mode() == Mode::Exclusive {
            turn.work.extend(self.waiting.linked(at, &token));
        }
        Ok(Grant { token, fence, lease: deadline.left(turn.now.ms) })
    }

    pub(super) fn issue(&mut self, turn: &Turn) -> Result<Fence, LockError> {
        let fence = self.fences.issue(turn.now.us).ok_or(LockError::FencesUsedUp)?;
        count(&mut self.stats.grants);
        Ok(fence)
    }

    /// Brings `at` up to date if anybody waits there, and returns its queue if somebody still does.
    pub(super) fn settle_at<W: World>(&mut self, turn: &mut Turn, at: At<'_>, world: &mut W) -> Option<QueueId> {
        turn.work.push_back(self.waiting.at(at)?);
        self.settle(turn, world);
        self.waiting.at(at)
    }

    /// Looks at all queues in the turn's work, and at those that come up while doing so.
    fn settle<W: World>(&mut self, turn: &mut Turn, world: &mut W) {
        while let Some(queue) = turn.work.pop_front() {
            if turn.steps == 0 {
                self.look_later(queue, turn.cause);
            } else {
                self.examine(turn, queue, world);
                turn.step();
            }
        }
    }

    /// Ends a turn whose last visit was `visit`.
    pub(super) fn leave_place<W: World, R>(
        &mut self,
        turn: &mut Turn,
        at: At<'_>,
        visit: Option<Visit<R>>,
        world: &mut W,
    ) -> Option<R> {
        self.close(at, visit.as_ref().and_then(|visit| visit.vacant), world);
        self.finish(turn, world);
        visit.map(|visit| visit.result)
    }

    /// Ends the turn: settles what is left to do and discards the locks that nobody took over.
    pub(super) fn finish<W: World>(&mut self, turn: &mut Turn, world: &mut W) {
        self.settle(turn, world);
        for place in turn.vacated.drain(..) {
            let vacant = match world.find(place.at()) {
                Found::Lock(lock) if lock.is_empty() => lock.home(),
                _ => None,
            };
            self.close(place.at(), vacant, world);
        }
    }

    /// Ends what has lapsed at the place of `queue` and grants those at its head that fit.
    fn examine<W: World>(&mut self, turn: &mut Turn, queue: QueueId, world: &mut W) {
        let Some(place) = self.waiting.queue(queue).map(|queue| queue.place.clone()) else { return };
        let at = place.at();
        let cause = turn.cause;
        turn.cause = self.waiting.unmark(queue).unwrap_or(cause);
        if turn.outside && !world.may_grant(at) {
            self.put_off(turn, queue);
        } else {
            match self.visit(turn, at, world, |engine, turn, lock, news| engine.admit(turn, at, queue, lock, news)) {
                None => self.refuse_all(turn, queue, world),
                Some(visit) => {
                    if let Some(waiter) = visit.result {
                        self.admit_many(turn, waiter, world);
                    }
                    turn.vacated.extend(visit.vacant.map(|_| place.clone()));
                }
            }
        }
        turn.cause = cause;
    }

    /// Grants those at the head of `queue` that fit into `lock`; returns the request for many keys that comes next, if
    /// it is that which is first in line now.
    fn admit(
        &mut self,
        turn: &mut Turn,
        at: At<'_>,
        queue: QueueId,
        lock: &mut Lock,
        news: &mut Vec<News>,
    ) -> Option<WaiterId> {
        loop {
            let head = self.waiting.head(queue)?;
            let waiter = self.waiting.waiter(head)?;
            if matches!(waiter.scope, Scope::Many(_)) {
                return Some(head);
            }
            let verdict = lock.verdict(&waiter.request.token, waiter.wanted());
            if !verdict.allows() {
                return None;
            }
            // A vacant lock is handed over at once, even if ending its last hold was the last step.
            if turn.steps == 0 && !lock.is_empty() {
                self.look_later(queue, turn.cause());
                return None;
            }
            turn.step();
            let waiter = self.waiting.leave(head)?.waiter;
            let answer = match self.enter(turn, at, lock, verdict, waiter.client, &waiter.request, news) {
                Ok(grant) => {
                    self.stats.handed_over(turn.cause());
                    // A hold that its token had before, and keeps, is not taken back for want of this reply.
                    if let Some(home) = lock.home()
                        && verdict.needs_a_fence()
                    {
                        self.undelivered.owe(head, waiter.client, grant.fence, BTreeSet::from([home]));
                    }
                    Answer::Granted(grant)
                }
                Err(error) => Answer::Failed(error),
            };
            news.push(News::Answered(head, answer));
        }
    }

    /// Tells everybody in `queue` that the key holds something else.
    pub(super) fn refuse_all<W: World>(&mut self, turn: &mut Turn, queue: QueueId, world: &mut W) {
        while let Some(head) = self.waiting.head(queue) {
            if turn.steps == 0 {
                self.look_later(queue, turn.cause);
                return;
            }
            turn.step();
            let departed = self.waiting.leave(head);
            turn.work.extend(departed.into_iter().flat_map(|departed| departed.headed).filter(|other| *other != queue));
            world.answer(head, Answer::Failed(LockError::WrongType));
        }
    }
}
