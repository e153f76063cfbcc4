//! Circles of tokens that would wait for each other.
//!
//! A request closes a circle if it can never be granted, because holders that wait themselves keep it from its lock, and they wait,
//! directly or through others, for a lock that its own token holds. The search assumes that a token that can go on does so: a token that
//! waits for nothing releases its holds, and a waiter that is granted a lock releases it, too. So a circle is not claimed where a permit
//! may become free outside of it. Time limits and leases do not count: a circle that only they would end is a circle.
//!
//! The search collects the requests that the new one would wait for. Those that can go on are struck out. If the token's own holds keep one
//! of the others waiting, the way there is the circle. Where all in between must go before a request fits, there is nothing to strike
//! out, so the search is over at the first hold of the token. It is bounded; a request beyond the bound is not seen.

mod graph;

use std::collections::{BTreeMap, BTreeSet};

pub(super) use self::graph::Circle;
use self::graph::{ASKING, Edge, Graph, Held, Owner, Wait};
use super::Engine;
use super::transition::Transition;
use crate::core::id::Ident;
use crate::core::key::{KeyBuf, KeyRef};
use crate::core::lock::hold::HoldRef;
use crate::core::lock::keyspace::{Found, Keyspace};
use crate::core::lock::queue::Queue;
use crate::core::lock::terms::{Mode, WaiterId, Wanted};
use crate::core::lock::tickets::Ticket;
use crate::core::lock::vacant_places::Asked;
use crate::core::lock::value::Lock;
use crate::core::time::UnixMs;

/// The length of a search, in tenths of a step. A lock whose one holder waits for another lock is a step. Beyond a thousand of them nothing is
/// claimed.
const LENGTH: usize = 10_000;
/// The length that a lock adds to the search, in tenths of a step. Each request, each lock that it asks for and each hold of a token that
/// waits add 1.
const LOCK: usize = 7;
/// So many other holds of a lock add 1.
const HOLDS: usize = 4;

/// Room for any number of other holders.
const ANY: usize = usize::MAX;

/// Collects the holds and requests that a new request would wait for.
struct Search<'a> {
    engine: &'a Engine,
    now: UnixMs,
    /// The token that asks.
    token: &'a Ident,
    /// Its earlier request, which the new one replaces.
    earlier: Option<WaiterId>,
    /// A request behind this position in one of its lines stands behind the new request.
    ahead_of: Ticket,
    /// The rest of its length.
    length: usize,
    graph: Graph,
    by_token: BTreeMap<Ident, usize>,
    by_waiter: BTreeMap<WaiterId, usize>,
    by_key: BTreeMap<KeyBuf, usize>,
}

/// The mode that a request asks for, and its position in line.
struct Ask {
    wanted: Wanted,
    ticket: Ticket,
    keys: Vec<KeyBuf>,
}

impl<W: Keyspace> Transition<'_, W> {
    /// Whether a holder of one of `keys` is itself waiting, or a request for several keys waits there. Only then a circle is possible.
    pub(super) fn may_close_a_circle(&mut self, keys: &[KeyRef<'_>]) -> bool {
        let Self { engine, keyspace, course, .. } = self;
        keys.iter().any(|at| {
            let queue = engine.waiting.at(*at).and_then(|queue| engine.waiting.queue(queue));
            queue.is_some_and(Queue::has_many)
                || matches!(keyspace.find(*at), Found::Lock(lock)
                    if engine.waiting_holds(lock, course.now.ms).next().is_some())
        })
    }

    /// The circle that a request would close if it waited with this ticket. It replaces the `earlier` request of its token.
    pub(super) fn circle(
        &mut self,
        asked: Asked<'_>,
        wanted: Wanted,
        earlier: Option<WaiterId>,
        ticket: Ticket,
    ) -> Option<Circle> {
        let ask = Ask { wanted, ticket, keys: asked.keys.iter().map(|at| at.to_buf()).collect() };
        Search::of(self.engine, self.course.now.ms, asked.token, earlier, ticket).run(ask, self.keyspace)
    }
}

