//! Ids that are remembered, in the order in which they came.

use std::hash::RandomState;

use super::hash_index::HashIndex;
use super::pages::{Layout, RecordPages};
use crate::core::codec::Reader;
use crate::core::id::PackedId;
use crate::core::invariant::Known;

/// A set of ids, for the bytes of each and eight or ten more.
pub struct IdSet {
    pages: RecordPages<IdLayout>,
    by_id: HashIndex,
}

struct IdLayout;

impl Layout for IdLayout {
    #[inline]
    fn length(bytes: &[u8]) -> Option<usize> {
        let mut reader = Reader::new(bytes);
        PackedId::skip(&mut reader)?;
        bytes.len().checked_sub(reader.rest().len())
    }
}

impl IdSet {
    pub fn new() -> Self {
        Self { pages: RecordPages::new(), by_id: HashIndex::new() }
    }

    pub fn len(&self) -> u32 {
        self.pages.len()
    }

    pub fn contains(&self, id: &PackedId<'_>, keys: &RandomState) -> bool {
        let is = |number| self.pages.get(number).is_some_and(|bytes| id.leads(bytes));
        self.by_id.find(id.hash(keys), is).is_some()
    }

    /// Adds an id that is not there yet. The set must have room.
    pub fn insert(&mut self, id: &PackedId<'_>, keys: &RandomState) {
        let mut record = Vec::new();
        id.write(&mut record);
        if let Some(number) = self.pages.push(&record).known("a full set gets no further id") {
            self.by_id.insert(id.hash(keys), number);
        }
    }

    /// All ids from the one with this number on.
    pub fn from(&self, number: u32) -> impl Iterator<Item = PackedId<'_>> {
        let id = |number| PackedId::read_trusted(&mut Reader::new(self.pages.get(number)?)).ok();
        (number..self.len()).map_while(move |number| id(number).known("an id is what was written"))
    }

    /// Heap bytes.
    pub fn memory(&self) -> usize {
        self.pages.memory().saturating_add(self.by_id.memory())
    }

    /// Allocations to free.
    pub fn effort(&self) -> usize {
        self.pages.effort().saturating_add(self.by_id.effort())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_kept_once_and_in_order() {
        let (mut set, keys) = (IdSet::new(), RandomState::new());
        let names: Vec<String> = (0..200).map(|n| format!("move-{n}")).collect();
        for name in &names {
            let id = PackedId::new(name.as_bytes()).unwrap();
            assert!(!set.contains(&id, &keys));
            set.insert(&id, &keys);
            assert!(set.contains(&id, &keys));
        }
        let read: Vec<_> = set.from(150).map(|id| id.unpack().to_vec()).collect();
        assert_eq!(read, names[150..].iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>());
        assert_eq!(set.len(), 200);
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many steps for Miri")]
    fn an_id_costs_its_bytes_and_ten_more() {
        let (mut set, keys) = (IdSet::new(), RandomState::new());
        for n in 0..50_000_u32 {
            let uuid = format!("67e55044-10b1-426f-9247-{n:012x}");
            set.insert(&PackedId::new(uuid.as_bytes()).unwrap(), &keys);
        }
        assert!(set.memory() < 50_000 * 28, "{} bytes an id", set.memory() / 50_000);
    }
}
