//! Loading a whole sale: first its orders are put into their pages, then all of them into the indexes at once, which sorting makes fast.

use super::Sale;
use super::orders::Unindexed;
use super::snapshot::{CorruptSale, Strict, is_of_orders};

/// A sale that is being loaded from a file or a payload.
pub struct Loading {
    pub(super) sale: Sale,
    /// The orders so far; `None` when they are in the indexes, after the last of their blocks.
    orders: Option<Unindexed>,
}

impl Loading {
    /// Begins with the header.
    ///
    /// # Errors
    ///
    /// As [`Sale::from_header`].
    pub fn new(header: &[u8]) -> Result<Self, CorruptSale> {
        Ok(Self { sale: Sale::from_header(header)?, orders: Some(Unindexed::default()) })
    }

    /// Adds the orders of a block.
    ///
    /// # Errors
    ///
    /// As [`Sale::load_block`], except that a later call may be the one to say that an id has two orders.
    pub fn block(&mut self, bytes: &[u8]) -> Result<(), CorruptSale> {
        if is_of_orders(bytes) && self.orders.is_some() {
            return self.append(bytes);
        }
        self.index()?;
        self.sale.load_block(bytes)
    }

    /// The sale, after the last block.
    ///
    /// # Errors
    ///
    /// [`CorruptSale::Repeated`].
    pub fn finish(mut self) -> Result<Sale, CorruptSale> {
        self.index()?;
        Ok(self.sale)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), CorruptSale> {
        let Self { sale, orders: Some(unindexed) } = self else { return Ok(()) };
        let mut unsold = sale.unsold();
        for order in Strict::open(bytes)? {
            let order = order?;
            sale.check(&order, &mut unsold)?;
            sale.count_if_over(&order);
            if sale.table.is_full() || !sale.table.append(&order, unindexed) {
                return Err(CorruptSale::Full);
            }
            if sale.table.repeats(unindexed) {
                return Err(CorruptSale::Repeated);
            }
        }
        Ok(())
    }

    fn index(&mut self) -> Result<(), CorruptSale> {
        let Some(orders) = self.orders.take() else { return Ok(()) };
        if self.sale.table.index(orders) { Ok(()) } else { Err(CorruptSale::Repeated) }
    }
}
