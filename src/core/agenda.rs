//! The agenda: at which place something falls due next.
//!
//! One entry, a *home*, per value that has a deadline: a lock with its earliest lease, a sale with its earliest hold.
//! The home knows the value's name, so that a single timer can find what is due without looking through the keyspace.

use std::collections::BTreeSet;

use super::arena::{Arena, Id};
use super::key::{KeyBuf, KeyRef};
use super::time::UnixMs;

/// A value's entry in an [`Agenda`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HomeId(Id);

impl HomeId {
    /// The first of all in their order.
    pub const FIRST: Self = Self(Id::FIRST);
    /// The last of all in their order.
    pub const LAST: Self = Self(Id::LAST);
}

/// Places by the deadline of what lives there.
///
/// The order is a B-tree: nothing of an ended entry stays behind that would have to be swept up later, and no single call
/// pays for all entries. Memory: about 70 bytes and the key per entry.
#[derive(Debug, Default)]
pub struct Agenda {
    homes: Arena<Home>,
    order: BTreeSet<(UnixMs, HomeId)>,
}

#[derive(Debug)]
struct Home {
    place: KeyBuf,
    deadline: UnixMs,
    /// Where the order has it: at its deadline or before. A deadline that moves later leaves it where it is until the
    /// earlier time has come; so a lease that is renewed often moves in the order only once per lease.
    listed: UnixMs,
}

