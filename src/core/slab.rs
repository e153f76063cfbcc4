//! A slab: values in slots, with ids that are never reused.

use std::hash::{Hash, Hasher};
use std::mem;
use std::num::NonZeroU32;

use super::invariant::Known;

/// Slots per chunk. Growing adds a chunk and moves nothing, so no command pays for a million entries at once.
const CHUNK: usize = 256;

/// The id of a value in a [`Slab`]. After the value is removed, the id refers to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    slot: u32,
    generation: NonZeroU32,
}

impl Id {
    /// The smallest id.
    pub const FIRST: Self = Self { slot: 0, generation: NonZeroU32::MIN };
    /// The largest id.
    pub const LAST: Self = Self { slot: u32::MAX, generation: NonZeroU32::MAX };
}

impl Hash for Id {
    /// Uses one write.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.slot).wrapping_shl(32) | u64::from(self.generation.get()));
    }
}

/// Values with ids. Inserting, finding and removing take constant time.
#[derive(Debug)]
pub struct Slab<T> {
    chunks: Vec<Vec<Slot<T>>>,
    /// The slot that was vacated last, which begins the list of vacant slots.
    vacant: Option<u32>,
    len: usize,
    /// The generation of the value inserted last. One counter serves all slots, so emptied chunks can be dropped.
    stamp: NonZeroU32,
}

#[derive(Debug)]
enum Slot<T> {
    Taken { stamp: NonZeroU32, value: T },
    Vacant { next: Option<u32> },
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), vacant: None, len: 0, stamp: NonZeroU32::MAX }
    }
}

impl<T> Slab<T> {
    /// The number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Stores `value` and returns its id.
    pub fn insert(&mut self, value: T) -> Id {
        self.stamp = self.stamp.checked_add(1).unwrap_or(NonZeroU32::MIN);
        self.len = self.len.saturating_add(1);
        let generation = self.stamp;
        let taken = Slot::Taken { stamp: generation, value };
        let Some(slot) = self.vacant else {
            return Id { slot: self.push(taken), generation };
        };
        let Some(room) = slot_mut(&mut self.chunks, slot).known("a vacant slot is there") else {
            return Id { slot: self.push(taken), generation };
        };
        self.vacant = match mem::replace(room, taken) {
            Slot::Vacant { next } => next,
            Slot::Taken { .. } => None.known("the chain of vacant slots has no other"),
        };
        Id { slot, generation }
    }

    /// Adds a slot at the end.
    fn push(&mut self, taken: Slot<T>) -> u32 {
        let before = self.chunks.len().saturating_sub(1).saturating_mul(CHUNK);
        let within = match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => {
                chunk.push(taken);
                chunk.len().saturating_sub(1)
            }
            last => {
                let full = last.map_or(0, |chunk| chunk.len());
                self.chunks.push(vec![taken]);
                full
            }
        };
        // Four billion values do not fit in any server; an id beyond that would just refer to nothing.
        u32::try_from(before.saturating_add(within)).unwrap_or(u32::MAX)
    }

    /// The value with this `id`, if it still exists.
    #[must_use]
    pub fn get(&self, id: Id) -> Option<&T> {
        let (chunk, within) = split(id.slot);
        match self.chunks.get(chunk)?.get(within)? {
            Slot::Taken { stamp, value } if *stamp == id.generation => Some(value),
            _ => None,
        }
    }

    /// The value with this `id`, mutable, if it still exists.
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        match slot_mut(&mut self.chunks, id.slot)? {
            Slot::Taken { stamp, value } if *stamp == id.generation => Some(value),
            _ => None,
        }
    }

    /// Removes the value with this `id`.
    pub fn remove(&mut self, id: Id) -> Option<T> {
        let room = slot_mut(&mut self.chunks, id.slot)?;
        if !matches!(room, Slot::Taken { stamp, .. } if *stamp == id.generation) {
            return None;
        }
        let removed = mem::replace(room, Slot::Vacant { next: self.vacant });
        self.vacant = Some(id.slot);
        self.len = self.len.checked_sub(1).or_invariant("a value that is removed was counted", 0);
        if self.len == 0 {
            self.clear();
        }
        match removed {
            Slot::Taken { value, .. } => Some(value),
            Slot::Vacant { .. } => None.known("the slot was taken"),
        }
    }

    /// Removes every value. Their ids are not reused.
    pub fn clear(&mut self) {
        self.chunks.truncate(1);
        self.chunks.iter_mut().for_each(Vec::clear);
        self.vacant = None;
        self.len = 0;
    }

    /// All values with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        self.chunks.iter().flatten().zip(0..).filter_map(|(slot, number)| match slot {
            Slot::Taken { stamp, value } => Some((Id { slot: number, generation: *stamp }, value)),
            Slot::Vacant { .. } => None,
        })
    }

    /// All values, mutable.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks.iter_mut().flatten().filter_map(|slot| match slot {
            Slot::Taken { value, .. } => Some(value),
            Slot::Vacant { .. } => None,
        })
    }
}

fn split(slot: u32) -> (usize, usize) {
    let slot = usize::try_from(slot).unwrap_or(usize::MAX);
    (slot / CHUNK, slot % CHUNK)
}

fn slot_mut<T>(chunks: &mut [Vec<Slot<T>>], slot: u32) -> Option<&mut Slot<T>> {
    let (chunk, within) = split(slot);
    chunks.get_mut(chunk)?.get_mut(within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_id_does_not_name_the_next_value_in_its_slot() {
        let mut slab = Slab::default();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_eq!((slab.get(first), slab.get(second)), (None, Some(&"second")));
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn vacant_slots_are_used_before_new_ones_and_an_empty_arena_keeps_one_chunk() {
        let mut slab = Slab::default();
        let ids: Vec<Id> = (0..3 * CHUNK).map(|n| slab.insert(n)).collect();
        assert_eq!(slab.chunks.len(), 3);
        for id in ids.iter().step_by(2) {
            slab.remove(*id).unwrap();
        }
        let again: Vec<Id> = (0..CHUNK).map(|n| slab.insert(n)).collect();
        assert_eq!((slab.chunks.len(), slab.len()), (3, 3 * CHUNK / 2 + CHUNK));
        assert_eq!(slab.iter().count(), slab.len());
        assert!(slab.iter().all(|(id, value)| slab.get(id) == Some(value)));
        for id in ids.iter().skip(1).step_by(2).chain(&again) {
            slab.remove(*id).unwrap();
        }
        assert_eq!((slab.chunks.len(), slab.is_empty()), (1, true));
        let fresh = slab.insert(7);
        assert!(ids.iter().chain(&again).all(|id| slab.get(*id).is_none()));
        assert_eq!(slab.get(fresh), Some(&7));
    }

    #[test]
    fn the_stamps_may_wrap() {
        let mut slab = Slab { stamp: NonZeroU32::MAX, ..Slab::default() };
        let id = slab.insert(1);
        assert_eq!((id.generation, slab.get(id)), (NonZeroU32::MIN, Some(&1)));
    }
}
