//! The queues: which request waits for which key, in which order.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::Arc;

use super::stats::HandoverCause;
use super::terms::{ClientId, WaiterId};
use super::tickets::{Ticket, Tickets};
use super::waiter::{Joined, QueueId, Retired, Scope, Waiter};
use crate::core::id::Ident;
use crate::core::key::{KeyBuf, KeyRef};
use crate::core::slab::{Id, Slab};
use crate::core::time::{Millis, UnixMs};

mod leaving;

/// Spreads numbers over all bits: 2^64 over the golden ratio.
const ODD: u64 = 0x9E37_79B9_7F4A_7C15;

/// A queue; it exists while it has a waiter.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) key: Arc<KeyBuf>,
    /// Set if the queue must be served, with the reason.
    dirty: Option<HandoverCause>,
    /// Whether it is on the list of queues to serve.
    listed: bool,
    tickets: Tickets,
    /// The requests for many keys among them.
    many: BTreeMap<Ticket, WaiterId>,
}

/// All queues and all waiters. Every operation on one waiter is O(log n) per queue that it is in.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Each with the hash of its token.
    waiters: Slab<(u64, Waiter)>,
    queues: Slab<Queue>,
    /// By the hash of the key. A hash table would hash all keys again in the step in which it grows.
    by_key: BTreeSet<(u64, QueueId)>,
    /// The queue in `by_key` that was looked at last; see [`next_keys`](Self::next_keys).
    looked_at: Option<(u64, QueueId)>,
    /// The queue that was found last: the steps of a request ask for one again and again.
    found: Cell<Option<QueueId>>,
    hasher: RandomState,
    /// By token and all keys, so that the next request of a token finds its waiting one.
    by_request: Index,
    /// By token and key, those for many keys.
    by_place: Index,
    /// By token and obstacle, those for many keys. One token may wait in very many of them for a key that it holds.
    by_obstacle: Index,
    /// Requests for many keys that wait no more and are still to be taken out of their queues.
    retired: BTreeMap<WaiterId, Retired>,
    /// By connection, for those that have one.
    by_client: BTreeSet<(ClientId, WaiterId)>,
    by_token: Index,
    /// When the time of each notified waiter is over that has a limit.
    by_end: BTreeSet<(UnixMs, WaiterId)>,
    /// How many waiters are notified.
    notified: usize,
    /// The last ticket given at the end of the line; `front` is the last one given in front of it.
    last: i64,
    front: i64,
    /// How long the requests that have left were waiting, added up.
    waited: Millis,
}

/// Waiting requests by a hash: of the request, its place, its obstacle or its token. One token may have all of them, so they are ordered: a
/// hash table would walk through those of the same hash.
#[derive(Debug, Default)]
struct Index(BTreeSet<(u64, WaiterId)>);

impl Index {
    /// Those of this hash. Another token may have it, too.
    fn of(&self, hash: u64) -> impl Iterator<Item = WaiterId> {
        self.0.range((hash, WaiterId::FIRST)..=(hash, WaiterId::LAST)).map(|(_, id)| *id)
    }
}

impl Queue {
    /// Its waiters, in order.
    pub(super) fn line(&self) -> impl Iterator<Item = WaiterId> {
        self.tickets.iter()
    }

    /// The number of its waiters.
    pub(super) fn len(&self) -> usize {
        self.tickets.len()
    }

    /// Whether a request for many keys waits here.
    pub(super) fn has_many(&self) -> bool {
        !self.many.is_empty()
    }

    /// Its waiters in front of `ticket`: all, or only those that wait for many keys.
    pub(super) fn before(&self, ticket: Ticket, only_many: bool) -> impl DoubleEndedIterator<Item = WaiterId> {
        let many = only_many.then(|| self.many.range(..ticket).map(|(_, id)| *id));
        let all = (!only_many).then(|| self.tickets.before(ticket));
        many.into_iter().flatten().chain(all.into_iter().flatten())
    }
}

/// The hash of a token together with queues. Only the token is its caller's choice, so only its hash has to be a keyed one.
fn with_queues(of_token: u64, queues: &[QueueId]) -> u64 {
    queues.iter().fold(of_token, |hash, queue| (hash ^ u64::from(queue.0.slot())).wrapping_mul(ODD))
}

