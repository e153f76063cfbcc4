//! Totals over all sales for `INFO`. Atomic, because a large sale is freed on another thread.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::core::sale::Status;

/// How often each status was returned.
static ANSWERS: [AtomicU64; Status::WORDS.len()] = [const { AtomicU64::new(0) }; Status::WORDS.len()];
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

/// The word of each status, and how often it was returned.
pub fn answers() -> impl Iterator<Item = (&'static str, u64)> {
    let words = Status::WORDS.into_iter().map(|(_, word)| word);
    words.zip(ANSWERS.iter().map(|count| count.load(Ordering::Relaxed)))
}
