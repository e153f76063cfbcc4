//! Many orders at once, into an empty table.

use super::Orders;
use super::counted_tree::CountedTree;
use super::hash_index::{self, HashIndex};
use super::order_table::OrderTable;
use super::record::{BuyerRef, Record, State};
use super::sharing::{Entries, Hold};
use crate::core::id::PackedId;
use crate::core::invariant::Known;

/// How many times more orders there are at the next look whether an id has two of them, and how many there are taken to be at first.
const TIMES: usize = 8;
const FEW: usize = if cfg!(test) { 2 } else { 125_000 };

/// Orders that are in their pages and in no index.
#[derive(Default)]
pub struct Unindexed {
    /// By id, as the index of ids will have them.
    ids: Vec<u64>,
    /// Those with a buyer of another name, by that name.
    names: Vec<u64>,
    /// In the order of their numbers.
    holds: Vec<Hold>,
    /// Those that wait, and for how many units.
    waiting: Vec<(u32, u64)>,
    /// How many there were when it was last looked whether an id has two orders.
    told_apart: usize,
}

impl OrderTable {
    /// Adds an order behind the others, for [`OrderTable::index`]; false if there are too many. It counts as the only one of its buyer.
    pub fn append(&mut self, order: &Record<'_>, unindexed: &mut Unindexed) -> bool {
        let Some(number) = self.orders.append(order) else { return false };
        unindexed.ids.push(hash_index::sortable(order.id.hash(&self.keys), number));
        if let BuyerRef::Named(buyer) = order.buyer {
            unindexed.names.push(hash_index::sortable(buyer.hash(&self.keys), number));
        }
        let units = order.units;
        match order.state {
            State::Held => {
                self.held = self.held.wrapping_add(units);
                unindexed.holds.push(Hold { deadline: order.deadline, units, number });
            }
            State::Sold => self.sold = self.sold.wrapping_add(units),
            State::Waiting => unindexed.waiting.push((number, units)),
            State::Cancelled | State::Expired => {}
        }
        if order.active() {
            self.active = self.active.wrapping_add(1);
        }
        true
    }

    /// Whether an id has two orders. Looks only when there are many times more orders than at the last look: the server compresses payloads,
    /// so a few bytes can repeat an order a thousand times, and should not take memory for all of them.
    pub fn repeats(&self, unindexed: &mut Unindexed) -> bool {
        if unindexed.ids.len() / TIMES < unindexed.told_apart.max(FEW) {
            return false;
        }
        unindexed.told_apart = unindexed.ids.len();
        unindexed.ids.sort_unstable();
        self.orders.repeat_an_id(&unindexed.ids)
    }

    /// Puts all orders into the indexes, which are empty; false if an id has two orders.
    pub fn index(&mut self, unindexed: Unindexed) -> bool {
        let Unindexed { mut ids, mut names, mut holds, waiting, .. } = unindexed;
        ids.sort_unstable();
        if self.orders.repeat_an_id(&ids) {
            return false;
        }
        names.sort_unstable();
        let entries = Entries::new(&mut names, &ids, &self.orders);
        self.by_name = HashIndex::from_sorted(&names);
        drop(names);
        self.orders.set_index(HashIndex::from_sorted(&ids));
        drop(ids);
        holds.sort_unstable_by_key(Hold::key);
        let strays = self.share_all(entries, &holds);
        self.holds = CountedTree::from_sorted(&holds, |hold| Some((hold.key(), hold.number, hold.units)));
        drop(holds);
        for (number, units) in waiting {
            self.line.get_or_insert_default().join(number, units, &self.orders);
        }
        for number in strays {
            self.adopt(number);
        }
        true
    }

    /// Puts an order that names its buyer, and counts as the only one of it, into the index of buyers: to the others, if there are any.
    fn adopt(&mut self, number: u32) {
        let Some(BuyerRef::Named(buyer)) = self.orders.get(number).map(|order| order.buyer) else { return };
        let text = buyer.unpack().detach();
        let Some(buyer) = PackedId::new(&text).known("a name is an id") else { return };
        let Some(entry) = self.entry(self.look_up(&buyer), &buyer) else { return self.name(&buyer, number) };
        self.join_entry(entry);
        self.amend(number, |order| Record { buyer: BuyerRef::Shared(entry), ..order });
    }
}

impl Orders {
    /// Whether two orders have the same id. `ids` are sorted.
    fn repeat_an_id(&self, ids: &[u64]) -> bool {
        let id = |sortable: u64| self.get(hash_index::number_of(sortable)).map(|order| order.id);
        let same_tag = ids.chunk_by(|one, other| hash_index::tag_of(*one) == hash_index::tag_of(*other));
        same_tag.filter(|same| same.len() > 1).any(|same| {
            let pairs = same
                .iter()
                .enumerate()
                .flat_map(|(n, one)| same.iter().skip(n.saturating_add(1)).map(move |other| (one, other)));
            { pairs }.any(|(one, other)| id(*one) == id(*other))
        })
    }
}
