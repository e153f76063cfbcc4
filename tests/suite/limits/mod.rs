//! Limits: what is refused, what is bounded, and what great numbers cost.

mod abuse;
mod bad_input;
mod crowd;
mod edge_numbers;
mod large;
mod large_locks;
mod leaks;
mod memory;
mod soak;
mod turns;
