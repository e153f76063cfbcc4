//! A slab: values in slots, with ids that are never reused.

use std::hash::{Hash, Hasher};
use std::mem;
use std::num::NonZeroU32;

use super::chunks::{CHUNK, split};
use super::invariant::Known;

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

impl Id {
    /// The number of its slot, which no other value has at the same time.
    pub fn slot(self) -> u32 {
        self.slot
    }
}

impl Hash for Id {
    /// Uses one write.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.slot).wrapping_shl(32) | u64::from(self.generation.get()));
    }
}

/// Values with ids. Inserting, finding and removing take constant time: memory is taken and given back by the chunk.
#[derive(Debug)]
pub struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// The chunks with room for another value. Values go to the last of them.
    roomy: Vec<usize>,
    len: usize,
    /// The generation of the value inserted last. One counter serves all slots, so the slots of emptied chunks can be dropped.
    stamp: NonZeroU32,
}

#[derive(Debug)]
struct Chunk<T> {
    slots: Vec<Slot<T>>,
    /// The slot within it that was vacated last, which begins the list of its vacant slots.
    vacant: Option<usize>,
    /// How many of its slots have a value.
    taken: usize,
}

impl<T> Chunk<T> {
    fn empty() -> Self {
        Self { slots: Vec::new(), vacant: None, taken: 0 }
    }

    /// Stores a value; returns its slot within the chunk.
    fn put(&mut self, taken: Slot<T>) -> Option<usize> {
        self.taken = self.taken.checked_add(1)?;
        let Some(within) = self.vacant else {
            self.slots.push(taken);
            return self.slots.len().checked_sub(1);
        };
        self.vacant = match mem::replace(self.slots.get_mut(within)?, taken) {
            Slot::Vacant { next } => next,
            Slot::Taken { .. } => None.known("the chain of vacant slots has no other"),
        };
        Some(within)
    }
}

#[derive(Debug)]
enum Slot<T> {
    Taken {
        stamp: NonZeroU32,
        /// For the user of the slab; the alignment of most values leaves room for it.
        note: u32,
        value: T,
    },
    Vacant {
        next: Option<usize>,
    },
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), roomy: Vec::new(), len: 0, stamp: NonZeroU32::MAX }
    }
}

impl<T> Slab<T> {
    /// The number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Stores `value` and returns its id.
    pub fn insert(&mut self, value: T) -> Id {
        self.stamp = self.stamp.checked_add(1).unwrap_or(NonZeroU32::MIN);
        self.len = self.len.saturating_add(1);
        let generation = self.stamp;
        if self.roomy.is_empty() {
            self.roomy.push(self.chunks.len());
            self.chunks.push(Chunk::empty());
        }
        let number = self.roomy.last().copied().unwrap_or_default();
        let chunk = self.chunks.get_mut(number);
        let within = chunk.and_then(|chunk| {
            let within = chunk.put(Slot::Taken { stamp: generation, note: 0, value });
            if chunk.taken == CHUNK {
                self.roomy.pop();
            }
            within
        });
        let slot = within.known("a roomy chunk has room").and_then(|within| joined(number, within));
        Id { slot: slot.unwrap_or(u32::MAX), generation }
    }

    /// The value with this `id`, if it still exists.
    pub fn get(&self, id: Id) -> Option<&T> {
        self.at(id.slot).filter(|(there, _)| *there == id).map(|(_, value)| value)
    }

    /// The value in this slot, with its id.
    pub fn at(&self, slot: u32) -> Option<(Id, &T)> {
        match self.slot(slot)? {
            Slot::Taken { stamp, value, .. } => Some((Id { slot, generation: *stamp }, value)),
            Slot::Vacant { .. } => None,
        }
    }

    /// A number beside the value with this `id`; 0 at first.
    pub fn note(&self, id: Id) -> Option<u32> {
        match self.slot(id.slot)? {
            Slot::Taken { stamp, note, .. } if *stamp == id.generation => Some(*note),
            _ => None,
        }
    }

    /// Sets the number beside the value in this slot.
    pub fn set_note(&mut self, slot: u32, number: u32) {
        if let Some(Slot::Taken { note, .. }) = self.slot_mut(slot) {
            *note = number;
        }
    }

