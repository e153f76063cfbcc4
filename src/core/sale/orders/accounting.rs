//! Keeping the sums of an [`OrderTable`] in step with its orders.

use super::buyers::Account;
use super::counted_tree::{CountedTree, Source};
use super::order_table::{ENTRY, OrderTable};
use super::record::{BuyerRef, Record, State};
use crate::core::id::PackedId;
use crate::core::invariant::{Known, invariant};

/// The sums to which an order adds.
#[derive(Clone, Copy)]
struct Share {
    state: State,
    units: u64,
    /// The entry of its buyer; `None`: the buyer has no other order.
    entry: Option<u32>,
}

impl Share {
    fn of(order: &Record<'_>) -> Self {
        let entry = match order.buyer {
            BuyerRef::Shared(entry) => Some(entry),
            BuyerRef::Own | BuyerRef::Named(_) => None,
        };
        Self { state: order.state, units: order.units, entry }
    }
}

/// Whether an order is counted in or out.
#[derive(Clone, Copy)]
enum Way {
    In,
    Out,
}

impl Way {
    /// A sum with these units more, or less. Modulo 2^64, see [`OrderTable::held`].
    fn count(self, sum: u64, units: u64) -> u64 {
        match self {
            Self::In => sum.wrapping_add(units),
            Self::Out => sum.wrapping_sub(units),
        }
    }

    /// Puts an order into a tree, or takes it out.
    fn index<K: Ord + Copy>(self, tree: &mut CountedTree<K>, number: u32, orders: &impl Source<K>) {
        match self {
            Self::In => tree.insert(number, orders),
            Self::Out => tree.remove(number, orders),
        }
    }
}

impl OrderTable {
    /// Adds a new order, whose record is `order`, to all sums and trees.
    pub(super) fn attach(&mut self, number: u32, order: &Record<'_>) {
        self.count_share(number, Share::of(order), Way::In);
    }

    /// Writes an order anew after `edit` has changed it, and updates all sums and trees.
    pub(super) fn amend(&mut self, number: u32, edit: impl for<'r> FnOnce(Record<'r>) -> Record<'r>) {
        self.count(number, Way::Out);
        self.orders.edit(number, edit);
        self.count(number, Way::In);
    }

    fn count(&mut self, number: u32, way: Way) {
        let share = self.orders.get(number).known("only what is in the table is counted").as_ref().map(Share::of);
        if let Some(share) = share {
            self.count_share(number, share, way);
        }
    }

    fn count_share(&mut self, number: u32, Share { state, units, entry }: Share, way: Way) {
        match state {
            State::Held => {
                self.held = way.count(self.held, units);
                way.index(&mut self.holds, number, &self.orders);
                if entry.is_some() {
                    way.index(&mut self.by_buyer, number, &self.orders);
                }
            }
            State::Sold => self.sold = way.count(self.sold, units),
            State::Waiting => match way {
                Way::In => self.line.get_or_insert_default().join(number, units, &self.orders),
                Way::Out => self.leave_line(number, units),
            },
            State::Cancelled | State::Expired => return,
        }
        let waits = state == State::Waiting;
        let Some(entry) = entry else {
            self.active = way.count(self.active, u64::from(!waits));
            return;
        };
        let mut account = self.account(entry);
        if waits {
            account.waiting = match way {
                Way::In => account.waiting.wrapping_add(units.into()),
                Way::Out => account.waiting.wrapping_sub(units.into()),
            };
        } else {
            let was_active = account.is_active();
            account.units = way.count(account.units, units);
            self.active = self.active.wrapping_sub(was_active.into()).wrapping_add(account.is_active().into());
        }
        self.buyers.set(entry, account);
    }

    /// Takes an order that waits out of the line.
    fn leave_line(&mut self, number: u32, units: u64) {
        let Some(line) = &mut self.line else { return };
        line.leave(number, units, &self.orders);
        if line.len() == 0 {
            self.line = None;
        }
    }

    /// Opens an entry for a buyer with one order, because a second one comes.
    pub(super) fn share(&mut self, number: u32, name: &PackedId<'_>) -> Option<u32> {
        let entry = self.buyers.open(name).known("there are fewer buyers than orders")?;
        let hash = name.hash(&self.keys);
        if self.orders.get(number)?.buyer != BuyerRef::Own {
            let removed = self.by_name.remove(hash, number);
            invariant!(removed, "a buyer that is not its order's id is in the index");
        }
        self.buyers.set(entry, Account { orders: 1, ..Account::default() });
        self.name(name, entry | ENTRY);
        self.amend(number, |order| Record { buyer: BuyerRef::Shared(entry), ..order });
        Some(entry)
    }

    /// Forgets that an order, which is cancelled or expired, belongs to its buyer.
    pub(super) fn leave_buyer(&mut self, number: u32) {
        let Some(order) = self.orders.get(number).known("only a known order is written anew") else { return };
        match order.buyer {
            BuyerRef::Own => {}
            BuyerRef::Named(name) => {
                let removed = self.by_name.remove(name.hash(&self.keys), number);
                invariant!(removed, "a buyer that is not its order's id is in the index");
            }
            BuyerRef::Shared(entry) => self.leave_entry(entry),
        }
    }

    /// Counts one order less that names the entry's buyer, and closes the entry after the last.
    fn leave_entry(&mut self, entry: u32) {
        let account = self.account(entry);
        let orders = account.orders.checked_sub(1).or_invariant("what is counted out was counted in", 0);
        if orders > 0 {
            self.buyers.set(entry, Account { orders, ..account });
        } else if let Some(hash) = self.buyers.hash(entry, &self.keys) {
            let removed = self.by_name.remove(hash, entry | ENTRY);
            invariant!(removed, "an entry in use is in the index");
            self.buyers.close(entry);
        }
    }

    /// Counts one order more that names the entry's buyer.
    pub(super) fn join_entry(&mut self, entry: u32) {
        let account = self.account(entry);
        self.buyers.set(entry, Account { orders: account.orders.saturating_add(1), ..account });
    }

    /// Puts a buyer's name in the index.
    pub(super) fn name(&mut self, name: &PackedId<'_>, found: u32) {
        self.by_name.insert(name.hash(&self.keys), found);
    }

    /// The units of the buyer of an entry.
    pub(super) fn account(&self, entry: u32) -> Account {
        self.buyers.account(entry).or_invariant("an order's entry is there", Account::default())
    }
}