impl Agenda {
    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.homes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.homes.is_empty()
    }

    /// Opens an entry for the value at `at`. O(log n), with one allocation: the key.
    pub fn arm(&mut self, at: KeyRef<'_>, deadline: UnixMs) -> HomeId {
        let home = HomeId(self.homes.insert(Home { place: at.to_buf(), deadline, listed: deadline }));
        self.order.insert((deadline, home));
        home
    }

    /// Moves the deadline of `home`. O(1) if it moves later, else O(log n).
    pub fn rearm(&mut self, home: HomeId, deadline: UnixMs) {
        if let Some(entry) = self.homes.get_mut(home.0) {
            entry.deadline = deadline;
            if deadline < entry.listed {
                self.order.remove(&(entry.listed, home));
                self.order.insert((deadline, home));
                entry.listed = deadline;
            }
        }
    }

    /// Closes the entry `home`. O(log n).
    pub fn disarm(&mut self, home: HomeId) {
        if let Some(entry) = self.homes.remove(home.0) {
            self.order.remove(&(entry.listed, home));
        }
    }

    /// Where the value of `home` lives; `None` once the entry is closed.
    #[must_use]
    pub fn place(&self, home: HomeId) -> Option<KeyRef<'_>> {
        self.homes.get(home.0).map(|entry| entry.place.as_key())
    }

    /// Whether the entry `home` is open.
    #[must_use]
    pub fn knows(&self, home: HomeId) -> bool {
        self.homes.get(home.0).is_some()
    }

    /// The next entry whose deadline has come at `now`. It stays in the agenda; the caller moves or closes it.
    ///
    /// Putting off an entry that was due once but has moved later costs one of `steps`; with none left, `None`.
    pub fn due(&mut self, now: UnixMs, steps: &mut usize) -> Option<HomeId> {
        while *steps > 0 {
            let &(listed, home) = self.order.first().filter(|(listed, _)| listed.reached(now))?;
            let entry = self.homes.get_mut(home.0);
            if let Some(entry) = &entry
                && entry.deadline.reached(now)
            {
                return Some(home);
            }
            *steps = steps.saturating_sub(1);
            self.order.remove(&(listed, home));
            if let Some(entry) = entry {
                entry.listed = entry.deadline;
                self.order.insert((entry.deadline, home));
            }
        }
        None
    }

    /// When to look for due entries next: never later than the earliest deadline.
    #[must_use]
    pub fn next(&self) -> Option<UnixMs> {
        self.order.first().map(|(listed, _)| *listed)
    }

    /// Every entry.
    pub fn homes(&self) -> impl Iterator<Item = HomeId> {
        self.homes.iter().map(|(id, _)| HomeId(id))
    }

    /// Closes all entries of the database `db`, or of all of them, and names them. O(n).
    pub fn flush(&mut self, db: Option<i32>) -> Vec<HomeId> {
        let homes: Vec<HomeId> = self
            .homes
            .iter()
            .filter(|(_, entry)| db.is_none_or(|db| entry.place.db == db))
            .map(|(id, _)| HomeId(id))
            .collect();
        if homes.len() == self.len() {
            self.homes.clear();
            self.order.clear();
        } else {
            for home in &homes {
                self.disarm(*home);
            }
        }
        homes
    }

    /// Follows the data when two databases trade places. O(n).
    pub fn swap(&mut self, one: i32, other: i32) {
        for entry in self.homes.values_mut() {
            entry.place.swap(one, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn at(key: &[u8]) -> KeyRef<'_> {
        KeyRef { db: 0, key }
    }

    #[test]
    fn an_entry_is_about_seventy_bytes() {
        assert!(size_of::<Home>() <= 48, "{}", size_of::<Home>());
        assert_eq!(size_of::<Option<HomeId>>(), 8);
    }

    #[test]
    fn a_deadline_that_moved_later_is_put_off_and_counted() {
        let mut agenda = Agenda::default();
        let homes: Vec<HomeId> = (0..5).map(|_| agenda.arm(at(b"door"), UnixMs(10))).collect();
        for home in &homes {
            agenda.rearm(*home, UnixMs(30));
        }
        assert_eq!(agenda.next(), Some(UnixMs(10)));
        let mut steps = 3;
        assert_eq!((agenda.due(UnixMs(20), &mut steps), steps), (None, 0));
        assert_eq!(agenda.next(), Some(UnixMs(10)), "two are left for the next time");
        steps = 3;
        assert_eq!((agenda.due(UnixMs(20), &mut steps), steps), (None, 1));
        assert_eq!(agenda.next(), Some(UnixMs(30)));
    }

    #[test]
    fn flushed_and_swapped_databases() {
        let mut agenda = Agenda::default();
        let [here, there] = [0, 1].map(|db| agenda.arm(KeyRef { db, key: b"door" }, UnixMs(10)));
        agenda.swap(0, 1);
        assert_eq!([here, there].map(|home| agenda.place(home).unwrap().db), [1, 0]);
        assert_eq!(agenda.flush(Some(0)), [there]);
        assert_eq!((agenda.knows(there), agenda.len(), agenda.due(UnixMs(10), &mut 9)), (false, 1, Some(here)));
        assert_eq!(agenda.flush(None), [here]);
        assert_eq!((agenda.is_empty(), agenda.next()), (true, None));
        assert_ne!(agenda.arm(at(b"door"), UnixMs(1)), here, "an old id never comes back");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever is done to it, it names what is due, soonest first, and asks to be called in time.
        #[test]
        fn it_names_what_is_due(steps in vec((0..4_u8, any::<prop::sample::Index>(), 1..20_i64), 1..60)) {
            let mut agenda = Agenda::default();
            let mut plain: Vec<(HomeId, i64)> = Vec::new();
            let mut now = 0_i64;
            for (what, pick, span) in steps {
                let picked = (!plain.is_empty()).then(|| pick.index(plain.len().max(1)));
                let deadline = now.saturating_add(span);
                match (what, picked) {
                    (1, Some(at)) => {
                        plain[at].1 = deadline;
                        agenda.rearm(plain[at].0, UnixMs(deadline));
                    }
                    (2, Some(at)) => agenda.disarm(plain.remove(at).0),
                    (3, _) => now = deadline,
                    _ => plain.push((agenda.arm(at(b"key"), UnixMs(deadline)), deadline)),
                }
                let earliest = plain.iter().map(|(_, deadline)| *deadline).min();
                prop_assert!(agenda.next().is_none_or(|next| Some(next.0) <= earliest));
                prop_assert_eq!((agenda.len(), agenda.next().is_none()), (plain.len(), plain.is_empty()));
                while let Some(home) = agenda.due(UnixMs(now), &mut usize::MAX.clone()) {
                    let found = plain.iter().position(|(other, _)| *other == home).unwrap();
                    prop_assert!(plain.remove(found).1 <= now);
                    agenda.disarm(home);
                }
                prop_assert!(plain.iter().all(|(_, deadline)| *deadline > now));
            }
        }
    }
}
