//! Keeping the sums of an [`OrderTable`] in step with its orders.

use super::buyers::Account;
use super::order_table::{ENTRY, FOREVER, OrderTable};
use super::record::{BuyerRef, Record, State};
use super::sum_tree::{Source, Sum};
use super::{ByBuyer, ByDeadline};
use crate::core::id::PackedId;

impl OrderTable {
    /// Counts an order in: its units, its hold, its buyer.
    pub(super) fn attach(&mut self, number: u32) {
        let Some((state, units, entry)) = self.outline(number) else { return };
        match state {
            State::Held => {
                self.held = self.held.wrapping_add(units);
                self.holds.insert(number, &self.orders);
            }
            State::Sold => self.sold = self.sold.saturating_add(units),
            State::Cancelled | State::Expired => return,
        }
        let Some(entry) = entry else {
            self.active = self.active.saturating_add(1);
            return;
        };
        let before = self.last_active_hold(entry);
        let account = self.buyers.account(entry).unwrap_or_default();
        let after = if state == State::Held {
            self.by_buyer.insert(number, &self.orders);
            match before {
                Some(last) if self.deadline(last) > self.deadline(number) => before,
                None if account.sold > 0 => None,
                _ => Some(number),
            }
        } else {
            None
        };
        if before.is_none() && account.sold == 0 {
            self.active = self.active.saturating_add(1);
        }
        let sold = account.sold.saturating_add(if state == State::Sold { units } else { 0 });
        self.buyers.set(entry, Account { units: account.units.wrapping_add(units), sold, ..account });
        self.move_last_hold_mark(before, after);
    }

    /// Counts an order out again.
    pub(super) fn detach(&mut self, number: u32) {
        let Some((state, units, entry)) = self.outline(number) else { return };
        let last_hold = entry.and_then(|entry| self.last_active_hold(entry));
        match state {
            State::Held => {
                self.held = self.held.wrapping_sub(units);
                self.holds.remove(number, &self.orders);
            }
            State::Sold => self.sold = self.sold.saturating_sub(units),
            State::Cancelled | State::Expired => return,
        }
        let Some(entry) = entry else {
            self.active = self.active.saturating_sub(1);
            return;
        };
        if state == State::Held {
            self.by_buyer.remove(number, &self.orders);
        }
        // An order that is counted out closes nothing.
        if last_hold == Some(number) {
            self.orders.mark_last_hold(number, false);
        }
        let account = self.buyers.account(entry).unwrap_or_default();
        let sold = account.sold.saturating_sub(if state == State::Sold { units } else { 0 });
        self.buyers.set(entry, Account { units: account.units.wrapping_sub(units), sold, ..account });
        if last_hold.is_some_and(|last_hold| last_hold != number) {
            return;
        }
        let last_hold = self.last_active_hold(entry);
        if last_hold.is_none() && sold == 0 {
            self.active = self.active.saturating_sub(1);
        }
        self.move_last_hold_mark(None, last_hold);
    }

    /// Gives a buyer that had one order an entry, for that one and those to come.
    pub(super) fn share(&mut self, number: u32, name: &PackedId<'_>) -> Option<u32> {
        let entry = self.buyers.open(name)?;
        self.detach(number);
        let hash = name.hash(&self.keys);
        if self.orders.get(number)?.buyer != BuyerRef::Own {
            self.by_name.remove(hash, number);
        }
        self.orders.edit(number, |order| Record { buyer: BuyerRef::Shared { entry, last_hold: false }, ..order });
        self.buyers.set(entry, Account { orders: 1, ..Account::default() });
        self.name(name, entry | ENTRY);
        self.attach(number);
        Some(entry)
    }

    /// Takes an order that has nothing any more away from its buyer.
    pub(super) fn leave_buyer(&mut self, number: u32) {
        let Some(order) = self.orders.get(number) else { return };
        match order.buyer {
            BuyerRef::Own => {}
            BuyerRef::Named(name) => {
                let hash = name.hash(&self.keys);
                self.by_name.remove(hash, number);
            }
            BuyerRef::Shared { entry, .. } => {
                let account = self.buyers.account(entry).unwrap_or_default();
                let orders = account.orders.saturating_sub(1);
                if orders > 0 {
                    self.buyers.set(entry, Account { orders, ..account });
                } else if let Some(hash) = self.buyers.hash(entry, &self.keys) {
                    self.by_name.remove(hash, entry | ENTRY);
                    self.buyers.close(entry);
                }
            }
        }
    }

    /// Puts a buyer's name in the index.
    pub(super) fn name(&mut self, name: &PackedId<'_>, found: u32) {
        self.by_name.insert(name.hash(&self.keys), found);
    }

    /// State, units and buyer's entry of an order.
    fn outline(&self, number: u32) -> Option<(State, u64, Option<u32>)> {
        let order = self.orders.get(number)?;
        let entry = match order.buyer {
            BuyerRef::Shared { entry, .. } => Some(entry),
            BuyerRef::Own | BuyerRef::Named(_) => None,
        };
        Some((order.state, order.units, entry))
    }

    /// The last hold to end of a buyer that has bought nothing.
    fn last_active_hold(&self, entry: u32) -> Option<u32> {
        if self.buyers.account(entry)?.sold > 0 {
            return None;
        }
        let last = self.by_buyer.last((entry, FOREVER, u32::MAX), &self.orders)?;
        (Source::<ByBuyer>::key(&self.orders, last)?.0 == entry).then_some(last)
    }

    /// Moves the mark of a buyer's last hold from one hold to another.
    fn move_last_hold_mark(&mut self, before: Option<u32>, after: Option<u32>) {
        if before == after {
            return;
        }
        for (number, last_hold) in before.map(|n| (n, false)).into_iter().chain(after.map(|n| (n, true))) {
            let old = Source::<ByDeadline>::sum(&self.orders, number);
            let new = Sum { buyers: u64::from(last_hold), ..old };
            self.orders.mark_last_hold(number, last_hold);
            self.holds.reweigh(number, old, new, &self.orders);
        }
    }

    fn deadline(&self, number: u32) -> Option<ByDeadline> {
        self.orders.key(number)
    }
}
