//! Tokens, their requests and the locks between them, by number.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter;

use crate::core::key::KeyBuf;
use crate::core::lock::terms::{Mode, WaiterId};

/// The token that asks, among the owners; its new request, among the waits.
pub(super) const ASKING: usize = 0;

/// The tokens, requests and locks that a new request would wait for.
pub(super) struct Graph {
    pub(super) owners: Vec<Owner>,
    pub(super) waits: Vec<Wait>,
    pub(super) locks: Vec<Held>,
    /// Whether another token waits for a lock that the asking token holds, or behind its new request.
    met: bool,
    /// Whether that closes a circle, whatever else there is.
    pub(super) certain: bool,
}

/// A token that waits, or that asks.
#[derive(Default)]
pub(super) struct Owner {
    /// Its requests; it goes on when all of them do. The asking token has none here.
    pub(super) waits: Vec<usize>,
    /// The locks that it holds.
    pub(super) locks: Vec<usize>,
}

/// A request that waits, or would wait.
pub(super) struct Wait {
    /// Its place in line; the new request has none.
    pub(super) id: Option<WaiterId>,
    pub(super) owner: usize,
    edges: Vec<Edge>,
    /// The nearest requests in front of it that may wait for others than it does, and the lock where each is in front.
    behind: Vec<(usize, usize)>,
    /// Reverse of `behind`.
    in_front_of: Vec<usize>,
    /// Whether the new request waits for it for certain.
    pub(super) needed: bool,
    /// Whether it is not known to go on.
    stuck: bool,
}

/// That a request waits for a lock.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    pub(super) lock: usize,
    /// With how many other holders it fits.
    pub(super) room: usize,
    /// Whether its token is one of the holders.
    pub(super) own: bool,
}

/// A lock, and those of its holders that wait themselves or are the asking token.
pub(super) struct Held {
    pub(super) key: KeyBuf,
    pub(super) mode: Mode,
    pub(super) holders: BTreeSet<usize>,
    /// How many of them are not known to go on.
    pub(super) stuck: usize,
    /// The requests that wait for it, each with the number of stuck holders that it fits with.
    pub(super) waits: Vec<(usize, usize)>,
    /// Whether all requests of its holders are known to be needed.
    pub(super) needed: bool,
}

/// A circle that a new request would close.
pub(in crate::core::lock::engine) enum Circle {
    /// Over these keys; its token holds the last one.
    Held(Vec<KeyBuf>),
    /// The circle exists only at this position in the queue: a request that the new one waits for would wait behind it.
    Behind,
}

impl Default for Graph {
    /// The new request alone.
    fn default() -> Self {
        let asking = Wait { needed: true, ..Wait::of(None, ASKING) };
        Self { owners: vec![Owner::default()], waits: vec![asking], locks: Vec::new(), met: false, certain: false }
    }
}

impl Graph {
    /// Notes that the request number `at` waits for a lock, and there for the requests `fronts`.
    pub(super) fn note(&mut self, at: usize, edge: Edge, fronts: &[usize]) {
        let (Some(wait), Some(held)) = (self.waits.get_mut(at), self.locks.get_mut(edge.lock)) else { return };
        let (owner, needs_front) = (wait.owner, wait.needed);
        let needs_all = wait.needed && edge.room == 0;
        wait.edges.push(edge);
        wait.behind.extend(fronts.iter().map(|front| (*front, edge.lock)));
        held.waits.push((edge.room.saturating_add(usize::from(edge.own)), at));
        if owner != ASKING && held.holders.contains(&ASKING) {
            self.met = true;
            self.certain |= needs_all;
        }
        self.met |= fronts.contains(&ASKING);
        for front in fronts {
            if let Some(front) = self.waits.get_mut(*front) {
                front.in_front_of.push(at);
                front.needed |= needs_front;
            }
        }
        if needs_all && !held.needed {
            held.needed = !edge.own;
            let others = held.holders.iter().filter(|holder| **holder != owner);
            for wait in others.filter_map(|holder| self.owners.get(*holder)).flat_map(|holder| &holder.waits) {
                if let Some(wait) = self.waits.get_mut(*wait) {
                    wait.needed = true;
                }
            }
        }
    }

    /// Whether the new request asks for a lock that its token does not hold.
    pub(super) fn asks_for(&self, lock: usize) -> bool {
        self.waits.get(ASKING).is_some_and(|wait| wait.edges.iter().any(|edge| edge.lock == lock))
    }

    /// The circle that the new request closes, if it does.
    pub(super) fn find_circle(mut self) -> Option<Circle> {
        if !self.met {
            return None;
        }
        if !self.certain {
            self.strike_out();
        }
        self.circle()
    }

