//! Locks and limited stock of the Redis and Valkey module lockstock, over [redis-rs](redis).
//!
//! ```no_run
//! use std::time::Duration;
//!
//! # async fn example() -> Result<(), lockstock::Error> {
//! let client = lockstock::Client::open("redis://127.0.0.1:6379")?;
//! let hold = client.lock("job:42").wait(Duration::from_secs(10)).acquire().await?;
//! tokio::select! {
//!     () = work(hold.fence()) => hold.release().await?,
//!     // Another token may have the lock by now.
//!     () = hold.lost() => {}
//! }
//! # Ok(())
//! # }
//! # async fn work(_: i64) {}
//! ```
//!
//! A [`Client`] is cloned, not shared by reference; a [`Lock`] describes a request; a [`Hold`] is the lock. It is extended each third of
//! its lease, tells when it is [lost](Hold::lost), and is released when it is dropped: by a thread of this crate, so that it needs nothing
//! of the runtime. Its [fence](Hold::fence) is a number larger than that of every grant before: a resource that the work writes should
//! refuse smaller ones.
//!
//! A lock is not reentrant: a task that asks for a lock which it holds waits for itself. The crate cannot refuse this: a hold may be moved to
//! another task or thread, which releases it, and one task may have futures that wait for each other. So limit the wait.
//!
//! [`Client::stock`] sells limited stock. Without an async runtime there is [`blocking`].
//!
//! Reading order: [`background`] is the thread that does it all; [`servers`] knows where the server of a key is, [`client`] sends it requests,
//! [`lock`] asks, [`hold`] keeps, [`claims`] keeps a token from being two holders; [`node`] is for programs that look at each server.
#![expect(rustdoc::private_intra_doc_links, reason = "the map is for readers of the source")]
#![forbid(unsafe_code)]
#![expect(clippy::arithmetic_side_effects, reason = "durations by constants, and times of some seconds")]

mod answers;
mod background;
mod claims;
mod client;
mod clock;
mod error;
mod hold;
mod lock;
mod node;
mod servers;
mod stock;

pub mod blocking;

pub use answers::{Buyer, Cart, Outcome, Placed, Sale, State, Status};
pub use client::Client;
pub use error::Error;
pub use hold::Hold;
pub use lock::Lock;
pub use node::Node;
pub use stock::{Change, Order, Orders, Stock, Terms};
