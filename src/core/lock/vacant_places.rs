//! Places in line whose waiter is gone with its connection.
//!
//! A client that lost its connection often asks again over another one. For a while its place is kept, so that it need not go last. Such a
//! place is in no queue: only its ticket is kept. So it costs those behind it nothing, and it cannot be granted anything.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::sync::Arc;

use smallvec::SmallVec;

use super::terms::Mode;
use super::tickets::Ticket;
use crate::core::id::Ident;
use crate::core::key::{KeyBuf, KeyRef};
use crate::core::time::UnixMs;

/// The most places that are kept, where one for several keys counts once for each of them. Beyond that, those end that would end first.
const MOST: usize = 100_000;

/// The locks and the mode that a token asked for, and the position that it had.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) token: Ident,
    /// In order and without duplicates.
    pub(super) keys: SmallVec<[Arc<KeyBuf>; 1]>,
    pub(super) mode: Mode,
    pub(super) ticket: Ticket,
}

/// The request of a token.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) token: &'a Ident,
    /// In order and without duplicates.
    pub(super) keys: &'a [KeyRef<'a>],
    pub(super) mode: Mode,
}

/// When a place ends, and its ticket, which no other place has.
type PlaceId = (UnixMs, Ticket);

const FIRST: PlaceId = (UnixMs(0), Ticket::FIRST);
const LAST: PlaceId = (UnixMs::MAX, Ticket::LAST);

/// All vacant places.
#[derive(Debug, Default)]
pub(super) struct VacantPlaces {
    places: BTreeMap<PlaceId, Place>,
    by_key: BTreeSet<(Ident, Arc<KeyBuf>, PlaceId)>,
    /// By the hash of token and keys: one token may have many places that have a key in common.
    by_request: BTreeSet<(u64, PlaceId)>,
    hasher: RandomState,
}

impl Place {
    /// The request that had this place, for the keys of this place.
    fn asked<'a>(&'a self, keys: &'a [KeyRef<'a>]) -> Asked<'a> {
        Asked { token: &self.token, keys, mode: self.mode }
    }

    fn key_refs(&self) -> SmallVec<[KeyRef<'_>; 1]> {
        self.keys.iter().map(|key| key.as_key()).collect()
    }

    fn is_of(&self, asked: Asked<'_>) -> bool {
        self.mode == asked.mode
            && self.token == *asked.token
            && self.keys.iter().map(|key| key.as_key()).eq(asked.keys.iter().copied())
    }
}

impl VacantPlaces {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Keeps `place` until then, instead of an earlier one of the same request.
    pub(super) fn keep(&mut self, place: Place, until: UnixMs) {
        let hash = {
            let keys = place.key_refs();
            self.take_up(place.asked(&keys));
            self.hash(place.asked(&keys))
        };
        while self.by_key.len().saturating_add(place.keys.len()) > MOST
            && let Some((first, _)) = self.places.first_key_value()
        {
            self.remove(*first);
        }
        let id = (until, place.ticket);
        self.by_key.extend(place.keys.iter().map(|key| (place.token.clone(), key.clone(), id)));
        self.by_request.insert((hash, id));
        self.places.insert(id, place);
    }

    /// The position that is kept for this request.
    pub(super) fn ticket(&self, now: UnixMs, asked: Asked<'_>) -> Option<Ticket> {
        let (until, ticket) = self.find(asked)?;
        Some(ticket).filter(|_| !until.reached(now))
    }

    /// Its token has taken the place of this request up.
    pub(super) fn take_up(&mut self, asked: Asked<'_>) {
        if let Some(id) = self.find(asked) {
            self.remove(id);
        }
    }

    /// Ends the places of `token` for `at`, alone or with other keys.
    pub(super) fn end(&mut self, token: &Ident, at: KeyRef<'_>) {
        if self.is_empty() {
            return;
        }
        let at = Arc::new(at.to_buf());
        let (first, last) = ((token.clone(), at.clone(), FIRST), (token.clone(), at, LAST));
        for id in self.by_key.range(first..=last).map(|(_, _, id)| *id).collect::<SmallVec<[_; 1]>>() {
            self.remove(id);
        }
    }

    /// Ends the first place whose time is over at `now`; `false` if there is none.
    pub(super) fn expire(&mut self, now: UnixMs) -> bool {
        let due = self.places.first_key_value().map(|(id, _)| *id).filter(|(until, _)| until.reached(now));
        due.inspect(|id| self.remove(*id)).is_some()
    }

    /// When the time of the first place is over.
    pub(super) fn next(&self) -> Option<UnixMs> {
        self.places.first_key_value().map(|((until, _), _)| *until)
    }

    fn find(&self, asked: Asked<'_>) -> Option<PlaceId> {
        if self.is_empty() {
            return None;
        }
        let hash = self.hash(asked);
        let is_it = |id: &PlaceId| self.places.get(id).is_some_and(|place| place.is_of(asked));
        self.by_request.range((hash, FIRST)..=(hash, LAST)).map(|(_, id)| *id).find(is_it)
    }

    fn hash(&self, asked: Asked<'_>) -> u64 {
        self.hasher.hash_one((asked.token, asked.keys))
    }

    fn remove(&mut self, id: PlaceId) {
        let Some(place) = self.places.remove(&id) else { return };
        let hash = self.hash(place.asked(&place.key_refs()));
        self.by_request.remove(&(hash, id));
        for key in place.keys {
            self.by_key.remove(&(place.token.clone(), key, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "takes very many steps")]
    fn a_place_for_several_keys_counts_for_each_of_them() {
        let mut vacant = VacantPlaces::default();
        let mut keep = |token: &str, keys: usize, until: i64| {
            let key = |number: usize| Arc::new(KeyRef { db: 0, key: format!("{number:04}").as_bytes() }.to_buf());
            let token = Ident::new(token.as_bytes()).unwrap();
            let (keys, mode, ticket) = ((0..keys).map(key).collect(), Mode::Exclusive, Ticket(until));
            vacant.keep(Place { token, keys, mode, ticket }, UnixMs(until));
            (vacant.len(), vacant.next().unwrap().0)
        };
        for number in 1..=100 {
            let kept = usize::try_from(number).unwrap();
            assert_eq!(keep(&number.to_string(), 1_000, number), (kept, 1));
        }
        // Instead of the earlier one of the same request; then one more, for which the first one ends.
        assert_eq!(keep("7", 1_000, 107), (100, 1));
        assert_eq!(keep("new", 1, 200), (100, 2));
        assert_eq!(keep("newer", 999, 300), (101, 2));
        assert_eq!(keep("newest", 1_001, 400), (100, 4));
    }
}
