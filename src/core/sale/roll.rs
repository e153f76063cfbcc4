//! Holds in an order of their own, with sums over any part of it.
//!
//! What has to be known at every instant, and in microseconds: which hold ends first, and what the holds that have
//! passed their deadline amount to, be it one or a hundred thousand. A roll keeps the numbers of the holds sorted in
//! leaves of up to [`FULL`], each with the sum of its holds. It keeps no keys: a hold's key is read from its record,
//! which leaves four bytes and a little for each.

use std::collections::BTreeMap;
use std::ops::{AddAssign, SubAssign};

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
    /// Buyers that have nothing any more when the last of these holds has lapsed.
    pub buyers: u64,
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.orders = self.orders.wrapping_add(other.orders);
        self.units = self.units.wrapping_add(other.units);
        self.buyers = self.buyers.wrapping_add(other.buyers);
    }
}

impl SubAssign for Sum {
    fn sub_assign(&mut self, other: Self) {
        self.orders = self.orders.wrapping_sub(other.orders);
        self.units = self.units.wrapping_sub(other.units);
        self.buyers = self.buyers.wrapping_sub(other.buyers);
    }
}

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
pub struct Roll<K> {
    /// Each leaf under a key that is not above its first hold's, and above those of all leaves before it.
    leaves: BTreeMap<K, Leaf>,
    /// The first hold's key.
    first: Option<K>,
    room: usize,
}

impl<K: Ord + Copy> Roll<K> {
    pub const fn new() -> Self {
        Self { leaves: BTreeMap::new(), first: None, room: 0 }
    }

    /// The first hold's key.
    pub fn first(&self) -> Option<K> {
        self.first
    }

    /// Adds a hold whose record is already in `source`.
    pub fn insert(&mut self, number: u32, source: &impl Source<K>) {
        let Some(key) = source.key(number) else { return };
        let found = self.leaves.range(..=key).next_back().or_else(|| self.leaves.first_key_value());
        let mut at = found.map_or(key, |(at, _)| *at);
        let mut leaf = self.leaves.remove(&at).unwrap_or_default();
        self.room = self.room.wrapping_sub(leaf.numbers.capacity());
        at = at.min(key);
        let place = place(&leaf.numbers, key, source);
        if leaf.numbers.len() >= FULL {
            // Deadlines mostly come in their order. Then the last leaf stays full, and a new one begins.
            let cut = if place == FULL { FULL } else { FULL / 2 };
            let mut upper = Leaf { numbers: leaf.numbers.split_off(cut), sum: Sum::default() };
            leaf.numbers.shrink_to_fit();
            for number in &upper.numbers {
                upper.sum += source.sum(*number);
            }
            leaf.sum -= upper.sum;
            let (home, place) = if place >= cut { (&mut upper, place.wrapping_sub(cut)) } else { (&mut leaf, place) };
            home.put(place, number, source.sum(number));
            if let Some(start) = upper.numbers.first().and_then(|number| source.key(*number)) {
                self.put(start, upper);
            }
        } else {
            leaf.put(place, number, source.sum(number));
        }
        self.put(at, leaf);
        self.first = Some(self.first.map_or(key, |first| first.min(key)));
    }

    /// Removes a hold whose record is still in `source`.
    pub fn remove(&mut self, number: u32, source: &impl Source<K>) {
        let Some(key) = source.key(number) else { return };
        let Some((at, leaf)) = self.leaves.range_mut(..=key).next_back() else { return };
        let (at, place) = (*at, place(&leaf.numbers, key, source));
        if leaf.numbers.get(place) != Some(&number) {
            return;
        }
        leaf.numbers.remove(place);
        leaf.sum -= source.sum(number);
        if leaf.numbers.len() < SPARSE {
            self.join(at);
        }
        if self.first == Some(key) {
            let first = self.leaves.first_key_value().and_then(|(_, leaf)| leaf.numbers.first());
            self.first = first.and_then(|number| source.key(*number));
        }
    }

    /// Notes that a hold amounts to something else now. Its key is still the one in `source`.
    pub fn reweigh(&mut self, number: u32, before: Sum, after: Sum, source: &impl Source<K>) {
        let Some(key) = source.key(number) else { return };
        if let Some((_, leaf)) = self.leaves.range_mut(..=key).next_back() {
            leaf.sum -= before;
            leaf.sum += after;
        }
    }