    /// Strikes out the requests that can go on.
    fn strike_out(&mut self) {
        self.locks.iter_mut().for_each(|held| held.waits.sort_unstable());
        let mut work: Vec<usize> = (0..self.waits.len()).collect();
        while let Some(at) = work.pop() {
            let Some(wait) = self.waits.get(at).filter(|wait| wait.stuck && !self.is_blocked(wait)) else { continue };
            let owner = wait.owner;
            if let Some(wait) = self.waits.get_mut(at) {
                wait.stuck = false;
                work.extend(&wait.in_front_of);
            }
            let Some(owner) = self.owners.get(owner).filter(|_| owner != ASKING) else { continue };
            if owner.waits.iter().any(|wait| self.is_stuck(*wait)) {
                continue;
            }
            for lock in &owner.locks {
                let Some(held) = self.locks.get_mut(*lock) else { continue };
                held.stuck = held.stuck.saturating_sub(1);
                let stuck = held.stuck;
                while let Some((_, wait)) = held.waits.pop_if(|(room, _)| *room >= stuck) {
                    work.push(wait);
                }
            }
        }
    }

    fn is_stuck(&self, wait: usize) -> bool {
        self.waits.get(wait).is_some_and(|wait| wait.stuck)
    }

    fn is_blocked(&self, wait: &Wait) -> bool {
        wait.behind.iter().any(|(front, _)| self.is_stuck(*front)) || wait.edges.iter().any(|edge| self.is_shut(edge))
    }

    /// Whether the stuck holders of a lock are too many for a request.
    fn is_shut(&self, edge: &Edge) -> bool {
        let fits = edge.room.saturating_add(usize::from(edge.own));
        self.locks.get(edge.lock).is_some_and(|held| held.stuck > fits)
    }

    /// The circle: the shortest way from the new request to a hold of its token. If a request on the way stands behind it, that comes first:
    /// standing elsewhere, it might wait.
    fn circle(&self) -> Option<Circle> {
        let alone = self.certain || self.waits.get(ASKING)?.in_front_of.is_empty();
        let mut held = None;
        // From which request each was reached first, and over which lock.
        let mut from: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let mut to_visit = VecDeque::from([ASKING]);
        while let Some(at) = to_visit.pop_front() {
            let wait = self.waits.get(at)?;
            let mut next = wait.behind.clone();
            if !alone && next.iter().any(|(front, _)| *front == ASKING) {
                return Some(Circle::Behind);
            }
            for edge in &wait.edges {
                let shut = if self.certain { edge.room == 0 } else { self.is_shut(edge) };
                if !shut || seen.contains(&edge.lock) {
                    continue;
                }
                let holders = &self.locks.get(edge.lock)?.holders;
                if wait.owner != ASKING && holders.contains(&ASKING) {
                    held.get_or_insert_with(|| Circle::Held(self.keys(&from, at, edge.lock)));
                    if alone {
                        return held;
                    }
                }
                let others = holders.iter().filter(|holder| **holder != wait.owner);
                let waits = others.filter_map(|holder| self.owners.get(*holder)).flat_map(|holder| &holder.waits);
                next.extend(waits.map(|wait| (*wait, edge.lock)));
                if !edge.own {
                    seen.insert(edge.lock);
                }
            }
            let counts = |wait: &Wait| if self.certain { wait.needed } else { wait.stuck };
            for (next, lock) in next.into_iter().filter(|(next, _)| *next != ASKING) {
                if self.waits.get(next).is_some_and(counts) && !from.contains_key(&next) {
                    from.insert(next, (at, lock));
                    to_visit.push_back(next);
                }
            }
        }
        held
    }

    /// The keys over which the request number `at` was reached, and that of `lock`.
    fn keys(&self, from: &BTreeMap<usize, (usize, usize)>, at: usize, lock: usize) -> Vec<KeyBuf> {
        let back = iter::successors(Some((at, lock)), |(at, _)| from.get(at).copied());
        let mut keys: Vec<KeyBuf> =
            back.filter_map(|(_, lock)| self.locks.get(lock)).map(|held| held.key.clone()).collect();
        keys.reverse();
        // Behind another request there, and with that one behind the holders.
        keys.dedup();
        keys
    }
}

impl Wait {
    pub(super) fn of(id: Option<WaiterId>, owner: usize) -> Self {
        let (edges, behind, in_front_of) = Default::default();
        Self { id, owner, edges, behind, in_front_of, needed: false, stuck: true }
    }
}
