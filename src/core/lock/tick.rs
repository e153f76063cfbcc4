//! Work that no command asks for: leases that are over, connections that are gone, queues that another head stands in.

use std::collections::VecDeque;

use super::engine::Engine;
use super::session::Tied;
use super::settle::{Turn, Which};
use super::stats::{Cause, count};
use super::terms::{ClientId, End, Found, World};
use super::waiting::{QueueId, WaiterId};
use crate::core::agenda::HomeId;
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
    /// Holds that end. These come first: whoever ends at the same instant ends before anybody is granted.
    endings: VecDeque<Ending>,
    /// Queues in whose head there may be somebody who fits.
    queues: VecDeque<QueueId>,
    /// What could not be done because this node does not serve the key, and when to try again.
    put_off: VecDeque<(UnixMs, PutOff)>,
}

/// Holds that end because of a connection.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// End the holds that are tied to a connection that is gone, from the one after `last` on.
    Session { client: ClientId, last: Option<Tied>, skipped: bool },
    /// Take back a grant that was never delivered.
    Grant(WaiterId),
}

#[derive(Clone, Copy, Debug)]
enum PutOff {
    Ending(Ending),
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
                PutOff::Ending(ending) => self.endings.push_back(ending),
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
            if let Some(ending) = self.chores.endings.pop_front() {
                turn.cause = Cause::Disconnect;
                self.carry_out(&mut turn, ending, world);
            } else if let Some(queue) = self.chores.queues.pop_front() {
                turn.work.push_back(queue);
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
        if !(self.chores.endings.is_empty() && self.chores.queues.is_empty() && self.doubtful.is_empty()) {
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
        } else if self.undelivered.get(waiter).is_some() {
            self.chores.endings.push_back(Ending::Grant(waiter));
        }
    }

    /// The reply to a waiter that was granted its lock has been written; the grant is not taken back any more.
    pub fn delivered(&mut self, waiter: WaiterId) {
        self.undelivered.settle(waiter);
    }

    /// Whether the end of this connection would change anything.
    #[must_use]
    pub fn knows(&self, client: ClientId) -> bool {
        self.sessions.has(client)
            || self.waiting.of(client).next().is_some()
            || self.undelivered.of(client).next().is_some()
    }

    /// A connection is gone. Its waiters leave at once. The holds tied to it, and those granted to it whose reply it never
    /// got, end at the next tick: this may be called where nothing may be written.
    pub fn client_gone(&mut self, client: ClientId) {
        for waiter in self.waiting.of(client).collect::<Vec<_>>() {
            self.left(waiter);
        }
        self.chores.endings.extend(self.undelivered.of(client).map(Ending::Grant));
        if self.sessions.has(client) {
            self.chores.endings.push_back(Ending::Session { client, last: None, skipped: false });
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

    fn carry_out<W: World>(&mut self, turn: &mut Turn, ending: Ending, world: &mut W) {
        match ending {
            Ending::Session { client, last, skipped } => {
                let Some(tied) = self.sessions.after(client, last) else {
                    if skipped {
                        let again = Ending::Session { client, last: None, skipped: false };
                        self.chores.put_off(turn.now, PutOff::Ending(again));
                    }
                    return;
                };
                let ended = self.end_at_home(turn, tied.0, Which::Tied(tied.1, client), End::Disconnected, world);
                if ended {
                    // However the lock was found, this tie is served.
                    self.sessions.untie(client, tied);
                }
                self.chores.endings.push_front(Ending::Session {
                    client,
                    last: Some(tied),
                    skipped: skipped || !ended,
                });
            }
            Ending::Grant(waiter) => {
                let Some(owed) = self.undelivered.get(waiter) else { return };
                let (fence, homes) = (owed.fence, owed.homes.clone());
                let mut all = true;
                for home in homes {
                    all &= self.end_at_home(turn, home, Which::Numbered(fence), End::Undelivered, world);
                }
                if all {
                    self.undelivered.settle(waiter);
                } else {
                    self.chores.put_off(turn.now, PutOff::Ending(ending));
                }
            }
        }
    }

    /// Ends a hold of the lock that lives at `home`, if it is there; `false` if this node does not serve the key.
    fn end_at_home<W: World>(
        &mut self,
        turn: &mut Turn,
        home: HomeId,
        which: Which<'_>,
        why: End,
        world: &mut W,
    ) -> bool {
        let Some(place) = self.agenda.place(home).map(At::keep) else { return true };
        if !world.may_grant(place.at()) {
            return false;
        }
        self.end(turn, place.at(), which, why, world);
        self.finish(turn, world);
        true
    }

    /// Ends what has lapsed at `home` and hands over.
    fn expire<W: World>(&mut self, turn: &mut Turn, home: HomeId, world: &mut W) {
        let Some(place) = self.agenda.place(home).map(At::keep) else { return };
        let at = place.at();
        if !world.may_grant(at) {
            self.agenda.rearm(home, turn.now.ms.plus(RETRY).unwrap_or(UnixMs::MAX));
            return;
        }
        // The value may have gone without a word to the engine. Then another one may live there, with a home of its own.
        if !matches!(world.find(at), Found::Lock(lock) if lock.home() == Some(home)) {
            self.vanished(at, Some(home));
        }
        turn.cause = Cause::Expiry;
        if let Some(queue) = self.waiting.at(at) {
            turn.work.push_back(queue);
            self.finish(turn, world);
        } else {
            let visit = self.visit(turn, at, world, |_, _, _, _| ());
            self.leave_place(turn, at, visit, world);
        }
    }
}