    /// The value with this `id`, mutable, if it still exists.
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        match self.slot_mut(id.slot)? {
            Slot::Taken { stamp, value, .. } if *stamp == id.generation => Some(value),
            _ => None,
        }
    }

    /// Removes the value with this `id`.
    pub fn remove(&mut self, id: Id) -> Option<T> {
        let (number, within) = split(id.slot);
        let chunk = self.chunks.get_mut(number)?;
        let room = chunk.slots.get_mut(within)?;
        if !matches!(room, Slot::Taken { stamp, .. } if *stamp == id.generation) {
            return None;
        }
        let removed = mem::replace(room, Slot::Vacant { next: chunk.vacant });
        chunk.vacant = Some(within);
        if chunk.taken == CHUNK {
            self.roomy.push(number);
        }
        chunk.taken = chunk.taken.checked_sub(1).or_invariant("a value that is removed was counted", 0);
        self.len = self.len.checked_sub(1).or_invariant("a value that is removed was counted", 0);
        // One roomy chunk stays, so that a slab of one value or none allocates nothing each time.
        if chunk.taken == 0 && self.roomy.len() > 1 {
            *chunk = Chunk::empty();
            // The next values go to a chunk that has its memory.
            if self.roomy.pop_if(|last| *last == number).is_some() {
                self.roomy.insert(0, number);
            }
        }
        match removed {
            Slot::Taken { value, .. } => Some(value),
            Slot::Vacant { .. } => None.known("the slot was taken"),
        }
    }

    /// Removes every value. Their ids are not reused.
    pub fn clear(&mut self) {
        self.chunks.clear();
        self.roomy.clear();
        self.len = 0;
    }

    /// All values with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        let slots = self
            .chunks
            .iter()
            .zip(0..)
            .flat_map(|(chunk, number)| (0..chunk.slots.len()).map(move |within| (number, within)));
        slots.filter_map(|(number, within)| self.at(joined(number, within)?))
    }

    /// All values, mutable.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks.iter_mut().flat_map(|chunk| &mut chunk.slots).filter_map(|slot| match slot {
            Slot::Taken { value, .. } => Some(value),
            Slot::Vacant { .. } => None,
        })
    }

    fn slot(&self, number: u32) -> Option<&Slot<T>> {
        let (chunk, within) = split(number);
        self.chunks.get(chunk)?.slots.get(within)
    }

    fn slot_mut(&mut self, number: u32) -> Option<&mut Slot<T>> {
        let (chunk, within) = split(number);
        self.chunks.get_mut(chunk)?.slots.get_mut(within)
    }
}

/// The number of a slot, from its chunk and its place there.
fn joined(chunk: usize, within: usize) -> Option<u32> {
    u32::try_from(chunk.checked_mul(CHUNK)?.checked_add(within)?).ok()
}

#[cfg(test)]
impl<T> Slab<T> {
    /// The bytes of a slot.
    pub const SLOT: usize = size_of::<Slot<T>>();
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

    /// How many chunks have memory.
    fn chunks<T>(slab: &Slab<T>) -> usize {
        slab.chunks.iter().filter(|chunk| chunk.slots.capacity() > 0).count()
    }

    #[test]
    fn vacant_slots_are_used_before_new_ones_and_emptied_chunks_are_given_back_one_by_one() {
        let mut slab = Slab::default();
        let ids: Vec<Id> = (0..3 * CHUNK).map(|n| slab.insert(n)).collect();
        assert_eq!(chunks(&slab), 3);
        for id in ids.iter().step_by(2) {
            slab.remove(*id).unwrap();
        }
        let again: Vec<Id> = (0..CHUNK).map(|n| slab.insert(n)).collect();
        assert_eq!((slab.chunks.len(), slab.len()), (3, 3 * CHUNK / 2 + CHUNK));
        assert_eq!(slab.iter().count(), slab.len());
        assert!(slab.iter().all(|(id, value)| slab.get(id) == Some(value)));
        let mut had = 3;
        for id in ids.iter().skip(1).step_by(2).chain(&again) {
            slab.remove(*id).unwrap();
            let has = chunks(&slab);
            assert!(has == had || has + 1 == had);
            had = has;
        }
        assert_eq!((had, slab.is_empty(), slab.iter().count()), (1, true, 0));
        let fresh = slab.insert(7);
        assert_eq!(chunks(&slab), 1);
        assert!(ids.iter().chain(&again).all(|id| slab.get(*id).is_none()));
        assert_eq!(slab.get(fresh), Some(&7));
    }

    #[test]
    fn any_history_keeps_every_value() {
        let mut slab = Slab::default();
        let mut there = std::collections::HashMap::new();
        let mut random = fastrand::Rng::with_seed(7);
        for round in 0..60_000 {
            // It grows to some chunks, shrinks to nothing, and does so again.
            let grows = if round / 4_000 % 2 == 0 { 4 } else { 1 };
            if random.u8(..5) < grows {
                assert!(there.insert(slab.insert(round), round).is_none());
            } else if let Some(id) = there.keys().nth(random.usize(..there.len().clamp(1, 9))).copied() {
                assert_eq!(slab.remove(id), there.remove(&id));
            }
        }
        assert_eq!(slab.len(), there.len());
        assert!(slab.iter().all(|(id, value)| there.get(&id) == Some(value)) && slab.iter().count() == there.len());
        let counted: usize = slab.chunks.iter().map(|chunk| chunk.taken).sum();
        assert_eq!(counted, there.len());
    }

    #[test]
    fn the_stamps_may_wrap() {
        let mut slab = Slab { stamp: NonZeroU32::MAX, ..Slab::default() };
        let id = slab.insert(1);
        assert_eq!((id.generation, slab.get(id)), (NonZeroU32::MIN, Some(&1)));
    }
}