impl Waiting {
    /// The number of waiting requests.
    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// How long the requests that have left were waiting, added up.
    pub(super) fn waited(&self) -> Millis {
        self.waited
    }

    /// How many of the waiting requests are notified.
    pub(super) fn notified(&self) -> usize {
        self.notified
    }

    /// When the time of the next notified waiter is over, and which that is.
    pub(super) fn first_end(&self) -> Option<(UnixMs, WaiterId)> {
        self.by_end.first().copied()
    }

    /// The place of a waiter in its longest queue; 1 is next.
    pub(super) fn place(&self, waiter: WaiterId) -> u64 {
        let Some(waiter) = self.waiter(waiter) else { return 0 };
        let queues = waiter.scope.queues().iter().filter_map(|queue| self.queue(*queue));
        let longest = queues.map(|queue| queue.tickets.place(waiter.ticket)).max();
        longest.and_then(|place| u64::try_from(place).ok()).unwrap_or(0)
    }

    /// The queue at `at`, if there is one. Costs nothing while there are no waiters at all.
    pub(super) fn at(&self, at: KeyRef<'_>) -> Option<QueueId> {
        if self.by_key.is_empty() {
            return None;
        }
        let is_here = |queue: &QueueId| self.queues.get(queue.0).is_some_and(|queue| queue.key.as_key() == at);
        if let Some(queue) = self.found.get().filter(is_here) {
            return Some(queue);
        }
        let hash = self.hasher.hash_one(at);
        let mut same =
            self.by_key.range((hash, QueueId(Id::FIRST))..=(hash, QueueId(Id::LAST))).map(|(_, queue)| *queue);
        let queue = same.find(is_here);
        self.found.set(queue);
        queue
    }

    pub(super) fn queue(&self, queue: QueueId) -> Option<&Queue> {
        self.queues.get(queue.0)
    }

    pub(super) fn waiter(&self, waiter: WaiterId) -> Option<&Waiter> {
        self.waiters.get(waiter.0).map(|(_, waiter)| waiter)
    }

    /// The first waiter in `queue`.
    pub(super) fn head(&self, queue: QueueId) -> Option<WaiterId> {
        self.queue(queue)?.line().find(|id| self.waits(*id))
    }

    /// How many requests wait in `queue`.
    pub(super) fn count(&self, queue: &Queue) -> usize {
        if self.retired.is_empty() { queue.len() } else { queue.line().filter(|id| self.waits(*id)).count() }
    }

    /// Whether the request still waits. One that has retired may be found in its queues until it is unlinked.
    pub(super) fn waits(&self, id: WaiterId) -> bool {
        self.retired.is_empty() || self.waiters.get(id.0).is_some()
    }

    /// The waiting request of `token` in `scope`.
    pub(super) fn waiting_request(&self, token: &Ident, scope: &Scope) -> Option<WaiterId> {
        if self.waiters.is_empty() {
            return None;
        }
        let is_it = |waiter: &Waiter| waiter.request.token == *token && waiter.scope == *scope;
        let mut requests = self.by_request.of(with_queues(self.hasher.hash_one(token), scope.queues()));
        requests.find(|id| self.waiter(*id).is_some_and(is_it))
    }

    /// All requests of `token` that wait at `now`.
    pub(super) fn requests_of(&self, token: &Ident, now: UnixMs) -> impl Iterator<Item = WaiterId> {
        let hash = (!self.waiters.is_empty()).then(|| self.hasher.hash_one(token));
        let waits = move |waiter: &Waiter| waiter.request.token == *token && !waiter.is_timed_out(now);
        let requests = hash.into_iter().flat_map(|hash| self.by_token.of(hash));
        requests.filter(move |id| self.waiter(*id).is_some_and(waits))
    }

    /// The requests of `token` in `queue`: first the one for this key alone, then those for many keys.
    pub(super) fn requests_at(&self, queue: QueueId, token: &Ident) -> impl Iterator<Item = WaiterId> {
        self.one_and(&self.by_place, queue, token, move |waiter| waiter.scope.queues().binary_search(&queue).is_ok())
    }

    /// Those of them that cannot have the key while another token holds it or is in front: a request for many keys only if this key is its
    /// obstacle.
    pub(super) fn blocked_at(&self, queue: QueueId, token: &Ident) -> impl Iterator<Item = WaiterId> {
        self.one_and(&self.by_obstacle, queue, token, move |waiter| waiter.obstacle == Some(queue))
    }

