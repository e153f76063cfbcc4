//! The data type of a sale.

use std::ffi::CStr;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::core::deadline_index::{DeadlineId, DeadlineIndex};
use crate::core::key::KeyRef;
use crate::core::sale::{Loading, Sale};
use crate::core::time::Wakeup;
use crate::core::unlinked::Unlinked;
use crate::module::destroyed::{self, Destroyed};
use crate::module::inbox::{self, Notification};
use crate::module::{fence_clock, sale_counts};
use crate::server::datatype::{AofOut, DataType, Handle, RdbIn, RdbOut};
use crate::server::{clock, renames, timer};

/// A sale as a value in the keyspace.
pub struct SaleValue {
    sale: Sale,
    /// Its entry in the deadline index; `None` if nothing is due at any time, or if it is not registered yet.
    pub deadline_id: Option<DeadlineId>,
    /// Its due holds cannot expire because its stream refuses the events; this was logged.
    pub stuck: bool,
    /// Set while it is unknown which key the value has, or whether it still exists.
    unlinked: Option<Unlinked>,
    /// How many of its orders are counted in [`sale_counts`].
    counted: u64,
    /// A number that is unique among the values of this process.
    number: u64,
}

/// A version of a sale: its value and its number of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    number: u64,
    revision: u64,
}

/// The number of values created so far.
static VALUES: AtomicU64 = AtomicU64::new(0);

impl SaleValue {
    /// A value that is not registered.
    pub fn new(sale: Sale) -> Self {
        sale_counts::SALES.fetch_add(1, Ordering::Relaxed);
        let number = VALUES.fetch_add(1, Ordering::Relaxed);
        let mut value = Self { sale, deadline_id: None, stuck: false, unlinked: None, counted: 0, number };
        value.count_orders();
        value
    }

    /// The version that a decision is based on.
    pub fn version(&self) -> Version {
        Version { number: self.number, revision: self.sale.revision() }
    }

    /// Whether it has lost its key and was not found under another since.
    pub fn is_unlinked(&self) -> bool {
        self.unlinked.is_some()
    }

    /// It was found under a key.
    pub fn mark_found(&mut self) {
        self.unlinked = None;
    }

    /// Counts the orders added since the last call. Orders are never deleted.
    pub fn count_orders(&mut self) {
        let orders = self.sale.orders();
        sale_counts::ORDERS.fetch_add(orders.saturating_sub(self.counted), Ordering::Relaxed);
        self.counted = orders;
    }
}

impl Drop for SaleValue {
    fn drop(&mut self) {
        sale_counts::SALES.fetch_sub(1, Ordering::Relaxed);
        sale_counts::ORDERS.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

impl Deref for SaleValue {
    type Target = Sale;

    fn deref(&self) -> &Sale {
        &self.sale
    }
}

impl DerefMut for SaleValue {
    fn deref_mut(&mut self) -> &mut Sale {
        &mut self.sale
    }
}

static HANDLE: Handle = Handle::new();

/// Adds a sale to the deadline index, moves its entry, or removes it, according to when it is due next.
pub fn schedule(index: &mut DeadlineIndex, at: KeyRef<'_>, sale: &mut SaleValue) {
    sale.mark_found();
    sale.count_orders();
    let known = sale.deadline_id.filter(|entry| index.key(*entry) == Some(at));
    sale.deadline_id = match (known, sale.next_due(|| clock::now().ms)) {
        (Some(entry), Some(deadline)) => {
            index.reschedule(entry, deadline);
            Some(entry)
        }
        (Some(entry), None) => {
            index.remove(entry);
            None
        }
        (None, Some(deadline)) => Some(index.insert(at, deadline)),
        (None, None) => None,
    };
    if let Some(next) = index.next() {
        timer::arm(Wakeup::At(next));
    }
}

impl DataType for SaleValue {
    const NAME: &'static CStr = c"lockstk-s";
    const ENCODING: i32 = 1;

    fn handle() -> &'static Handle {
        &HANDLE
    }

    /// A header, blocks of orders, and an empty string at the end.
    fn save(&self, out: &mut RdbOut) {
        out.bytes(&self.header());
        self.blocks().for_each(|block| out.bytes(&block));
        out.bytes(b"");
    }

    fn load(input: &mut RdbIn) -> Result<Self, String> {
        let mut sale = Loading::new(&input.bytes()?).map_err(|why| why.to_string())?;
        loop {
            let block = input.bytes()?;
            if block.is_empty() {
                break;
            }
            sale.block(&block).map_err(|why| why.to_string())?;
        }
        if let Some(key) = input.key() {
            inbox::loaded(key);
        }
        Ok(Self::new(sale.finish().map_err(|why| why.to_string())?))
    }

    fn rewrite(&self, out: &mut AofOut<'_>) {
        fence_clock::rewrite(out);
        out.command(c"STOCK.APPLY", &[b"LOAD", &self.counting_header()]);
        self.blocks().for_each(|block| out.command(c"STOCK.APPLY", &[b"MORE", &block]));
    }

    fn memory(&self) -> usize {
        self.sale.memory()
    }

    fn free_effort(&self) -> usize {
        self.sale.effort()
    }

    fn digest(&self, part: &mut dyn FnMut(&[u8])) {
        self.sale.digest(part);
    }

    fn unlinked(&mut self, _at: KeyRef<'_>) {
        // A sale for which nothing is ever due need not be found again. One that was just loaded may be due and have no entry yet.
        let entry = self.deadline_id.take();
        if entry.is_some() || self.sale.next_expiration().is_some() || self.sale.may_serve() {
            renames::expect();
            let watch = self.unlinked.get_or_insert_default().watch();
            inbox::post(Notification::SaleVanished(entry, watch));
        }
    }

    fn destroyed(&mut self) {
        if let Some(entry) = self.deadline_id {
            destroyed::add(Destroyed::Sale(entry));
        }
    }
}