impl Engine {
    /// The holds of `lock` whose tokens wait for anything. A token with several requests may come several times. Looks at the fewer: the
    /// holds or the requests, and at no more of them than a search may.
    fn waiting_holds<'l>(&'l self, lock: &'l Lock, now: UnixMs) -> impl Iterator<Item = HoldRef<'l>> {
        let (holds, requests) = if lock.len() <= self.waiting.len() { (LENGTH, 0) } else { (0, LENGTH) };
        let waits = move |hold: &HoldRef<'_>| self.waiting.requests_of(hold.token, now).next().is_some();
        let of_request = move |id: WaiterId| lock.hold(&self.waiting.waiter(id)?.request.token);
        let holds = lock.holds().take(holds).filter(waits);
        holds.chain(self.waiting.ids().take(requests).filter_map(of_request))
    }
}

impl<'a> Search<'a> {
    fn of(engine: &'a Engine, now: UnixMs, token: &'a Ident, earlier: Option<WaiterId>, ticket: Ticket) -> Self {
        // Those behind a holder that wants more wait for its hold in any case.
        let ahead_of = if ticket == Ticket::FIRST { Ticket::LAST } else { ticket };
        let by_token = BTreeMap::from([(token.clone(), ASKING)]);
        let (graph, by_waiter, by_key) = Default::default();
        Self { engine, now, token, earlier, ahead_of, length: LENGTH, graph, by_token, by_waiter, by_key }
    }

    fn run<W: Keyspace>(mut self, ask: Ask, keyspace: &mut W) -> Option<Circle> {
        let mut next = Some(ask);
        for at in ASKING.. {
            let Some(ask) = next else { break };
            self.follow(at, ask, keyspace)?;
            if self.graph.certain {
                break;
            }
            next = self.graph.waits.get(at.saturating_add(1)).and_then(|wait| self.ask_of(wait.id?));
        }
        self.graph.find_circle()
    }

    /// What the request `id` asks for.
    fn ask_of(&self, id: WaiterId) -> Option<Ask> {
        let waiter = self.engine.waiting.waiter(id)?;
        let queues = waiter.scope.queues().iter().filter_map(|queue| self.engine.waiting.queue(*queue));
        let keys = queues.map(|queue| (*queue.key).clone()).collect();
        Some(Ask { wanted: waiter.request.mode, ticket: waiter.ticket, keys })
    }

    /// Takes `length` off what is left; `None` if that is less.
    fn spend(&mut self, length: usize) -> Option<()> {
        self.length = self.length.checked_sub(length)?;
        Some(())
    }

    /// Notes the holds and requests that request number `at`, which asks for `ask`, waits for.
    fn follow<W: Keyspace>(&mut self, at: usize, ask: Ask, keyspace: &mut W) -> Option<()> {
        let owner = self.graph.waits.get(at)?.owner;
        for key in ask.keys {
            self.spend(1)?;
            let queue = self.engine.waiting.at(key.as_key()).and_then(|queue| self.engine.waiting.queue(queue));
            let lock = self.look_at(key, keyspace)?;
            let held = self.graph.locks.get(lock)?;
            let own = held.holders.contains(&owner);
            if own && held.mode == Mode::Exclusive {
                // No obstacle, whichever requests are in front.
                continue;
            }
            let edge = Edge { lock, room: room(held.mode, ask.wanted, own), own };
            // A holder that wants more is in front of all others. Where no other holder leaves room, those in front that want this key alone
            // wait for the same holders. Of the others the nearest is enough, which waits for those in front of it, unless it is a holder.
            let is_behind = !own && self.ahead_of < ask.ticket && self.graph.asks_for(lock);
            let mut fronts: Vec<usize> = is_behind.then_some(ASKING).into_iter().collect();
            let in_front =
                queue.filter(|_| !own).into_iter().flat_map(|queue| queue.before(ask.ticket, edge.room == 0).rev());
            let earlier = self.earlier;
            for front in in_front.filter(|front| Some(*front) != earlier && self.engine.waiting.waits(*front)) {
                let front = self.request(front, None)?;
                fronts.push(front);
                let owner = self.graph.waits.get(front)?.owner;
                if !self.graph.locks.get(lock)?.holders.contains(&owner) {
                    break;
                }
                self.spend(1)?;
            }
            self.graph.note(at, edge, &fronts);
        }
        Some(())
    }

