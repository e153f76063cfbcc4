//! From a hash to the number of a record, eight bytes an entry.
//!
//! Extendible hashing: the front bits of a hash choose a shard through a directory, and the entries of a shard are sorted by those
//! behind. A sorted array has no empty places, so the cost of an entry does not depend on how many there are; and a shard that is
//! full splits alone, in the middle, so that no insertion moves more than [`FULL`] entries or looks at a record. (A growing hash table
//! moves all of them at once, and lies half empty after that.) Only the directory doubles as a whole, four bytes for every sixty
//! orders or so: less than a millisecond, once, when there are ten million.

use std::iter;

use crate::core::invariant::Known;

/// Entries of a shard before it splits: inserting moves a kilobyte at most.
const FULL: usize = 128;

/// The directory has at most one place for this many entries. It would have more only if hashes were not spread evenly. Then shards do
/// not split but grow.
const SPARSE: usize = FULL / 8;

const HAS_SHARD: &str = "the directory names shards";

/// How many more entries a full shard makes room for.
const STEP: usize = 8;

/// A number with the first 32 bits of its hash. The first of these choose the shard; the next one decides in a split.
#[derive(Clone, Copy)]
struct Entry {
    tag: u32,
    number: u32,
}

struct Shard {
    /// Sorted by tag.
    entries: Vec<Entry>,
    /// How many front bits all tags in here have in common.
    depth: u32,
}

/// Numbers by hash. Several numbers may have the same tag; the caller compares.
pub struct HashIndex {
    shards: Vec<Shard>,
    /// The shard of each combination of the first `depth` bits.
    directory: Vec<u32>,
    depth: u32,
    len: usize,
    /// Places for entries, in all shards.
    room: usize,
}

impl Shard {
    /// The place of the first entry that is not below `tag`. The search begins where it would be if tags were spread perfectly; the place
    /// is a dozen entries away.
    #[inline]
    fn first(&self, tag: u32) -> usize {
        let own_bits = tag.checked_shl(self.depth).unwrap_or(0) >> (u32::BITS / 2);
        let guess = self.entries.len().wrapping_mul(own_bits as usize) >> (u32::BITS / 2);
        let (below, above) = self.entries.split_at_checked(guess).unwrap_or((&self.entries, &[]));
        let back = below.iter().rev().take_while(|entry| entry.tag >= tag).count();
        if back > 0 {
            return guess.wrapping_sub(back);
        }
        guess.wrapping_add(above.iter().take_while(|entry| entry.tag < tag).count())
    }
}

/// How deep an index with so many entries may be.
fn deepest(len: usize) -> u32 {
    len.checked_div(SPARSE).and_then(usize::checked_ilog2).unwrap_or(0).min(u32::BITS)
}

/// A hash and a number in one, for [`HashIndex::from_sorted`].
pub fn sortable(hash: u64, number: u32) -> u64 {
    u64::from(tag(hash)) << u32::BITS | u64::from(number)
}

/// The part of its hash that decides where a sortable entry goes.
pub fn tag_of(sortable: u64) -> u32 {
    tag(sortable)
}

/// The number of a sortable entry.
pub fn number_of(sortable: u64) -> u32 {
    let [n0, n1, n2, n3, ..] = sortable.to_le_bytes();
    u32::from_le_bytes([n0, n1, n2, n3])
}

/// A sortable entry with another number.
pub fn with_number(sortable: u64, number: u32) -> u64 {
    u64::from(tag_of(sortable)) << u32::BITS | u64::from(number)
}

/// The part of a hash that an entry stores.
fn tag(hash: u64) -> u32 {
    (hash >> u32::BITS) as u32
}

impl HashIndex {
    pub fn new() -> Self {
        Self { shards: vec![Shard { entries: Vec::new(), depth: 0 }], directory: vec![0], depth: 0, len: 0, room: 0 }
    }

