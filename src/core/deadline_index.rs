//! The deadline index: which key has the next deadline.
//!
//! It has one entry for each value with a deadline: a lock with the end of its earliest lease, a sale with that of its earliest hold, or
//! with the instant at which its line can be served. The entry has the value's key, so a single timer finds due values without a scan of
//! the keyspace.

use std::collections::BTreeSet;
use std::mem;

use super::chunks::Chunks;
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
/// The order is a heap, so most calls take a few steps: a new deadline is usually later than those that are there. Memory: 44 bytes per
/// entry, and the key if it is longer than 18 bytes.
#[derive(Debug, Default)]
pub struct DeadlineIndex {
    /// The note beside an entry is its number in the heap.
    entries: Slab<Entry>,
    /// The slots of all entries. None is due before the one at its number, less one, divided by [`WAYS`].
    heap: Chunks<u32>,
    /// Due entries whose deadlines here are later than those of their values: they have had a turn, or have just become due. Emptied when no
    /// entry is due.
    rested: BTreeSet<Id>,
    /// The time at the last [`look`](Self::look).
    seen: UnixMs,
}

#[derive(Debug)]
struct Entry {
    key: KeyBuf,
    deadline: UnixMs,
}

/// How many entries of the heap lie under another.
const WAYS: u32 = 4;

const LISTED: &str = "the heap has the slot of every entry, and each entry its number there";

impl DeadlineIndex {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds an entry for the value at `at`. O(log n), usually O(1).
    pub fn insert(&mut self, at: KeyRef<'_>, deadline: UnixMs) -> DeadlineId {
        let position = self.heap.len();
        let id = self.entries.insert(Entry { key: at.to_buf(), deadline });
        self.heap.push(id.slot());
        self.rise(position);
        DeadlineId(id)
    }

    /// Changes the deadline of `id`. An entry that stays due keeps its turn, and one that becomes due has its turn after the others that are
    /// due. So an entry gets no more turns than the others, however often commands change it. O(log n), or O(1) if nothing changes.
    pub fn reschedule(&mut self, id: DeadlineId, deadline: UnixMs) {
        if deadline > self.seen {
            self.set(id, deadline);
        } else if let Some(entry) = self.entries.get(id.0) {
            if entry.deadline > self.seen {
                self.set(id, self.seen);
            }
            self.rested.insert(id.0);
        }
    }

    fn set(&mut self, id: DeadlineId, deadline: UnixMs) {
        if let Some(entry) = self.entries.get_mut(id.0)
            && entry.deadline != deadline
        {
            entry.deadline = deadline;
            if let Some(position) = self.entries.note(id.0) {
                self.move_up_or_down(position);
            }
        }
    }

    /// The value of `id` has had a turn at `now`. If it is still due, the others that are due come before it from now on. O(log n).
    pub fn rest(&mut self, id: DeadlineId, now: UnixMs) {
        if self.entries.get(id.0).is_some_and(|entry| entry.deadline < now) {
            self.set(id, now);
            self.rested.insert(id.0);
        }
    }

    /// Removes the entry `id`. O(log n), usually O(1).
    pub fn remove(&mut self, id: DeadlineId) {
        let Some(position) = self.entries.note(id.0) else { return };
        self.entries.remove(id.0);
        let Some(last) = self.heap.pop().known(LISTED) else { return };
        if position < self.heap.len() {
            self.put(position, last);
            self.move_up_or_down(position);
        } else {
            invariant!(last == id.0.slot(), "what lies last in the heap is the entry with the last number");
        }
    }

