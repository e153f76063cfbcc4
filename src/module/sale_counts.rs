//! Totals over all sales for `INFO`. Atomic, because a large sale is freed on another thread.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::core::sale::Status;

/// How often each status was returned.
static ANSWERS: [AtomicU64; Status::ALL.len()] = [const { AtomicU64::new(0) }; Status::ALL.len()];
/// The number of sales.
pub static SALES: AtomicU64 = AtomicU64::new(0);
/// The number of their orders.
pub static ORDERS: AtomicU64 = AtomicU64::new(0);

/// Counts an answer.
pub fn answered(status: Status) {
    if let Some(count) = ANSWERS.get(status as usize) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// How often each status was returned.
pub fn answers() -> impl Iterator<Item = (Status, u64)> {
    Status::ALL.into_iter().zip(ANSWERS.iter().map(|count| count.load(Ordering::Relaxed)))
}