    /// The request of `token` for the key of `queue` alone, then those for many keys that `index` has there.
    fn one_and<'a>(
        &'a self,
        index: &'a Index,
        queue: QueueId,
        token: &Ident,
        is_there: impl Fn(&Waiter) -> bool,
    ) -> impl Iterator<Item = WaiterId> {
        let is_many = self.queue(queue).is_some_and(Queue::has_many);
        let hash = is_many.then(|| with_queues(self.hasher.hash_one(token), &[queue]));
        let many = hash.into_iter().flat_map(|hash| index.of(hash));
        let is_its = move |waiter: &Waiter| waiter.request.token == *token && is_there(waiter);
        let many = many.filter(move |id| self.waiter(*id).is_some_and(&is_its));
        self.waiting_request(token, &Scope::One(queue)).into_iter().chain(many)
    }

    /// The request `id` for many keys cannot have the key of `queue`.
    pub(super) fn block_multi_at(&mut self, id: WaiterId, queue: QueueId) {
        if let Some((of_token, waiter)) = self.waiters.get_mut(id.0) {
            let before = waiter.obstacle.replace(queue);
            self.by_obstacle.0.insert((with_queues(*of_token, &[queue]), id));
            if let Some(before) = before.filter(|before| *before != queue) {
                self.by_obstacle.0.remove(&(with_queues(*of_token, &[before]), id));
            }
        }
    }

    /// All waiting requests.
    pub(super) fn ids(&self) -> impl Iterator<Item = WaiterId> {
        self.waiters.iter().map(|(id, _)| WaiterId(id))
    }

    /// The waiting requests whose clients are blocked.
    pub(super) fn parked(&self) -> impl Iterator<Item = WaiterId> {
        let parked = self.waiters.iter().filter(|(_, (_, waiter))| waiter.parked().is_some());
        parked.map(|(id, _)| WaiterId(id))
    }

    /// The waiting requests that are notified, first in line first.
    pub(super) fn notified_ones(&self) -> Vec<WaiterId> {
        let notified = self.waiters.iter().filter(|(_, (_, waiter))| waiter.request.wait.is_notified());
        let mut ones: Vec<_> = notified.map(|(id, (_, waiter))| (waiter.ticket, WaiterId(id))).collect();
        ones.sort_unstable();
        ones.into_iter().map(|(_, id)| id).collect()
    }

    /// All clients with waiting requests.
    pub(super) fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.by_client.iter().map(|(client, _)| *client)
    }

    /// The waiting requests of `client`.
    pub(super) fn of(&self, client: ClientId) -> impl Iterator<Item = WaiterId> {
        self.by_client.range((client, WaiterId::FIRST)..=(client, WaiterId::LAST)).map(|(_, waiter)| *waiter)
    }

    /// The queues of the database `db`, or of all of them. O(number of queues).
    pub(super) fn in_db(&self, db: Option<i32>) -> impl Iterator<Item = QueueId> {
        let wanted = move |queue: &Queue| db.is_none_or(|db| queue.key.as_key().db == db);
        self.queues.iter().filter(move |(_, queue)| wanted(queue)).map(|(id, _)| QueueId(id))
    }

    /// The keys of the next `most` queues. Calls come to every queue in turn, and then begin again.
    pub(super) fn next_keys(&mut self, most: usize) -> Vec<Arc<KeyBuf>> {
        let behind = self.looked_at.map_or(Bound::Unbounded, Bound::Excluded);
        let next: Vec<_> = self.by_key.range((behind, Bound::Unbounded)).take(most).copied().collect();
        self.looked_at = next.last().copied().filter(|_| next.len() == most);
        next.into_iter().filter_map(|(_, queue)| Some(self.queue(queue)?.key.clone())).collect()
    }

    /// Records that `queue` must be served.
    pub(super) fn set_dirty(&mut self, queue: QueueId, cause: HandoverCause) {
        if let Some(queue) = self.queues.get_mut(queue.0) {
            queue.dirty.get_or_insert(cause);
        }
    }

    /// Records that `queue` must be served, and returns whether the caller must put it on a list. `false` if it is listed already or gone.
    pub(super) fn enlist(&mut self, queue: QueueId, cause: HandoverCause) -> bool {
        self.set_dirty(queue, cause);
        self.queues.get_mut(queue.0).is_some_and(|queue| !std::mem::replace(&mut queue.listed, true))
    }

    /// `queue` is not on a list any more.
    pub(super) fn delist(&mut self, queue: QueueId) {
        if let Some(queue) = self.queues.get_mut(queue.0) {
            queue.listed = false;
        }
    }

    /// Whether the lock of `queue` alone decides about its head, and no work is pending for it.
    pub(super) fn is_quiet(&self, queue: QueueId) -> bool {
        let alone = |head: WaiterId| self.waiter(head).is_some_and(|head| matches!(head.scope, Scope::One(_)));
        self.queue(queue).is_some_and(|queue| queue.dirty.is_none()) && self.head(queue).is_some_and(alone)
    }

    /// The pending work for `queue` is being done; returns its cause.
    pub(super) fn take_dirty(&mut self, queue: QueueId) -> Option<HandoverCause> {
        self.queues.get_mut(queue.0)?.dirty.take()
    }

    /// The queue at `at`, created if necessary; the caller is about to add a waiter.
    pub(super) fn open(&mut self, at: KeyRef<'_>) -> QueueId {
        if let Some(queue) = self.at(at) {
            return queue;
        }
        let key = Arc::new(at.to_buf());
        let queue = Queue { key, dirty: None, listed: false, tickets: Tickets::default(), many: BTreeMap::new() };
        let queue = QueueId(self.queues.insert(queue));
        self.by_key.insert((self.hasher.hash_one(at), queue));
        queue
    }

    /// A ticket for the end of the line.
    pub(super) fn next_ticket(&mut self) -> Ticket {
        self.last = self.last.saturating_add(1);
        Ticket(self.last)
    }

    /// A ticket in front of all others.
    pub(super) fn front_ticket(&mut self) -> Ticket {
        self.front = self.front.saturating_sub(1);
        Ticket(self.front)
    }

    /// Queues a request, instead of an `earlier` one.
    pub(super) fn join(&mut self, waiter: Waiter, earlier: Option<WaiterId>) -> Joined {
        let struck = earlier.and_then(|earlier| self.strike(waiter.since, earlier));
        let (replaced, mut headed) = struck.map_or_else(Default::default, |(waiter, headed)| (Some(waiter), headed));
        let (client, notified) = (waiter.request.client, waiter.request.wait.is_notified());
        let (ticket, scope, obstacle) = (waiter.ticket, waiter.scope.clone(), waiter.obstacle);
        let of_token = self.hasher.hash_one(&waiter.request.token);
        let id = WaiterId(self.waiters.insert((of_token, waiter)));
        let mut longest = 0;
        for queue in scope.queues() {
            if let Some(queue) = self.queues.get_mut(queue.0) {
                queue.tickets.insert(ticket, id);
                if matches!(scope, Scope::Many(_)) {
                    queue.many.insert(ticket, id);
                }
                longest = longest.max(queue.tickets.len());
            }
        }
        self.by_request.0.insert((with_queues(of_token, scope.queues()), id));
        if let Scope::Many(queues) = &scope {
            self.by_place.0.extend(queues.iter().map(|queue| (with_queues(of_token, &[*queue]), id)));
        }
        self.by_obstacle.0.extend(obstacle.map(|obstacle| (with_queues(of_token, &[obstacle]), id)));
        self.by_token.0.insert((of_token, id));
        self.by_end.extend(self.waiters.get(id.0).and_then(|(_, waiter)| waiter.ending(id)));
        self.by_client.extend(client.map(|client| (client, id)));
        self.notified = self.notified.saturating_add(usize::from(notified));
        headed.retain(|queue| self.head(*queue) != Some(id));
        Joined { id, longest, replaced, headed }
    }
}

#[cfg(test)]
impl Waiting {
    pub(super) fn is_blank(&self) -> bool {
        self.waiters.is_empty()
            && self.queues.is_empty()
            && self.by_key.is_empty()
            && [&self.by_request, &self.by_place, &self.by_obstacle, &self.by_token]
                .iter()
                .all(|index| index.0.is_empty())
            && self.retired.is_empty()
            && self.by_client.is_empty()
            && self.by_end.is_empty()
            && self.notified == 0
    }
}
