//! Holds in an order of their own, with sums over any part of it.
//!
//! The sale asks at every command which hold ends first, and how many units the due holds have, be it one hold or a hundred thousand. The
//! answer may take microseconds. So a sum tree has the numbers of the holds in sorted leaves of up to [`FULL`], each leaf with the sum of
//! its holds. It has no keys: they are read from the records. A hold takes little more than four bytes.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::mem;

use crate::core::invariant::{Known, invariant};

/// Holds per leaf before it splits.
const FULL: usize = 128;

/// A leaf of fewer holds than this joins the one before it, if there is room.
const SPARSE: usize = FULL / 4;

/// What holds amount to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Holds.
    pub orders: u64,
    /// Their units.
    pub units: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.orders = self.orders.wrapping_add(other.orders);
        self.units = self.units.wrapping_add(other.units);
    }

    fn take(&mut self, other: Self) {
        self.orders = self.orders.wrapping_sub(other.orders);
        self.units = self.units.wrapping_sub(other.units);
    }
}

const HAS_KEY: &str = "a hold of the tree has a key";
const HAS_LEAF: &str = "a hold of the tree has a leaf";

/// Where the keys and sums of holds are read: their records.
pub trait Source<K> {
    /// The key of a hold; no two holds have the same.
    fn key(&self, number: u32) -> Option<K>;
    /// What one hold amounts to.
    fn sum(&self, number: u32) -> Sum;
}

#[derive(Default)]
struct Leaf {
    numbers: Vec<u32>,
    sum: Sum,
}

/// Holds sorted by a key.
pub struct SumTree<K> {
    /// Each leaf has a key. It is at most the key of its first hold, and above those of all holds in the leaves before.
    leaves: BTreeMap<K, Leaf>,
    /// The first hold's key.
    first: Option<K>,
    room: usize,
    /// The last sum that was asked for, up to which key. Every change keeps it right, so nothing is summed up twice.
    known: Cell<Option<(K, Sum)>>,
}

impl<K: Ord + Copy> SumTree<K> {
    pub const fn new() -> Self {
        Self { leaves: BTreeMap::new(), first: None, room: 0, known: Cell::new(None) }
    }

    /// The tree of these holds, which are sorted. `hold` tells the key, the number and the sum of each.
    pub fn from_sorted<T>(holds: &[T], hold: impl Fn(&T) -> Option<(K, u32, Sum)>) -> Self {
        let leaves = holds.chunks(FULL).filter_map(|part| {
            let mut leaf = Leaf { numbers: Vec::with_capacity(part.len()), sum: Sum::default() };
            for (_, number, sum) in part.iter().filter_map(&hold) {
                leaf.numbers.push(number);
                leaf.sum.add(sum);
            }
            Some((hold(part.first()?)?.0, leaf))
        });
        Self {
            leaves: leaves.collect(),
            first: holds.first().and_then(|first| Some(hold(first)?.0)),
            room: holds.len(),
            known: Cell::new(None),
        }
    }

    /// The first hold's key.
    pub fn first(&self) -> Option<K> {
        self.first
    }

    /// Adds a hold whose record is already in `source`.
    pub fn insert(&mut self, number: u32, source: &impl Source<K>) {
        let Some(key) = source.key(number).known(HAS_KEY) else { return };
        let sum = source.sum(number);
        self.first = Some(self.first.map_or(key, |first| first.min(key)));
        self.correct(key, Sum::default(), sum);
        self.begin_at(key);
        let found = self.leaves.range_mut(..=key).next_back();
        let Some((_, leaf)) = found.known("the first leaf begins at this key, if none did before") else { return };
        let before = leaf.numbers.capacity();
        let upper = leaf.insert(place(&leaf.numbers, &key, source), number, sum, source);
        let room = leaf.numbers.capacity().wrapping_add(upper.as_ref().map_or(0, |upper| upper.numbers.capacity()));
        self.room = self.room.wrapping_sub(before).wrapping_add(room);
        let Some(upper) = upper else { return };
        let start = upper.numbers.first().and_then(|number| source.key(*number));
        let Some(start) = start.known("the upper leaf has the new hold at least") else { return };
        self.leaves.insert(start, upper);
    }

