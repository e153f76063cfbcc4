//! Work that no command asks for: leases that are over, connections that are gone, queues that another head stands in.

use std::collections::VecDeque;

use super::engine::Engine;
use super::settle::Turn;
use super::stats::{Cause, count};
use super::terms::{ClientId, End, Found, World};
use super::value::{Hold, Lock};
use super::waiting::{QueueId, WaiterId};
use crate::core::agenda::HomeId;
use crate::core::fence::Fence;
use crate::core::ident::Ident;
use crate::core::place::At;
use crate::core::time::{Millis, Now, UnixMs};

/// When to look again at a place that this node does not serve. The server redirects its waiters within a second; this
/// is for the case that the place comes back.
const RETRY: Millis = Millis(100);

/// When [`Engine::tick`] wants to be called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// As soon as possible.
    Now,
    /// At this instant.
    At(UnixMs),
    /// Not before something else was called.
    Never,
}

/// Something for `tick` to do.
#[derive(Debug, Default)]
pub(super) struct Chores {
    /// Locks with holds that are over because of a connection.
    endings: VecDeque<HomeId>,
    /// Queues in whose head there may be somebody who fits.
    queues: VecDeque<QueueId>,
    /// What could not be done because this node does not serve the key, and when to try again.
    put_off: VecDeque<(UnixMs, PutOff)>,
}

#[derive(Clone, Copy, Debug)]
enum PutOff {
    Ending(HomeId),
    Queue(QueueId),
}

impl Chores {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.endings.is_empty() && self.queues.is_empty() && self.put_off.is_empty()
    }

    fn put_off(&mut self, now: Now, what: PutOff) {
        self.put_off.push_back((now.ms.plus(RETRY).unwrap_or(UnixMs::MAX), what));
    }

    /// Takes up again what was put off until now.
    fn take_up(&mut self, now: Now) {
        while let Some((due, what)) = self.put_off.front().copied()
            && due.reached(now.ms)
        {
            self.put_off.pop_front();
            match what {
                PutOff::Ending(home) => self.endings.push_back(home),
                PutOff::Queue(queue) => self.queues.push_back(queue),
            }
        }
    }
}

impl Engine {
    /// Does what has fallen due, at most `budget` steps of it, and says when it wants to be called again.
    ///
    /// A step is a hold that ends, a waiter that is answered or a place that is looked at.
    pub fn tick<W: World>(&mut self, now: Now, budget: usize, world: &mut W) -> Next {
        let mut turn = Turn::outside(now, budget);
        self.chores.take_up(now);
        while turn.steps > 0 {
            if let Some((home, fence)) = self.sessions.take_ended() {
                self.forfeit(home, fence, End::Disconnected);
            } else if let Some(home) = self.chores.endings.pop_front() {
                self.end_forfeits(&mut turn, home, world);
            } else if let Some(queue) = self.chores.queues.pop_front() {
                turn.cause = Cause::Other;
                turn.work.push(queue);
                self.finish(&mut turn, world);
            } else if let Some(home) = self.agenda.due(now.ms, &mut turn.steps) {
                self.expire(&mut turn, home, world);
            } else {
                break;
            }
            // Paid for afterwards, so that the last step is never spent on looking alone.
            turn.step();
        }
        match self.next_due() {
            Next::At(due) if due.reached(now.ms) => Next::Now,
            next => next,
        }
    }

    /// When [`tick`](Self::tick) wants to be called. It may find nothing to do yet if leases were renewed meanwhile.
    pub fn next_due(&self) -> Next {
        let idle = self.chores.endings.is_empty() && self.chores.queues.is_empty();
        if !(idle && self.doubtful.is_empty()) || self.sessions.any_ended() {
            return Next::Now;
        }
        let retry = self.chores.put_off.front().map(|(due, _)| *due);
        self.agenda.next().into_iter().chain(retry).min().map_or(Next::Never, Next::At)
    }

    /// A parked client timed out: counts it, if it was still waiting, and takes it out of its queues.
    pub fn timed_out(&mut self, waiter: WaiterId) {
        if self.waiting.waiter(waiter).is_some() {
            count(&mut self.stats.timeouts);
        }
        self.left(waiter);
    }

    /// A parked client waits no more: it went away or could not be parked. If it was granted the lock meanwhile and the
    /// reply has not been [`delivered`](Self::delivered), the grant is taken back at the next tick.
    pub fn left(&mut self, waiter: WaiterId) {
        if let Some(departed) = self.waiting.leave(waiter) {
            for queue in departed.headed {
                self.look_later(queue, Cause::Other);
            }
        } else {
            self.lost(waiter);
        }
    }