    /// The index of these entries.
    pub fn from_sorted(entries: &[u64]) -> Self {
        let mut index =
            Self { shards: Vec::new(), directory: Vec::new(), depth: 0, len: entries.len(), room: entries.len() };
        index.add_shards(entries, 0, deepest(entries.len()));
        index.depth = index.shards.iter().map(|shard| shard.depth).max().unwrap_or(0);
        for (shard, at) in index.shards.iter().zip(0..) {
            index.directory.extend(iter::repeat_n(at, 1_usize.wrapping_shl(index.depth.wrapping_sub(shard.depth))));
        }
        index
    }

    /// Adds shards for entries whose tags have the first `depth` bits in common.
    fn add_shards(&mut self, entries: &[u64], depth: u32, deepest: u32) {
        if entries.len() < FULL || depth >= deepest {
            let entries =
                entries.iter().map(|entry| Entry { tag: tag_of(*entry), number: number_of(*entry) }).collect();
            self.shards.push(Shard { entries, depth });
            return;
        }
        let next = (u64::MAX >> 1).wrapping_add(1).wrapping_shr(depth);
        let (zeros, ones) = entries.split_at(entries.partition_point(|entry| entry & next == 0));
        for part in [zeros, ones] {
            self.add_shards(part, depth.wrapping_add(1), deepest);
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The number under `hash` that `is` says is the right one.
    #[inline]
    pub fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let tag = tag(hash);
        let shard = self.shards.get(self.shard(tag))?;
        let same = shard.entries.get(shard.first(tag)..)?.iter().take_while(|entry| entry.tag == tag);
        same.map(|entry| entry.number).find(|number| is(*number))
    }

    /// Adds a number that is not there yet.
    pub fn insert(&mut self, hash: u64, number: u32) {
        let tag = tag(hash);
        let mut at = self.shard(tag);
        let deepest = deepest(self.len);
        while self.shards.get(at).is_some_and(|shard| shard.entries.len() >= FULL && shard.depth < deepest) {
            self.split(at, tag);
            at = self.shard(tag);
        }
        let Some(shard) = self.shards.get_mut(at).known(HAS_SHARD) else { return };
        let before = shard.entries.capacity();
        if shard.entries.len() == before {
            // Small sales by doubling, shards of large ones by a step: nothing lies empty for long.
            shard.entries.reserve_exact(before.clamp(4, STEP));
        }
        shard.entries.insert(shard.first(tag).min(shard.entries.len()), Entry { tag, number });
        self.room = self.room.wrapping_sub(before).wrapping_add(shard.entries.capacity());
        self.len = self.len.wrapping_add(1);
    }

    /// Removes a number, and says whether it was there.
    pub fn remove(&mut self, hash: u64, number: u32) -> bool {
        let tag = tag(hash);
        let at = self.shard(tag);
        let Some(shard) = self.shards.get_mut(at).known(HAS_SHARD) else { return false };
        let first = shard.first(tag);
        let same = shard.entries.iter().enumerate().skip(first).take_while(|(_, entry)| entry.tag == tag);
        let Some((place, _)) = { same }.find(|(_, entry)| entry.number == number) else { return false };
        let before = shard.entries.capacity();
        shard.entries.remove(place);
        if before.wrapping_sub(shard.entries.len()) > STEP.wrapping_mul(2) {
            shard.entries.shrink_to(shard.entries.len().saturating_add(STEP));
        }
        self.room = self.room.wrapping_sub(before).wrapping_add(shard.entries.capacity());
        self.len = self.len.wrapping_sub(1);
        true
    }

    /// Heap bytes.
    pub fn memory(&self) -> usize {
        let entries = self.room.saturating_mul(size_of::<Entry>());
        let shards = self.shards.capacity().saturating_mul(size_of::<Shard>());
        let directory = self.directory.capacity().saturating_mul(size_of::<u32>());
        entries.saturating_add(shards).saturating_add(directory)
    }

    /// Allocations to free.
    pub fn effort(&self) -> usize {
        self.shards.len()
    }

    /// The shard of a tag: its first `depth` bits, looked up.
    #[inline]
    fn shard(&self, tag: u32) -> usize {
        let front = tag.checked_shr(u32::BITS.wrapping_sub(self.depth)).unwrap_or(0);
        self.directory
            .get(front as usize)
            .known("the directory has a place for all front bits")
            .map_or(usize::MAX, |at| *at as usize)
    }

    /// Splits the shard of `tag` in two by the next bit of its tags.
    fn split(&mut self, at: usize, tag: u32) {
        let fresh = u32::try_from(self.shards.len()).ok().or_invariant("there are fewer shards than orders", u32::MAX);
        let Some(shard) = self.shards.get_mut(at).known(HAS_SHARD) else { return };
        if shard.depth == self.depth {
            self.directory = self.directory.iter().flat_map(|shard| iter::repeat_n(*shard, 2)).collect();
            self.depth = self.depth.wrapping_add(1);
        }
        let next = (u32::MAX >> 1).wrapping_add(1).checked_shr(shard.depth).unwrap_or(0);
        shard.depth = shard.depth.wrapping_add(1);
        let (depth, before) = (shard.depth, shard.entries.capacity());
        let ones = shard.entries.split_off(shard.entries.partition_point(|entry| entry.tag & next == 0));
        shard.entries.shrink_to_fit();
        let after = shard.entries.capacity().wrapping_add(ones.capacity());
        self.room = self.room.wrapping_sub(before).wrapping_add(after);
        self.shards.push(Shard { entries: ones, depth });
        // The places that pointed to the shard are neighbours; the later half of them gets the new one.
        let span = 1_usize.wrapping_shl(self.depth.wrapping_sub(depth));
        let front = tag.checked_shr(u32::BITS.wrapping_sub(depth).wrapping_add(1)).unwrap_or(0);
        let first = (front as usize).saturating_mul(span).saturating_mul(2);
        for place in self.directory.iter_mut().skip(first.saturating_add(span)).take(span) {
            *place = fresh;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spreads numbers over all 64 bits (`SplitMix64`).
    fn spread(number: u32) -> u64 {
        let mut z = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn filled(count: u32, hash_of: fn(u32) -> u64) -> HashIndex {
        let mut index = HashIndex::new();
        for number in 0..count {
            index.insert(hash_of(number), number);
        }
        index
    }

    fn find(index: &HashIndex, number: u32) -> Option<u32> {
        index.find(spread(number), |found| found == number)
    }

    #[test]
    fn every_number_is_found_through_many_splits() {
        let count = if cfg!(miri) { 1_300 } else { 30_000 };
        let mut index = filled(count, spread);
        assert!(index.shards.len() > 2);
        for number in 0..count {
            assert_eq!(find(&index, number), Some(number));
        }
        assert_eq!(find(&index, count), None);
        for number in (0..count).step_by(2) {
            index.remove(spread(number), number);
            index.remove(spread(number), number);
        }
        assert_eq!(index.len(), count as usize / 2);
        for number in 0..count {
            assert_eq!(find(&index, number), (number % 2 == 1).then_some(number));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many steps for Miri")]
    fn an_entry_costs_eight_bytes_and_little_more() {
        for count in [10_000, 15_000, 20_000, 33_333] {
            let bytes = filled(count, spread).memory() / count as usize;
            assert!(bytes <= 8, "{bytes} bytes at {count}");
        }
        let index = filled(2, spread);
        assert!(index.memory() < 200, "a sale of two orders: {} bytes", index.memory());
        let removed = (0..30_000).fold(filled(30_000, spread), |mut index, number| {
            index.remove(spread(number), number);
            index
        });
        assert!(removed.memory() < 50_000, "an emptied index: {} bytes", removed.memory());
        assert_eq!(removed.room, removed.shards.iter().map(|shard| shard.entries.capacity()).sum::<usize>());
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many steps for Miri")]
    fn equal_hashes_are_slow_but_right() {
        let count = 4 * u32::try_from(FULL).unwrap();
        let index = filled(count, |_| 7);
        for number in (0..count).step_by(99) {
            assert_eq!(index.find(7, |found| found == number), Some(number));
        }
        assert!(index.memory() < 10 * count as usize, "{} bytes", index.memory());
    }
}
