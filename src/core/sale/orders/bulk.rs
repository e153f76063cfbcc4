//! Many orders at once, into an empty table.

use super::hash_index::{self, HashIndex};
use super::order_table::OrderTable;
use super::record::{BuyerRef, Record, State};
use super::sum_tree::SumTree;
use super::{ByDeadline, Orders};
use crate::core::id::PackedId;
use crate::core::invariant::Known;

/// Orders that are in their pages and in no index.
#[derive(Default)]
pub struct Unindexed {
    /// By id, as the index of ids will have them.
    ids: Vec<u64>,
    /// Those with a buyer of another name, by that name.
    names: Vec<u64>,
}

impl OrderTable {
    /// Adds an order behind the others, for [`OrderTable::index`]; false if there are too many.
    pub fn append(&mut self, order: &Record<'_>, unindexed: &mut Unindexed) -> bool {
        let Some(number) = self.orders.append(order) else { return false };
        unindexed.ids.push(hash_index::sortable(order.id.hash(&self.keys), number));
        if let BuyerRef::Named(buyer) = order.buyer {
            unindexed.names.push(hash_index::sortable(buyer.hash(&self.keys), number));
        }
        true
    }

    /// Puts all orders into the indexes, which are empty, and adds them to the sums; false if an id has two orders.
    pub fn index(&mut self, unindexed: Unindexed) -> bool {
        let Unindexed { mut ids, mut names } = unindexed;
        ids.sort_unstable();
        if self.orders.repeat_an_id(&ids) {
            return false;
        }
        names.sort_unstable();
        let (alone, mut shared) = part(&names, &ids);
        drop(names);
        self.orders.set_index(HashIndex::from_sorted(&ids));
        drop(ids);
        self.by_name = HashIndex::from_sorted(&alone);
        drop(alone);
        shared.sort_unstable();
        self.attach_all(&shared);
        for number in shared {
            self.adopt(number);
        }
        true
    }

    /// Adds all orders to the sums, except these, which are sorted. Each of the others has a buyer of its own.
    fn attach_all(&mut self, except: &[u32]) {
        let (mut holds, mut except): (Vec<(ByDeadline, u32)>, _) = (Vec::new(), except.iter().copied().peekable());
        let (mut waiting, mut at) = (Vec::new(), 0);
        while let Some((run, next)) = self.orders.run(at) {
            for (number, order) in run {
                if except.next_if_eq(&number).is_some() {
                    continue;
                }
                match order.state {
                    State::Held => {
                        self.held = self.held.wrapping_add(order.units);
                        holds.push(((order.deadline, number), number));
                    }
                    State::Sold => self.sold = self.sold.wrapping_add(order.units),
                    State::Waiting => {
                        waiting.push(number);
                        continue;
                    }
                    State::Cancelled | State::Expired => continue,
                }
                self.active = self.active.wrapping_add(1);
            }
            at = next;
        }
        holds.sort_unstable();
        self.holds = SumTree::from_sorted(&holds, &self.orders);
        for number in waiting {
            self.attach(number);
        }
    }

    /// Puts an order that names its buyer into the index of buyers, and adds it to the sums.
    fn adopt(&mut self, number: u32) {
        let Some(BuyerRef::Named(buyer)) = self.orders.get(number).map(|order| order.buyer) else { return };
        let text = buyer.unpack().detach();
        let Some(buyer) = PackedId::new(&text).known("a name is an id") else { return };
        match self.entry(self.look_up(&buyer), &buyer) {
            Some(entry) => {
                self.orders
                    .edit(number, |order| Record { buyer: BuyerRef::Shared { entry, last_hold: false }, ..order });
                self.join_entry(entry);
            }
            None => self.name(&buyer, number),
        }
        self.attach(number);
    }
}

/// Parts sorted orders with named buyers: those whose buyer has no other order, as they are, and the numbers of those whose buyer may have
/// one, by their hashes.
fn part(names: &[u64], ids: &[u64]) -> (Vec<u64>, Vec<u32>) {
    let (mut alone, mut shared) = (Vec::with_capacity(names.len()), Vec::new());
    let mut ids = ids.iter().copied().peekable();
    for same in names.chunk_by(|one, other| hash_index::tag_of(*one) == hash_index::tag_of(*other)) {
        let tag = same.first().map(|name| hash_index::tag_of(*name));
        while ids.next_if(|id| Some(hash_index::tag_of(*id)) < tag).is_some() {}
        let is_alone = same.len() == 1 && ids.peek().map(|id| hash_index::tag_of(*id)) != tag;
        if is_alone {
            alone.extend_from_slice(same);
        } else {
            shared.extend(same.iter().map(|name| hash_index::number_of(*name)));
        }
    }
    (alone, shared)
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
