//! Everything that needs a running server: one binary, so that it links once and its tests share the machine's cores.
//!
//! Each test starts the servers it needs on ports and directories of its own; the crate `harness` does that, and says which server
//! and which module they are.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "here a panic is a failed test, not a dead server"
)]

// What the documentation says.
mod docs;
// A panic in the middle, and another module that meddles.
mod faults;
// What is refused, what is bounded, and great numbers.
mod limits;
mod lock;
mod sale;
// Files, replicas, failover, settings: what becomes of locks and sales there.
mod server;
// What the tests share.
mod support;
