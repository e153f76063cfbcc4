//! Counters of a sale on this server, for `STOCK.INFO` and the section of INFO.

use super::Sale;
use super::answer::Status;

/// Counters of this server since it loaded the sale. Neither saved nor replicated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Orders taken.
    pub ok: u64,
    /// Commands that found it done already.
    pub duplicate: u64,
    /// Commands that found too little left: `SOLDOUT` and `INSUFFICIENT`.
    pub soldout: u64,
    /// Commands that would have passed the buyer's limit.
    pub limited: u64,
    /// Holds that expired.
    pub expired: u64,
    /// Orders cancelled.
    pub cancelled: u64,
    /// Holds that became sales.
    pub confirmed: u64,
}

impl Sale {
    /// The counters of this server.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counts a command's answer. Successes and expirations are counted when they are committed; other statuses have no counter.
    pub fn count_answer(&mut self, status: Status) {
        let counter = match status {
            Status::Duplicate => &mut self.counters.duplicate,
            Status::SoldOut | Status::Insufficient => &mut self.counters.soldout,
            Status::Limit => &mut self.counters.limited,
            _ => return,
        };
        *counter = counter.saturating_add(1);
    }
}
