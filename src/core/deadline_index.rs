//! The deadline index: which key has the next deadline.
//!
//! It has one entry for each value with a deadline: a lock with its earliest lease, a sale with its earliest hold. The entry has the
//! value's key, so a single timer finds due values without a scan of the keyspace.

use std::collections::BTreeSet;

use super::invariant::{Known, invariant};
use super::key::{KeyBuf, KeyRef};
use super::slab::{Id, Slab};
use super::time::UnixMs;

/// The id of an entry in a [`DeadlineIndex`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeadlineId(Id);

impl DeadlineId {
    /// The smallest id.
    pub const FIRST: Self = Self(Id::FIRST);
    /// The largest id.
    pub const LAST: Self = Self(Id::LAST);
}

/// Keys, ordered by the deadline of their value.
///
/// The order is a B-tree: a removed entry leaves nothing to be cleaned up later, and no single call pays for all entries. Memory: about 70
/// bytes and the key per entry.
#[derive(Debug, Default)]
pub struct DeadlineIndex {
    entries: Slab<Entry>,
    order: BTreeSet<(UnixMs, DeadlineId)>,
}

#[derive(Debug)]
struct Entry {
    key: KeyBuf,
    deadline: UnixMs,
    /// Its position in the order: its deadline or earlier. When the deadline moves later, the position stays until the earlier time has
    /// come. So a lease that is renewed often moves in the order only once per lease.
    indexed: UnixMs,
}

impl DeadlineIndex {
    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds an entry for the value at `at`. O(log n), with one allocation, for the key.
    pub fn insert(&mut self, at: KeyRef<'_>, deadline: UnixMs) -> DeadlineId {
        let id = DeadlineId(self.entries.insert(Entry { key: at.to_buf(), deadline, indexed: deadline }));
        self.order.insert((deadline, id));
        id
    }

    /// Changes the deadline of `id`. O(1) if it moves later, else O(log n).
    pub fn reschedule(&mut self, id: DeadlineId, deadline: UnixMs) {
        if let Some(entry) = self.entries.get_mut(id.0) {
            entry.deadline = deadline;
            if deadline < entry.indexed {
                let listed = self.order.remove(&(entry.indexed, id));
                invariant!(listed, "every entry is in the order");
                self.order.insert((deadline, id));
                entry.indexed = deadline;
            }
        }
    }

    /// Removes the entry `id`. O(log n).
    pub fn remove(&mut self, id: DeadlineId) {
        if let Some(entry) = self.entries.remove(id.0) {
            let listed = self.order.remove(&(entry.indexed, id));
            invariant!(listed, "every entry is in the order");
        }
    }

