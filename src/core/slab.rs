//! A slab: values in slots, with ids that are never reused.

use std::hash::{Hash, Hasher};
use std::mem;
use std::num::NonZeroU32;

use super::chunks::Chunks;
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
    #[must_use]
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

/// Values with ids. Inserting, finding and removing take constant time.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Chunks<Slot<T>>,
    /// The slot that was vacated last, which begins the list of vacant slots.
    vacant: Option<u32>,
    len: usize,
    /// The generation of the value inserted last. One counter serves all slots, so emptied chunks can be dropped.
    stamp: NonZeroU32,
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
        next: Option<u32>,
    },
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Chunks::default(), vacant: None, len: 0, stamp: NonZeroU32::MAX }
    }
}

impl<T> Slab<T> {
    /// The bytes of a slot.
    #[cfg(test)]
    pub const SLOT: usize = size_of::<Slot<T>>();

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
        let taken = Slot::Taken { stamp: generation, note: 0, value };
        let Some(slot) = self.vacant else {
            return Id { slot: self.push(taken), generation };
        };
        let Some(room) = self.slots.get_mut(slot).known("a vacant slot is there") else {
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
        let slot = self.slots.len();
        self.slots.push(taken);
        slot
    }

    /// The value with this `id`, if it still exists.
    #[must_use]
    pub fn get(&self, id: Id) -> Option<&T> {
        self.at(id.slot).filter(|(there, _)| *there == id).map(|(_, value)| value)
    }

    /// The value in this slot, with its id.
    #[must_use]
    pub fn at(&self, slot: u32) -> Option<(Id, &T)> {
        match self.slots.get(slot)? {
            Slot::Taken { stamp, value, .. } => Some((Id { slot, generation: *stamp }, value)),
            Slot::Vacant { .. } => None,
        }
    }

    /// A number beside the value with this `id`; 0 at first.
    #[must_use]
    pub fn note(&self, id: Id) -> Option<u32> {
        match self.slots.get(id.slot)? {
            Slot::Taken { stamp, note, .. } if *stamp == id.generation => Some(*note),
            _ => None,
        }
    }

    /// Sets the number beside the value in this slot.
    pub fn set_note(&mut self, slot: u32, number: u32) {
        if let Some(Slot::Taken { note, .. }) = self.slots.get_mut(slot) {
            *note = number;
        }
    }

    /// The value with this `id`, mutable, if it still exists.
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        match self.slots.get_mut(id.slot)? {
            Slot::Taken { stamp, value, .. } if *stamp == id.generation => Some(value),
            _ => None,
        }
    }

    /// Removes the value with this `id`.
    pub fn remove(&mut self, id: Id) -> Option<T> {
        let room = self.slots.get_mut(id.slot)?;
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
        self.slots.clear();
        self.vacant = None;
        self.len = 0;
    }

    /// All values with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        (0..self.slots.len()).filter_map(|slot| self.at(slot))
    }

    /// All values, mutable.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| match slot {
            Slot::Taken { value, .. } => Some(value),
            Slot::Vacant { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::chunks::CHUNK;

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
    fn vacant_slots_are_used_before_new_ones_and_an_empty_slab_keeps_one_chunk() {
        let mut slab = Slab::default();
        let ids: Vec<Id> = (0..3 * CHUNK).map(|n| slab.insert(n)).collect();
        assert_eq!(slab.slots.chunks(), 3);
        for id in ids.iter().step_by(2) {
            slab.remove(*id).unwrap();
        }
        let again: Vec<Id> = (0..CHUNK).map(|n| slab.insert(n)).collect();
        assert_eq!((slab.slots.chunks(), slab.len()), (3, 3 * CHUNK / 2 + CHUNK));
        assert_eq!(slab.iter().count(), slab.len());
        assert!(slab.iter().all(|(id, value)| slab.get(id) == Some(value)));
        for id in ids.iter().skip(1).step_by(2).chain(&again) {
            slab.remove(*id).unwrap();
        }
        assert_eq!((slab.slots.chunks(), slab.is_empty()), (1, true));
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