    /// The key of `id`; `None` after its removal.
    pub fn key(&self, id: DeadlineId) -> Option<KeyRef<'_>> {
        self.entries.get(id.0).map(|entry| entry.key.as_key())
    }

    /// Whether the entry `id` exists.
    pub fn contains(&self, id: DeadlineId) -> bool {
        self.entries.get(id.0).is_some()
    }

    /// Notices the time; called before the questions about this time. Entries that rest are due again if the clock was set back. O(1), or
    /// O(n log n) in these entries.
    pub fn look(&mut self, now: UnixMs) {
        if mem::replace(&mut self.seen, now) > now {
            // One that has been served since is found to be so by its turn.
            for id in mem::take(&mut self.rested) {
                self.set(DeadlineId(id), now);
            }
        } else if self.due(now).is_none() {
            self.rested.clear();
        }
    }

    /// The next entry whose deadline has come at `now`. It stays in the index until the caller reschedules or removes it.
    pub fn due(&self, now: UnixMs) -> Option<DeadlineId> {
        self.first().filter(|(_, entry)| entry.deadline.reached(now)).map(|(id, _)| DeadlineId(id))
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<UnixMs> {
        self.first().map(|(_, entry)| entry.deadline)
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
            .filter(|(_, entry)| db.is_none_or(|db| entry.key.as_key().db == db))
            .map(|(id, _)| DeadlineId(id))
            .collect();
        if ids.len() == self.len() {
            self.entries.clear();
            self.heap.clear();
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

    fn first(&self) -> Option<(Id, &Entry)> {
        self.entries.at(*self.heap.get(0)?).known(LISTED)
    }

    /// The key of the heap's order: entries with the same deadline lie in the order of their slots.
    fn rank(&self, slot: u32) -> (UnixMs, u32) {
        (self.entries.at(slot).map(|(_, entry)| entry.deadline).or_invariant(LISTED, UnixMs::MAX), slot)
    }

    /// Puts the entry in `slot` at this position.
    fn put(&mut self, position: u32, slot: u32) {
        if let Some(place) = self.heap.get_mut(position) {
            *place = slot;
            self.entries.set_note(slot, position);
        }
    }

    /// The deadline of the entry at this position has changed.
    fn move_up_or_down(&mut self, position: u32) {
        let position = self.rise(position);
        self.sink(position);
    }

    /// Moves the entry at this position up until none above it is later; returns where it is then.
    fn rise(&mut self, mut position: u32) -> u32 {
        let Some(slot) = self.heap.get(position).copied().known(LISTED) else { return position };
        let rank = self.rank(slot);
        while let Some(above) = position.checked_sub(1).map(|before| before / WAYS)
            && let Some(other) = self.heap.get(above).copied()
            && self.rank(other) > rank
        {
            self.put(position, other);
            position = above;
        }
        self.put(position, slot);
        position
    }

    /// Moves the entry at this position down until none below it is earlier.
    fn sink(&mut self, mut position: u32) {
        let Some(slot) = self.heap.get(position).copied().known(LISTED) else { return };
        let rank = self.rank(slot);
        while let Some((least, below)) = self.least_below(position)
            && least < rank
        {
            self.put(position, least.1);
            position = below;
        }
        self.put(position, slot);
    }

    /// The earliest entry right below this position: its rank and its position.
    fn least_below(&self, position: u32) -> Option<((UnixMs, u32), u32)> {
        let first = position.checked_mul(WAYS)?.checked_add(1)?;
        let below =
            (first..first.saturating_add(WAYS)).map_while(|below| Some((self.rank(*self.heap.get(below)?), below)));
        below.min()
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
    fn an_entry_is_44_bytes() {
        assert_eq!(Slab::<Entry>::SLOT + size_of::<u32>(), 44);
        assert_eq!(size_of::<Option<DeadlineId>>(), 8);
    }

    #[test]
    fn the_same_deadlines_come_in_the_order_of_their_slots() {
        let mut index = DeadlineIndex::default();
        let ids: Vec<DeadlineId> = (0..50).map(|_| index.insert(at(b"door"), UnixMs(10))).collect();
        index.reschedule(ids[30], UnixMs(9));
        let mut order = Vec::new();
        while let Some(id) = index.due(UnixMs(10)) {
            order.push(id);
            index.remove(id);
        }
        let expected = ids.iter().copied().filter(|id| *id != ids[30]);
        assert_eq!(order, std::iter::once(ids[30]).chain(expected).collect::<Vec<_>>());
    }

    #[test]
    fn entries_that_are_due_for_long_take_turns_with_all_others_that_are_due() {
        let mut index = DeadlineIndex::default();
        let [one, two, late, future] = [1, 2, 8, 20].map(|deadline| index.insert(at(b"door"), UnixMs(deadline)));
        let mut turns = Vec::new();
        for now in (9..15).map(UnixMs) {
            index.look(now);
            let due = index.due(now).unwrap();
            index.rest(due, now);
            turns.push(due);
            // A command changes it, and its value is still due.
            index.reschedule(due, UnixMs(1));
        }
        assert_eq!(turns, [one, two, late, one, two, late]);
        index.rest(future, UnixMs(14));
        assert!(index.entries.get(future.0).is_some_and(|entry| entry.deadline == UnixMs(20)), "it is not due");
    }

    #[test]
    fn an_entry_that_rests_stays_due_when_the_clock_is_set_back() {
        let mut index = DeadlineIndex::default();
        let [long, done] = [1, 2].map(|deadline| index.insert(at(b"door"), UnixMs(deadline)));
        index.look(UnixMs(9_000));
        for id in [long, done] {
            assert_eq!(index.due(UnixMs(9_000)), Some(id));
            index.rest(id, UnixMs(9_000));
        }
        index.remove(done);
        index.look(UnixMs(10));
        assert_eq!(index.due(UnixMs(10)), Some(long));
        index.rest(long, UnixMs(11));
        index.reschedule(long, UnixMs(500));
        assert_eq!(index.due(UnixMs(499)), None);
        // Nothing is due any more, so nothing rests.
        index.look(UnixMs(12));
        index.look(UnixMs(9));
        assert_eq!(index.next(), Some(UnixMs(500)));
    }

    #[test]
    fn an_entry_that_becomes_due_by_a_command_comes_after_those_that_are_due() {
        let mut index = DeadlineIndex::default();
        let [due, ready] = [5, 900].map(|deadline| index.insert(at(b"door"), UnixMs(deadline)));
        index.look(UnixMs(20));
        index.reschedule(ready, UnixMs(0));
        assert_eq!(index.due(UnixMs(20)), Some(due));
        index.remove(due);
        assert_eq!(index.due(UnixMs(20)), Some(ready));
        // Its value is due at any time.
        index.look(UnixMs(10));
        assert_eq!(index.due(UnixMs(10)), Some(ready));
    }

    #[test]
    fn flushed_and_swapped_databases() {
        let mut index = DeadlineIndex::default();
        let [here, there] = [0, 1].map(|db| index.insert(KeyRef { db, key: b"door" }, UnixMs(10)));
        index.swap(0, 1);
        assert_eq!([here, there].map(|id| index.key(id).unwrap().db), [1, 0]);
        assert_eq!(index.flush(Some(0)), [there]);
        assert_eq!((index.contains(there), index.len(), index.due(UnixMs(10))), (false, 1, Some(here)));
        assert_eq!(index.flush(None), [here]);
        assert_eq!((index.is_empty(), index.next()), (true, None));
        assert_ne!(index.insert(at(b"door"), UnixMs(1)), here, "an old id never comes back");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// After any changes, the index names the due entries, soonest first, and asks to be called in time.
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
                prop_assert_eq!(index.next().map(|next| next.0), earliest);
                prop_assert_eq!((index.len(), index.next().is_none()), (plain.len(), plain.is_empty()));
                while let Some(id) = index.due(UnixMs(now)) {
                    let found = plain.iter().position(|(other, _)| *other == id).unwrap();
                    prop_assert!(plain.remove(found).1 <= now);
                    index.remove(id);
                }
                prop_assert!(plain.iter().all(|(_, deadline)| *deadline > now));
            }
        }
    }
}