    /// The key of `id`; `None` after its removal.
    #[must_use]
    pub fn key(&self, id: DeadlineId) -> Option<KeyRef<'_>> {
        self.entries.get(id.0).map(|entry| entry.key.as_key())
    }

    /// Whether the entry `id` exists.
    #[must_use]
    pub fn contains(&self, id: DeadlineId) -> bool {
        self.entries.get(id.0).is_some()
    }

    /// The next entry whose deadline has come at `now`. It stays in the index until the caller reschedules or removes it.
    ///
    /// Moving an entry whose deadline was set later costs one of `steps`; with none left, returns `None`.
    pub fn due(&mut self, now: UnixMs, steps: &mut usize) -> Option<DeadlineId> {
        while *steps > 0 {
            let &(listed, id) = self.order.first().filter(|(listed, _)| listed.reached(now))?;
            let entry = self.entries.get_mut(id.0).known("what is in the order is an entry");
            if let Some(entry) = &entry
                && entry.deadline.reached(now)
            {
                return Some(id);
            }
            *steps = steps.saturating_sub(1);
            self.order.remove(&(listed, id));
            if let Some(entry) = entry {
                entry.indexed = entry.deadline;
                self.order.insert((entry.deadline, id));
            }
        }
        None
    }

    /// When to look for due entries next: never later than the earliest deadline.
    #[must_use]
    pub fn next(&self) -> Option<UnixMs> {
        self.order.first().map(|(listed, _)| *listed)
    }

    /// All entries.
    pub fn ids(&self) -> impl Iterator<Item = DeadlineId> {
        self.entries.iter().map(|(id, _)| DeadlineId(id))
    }

    /// Removes all entries of the database `db`, or of all databases, and returns their ids. O(n).
    pub fn flush(&mut self, db: Option<i32>) -> Vec<DeadlineId> {
        let ids: Vec<DeadlineId> = self
            .entries
            .iter()
            .filter(|(_, entry)| db.is_none_or(|db| entry.key.db == db))
            .map(|(id, _)| DeadlineId(id))
            .collect();
        if ids.len() == self.len() {
            self.entries.clear();
            self.order.clear();
        } else {
            for id in &ids {
                self.remove(*id);
            }
        }
        ids
    }

    /// Follows the keys when two databases are swapped. O(n).
    pub fn swap(&mut self, one: i32, other: i32) {
        for entry in self.entries.values_mut() {
            entry.key.swap(one, other);
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
        assert!(size_of::<Entry>() <= 48, "{}", size_of::<Entry>());
        assert_eq!(size_of::<Option<DeadlineId>>(), 8);
    }

    #[test]
    fn a_deadline_that_moved_later_is_put_off_and_counted() {
        let mut index = DeadlineIndex::default();
        let ids: Vec<DeadlineId> = (0..5).map(|_| index.insert(at(b"door"), UnixMs(10))).collect();
        for id in &ids {
            index.reschedule(*id, UnixMs(30));
        }
        assert_eq!(index.next(), Some(UnixMs(10)));
        let mut steps = 3;
        assert_eq!((index.due(UnixMs(20), &mut steps), steps), (None, 0));
        assert_eq!(index.next(), Some(UnixMs(10)), "two are left for the next time");
        steps = 3;
        assert_eq!((index.due(UnixMs(20), &mut steps), steps), (None, 1));
        assert_eq!(index.next(), Some(UnixMs(30)));
    }

    #[test]
    fn flushed_and_swapped_databases() {
        let mut index = DeadlineIndex::default();
        let [here, there] = [0, 1].map(|db| index.insert(KeyRef { db, key: b"door" }, UnixMs(10)));
        index.swap(0, 1);
        assert_eq!([here, there].map(|id| index.key(id).unwrap().db), [1, 0]);
        assert_eq!(index.flush(Some(0)), [there]);
        assert_eq!((index.contains(there), index.len(), index.due(UnixMs(10), &mut 9)), (false, 1, Some(here)));
        assert_eq!(index.flush(None), [here]);
        assert_eq!((index.is_empty(), index.next()), (true, None));
        assert_ne!(index.insert(at(b"door"), UnixMs(1)), here, "an old id never comes back");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever is done to it, it names what is due, soonest first, and asks to be called in time.
        #[test]
        fn it_names_what_is_due(steps in vec((0..4_u8, any::<prop::sample::Index>(), 1..20_i64), 1..60)) {
            let mut index = DeadlineIndex::default();
            let mut plain: Vec<(DeadlineId, i64)> = Vec::new();
            let mut now = 0_i64;
            for (what, pick, span) in steps {
                let picked = (!plain.is_empty()).then(|| pick.index(plain.len().max(1)));
                let deadline = now.saturating_add(span);
                match (what, picked) {
                    (1, Some(at)) => {
                        plain[at].1 = deadline;
                        index.reschedule(plain[at].0, UnixMs(deadline));
                    }
                    (2, Some(at)) => index.remove(plain.remove(at).0),
                    (3, _) => now = deadline,
                    _ => plain.push((index.insert(at(b"key"), UnixMs(deadline)), deadline)),
                }
                let earliest = plain.iter().map(|(_, deadline)| *deadline).min();
                prop_assert!(index.next().is_none_or(|next| Some(next.0) <= earliest));
                prop_assert_eq!((index.len(), index.next().is_none()), (plain.len(), plain.is_empty()));
                while let Some(id) = index.due(UnixMs(now), &mut usize::MAX.clone()) {
                    let found = plain.iter().position(|(other, _)| *other == id).unwrap();
                    prop_assert!(plain.remove(found).1 <= now);
                    index.remove(id);
                }
                prop_assert!(plain.iter().all(|(_, deadline)| *deadline > now));
            }
        }
    }
}
