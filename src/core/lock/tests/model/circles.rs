//! Which token waits for which: every token that can go on does so, and the rest are searched for a circle.

use std::collections::BTreeSet;

use super::{Ask, Held, Key, Model, Parked};
use crate::core::lock::{Mode, Wanted};

/// How a request would wait for itself: a token that it waits for waits for a lock of its own token, or behind the request.
#[derive(Default)]
pub(super) struct Itself {
    pub(super) held: bool,
    pub(super) in_line: bool,
}

impl Model {
    /// Whether `ask`, waiting at `rank` in the place of its `earlier` request, could only go on if its own token did.
    pub(super) fn would_wait_for_itself(&self, ask: &Ask, rank: i64, earlier: Option<&Parked>) -> Itself {
        let mut itself = Itself::default();
        let mut rest = self.clone();
        rest.line.retain(|parked| earlier.is_none_or(|earlier| earlier.rank != parked.rank));
        let own = Parked { id: None, ask: ask.clone(), since: self.now, rank };
        rest.line.push(own.clone());
        rest.elsewhere.clear();
        rest.expire();
        while rest.goes_on() {}
        let mut reached: Vec<&Parked> = rest.line.iter().filter(|parked| parked.rank == rank).collect();
        let mut seen: BTreeSet<i64> = BTreeSet::new();
        while let Some(parked) = reached.pop() {
            if !seen.insert(parked.rank) {
                continue;
            }
            for key in &parked.ask.keys {
                for hold in rest.in_the_way(parked, *key) {
                    itself.held |= hold.token == ask.token;
                    reached.extend(rest.line.iter().filter(|other| other.ask.token == hold.token));
                }
                itself.in_line |= rest.in_front(parked, *key).any(|other| other.rank == rank);
                reached.extend(rest.in_front(parked, *key));
            }
        }
        itself
    }

    /// Whether every waiter is granted in the end, if each token that can go on releases what it holds.
    pub(in super::super) fn can_go_on(&self) -> bool {
        let mut rest = self.clone();
        rest.elsewhere.clear();
        rest.expire();
        while rest.goes_on() {}
        rest.line.is_empty()
    }

    /// One request is granted or one token releases what it holds, if any can.
    fn goes_on(&mut self) -> bool {
        let fits = |parked: &Parked| {
            let is_open =
                |key: &Key| self.in_the_way(parked, *key).is_empty() && self.in_front(parked, *key).next().is_none();
            parked.ask.keys.iter().all(is_open)
        };
        if let Some(next) = self.line.iter().position(fits) {
            // What it got, it gives back; what it had, it keeps as long as it waits for anything.
            self.line.remove(next);
            return true;
        }
        let waiting: BTreeSet<usize> = self.line.iter().map(|parked| parked.ask.token).collect();
        let before = self.holds.len();
        self.holds.retain(|hold| waiting.contains(&hold.token));
        self.holds.len() < before
    }

    /// The holds of others at `key`, if they are too many for `parked`.
    fn in_the_way(&self, parked: &Parked, key: Key) -> Vec<&Held> {
        let Parked { ask, .. } = parked;
        let own = self.hold(key, ask.token).map(|hold| hold.mode);
        let others: Vec<&Held> = self.at(key).filter(|hold| hold.token != ask.token).collect();
        let room = match (others.first().map(|hold| hold.mode), ask.wanted) {
            (Some(Mode::Shared), Wanted::Shared) => usize::MAX,
            (Some(Mode::Limit), Wanted::Limit(_)) if own.is_some() => usize::MAX,
            (Some(Mode::Limit), Wanted::Limit(permits)) => usize::try_from(permits).unwrap() - 1,
            _ => 0,
        };
        if others.len() > room { others } else { vec![] }
    }

    /// The requests in front of `parked` at `key`, if it has to wait for them.
    fn in_front(&self, parked: &Parked, key: Key) -> impl Iterator<Item = &Parked> {
        let own = self.hold(key, parked.ask.token).is_some();
        let rank = parked.rank;
        self.queue(key).filter(move |other| !own && other.rank < rank)
    }

    /// Whether these keys are those of a circle that `ask` would close: it waits for the first, its token holds the last.
    pub(in super::super) fn is_circle(&self, ask: &Ask, keys: &[Key]) -> bool {
        let own = Parked { id: None, ask: ask.clone(), since: self.now, rank: i64::MAX };
        let mut waits: Vec<&Parked> = vec![&own];
        for (number, key) in keys.iter().enumerate() {
            waits.retain(|parked| parked.ask.keys.contains(key));
            let fronts: Vec<&Parked> = waits.iter().flat_map(|parked| self.in_front(parked, *key)).collect();
            waits.extend(fronts);
            let holders: BTreeSet<usize> = self.at(*key).map(|hold| hold.token).collect();
            if waits.is_empty() {
                return false;
            }
            if number + 1 == keys.len() {
                return holders.contains(&ask.token);
            }
            waits.extend(self.line.iter().filter(|parked| holders.contains(&parked.ask.token)));
        }
        false
    }
}