    /// Moves the key of the first leaf down to this one, if it is above.
    fn begin_at(&mut self, key: K) {
        if self.first_leaf().is_none_or(|at| at > key) {
            let first = self.leaves.pop_first().map_or_else(Leaf::default, |(_, leaf)| leaf);
            self.leaves.insert(key, first);
        }
    }

    /// Removes a hold whose record is still in `source`.
    pub fn remove(&mut self, number: u32, source: &impl Source<K>) {
        let Some(key) = source.key(number).known(HAS_KEY) else { return };
        let Some((at, leaf)) = self.leaves.range_mut(..=key).next_back().known(HAS_LEAF) else { return };
        let (at, place, before) = (*at, place(&leaf.numbers, &key, source), leaf.numbers.capacity());
        if !invariant!(leaf.numbers.get(place) == Some(&number), "a hold that is removed is in the leaf of its key") {
            return;
        }
        let sum = source.sum(number);
        leaf.remove(place, sum);
        self.room = self.room.wrapping_sub(before).wrapping_add(leaf.numbers.capacity());
        if leaf.numbers.len() < SPARSE {
            self.join(at);
        }
        self.correct(key, sum, Sum::default());
        if self.first == Some(key) {
            let first = self.leaves.first_key_value().and_then(|(_, leaf)| leaf.numbers.first());
            self.first = first.and_then(|number| source.key(*number));
        }
    }

    /// What the holds up to `high`, itself included, amount to.
    ///
    /// Asked again for the same or a later `high`, it costs a step for each leaf in between; the first time, or when
    /// time has gone back, for each leaf from the first.
    pub fn sum_to(&self, high: K, source: &impl Source<K>) -> Sum {
        if self.first.is_none_or(|first| first > high) {
            return Sum::default();
        }
        let (after, mut sum) = match self.known.get() {
            Some((known, sum)) if known <= high => (Some(known), sum),
            _ => (None, Sum::default()),
        };
        sum.add(self.sum(after, high, source));
        self.known.set(Some((high, sum)));
        sum
    }

    /// What the holds behind `after` up to `high`, itself included, amount to.
    ///
    /// Costs one step for each leaf in between, and reads the records of at most two leaves.
    pub fn sum(&self, after: Option<K>, high: K, source: &impl Source<K>) -> Sum {
        let mut sum = Sum::default();
        if self.first.is_none_or(|first| first > high) || after.is_some_and(|after| after >= high) {
            return sum;
        }
        let start = after.and_then(|after| self.leaves.range(..=after).next_back()).map(|(at, _)| *at);
        let from = start.or(self.first_leaf()).unwrap_or(high);
        let mut leaves = self.leaves.range(from..=high).peekable();
        while let Some((at, leaf)) = leaves.next() {
            // Only the first leaf can reach below the range, only the last above it.
            if after.is_none_or(|after| *at > after) && leaves.peek().is_some() {
                sum.add(leaf.sum);
                continue;
            }
            let from = after.map_or(0, |after| place_after(&leaf.numbers, &after, source));
            let to = place_after(&leaf.numbers, &high, source);
            match leaf.numbers.get(from..to) {
                Some(part) if part.len() == leaf.numbers.len() => sum.add(leaf.sum),
                Some(part) => part.iter().for_each(|number| sum.add(source.sum(*number))),
                None => {}
            }
        }
        sum
    }

    /// The holds from `low` on, in order.
    pub fn from(&self, low: K, source: &impl Source<K>) -> impl Iterator<Item = u32> {
        let start = self.leaves.range(..=low).next_back().map_or(low, |(at, _)| *at);
        let skip = self.leaves.get(&start).map_or(0, |leaf| place(&leaf.numbers, &low, source));
        self.leaves.range(start..).flat_map(|(_, leaf)| leaf.numbers.iter().copied()).skip(skip)
    }

    /// Heap bytes, those of the tree of leaves as its nodes are laid out: 11 places each, filled to two thirds.
    pub fn memory(&self) -> usize {
        let leaf = size_of::<K>().saturating_add(size_of::<Leaf>()).saturating_mul(3) / 2;
        self.room.saturating_mul(size_of::<u32>()).saturating_add(self.leaves.len().saturating_mul(leaf))
    }

