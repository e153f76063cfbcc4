//! Locks: holders, waiters and hand-over.
//!
//! [`Lock`] is the value that lives in the keyspace, one per key: its mode and its holds. [`Engine`] has everything that is not in a key:
//! the queues, the sessions, the fences, and the deadline index of leases. Each public method of the engine is one atomic transition. It
//! finds values through [`Keyspace`] and reports the outcome to the same trait; the server implements it with keys, replicas and sockets, a
//! test with a map.
//!
//! Every transition first *settles* the keys that it touches: ended holds are removed, then the waiters that fit are granted. Only then is
//! the request decided. So a lease ends at its deadline, and a session with its connection, for every client, even if the timer has not run
//! yet; and no request overtakes a waiter.
//!
//! Reading order: `terms` (the types), `hold`, [`value`] (the lock itself), `compatibility` (the mode table), `tickets`, `queue` and
//! `waiter`; then `engine`: `transition` (how a lock is opened and what is told), `visit` (how it is changed), `serve` (how a key is
//! settled and waiters are granted), `line` (where a request stands), `adopt` (grants whose replies were lost), and the requests by
//! subject: `commands`, `multi`, `extend`, `cancel`, `deadlock`, `tick` (the timer), `clients`, `delivery`, `key_changes`, `replica`,
//! `view`, `guards`. `notes` (on holds) and `vacant_places` have the state that depends on connections.

mod codec;
mod compatibility;
mod engine;
mod hold;
mod keyspace;
mod notes;
mod queue;
mod stats;
mod terms;
mod tickets;
mod vacant_places;
pub mod value;
mod waiter;

#[cfg(test)]
mod tests;

pub use engine::{Engine, HolderView, LockView, Settings, WaiterView, in_order};
pub use hold::{Claim, Hold, HoldRef};
pub use keyspace::{Found, Keyspace};
pub use stats::Stats;
pub use terms::{
    Acquired, ClientId, Dismissed, EndReason, Extension, Grant, LockError, Mode, Notice, Request, Wait, WaitResult,
    WaiterId, Wanted,
};
pub use value::Lock;
