//! What a test needs to talk to real servers: start them, speak RESP, wait for conditions, read what they replicate.
//!
//! Reading order: [`Server`] owns a process, [`Client`] a connection. [`Words`] are what goes to a server and [`Reply`]
//! what comes back; [`Want`] says what a reply should look like. [`Tap`] and [`Aof`] show what replicas and restarts get.

mod aof;
mod builder;
mod client;
mod cluster;
mod feeder;
mod itself;
mod log;
mod payload;
mod persistence;
mod process;
mod replication;
mod reply;
mod resp;
mod server;
mod stage;
mod tap;
mod wait;
mod want;
mod words;

pub use aof::{Aof, Base};
pub use builder::{Builder, module_path};
pub use client::{Client, Nothing};
pub use cluster::Cluster;
pub use feeder::Feeder;
pub use payload::{Payload, sealed};
pub use persistence::{Keys, unix_ms};
pub use process::{kill, spawn};
pub use reply::{Nil, Reply};
pub use server::Server;
pub use stage::Stage;
pub use tap::Tap;
pub use wait::{PATIENCE, eventually, eventually_some, patiently};
pub use want::{ANY, INT, NULL, OK, TEXT, Want, err, items};
pub use words::Words;
