//! Work that no command asks for: leases that are over, connections that are gone, queues that another head stands in.

use std::collections::VecDeque;

use super::engine::Engine;
use super::settle::Transition;
use super::stats::{HandoverCause, count};
use super::terms::{ClientId, EndReason, Found, Keyspace};
use super::value::{Hold, Lock};
use super::waiting::{QueueId, WaiterId};
use crate::core::deadline_index::DeadlineId;
use crate::core::fence::Fence;
use crate::core::ident::Ident;
use crate::core::key::KeyRef;
use crate::core::retry::Retries;
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
pub(super) struct Backlog {
    /// Locks with holds that are over because of a connection.
    endings: VecDeque<DeadlineId>,
    /// Queues in whose head there may be somebody who fits.
    queues: VecDeque<QueueId>,
    /// What could not be done because this node does not serve the key, and when to try again.
    put_off: VecDeque<(UnixMs, Retry)>,
    retries: Retries,
    /// Until when nothing is tried, because this node serves no key at all.
    closed: Option<UnixMs>,
    /// Whose turn it is.
    next: Kind,
}

/// The kinds of work. They take turns, one unit of each, so that none waits for the end of another.
#[derive(Clone, Copy, Debug, Default)]
enum Kind {
    /// Holds of connections that have ended are found.
    #[default]
    Session,
    /// Holds that are over because of a connection end.
    Ending,
    /// Queues are looked at.
    Queue,
    /// Leases end.
    Lease,
}

impl Kind {
    const COUNT: usize = 4;