    /// Allocations to free.
    pub fn effort(&self) -> usize {
        self.leaves.len()
    }

    /// Corrects the last sum, if the hold of this key is in it.
    fn correct(&self, key: K, before: Sum, after: Sum) {
        if let Some((known, mut sum)) = self.known.get()
            && key <= known
        {
            sum.take(before);
            sum.add(after);
            self.known.set(Some((known, sum)));
        }
    }

    fn first_leaf(&self) -> Option<K> {
        self.leaves.first_key_value().map(|(at, _)| *at)
    }

    /// Moves what is left of a sparse leaf into the one before it, if that has room; removes it if nothing is left.
    fn join(&mut self, at: K) {
        let Some(leaf) = self.leaves.get_mut(&at).known("a leaf that lost a hold is there") else { return };
        let mut rest = Leaf { numbers: mem::take(&mut leaf.numbers), sum: leaf.sum };
        let freed = rest.numbers.capacity();
        let before = self.leaves.range_mut(..at).next_back().map(|(_, before)| before);
        let room = |before: &&mut Leaf| before.numbers.len().saturating_add(rest.numbers.len()) <= FULL / 2;
        if let Some(before) = before.filter(room) {
            let capacity = before.numbers.capacity();
            before.numbers.append(&mut rest.numbers);
            before.sum.add(rest.sum);
            self.room = self.room.wrapping_sub(capacity).wrapping_add(before.numbers.capacity());
        }
        if rest.numbers.is_empty() {
            self.leaves.remove(&at);
            self.room = self.room.wrapping_sub(freed);
        } else if let Some(leaf) = self.leaves.get_mut(&at) {
            leaf.numbers = rest.numbers;
        }
    }
}

impl Leaf {
    /// Puts a hold into its place. A full leaf splits, and gives its upper part back.
    fn insert<K>(&mut self, place: usize, number: u32, sum: Sum, source: &impl Source<K>) -> Option<Self> {
        if self.numbers.len() < FULL {
            self.put(place, number, sum);
            return None;
        }
        // Deadlines mostly come in their order. Then the last leaf stays full, and a new one begins.
        let cut = if place == FULL { FULL } else { FULL / 2 };
        let mut upper = self.split(cut, source);
        match place.checked_sub(cut) {
            Some(place) => upper.put(place, number, sum),
            None => self.put(place, number, sum),
        }
        Some(upper)
    }

    fn remove(&mut self, place: usize, sum: Sum) {
        self.numbers.remove(place);
        self.sum.take(sum);
        if self.numbers.len() < self.numbers.capacity() / 2 {
            self.numbers.shrink_to(self.numbers.len().saturating_add(SPARSE / 2));
        }
    }

    fn put(&mut self, place: usize, number: u32, sum: Sum) {
        self.numbers.insert(place.min(self.numbers.len()), number);
        self.sum.add(sum);
    }

    /// Cuts off the holds from `cut` on.
    fn split<K>(&mut self, cut: usize, source: &impl Source<K>) -> Self {
        let mut upper = Self { numbers: self.numbers.split_off(cut.min(self.numbers.len())), sum: Sum::default() };
        for number in &upper.numbers {
            upper.sum.add(source.sum(*number));
        }
        self.numbers.shrink_to_fit();
        self.sum.take(upper.sum);
        upper
    }
}

/// Where a hold of this key is, or would be.
fn place<K: Ord>(numbers: &[u32], key: &K, source: &impl Source<K>) -> usize {
    // Holds mostly come at the end and go at the front.
    match (numbers.first(), numbers.last()) {
        (Some(first), _) if source.key(*first).is_some_and(|first| first >= *key) => 0,
        (_, Some(last)) if source.key(*last).is_some_and(|last| last < *key) => numbers.len(),
        _ => numbers.partition_point(|number| source.key(*number).is_some_and(|other| other < *key)),
    }
}

/// How many holds are not above this key.
fn place_after<K: Ord>(numbers: &[u32], key: &K, source: &impl Source<K>) -> usize {
    match numbers.first() {
        Some(first) if source.key(*first).is_some_and(|first| first > *key) => 0,
        _ => numbers.partition_point(|number| source.key(*number).is_some_and(|other| other <= *key)),
    }
}

#[cfg(test)]
mod tests;
