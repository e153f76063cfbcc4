//! How a place is brought up to date, and how its lock is changed.

use std::collections::{BTreeSet, VecDeque};

use super::engine::Engine;
use super::stats::{Cause, count};
use super::terms::{Answer, ClientId, End, Found, Grant, LockError, Mode, Request, World};
use super::tick::Chore;
use super::value::{Hold, Lock};
use super::verdict::Verdict;
use super::waiting::{QueueId, Scope, WaiterId};
use crate::core::agenda::HomeId;
use crate::core::fence::Fence;
use crate::core::ident::Ident;
use crate::core::place::At;
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
        Self { now, outside: false, steps: usize::MAX, cause: Cause::Other, lapsed: false, work: VecDeque::new() }
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
                Some(change(self, turn, &mut fresh, &mut news))
            }
            Found::Lock(lock) => {
                self.welcome(at, lock);
                turn.lapsed = self.lapse(turn, lock, &mut news);
                let was_free = lock.is_empty();
                let result = change(self, turn, lock, &mut news);
                passed_on = was_free && !lock.is_empty();
                match (lock.home(), lock.earliest()) {
                    (Some(home), Some(earliest)) => self.agenda.rearm(home, earliest),
                    (home, _) => vacant = home,
                }
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

    /// Discards the lock at `at` if it is vacant and nobody waits for it.
    pub(super) fn close<W: World>(&mut self, at: At<'_>, vacant: Option<HomeId>, world: &mut W) {
        if let Some(home) = vacant
            && self.agenda.knows(home)
        {
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

    /// Ends one hold of the lock at `at` and hands over; whether there was such a hold, `None` on a foreign value.
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
        // A queue finds the lock in its place, vacant or not, and discards it if nobody takes it.
        match self.waiting.at(at) {
            Some(queue) => turn.work.push_back(queue),
            None => self.close(at, visit.vacant, world),
        }
        self.settle(turn, world);
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
            turn.work.extend(self.waiting.queues_of_many(&token));
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
    pub(super) fn settle<W: World>(&mut self, turn: &mut Turn, world: &mut W) {
        while let Some(queue) = turn.work.pop_front() {
            if turn.steps == 0 {
                self.look_later(queue);
            } else {
                turn.step();
                self.examine(turn, queue, world);
            }
        }
    }

    /// Ends what has lapsed at the place of `queue` and grants those at its head that fit.
    fn examine<W: World>(&mut self, turn: &mut Turn, queue: QueueId, world: &mut W) {
        self.waiting.unmark(queue);
        let Some(place) = self.waiting.queue(queue).map(|queue| queue.place.clone()) else { return };
        let at = place.at();
        if turn.outside && !world.may_grant(at) {
            self.waiting.mark(queue);
            self.try_later(turn.now, Chore::Queue(queue));
            return;
        }
        let visit = self.visit(turn, at, world, |engine, turn, lock, news| engine.admit(turn, at, queue, lock, news));
        let Some(visit) = visit else {
            self.refuse_all(turn, queue, world);
            return;
        };
        if !visit.result.is_some_and(|waiter| self.admit_many(turn, waiter, world)) {
            self.close(at, visit.vacant, world);
        }
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
            if turn.steps == 0 {
                self.look_later(queue);
                return None;
            }
            if !verdict.allows() {
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
                self.look_later(queue);
                return;
            }
            turn.step();
            let departed = self.waiting.leave(head);
            turn.work.extend(departed.into_iter().flat_map(|departed| departed.headed).filter(|other| *other != queue));
            world.answer(head, Answer::Failed(LockError::WrongType));
        }
    }
}
