//! The ids of adjustments: each happens once. They are a space of their own, apart from the ids of orders.

use std::collections::BTreeSet;
use std::iter;

use super::Sale;
use super::change::InvalidChange;
use super::orders::IdSet;
use super::snapshot::{ADJUSTMENTS, BLOCK, BLOCK_ORDERS, CorruptSale};
use crate::core::codec::{Corrupt, Reader};
use crate::core::id::PackedId;
use crate::core::limits::MAX_ID;

/// A block ends when it has this many bytes: then a further id might not fit.
const FULL_BLOCK: usize = BLOCK - 2 * MAX_ID;

impl Sale {
    /// How many adjustments the sale remembers.
    pub fn adjustments(&self) -> u64 {
        self.adjustments.as_ref().map_or(0, |ids| u64::from(ids.len()))
    }

    /// Whether an adjustment with this id has happened. An empty id is none.
    pub(super) fn has_adjusted(&self, id: &[u8]) -> bool {
        PackedId::new(id).is_some_and(|id| self.remembers(&id))
    }

    /// How many further adjustments the sale can remember.
    pub(super) fn room_for_adjustments(&self) -> u64 {
        u64::from(self.table.most).saturating_sub(self.adjustments())
    }

    /// The id in its packed form, if the sale can remember it and does not do so yet.
    pub(super) fn new_adjustment<'a>(&self, id: &'a [u8]) -> Result<PackedId<'a>, InvalidChange> {
        let id = PackedId::new(id).ok_or(InvalidChange::Range)?;
        if self.remembers(&id) {
            return Err(InvalidChange::State);
        }
        if self.room_for_adjustments() == 0 { Err(InvalidChange::Full) } else { Ok(id) }
    }

    /// Remembers an id that [`Sale::new_adjustment`] has returned.
    pub(super) fn remember_adjustment(&mut self, id: &PackedId<'_>) {
        self.adjustments.get_or_insert_with(|| Box::new(IdSet::new())).insert(id, &self.table.keys);
    }

    fn remembers(&self, id: &PackedId<'_>) -> bool {
        self.adjustments.as_ref().is_some_and(|ids| ids.contains(id, &self.table.keys))
    }

    /// All ids in the order in which they came, from the one with this number on.
    pub(super) fn adjustments_from(&self, number: u32) -> impl Iterator<Item = PackedId<'_>> {
        self.adjustments.iter().flat_map(move |ids| ids.from(number))
    }

    /// The ids, in blocks for a snapshot.
    pub(super) fn adjustment_blocks(&self) -> impl Iterator<Item = Vec<u8>> {
        let mut next = 0_u32;
        iter::from_fn(move || {
            let mut block = Vec::new();
            block.push(ADJUSTMENTS);
            let last = next.saturating_add(BLOCK_ORDERS);
            for id in self.adjustments_from(next) {
                if next >= last || block.len() >= FULL_BLOCK {
                    break;
                }
                id.write(&mut block);
                next = next.saturating_add(1);
            }
            (block.len() > 1).then_some(block)
        })
    }

    /// Adds the ids of a block that may be damaged or hostile, or none of them.
    pub(super) fn load_adjustments(&mut self, bytes: &[u8]) -> Result<(), CorruptSale> {
        let (mut reader, _) = Reader::versioned(bytes, ADJUSTMENTS)?;
        let (mut ids, mut once) = (Vec::new(), BTreeSet::new());
        loop {
            let id = PackedId::read(&mut reader)?;
            if self.remembers(&id) || !once.insert(id) {
                return Err(Corrupt::Invalid.into());
            }
            ids.push(id);
            if reader.is_empty() {
                break;
            }
        }
        if u64::try_from(ids.len()).is_ok_and(|more| more > self.room_for_adjustments()) {
            return Err(CorruptSale::Full);
        }
        for id in &ids {
            self.remember_adjustment(id);
        }
        self.revision = self.revision.wrapping_add(1);
        Ok(())
    }
}