    /// The number of the request `id`, whose owner may be known.
    fn request(&mut self, id: WaiterId, owner: Option<usize>) -> Option<usize> {
        if let Some(known) = self.by_waiter.get(&id) {
            return Some(*known);
        }
        self.spend(1)?;
        let owner = match owner {
            Some(owner) => owner,
            None => self.owner(&self.engine.waiting.waiter(id)?.request.token)?,
        };
        if let Some(known) = self.by_waiter.get(&id) {
            return Some(*known);
        }
        self.by_waiter.insert(id, self.graph.waits.len());
        self.graph.waits.push(Wait::of(Some(id), owner));
        Some(self.graph.waits.len().saturating_sub(1))
    }

    /// The number of `token`, with all its requests.
    fn owner(&mut self, token: &Ident) -> Option<usize> {
        if let Some(known) = self.by_token.get(token) {
            return Some(*known);
        }
        let owner = self.graph.owners.len();
        self.by_token.insert(token.clone(), owner);
        self.graph.owners.push(Owner::default());
        for id in self.engine.waiting.requests_of(token, self.now) {
            let wait = self.request(id, Some(owner))?;
            self.graph.owners.get_mut(owner)?.waits.push(wait);
        }
        Some(owner)
    }

    /// The number of the lock at `key`.
    fn look_at<W: Keyspace>(&mut self, key: KeyBuf, keyspace: &mut W) -> Option<usize> {
        if let Some(known) = self.by_key.get(&key) {
            return Some(*known);
        }
        self.spend(LOCK)?;
        let (lock, mut mode, mut holders) = (self.graph.locks.len(), Mode::Exclusive, BTreeSet::new());
        if let Found::Lock(value) = keyspace.find(key.as_key()) {
            self.spend(value.len().min(self.engine.waiting.len()).wrapping_div(HOLDS))?;
            for hold in value.hold(self.token).into_iter().chain(self.engine.waiting_holds(value, self.now)) {
                self.spend(1)?;
                // An expired grant is final; the hold that it replaced is gone.
                let lasts = |deadline: UnixMs| !deadline.reached(self.now);
                let standing = lasts(hold.deadline).then(|| self.engine.standing_hold(value, hold)).flatten();
                let Some((held_as, hold)) = standing.filter(|(_, hold)| lasts(hold.deadline)) else { continue };
                mode = held_as;
                let owner = self.owner(hold.token)?;
                let waits = owner == ASKING || !self.graph.owners.get(owner)?.waits.is_empty();
                if waits && holders.insert(owner) {
                    self.graph.owners.get_mut(owner)?.locks.push(lock);
                }
            }
        }
        self.by_key.insert(key.clone(), lock);
        let stuck = holders.len();
        self.graph.locks.push(Held { key, mode, holders, stuck, waits: Vec::new(), needed: false });
        Some(lock)
    }
}

/// With how many other holders of a lock in this `mode` a request fits that wants it as `wanted`; `own`: and that is of one of the holders.
fn room(mode: Mode, wanted: Wanted, own: bool) -> usize {
    match (mode, wanted) {
        (Mode::Shared, Wanted::Shared) => ANY,
        (Mode::Exclusive, _) | (Mode::Limit, Wanted::Limit(_)) if own => ANY,
        (Mode::Limit, Wanted::Limit(permits)) => usize::try_from(permits).unwrap_or(ANY).saturating_sub(1),
        _ => 0,
    }
}
