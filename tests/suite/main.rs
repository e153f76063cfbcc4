//! Everything that needs a running server: one binary, so that it links once and its tests share the machine's cores.
//!
//! Each test starts the servers it needs on ports and directories of its own. `LOCKSTOCK_SERVER` names the server to test
//! on (default: `redis-server` from the `PATH`), `LOCKSTOCK_MODULE` the module (default: the release build).
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "here a panic is a failed test, not a dead server"
)]

mod abuse;
mod bad_input;
mod buckets;
mod cluster;
mod crash;
mod crowd;
mod cutoff;
mod deadlines;
mod delivery;
mod docs;
mod edge_numbers;
#[path = "../../src/fuzz/edges.rs"]
mod edges;
mod effects;
mod fairness;
mod fences;
mod files;
mod forms;
mod holds;
mod import;
mod interrupted;
mod itself;
mod keys;
mod large;
mod large_locks;
mod late_payments;
mod leaks;
mod line;
mod listener;
mod lock_against_model;
mod lock_effects;
mod many;
mod memory;
mod models;
mod old_files;
mod orders;
mod own;
mod panics;
mod parking;
mod pause;
mod payload;
mod persist;
mod readme;
mod rename_scan;
mod renamed_commands;
mod replica;
mod role;
mod sale_acl;
mod sale_against_model;
mod sale_cluster;
mod sale_effects;
mod sale_errors;
mod sale_random;
mod sale_stream;
mod scene;
mod session;
mod settings;
mod slot_moves;
mod soak;
mod stock;
mod storm;
mod stream;
mod surface;
mod taken_back;
mod turns;
mod vanish;
mod waiting;
