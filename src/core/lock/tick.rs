//! Work that no command asks for: leases that are over, connections that are gone, queues that another head stands in.

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
#[derive(Clone, Copy, Debug)]
pub(super) enum Chore {
    /// Look who fits at the head of a queue.
    Queue(QueueId),
    /// End the holds that are tied to a connection that is gone, from the one after `last` on.
    Session { client: ClientId, last: Option<Tied>, skipped: bool },
    /// Take back a grant that was never delivered.
    Grant(WaiterId),
}

impl Engine {
    /// Does what has fallen due, at most `budget` steps of it, and says when it wants to be called again.
    ///
    /// A step is a hold that ends, a waiter that is answered or a place that is looked at.
    pub fn tick<W: World>(&mut self, now: Now, budget: usize, world: &mut W) -> Next {
        let mut turn = Turn::outside(now, budget);
        while let Some((due, chore)) = self.put_off.front().copied()
            && due.reached(now.ms)
        {
            self.put_off.pop_front();
            self.chores.push_back(chore);
        }
        while turn.steps > 0 {
            if let Some(chore) = self.chores.pop_front() {
                turn.step();
                self.carry_out(&mut turn, chore, world);
            } else if let Some(home) = self.agenda.due(now.ms, &mut turn.steps) {
                turn.step();
                self.expire(&mut turn, home, world);
            } else {
                break;
            }
        }
        match self.next_due() {
            Next::At(due) if due.reached(now.ms) => Next::Now,
            next => next,
        }
    }

    /// When [`tick`](Self::tick) wants to be called. It may find nothing to do yet if leases were renewed meanwhile.
    pub fn next_due(&self) -> Next {
        if !self.chores.is_empty() || !self.doubtful.is_empty() {
            return Next::Now;
        }
        let retry = self.put_off.front().map(|(due, _)| *due);
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
                self.look_later(queue);
            }
        } else if self.undelivered.get(waiter).is_some() {
            self.chores.push_back(Chore::Grant(waiter));
        }
    }

    /// The reply to a waiter that was granted its lock has been written; the grant is not taken back any more.
    pub fn delivered(&mut self, waiter: WaiterId) {
        self.undelivered.settle(waiter);
    }

    /// Whether a grant is on its way to this connection.
    #[must_use]
    pub fn owes(&self, client: ClientId) -> bool {
        self.undelivered.of(client).next().is_some()
    }

    /// The connection that the grant of `waiter` is on its way to.
    #[must_use]
    pub fn owed_to(&self, waiter: WaiterId) -> Option<ClientId> {
        self.undelivered.get(waiter).map(|owed| owed.client)
    }

    /// Whether the end of this connection would change anything.
    #[must_use]
    pub fn knows(&self, client: ClientId) -> bool {
        self.sessions.has(client) || self.waiting.of(client).next().is_some() || self.owes(client)
    }

    /// A connection is gone. Its waiters leave at once. The holds tied to it, and those granted to it whose reply it never
    /// got, end at the next tick: this may be called where nothing may be written.
    pub fn client_gone(&mut self, client: ClientId) {
        for waiter in self.waiting.of(client).collect::<Vec<_>>() {
            self.left(waiter);
        }
        self.chores.extend(self.undelivered.of(client).map(Chore::Grant));
        if self.sessions.has(client) {
            self.chores.push_back(Chore::Session { client, last: None, skipped: false });
        }
    }

    /// Has `tick` look at `queue`.
    pub(super) fn look_later(&mut self, queue: QueueId) {
        if self.waiting.mark(queue) {
            self.chores.push_back(Chore::Queue(queue));
        }
    }

    /// Has `tick` try something again after a while.
    pub(super) fn try_later(&mut self, now: Now, chore: Chore) {
        self.put_off.push_back((now.ms.plus(RETRY).unwrap_or(UnixMs::MAX), chore));
    }

    fn carry_out<W: World>(&mut self, turn: &mut Turn, chore: Chore, world: &mut W) {
        turn.cause = Cause::Disconnect;
        match chore {
            Chore::Queue(queue) => {
                turn.cause = Cause::Other;
                turn.work.push_back(queue);
                self.settle(turn, world);
            }
            Chore::Session { client, last, skipped } => {
                let Some(tied) = self.sessions.after(client, last) else {
                    if skipped {
                        self.try_later(turn.now, Chore::Session { client, last: None, skipped: false });
                    }
                    return;
                };
                let ended = self.end_at_home(turn, tied.0, Which::Tied(tied.1, client), End::Disconnected, world);
                if ended {
                    // However the lock was found, this tie is served.
                    self.sessions.untie(client, tied);
                }
                self.chores.push_front(Chore::Session { client, last: Some(tied), skipped: skipped || !ended });
            }
            Chore::Grant(waiter) => {
                let Some(owed) = self.undelivered.get(waiter) else { return };
                let (fence, homes) = (owed.fence, owed.homes.clone());
                let mut all = true;
                for home in homes {
                    all &= self.end_at_home(turn, home, Which::Numbered(fence), End::Undelivered, world);
                }
                if all {
                    self.undelivered.settle(waiter);
                } else {
                    self.try_later(turn.now, chore);
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
            self.settle(turn, world);
        } else if let Some(visit) = self.visit(turn, at, world, |_, _, _, _| ()) {
            self.close(at, visit.vacant, world);
        }
    }
}
