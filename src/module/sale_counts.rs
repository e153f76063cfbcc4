//! What `INFO` shows of all sales together. Atomic, because a large sale is freed on another thread.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many sales there are.
static SALES: AtomicU64 = AtomicU64::new(0);
/// How many orders they have together.
static ORDERS: AtomicU64 = AtomicU64::new(0);

/// How many sales there are.
pub fn sales() -> u64 {
    SALES.load(Ordering::Relaxed)
}

/// How many orders they have together.
pub fn orders() -> u64 {
    ORDERS.load(Ordering::Relaxed)
}

/// A sale has come into being.
pub fn sale_began() {
    SALES.fetch_add(1, Ordering::Relaxed);
}

/// `orders` have come.
pub fn orders_came(orders: u64) {
    ORDERS.fetch_add(orders, Ordering::Relaxed);
}

/// A sale with so many orders has gone.
pub fn sale_ended(orders: u64) {
    SALES.fetch_sub(1, Ordering::Relaxed);
    ORDERS.fetch_sub(orders, Ordering::Relaxed);
}
