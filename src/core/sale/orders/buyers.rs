//! Buyers with more than one order: their names and their sums.

use std::collections::BTreeSet;
use std::hash::RandomState;
use std::mem;

use super::pages::{Layout, RecordPages};
use crate::core::codec::{Corrupt, Encode, Reader};
use crate::core::id::PackedId;
use crate::core::invariant::Known;

/// The sums of a buyer's orders, due holds included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Units held and bought, modulo 2^64: see [`OrderTable::held`](super::OrderTable::held).
    pub units: u64,
    /// Units that its orders wait for. A sale does not have so many, so their sum can pass 2^64.
    pub waiting: u128,
    /// Orders that name this buyer, whatever their state.
    pub orders: u64,
}

/// The entries of buyers that several orders share.
pub struct Buyers {
    pages: RecordPages<BuyerLayout>,
    /// The unused entries.
    free: BTreeSet<u32>,
    /// An entry is put together here before it goes into its page.
    draft: Vec<u8>,
}

struct BuyerLayout;

impl Layout for BuyerLayout {
    #[inline]
    fn length(bytes: &[u8]) -> Option<usize> {
        let mut reader = Reader::new(bytes);
        PackedId::skip(&mut reader)?;
        Account::read(&mut reader).ok()?;
        bytes.len().checked_sub(reader.rest().len())
    }
}

/// How a sum of waited units is written: its lowest 63 bits with a bit that says whether the rest follows.
const LOW_BITS: u32 = 63;
const IS_WIDE: u64 = 1;

/// The lowest 63 bits of a sum, and the rest of it.
fn halves(sum: u128) -> (u64, u64) {
    let part = |bits: u128| {
        u64::try_from(bits).ok().or_invariant("2^31 orders of 2^53 units are fewer than 2^84", u64::MAX >> 1)
    };
    (part(sum & ((1 << LOW_BITS) - 1)), part(sum >> LOW_BITS))
}

impl Account {
    /// Whether the buyer holds or has bought units.
    pub fn is_active(&self) -> bool {
        self.units != 0
    }

    /// Units held, bought and waited for, if `due` units of them are free again.
    pub fn counted(&self, due: u64) -> u64 {
        self.units.wrapping_sub(due).saturating_add(u64::try_from(self.waiting).unwrap_or(u64::MAX))
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Corrupt> {
        let (units, orders) = (reader.number()?, reader.number()?);
        // Most buyers wait for nothing: that takes one byte.
        let low = reader.number()?;
        let high = if low & IS_WIDE == 0 { 0 } else { reader.number()? };
        Ok(Self { units, waiting: u128::from(low >> 1) | u128::from(high) << LOW_BITS, orders })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.number(self.units);
        out.number(self.orders);
        let (low, high) = halves(self.waiting);
        out.number(low << 1 | u64::from(high > 0));
        if high > 0 {
            out.number(high);
        }
    }
}

impl Buyers {
    pub const fn new() -> Self {
        Self { pages: RecordPages::new(), free: BTreeSet::new(), draft: Vec::new() }
    }

    /// A new entry without orders; `None` when there are too many.
    pub fn open(&mut self, name: &PackedId<'_>) -> Option<u32> {
        self.draft.truncate(0);
        name.write(&mut self.draft);
        Account::default().write(&mut self.draft);
        let Some(entry) = self.free.pop_first() else { return self.pages.push(&self.draft) };
        self.pages.replace(entry, &self.draft);
        Some(entry)
    }

    /// Makes an entry unused. No order may name it any more.
    pub fn close(&mut self, entry: u32) {
        self.free.insert(entry);
    }

    /// Fetches the memory of an entry; see [`RecordPages::fetch`].
    pub fn fetch(&self, entry: u32) {
        self.pages.fetch(entry);
    }

    /// Whether the entry is this buyer's.
    pub fn is(&self, entry: u32, name: &PackedId<'_>) -> bool {
        self.pages.get(entry).is_some_and(|bytes| name.leads(bytes))
    }

    pub fn name(&self, entry: u32) -> Option<PackedId<'_>> {
        PackedId::read_trusted(&mut Reader::new(self.pages.get(entry)?)).ok().known("an entry is what was written")
    }

    pub fn account(&self, entry: u32) -> Option<Account> {
        let mut reader = Reader::new(self.pages.get(entry)?);
        let account = PackedId::skip(&mut reader).and_then(|()| Account::read(&mut reader).ok());
        account.known("an entry is what was written")
    }

    pub fn set(&mut self, entry: u32, account: Account) {
        let mut draft = mem::take(&mut self.draft);
        draft.truncate(0);
        if let Some(name) = self.name(entry).known("only an entry in use is set") {
            name.write(&mut draft);
            account.write(&mut draft);
            self.pages.replace(entry, &draft);
        }
        self.draft = draft;
    }

    /// Sets all entries; none may be unused.
    pub fn set_all(&mut self, accounts: &[Account]) {
        self.pages.rewrite(|entry, bytes, out| {
            let mut reader = Reader::new(bytes);
            let name = PackedId::read_trusted(&mut reader).ok()?;
            Account::read(&mut reader).ok()?;
            let account = accounts.get(entry as usize)?;
            name.write(out);
            account.write(out);
            Some(reader.rest())
        });
    }

    pub fn hash(&self, entry: u32, keys: &RandomState) -> Option<u64> {
        Some(self.name(entry)?.hash(keys))
    }

    /// Heap bytes.
    pub fn memory(&self) -> usize {
        // The nodes of the tree are at least half full.
        let free = self.free.len().saturating_mul(size_of::<[u32; 2]>());
        self.pages.memory().saturating_add(free).saturating_add(self.draft.capacity())
    }

    /// Allocations to free.
    pub fn effort(&self) -> usize {
        self.pages.effort()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_entries_are_used_again() {
        let mut buyers = Buyers::new();
        let names: Vec<String> = (0..100).map(|n| format!("buyer {n}")).collect();
        let packed = |n: usize| PackedId::new(names[n].as_bytes()).unwrap();
        for (n, entry) in (0..50).zip(0..) {
            assert_eq!(buyers.open(&packed(n)), Some(entry));
        }
        let account = Account { units: 1 << 50, waiting: (1 << 84) - 1, orders: 2 };
        buyers.set(7, account);
        assert_eq!((buyers.name(7), buyers.account(7)), (Some(packed(7)), Some(account)));
        for entry in [3, 49, 0] {
            buyers.close(entry);
        }
        for (n, entry) in [0, 3, 49, 50].into_iter().enumerate() {
            assert_eq!(buyers.open(&packed(60 + n)), Some(entry), "the first of them first");
            assert_eq!(buyers.account(entry), Some(Account::default()));
        }
        assert_eq!(buyers.name(0), Some(packed(60)));
    }
}
