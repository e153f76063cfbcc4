//! Numbers at which programs go wrong: around nothing, around what fits some word, around what is exact in a double, and around the time.
//!
//! The suite has them from here, too.

/// Around what fits 31, 32, 53 and 63 bits, and what a thousand times more would.
const BOUNDS: [i64; 6] = [0, 1 << 31, 1 << 32, 1 << 53, i64::MAX / 1_000, i64::MAX];

/// All of them, for a server whose clock says `now`, in milliseconds.
pub fn edges(now: i64) -> Vec<i64> {
    let left = i64::MAX.saturating_sub(now);
    let fence = now.saturating_mul(1_000);
    let middles = BOUNDS.into_iter().chain([now, left, left / 1_000, fence, fence.saturating_add(3_600_000_000)]);
    // Two below, for what ends just before a bound that is itself no value.
    let around = middles.flat_map(|middle| [-2, -1, 0, 1].map(|by| middle.saturating_add(by)));
    let mut edges: Vec<i64> = around.flat_map(|edge| [edge, edge.saturating_neg()]).chain([i64::MIN]).collect();
    edges.sort_unstable();
    edges.dedup();
    edges
}
