//! What a test needs to talk to real servers: start them, speak RESP, wait for conditions, read what they replicate.
//!
//! Reading order: [`Server`] owns a process, [`Client`] a connection. [`Words`] are what goes to a server and [`Reply`]
//! what comes back; [`Want`] says what a reply should look like. [`Tap`] and [`Aof`] show what replicas and restarts get, [`shop`]
//! the sums of a sale.
//!
//! `LOCKSTOCK_SERVER` names the server to start (default: `redis-server` from the `PATH`), and `LOCKSTOCK_MODULE` the module to load
//! into it (default: the release build). `make … SERVER=path` sets the first.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::missing_panics_doc,
    reason = "here a panic is a failed test, not a dead server"
)]
#![expect(
    clippy::missing_errors_doc,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "only the tests of this repository use it"
)]

mod aof;
mod builder;
mod client;
pub mod clock;
mod cluster;
mod feeder;
pub mod listener;
mod log;
mod paths;
mod payload;
mod persistence;
mod process;
mod random;
#[path = "../../../src/core/sale/tests/rebuilt.rs"]
mod rebuilt;
mod replication;
mod reply;
mod resp;
mod server;
pub mod shop;
mod stage;
mod tap;
mod wait;
mod want;
mod words;

pub use aof::{Aof, Base};
pub use builder::Builder;
pub use client::{Client, Nothing};
pub use cluster::Cluster;
pub use feeder::Feeder;
pub use paths::{find_module, module_path, repository, server_path};
pub use payload::{Payload, sealed};
pub use persistence::{Keys, unix_ms};
pub use process::{free_port, kill, spawn};
pub use random::random;
pub use reply::{Nil, Reply};
pub use server::Server;
pub use stage::Stage;
pub use tap::Tap;
pub use wait::{PATIENCE, eventually, eventually_some, patiently};
pub use want::{ANY, INT, NULL, OK, TEXT, Want, err, items};
pub use words::Words;
