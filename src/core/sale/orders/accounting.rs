//! Keeping the sums of an [`OrderTable`] in step with its orders.

use super::buyers::Account;
use super::order_table::{ENTRY, OrderTable};
use super::record::{BuyerRef, Record, State};
use crate::core::id::PackedId;
use crate::core::invariant::{Known, invariant};

/// What an order counts for.
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

impl OrderTable {
    /// Adds an order to all sums.
    pub(super) fn attach(&mut self, number: u32) {
        if let Some(share) = self.share_of(number) {
            self.attach_share(number, share);
        }
    }

    /// Adds an order, whose record is `order`, to all sums.
    pub(super) fn attach_new(&mut self, number: u32, order: &Record<'_>) {
        self.attach_share(number, Share::of(order));
    }

    fn attach_share(&mut self, number: u32, share: Share) {
        match share.state {
            State::Held => {
                self.held = self.held.wrapping_add(share.units);
                self.holds.insert(number, &self.orders);
            }
            State::Sold => self.sold = plus(self.sold, share.units),
            State::Waiting => return self.join_line(number, share.units, share.entry),
            State::Cancelled | State::Expired => return,
        }
        match share.entry {
            Some(entry) => self.attach_to_entry(number, entry, share),
            None => self.active = plus(self.active, 1),
        }
    }

    /// Adds an order to the sums of its buyer's entry.
    fn attach_to_entry(&mut self, number: u32, entry: u32, share: Share) {
        if share.state == State::Held {
            self.by_buyer.insert(number, &self.orders);
        }
        let account = self.account(entry);
        if account.active == 0 {
            self.active = plus(self.active, 1);
        }
        let (units, active) = (account.units.wrapping_add(share.units), plus(account.active, 1));
        self.buyers.set(entry, Account { units, active, ..account });
    }

    /// Takes an order out of all sums.
    pub(super) fn detach(&mut self, number: u32) {
        let Some(share) = self.share_of(number) else { return };
        match share.state {
            State::Held => {
                self.held = self.held.wrapping_sub(share.units);
                self.holds.remove(number, &self.orders);
            }
            State::Sold => self.sold = minus(self.sold, share.units),
            State::Waiting => return self.leave_line(number, share.units, share.entry),
            State::Cancelled | State::Expired => return,
        }
        match share.entry {
            Some(entry) => self.detach_from_entry(number, entry, share),
            None => self.active = minus(self.active, 1),
        }
    }

    /// Takes an order out of the sums of its buyer's entry.
    fn detach_from_entry(&mut self, number: u32, entry: u32, share: Share) {
        if share.state == State::Held {
            self.by_buyer.remove(number, &self.orders);
        }
        let account = self.account(entry);
        let (units, active) = (account.units.wrapping_sub(share.units), minus(account.active, 1));
        if active == 0 {
            self.active = minus(self.active, 1);
        }
        self.buyers.set(entry, Account { units, active, ..account });
    }

    /// Adds an order that waits to the line and to what its buyer has.
    fn join_line(&mut self, number: u32, units: u64, entry: Option<u32>) {
        self.line.get_or_insert_default().join(number, units, &self.orders);
        self.count_waiting(entry, |all| all.saturating_add(units.into()));
    }

    /// Takes an order that waits out of the line and of what its buyer has.
    fn leave_line(&mut self, number: u32, units: u64, entry: Option<u32>) {
        if let Some(line) = &mut self.line {
            line.leave(number, units, &self.orders);
            if line.len() == 0 {
                self.line = None;
            }
        }
        self.count_waiting(entry, |all| all.saturating_sub(units.into()));
    }

    /// Counts the units of a waiting order anew in its buyer's entry.
    fn count_waiting(&mut self, entry: Option<u32>, count: impl FnOnce(u128) -> u128) {
        if let Some(entry) = entry {
            let account = self.account(entry);
            self.buyers.set(entry, Account { waiting: count(account.waiting), ..account });
        }
    }

    /// Opens an entry for a buyer with one order, because a second one comes.
    pub(super) fn share(&mut self, number: u32, name: &PackedId<'_>) -> Option<u32> {
        let entry = self.buyers.open(name).known("there are fewer buyers than orders")?;
        self.detach(number);
        let hash = name.hash(&self.keys);
        if self.orders.get(number)?.buyer != BuyerRef::Own {
            let removed = self.by_name.remove(hash, number);
            invariant!(removed, "a buyer that is not its order's id is in the index");
        }
        self.orders.edit(number, |order| Record { buyer: BuyerRef::Shared(entry), ..order });
        self.buyers.set(entry, Account { orders: 1, ..Account::default() });
        self.name(name, entry | ENTRY);
        self.attach(number);
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
        let orders = minus(account.orders, 1);
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
        self.buyers.set(entry, Account { orders: plus(account.orders, 1), ..account });
    }

    /// Puts a buyer's name in the index.
    pub(super) fn name(&mut self, name: &PackedId<'_>, found: u32) {
        self.by_name.insert(name.hash(&self.keys), found);
    }

    /// The units of the buyer of an entry.
    pub(super) fn account(&self, entry: u32) -> Account {
        self.buyers.account(entry).or_invariant("an order's entry is there", Account::default())
    }

    fn share_of(&self, number: u32) -> Option<Share> {
        self.orders.get(number).known("only what is in the table is counted").as_ref().map(Share::of)
    }
}

fn plus(sum: u64, more: u64) -> u64 {
    sum.checked_add(more).or_invariant("no sum of a sale comes near 2^64", u64::MAX)
}

fn minus(sum: u64, less: u64) -> u64 {
    sum.checked_sub(less).or_invariant("what is counted out was counted in", 0)
}
