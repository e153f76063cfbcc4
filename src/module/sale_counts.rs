//! Totals over all sales for `INFO`. Atomic, because a large sale is freed on another thread.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::core::sale::Status;

/// How often each status was returned.
static ANSWERS: [AtomicU64; Status::ALL.len()] = [const { AtomicU64::new(0) }; Status::ALL.len()];
/// The number of sales.
static SALES: AtomicU64 = AtomicU64::new(0);
/// The number of their orders.
static ORDERS: AtomicU64 = AtomicU64::new(0);

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

/// The number of sales.
pub fn sales() -> u64 {
    SALES.load(Ordering::Relaxed)
}

/// The number of their orders.
pub fn orders() -> u64 {
    ORDERS.load(Ordering::Relaxed)
}

/// A sale was created.
pub fn sale_began() {
    SALES.fetch_add(1, Ordering::Relaxed);
}

/// `orders` were added.
pub fn orders_came(orders: u64) {
    ORDERS.fetch_add(orders, Ordering::Relaxed);
}

/// A sale with this many orders was freed.
pub fn sale_ended(orders: u64) {
    SALES.fetch_sub(1, Ordering::Relaxed);
    ORDERS.fetch_sub(orders, Ordering::Relaxed);
}