    fn next(self) -> Self {
        match self {
            Self::Session => Self::Ending,
            Self::Ending => Self::Queue,
            Self::Queue => Self::Lease,
            Self::Lease => Self::Session,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Retry {
    Ending(DeadlineId),
    Queue(QueueId),
}

impl Backlog {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.endings.is_empty() && self.queues.is_empty() && self.put_off.is_empty()
    }

    fn put_off(&mut self, now: Now, what: Retry) {
        self.put_off.push_back((self.retries.next(now.ms, RETRY), what));
    }

    /// Takes up again what was put off until now.
    fn take_up(&mut self, now: Now) {
        self.closed.take_if(|until| until.reached(now.ms));
        while let Some((due, what)) = self.put_off.front().copied()
            && due.reached(now.ms)
        {
            self.put_off.pop_front();
            match what {
                Retry::Ending(entry) => self.endings.push_back(entry),
                Retry::Queue(queue) => self.queues.push_back(queue),
            }
        }
    }
}

impl Engine {
    /// Does what has fallen due, at most `budget` steps of it, and says when it wants to be called again.
    ///
    /// A step is a hold that begins or ends, a waiter that is answered or a place that is looked at. The last thing that is begun is done to
    /// its end: a request for a thousand keys is granted in one go.
    pub fn tick<W: Keyspace>(&mut self, now: Now, budget: usize, keyspace: &mut W) -> Next {
        let mut transition = Transition::outside(now, budget);
        self.backlog.take_up(now);
        let mut idle = 0_usize;
        while transition.budget > 0 && idle < Kind::COUNT && self.backlog.closed.is_none() {
            let kind = self.backlog.next;
            self.backlog.next = kind.next();
            if self.work_on(kind, &mut transition, keyspace) {
                // Paid for afterwards, so that the last step is never spent on looking alone.
                transition.step();
                idle = 0;
            } else {
                idle = idle.saturating_add(1);
            }
        }
        match self.next_due() {
            Next::At(due) if due.reached(now.ms) => Next::Now,
            next => next,
        }
    }

    /// Does one unit of this kind of work, if there is any.
    fn work_on<W: Keyspace>(&mut self, kind: Kind, transition: &mut Transition, keyspace: &mut W) -> bool {
        match kind {
            Kind::Session => {
                let Some((entry, fence)) = self.sessions.take_ended() else { return false };
                self.revoke(entry, fence, EndReason::Disconnected);
            }
            Kind::Ending => {
                let Some(entry) = self.backlog.endings.pop_front() else { return false };
                self.end_revoked(transition, entry, keyspace);
            }
            Kind::Queue => {
                let Some(queue) = self.backlog.queues.pop_front() else { return false };
                self.waiting.delist(queue);
                transition.cause = HandoverCause::Other;
                transition.work.push(queue);
                self.commit(transition, keyspace);
            }
            Kind::Lease => {
                let Some(entry) = self.deadlines.due(transition.now.ms, &mut transition.budget) else { return false };
                self.expire(transition, entry, keyspace);
            }
        }
        true
    }

    /// When [`tick`](Self::tick) wants to be called. It may find nothing to do yet if leases were renewed meanwhile.
    pub fn next_due(&self) -> Next {
        if let Some(until) = self.backlog.closed {
            return Next::At(until);
        }
        let idle = self.backlog.endings.is_empty() && self.backlog.queues.is_empty();
        if !(idle && self.unverified_sessions.is_empty()) || self.sessions.any_ended() {
            return Next::Now;
        }
        let retry = self.backlog.put_off.front().map(|(due, _)| *due);
        self.deadlines.next().into_iter().chain(retry).min().map_or(Next::Never, Next::At)
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
                self.schedule_queue(queue, HandoverCause::Other);
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
        let waiting = self.waiting.of(client).chain(self.unacked.of(client));
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
    pub(super) fn is_revoked(&self, lock: &Lock, hold: &Hold) -> bool {
        let has_ended = |client| self.sessions.has_ended(client);
        self.session(lock, hold).is_some_and(has_ended) || self.revoked.contains(lock.deadline_id(), hold.fence)
    }

    /// Takes note of what is over at `home` because of connections that have ended.
    pub(super) fn hear_of_the_ended(&mut self, entry: DeadlineId) {
        if self.sessions.any_ended() {
            for fence in self.sessions.take_ended_at(entry) {
                self.revoke(entry, fence, EndReason::Disconnected);
            }
        }
    }

    /// Notes that a hold is over because of a connection.
    pub(super) fn revoke(&mut self, entry: DeadlineId, fence: Fence, why: EndReason) {
        if self.revoked.add(entry, fence, why) {
            self.end_later(entry);
        }
    }

    /// Has `tick` end what is over at `home`.
    pub(super) fn end_later(&mut self, entry: DeadlineId) {
        self.backlog.endings.push_back(entry);
    }

    /// A token whose grant is over because it never reached its connection asks again, from another one: it stands.
    pub(super) fn pardon<W: Keyspace>(&mut self, at: KeyRef<'_>, token: &Ident, keyspace: &mut W) {
        if !self.revoked.is_empty()
            && let Found::Lock(lock) = keyspace.find(at)
            && let (Some(entry), Some(hold)) = (lock.deadline_id(), lock.hold(token))
            && self.revoked.pardon(entry, hold.fence)
        {
            let fence = hold.fence;
            self.drop_replaced(entry, fence);
        }
    }

    /// Has `tick` look at `queue`.
    pub(super) fn schedule_queue(&mut self, queue: QueueId, cause: HandoverCause) {
        if self.waiting.enlist(queue, cause) {
            self.backlog.queues.push_back(queue);
        }
    }

    /// Has `tick` look at `queue` again after a while.
    pub(super) fn put_off<W: Keyspace>(&mut self, transition: &Transition, queue: QueueId, keyspace: &mut W) {
        self.refused(transition, keyspace);
        if self.waiting.enlist(queue, transition.cause) {
            self.backlog.put_off(transition.now, Retry::Queue(queue));
        }
    }

    /// Ends the forfeited holds of the lock at `home` and hands over.
    fn end_revoked<W: Keyspace>(&mut self, transition: &mut Transition, entry: DeadlineId, keyspace: &mut W) {
        if self.deadlines.contains(entry) {
            transition.cause = HandoverCause::Disconnect;
            if !self.refresh(transition, entry, keyspace) {
                self.refused(transition, keyspace);
                self.backlog.put_off(transition.now, Retry::Ending(entry));
            } else if self.revoked.at(entry) {
                self.end_later(entry);
            }
        } else {
            self.revoked.forget(entry);
            self.replaced.forget(entry);
        }
    }

    /// Ends what has lapsed at `home` and hands over.
    fn expire<W: Keyspace>(&mut self, transition: &mut Transition, entry: DeadlineId, keyspace: &mut W) {
        transition.cause = HandoverCause::Expiry;
        if !self.refresh(transition, entry, keyspace) {
            self.refused(transition, keyspace);
            self.deadlines.reschedule(entry, self.backlog.retries.next(transition.now.ms, RETRY));
        }
    }

    /// This node did not serve a key. If it serves none, there is no use in asking for the others.
    fn refused<W: Keyspace>(&mut self, transition: &Transition, keyspace: &mut W) {
        if keyspace.serves_nothing() {
            self.backlog.closed = transition.now.ms.plus(RETRY);
        }
    }

    /// Brings the place of `home` up to date; `false` if the lock is there and this node does not serve it.
    fn refresh<W: Keyspace>(&mut self, transition: &mut Transition, entry: DeadlineId, keyspace: &mut W) -> bool {
        let Some(place) = self.deadlines.key(entry).map(KeyRef::to_buf) else { return true };
        let at = place.as_key();
        // The value may have gone without a word to the engine, as with a slot that has moved. Then another one may live there, with a home
        // of its own.
        let gone = !matches!(keyspace.find(at), Found::Lock(lock) if lock.deadline_id() == Some(entry));
        if gone {
            self.vanished(at, Some(entry));
        }
        if !keyspace.owns_slot(at) {
            return gone;
        }
        if let Some(queue) = self.waiting.at(at) {
            transition.work.push(queue);
            self.commit(transition, keyspace);
        } else {
            let visit = self.visit(transition, at, keyspace, |_, _, _| ());
            self.leave_place(transition, at, visit, keyspace);
        }
        true
    }
}