    /// What the holds from `low` to `high`, both included, amount to.
    ///
    /// Costs one step for each leaf in between, and reads the records of at most two leaves.
    pub fn sum(&self, low: K, high: K, source: &impl Source<K>) -> Sum {
        let mut sum = Sum::default();
        if self.first.is_none_or(|first| first > high) || low > high {
            return sum;
        }
        let start = self.leaves.range(..=low).next_back().map_or(low, |(at, _)| *at);
        let mut leaves = self.leaves.range(start..=high).peekable();
        while let Some((at, leaf)) = leaves.next() {
            // Only the first leaf can reach below `low`, only the last above `high`.
            let whole = *at >= low && leaves.peek().is_some();
            if whole {
                sum += leaf.sum;
                continue;
            }
            let from = place(&leaf.numbers, low, source);
            let to = place_after(&leaf.numbers, high, source);
            match leaf.numbers.get(from..to) {
                Some(part) if part.len() == leaf.numbers.len() => sum += leaf.sum,
                Some(part) => part.iter().for_each(|number| sum += source.sum(*number)),
                None => {}
            }
        }
        sum
    }

    /// The holds from `low` on, in order.
    pub fn from(&self, low: K, source: &impl Source<K>) -> impl Iterator<Item = u32> {
        let start = self.leaves.range(..=low).next_back().map_or(low, |(at, _)| *at);
        let skip = self.leaves.get(&start).map_or(0, |leaf| place(&leaf.numbers, low, source));
        self.leaves.range(start..).flat_map(|(_, leaf)| leaf.numbers.iter().copied()).skip(skip)
    }

    /// The last hold that is not above `high`.
    pub fn last(&self, high: K, source: &impl Source<K>) -> Option<u32> {
        for (_, leaf) in self.leaves.range(..=high).rev() {
            let after = place_after(&leaf.numbers, high, source);
            if let Some(number) = after.checked_sub(1).and_then(|place| leaf.numbers.get(place)) {
                return Some(*number);
            }
        }
        None
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

    fn put(&mut self, at: K, leaf: Leaf) {
        self.room = self.room.wrapping_add(leaf.numbers.capacity());
        self.leaves.insert(at, leaf);
    }

    /// Moves what is left of a sparse leaf into the one before it, if that has room; removes it if nothing is left.
    fn join(&mut self, at: K) {
        let Some(rest) = self.leaves.get(&at).map(|leaf| leaf.numbers.len()) else { return };
        let before = self.leaves.range_mut(..at).next_back().map(|(_, leaf)| leaf);
        match before {
            Some(leaf) if rest > 0 && leaf.numbers.len().saturating_add(rest) <= FULL / 2 => {}
            _ if rest > 0 => return,
            _ => {}
        }
        let Some(leaf) = self.leaves.remove(&at) else { return };
        self.room = self.room.wrapping_sub(leaf.numbers.capacity());
        if rest > 0
            && let Some((_, before)) = self.leaves.range_mut(..at).next_back()
        {
            let room = before.numbers.capacity();
            before.numbers.extend_from_slice(&leaf.numbers);
            before.sum += leaf.sum;
            self.room = self.room.wrapping_sub(room).wrapping_add(before.numbers.capacity());
        }
    }
}

impl Leaf {
    fn put(&mut self, place: usize, number: u32, sum: Sum) {
        self.numbers.insert(place.min(self.numbers.len()), number);
        self.sum += sum;
    }
}

/// Where a hold of this key is, or would be.
fn place<K: Ord>(numbers: &[u32], key: K, source: &impl Source<K>) -> usize {
    // Holds mostly come at the end and go at the front.
    match (numbers.first(), numbers.last()) {
        (Some(first), _) if source.key(*first).is_some_and(|first| first >= key) => 0,
        (_, Some(last)) if source.key(*last).is_some_and(|last| last < key) => numbers.len(),
        _ => numbers.partition_point(|number| source.key(*number).is_some_and(|other| other < key)),
    }
}

/// How many holds are not above this key.
fn place_after<K: Ord>(numbers: &[u32], key: K, source: &impl Source<K>) -> usize {
    match numbers.first() {
        Some(first) if source.key(*first).is_some_and(|first| first > key) => 0,
        _ => numbers.partition_point(|number| source.key(*number).is_some_and(|other| other <= key)),
    }
}