    /// Whether the end of this connection would change anything.
    #[must_use]
    pub fn knows(&self, client: ClientId) -> bool {
        self.sessions.has(client) || self.waiting.of(client).next().is_some() || self.owes(client)
    }

    /// A connection is gone. Its waiters leave at once. The holds tied to it, and those granted to it whose reply it never
    /// got, are over, and end at the next tick or when a command meets them: this may be called where nothing may be
    /// written. O(log n) for each of its waiters.
    pub fn client_gone(&mut self, client: ClientId) {
        let waiting = self.waiting.of(client).chain(self.undelivered.of(client));
        for waiter in waiting.collect::<Vec<_>>() {
            self.left(waiter);
        }
        self.sessions.end(client);
    }

    /// The connection that a hold of `lock` ends with: none if that was named before the last demotion.
    pub(super) fn session(&self, lock: &Lock, hold: &Hold) -> Option<ClientId> {
        hold.session.filter(|_| lock.era() == self.era)
    }

    /// Whether a hold of `lock` is over because of a connection.
    pub(super) fn is_forfeit(&self, lock: &Lock, hold: &Hold) -> bool {
        let has_ended = |client| self.sessions.has_ended(client);
        self.session(lock, hold).is_some_and(has_ended) || self.forfeits.contains(lock.home(), hold.fence)
    }

    /// Takes note of what is over at `home` because of connections that have ended.
    pub(super) fn hear_of_the_ended(&mut self, home: HomeId) {
        if self.sessions.any_ended() {
            for fence in self.sessions.take_ended_at(home) {
                self.forfeit(home, fence, End::Disconnected);
            }
        }
    }

    /// Notes that a hold is over because of a connection.
    pub(super) fn forfeit(&mut self, home: HomeId, fence: Fence, why: End) {
        if self.forfeits.add(home, fence, why) {
            self.end_later(home);
        }
    }

    /// Has `tick` end what is over at `home`.
    pub(super) fn end_later(&mut self, home: HomeId) {
        self.chores.endings.push_back(home);
    }

    /// A token whose grant is over because it never reached its connection asks again, from another one: it stands.
    pub(super) fn spare<W: World>(&mut self, at: At<'_>, token: &Ident, world: &mut W) {
        if !self.forfeits.is_empty()
            && let Found::Lock(lock) = world.find(at)
            && let (Some(home), Some(hold)) = (lock.home(), lock.hold(token))
        {
            self.forfeits.spare(home, hold.fence);
        }
    }

    /// Has `tick` look at `queue`.
    pub(super) fn look_later(&mut self, queue: QueueId, cause: Cause) {
        if self.waiting.mark(queue, cause) {
            self.chores.queues.push_back(queue);
        }
    }

    /// Has `tick` look at `queue` again after a while.
    pub(super) fn put_off(&mut self, turn: &Turn, queue: QueueId) {
        if self.waiting.mark(queue, turn.cause) {
            self.chores.put_off(turn.now, PutOff::Queue(queue));
        }
    }

    /// Ends the forfeited holds of the lock at `home` and hands over.
    fn end_forfeits<W: World>(&mut self, turn: &mut Turn, home: HomeId, world: &mut W) {
        if self.agenda.knows(home) {
            turn.cause = Cause::Disconnect;
            if !self.refresh(turn, home, world) {
                self.chores.put_off(turn.now, PutOff::Ending(home));
            } else if self.forfeits.at(home) {
                self.end_later(home);
            }
        } else {
            self.forfeits.forget(home);
        }
    }

    /// Ends what has lapsed at `home` and hands over.
    fn expire<W: World>(&mut self, turn: &mut Turn, home: HomeId, world: &mut W) {
        turn.cause = Cause::Expiry;
        if !self.refresh(turn, home, world) {
            self.agenda.rearm(home, turn.now.ms.plus(RETRY).unwrap_or(UnixMs::MAX));
        }
    }

    /// Brings the place of `home` up to date; `false` if the lock is there and this node does not serve it.
    fn refresh<W: World>(&mut self, turn: &mut Turn, home: HomeId, world: &mut W) -> bool {
        let Some(place) = self.agenda.place(home).map(At::keep) else { return true };
        let at = place.at();
        // The value may have gone without a word to the engine, as with a slot that has moved. Then another one may live there, with a home
        // of its own.
        let gone = !matches!(world.find(at), Found::Lock(lock) if lock.home() == Some(home));
        if gone {
            self.vanished(at, Some(home));
        }
        if !world.may_grant(at) {
            return gone;
        }
        if let Some(queue) = self.waiting.at(at) {
            turn.work.push(queue);
            self.finish(turn, world);
        } else {
            let visit = self.visit(turn, at, world, |_, _, _| ());
            self.leave_place(turn, at, visit, world);
        }
        true
    }
}
