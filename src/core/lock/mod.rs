//! The lock: who may hold it, who waits for it, and who is next.
//!
//! [`Lock`] is the value that lives in the keyspace, one per key: its mode and its holds. [`Engine`] is everything around
//! it that no key can hold: the queues, the sessions, the fences, the deadline index of lease ends. Each public method of the
//! engine is one atomic transition. It finds the values it needs through [`Keyspace`] and tells the same trait what came of
//! it; the server does these things with keys, replicas and sockets, a test with a map.
//!
//! Every transition first *settles* the places it touches: holds that are over end, then the waiters that fit are granted.
//! Only then is the request looked at. So a lease is over at its deadline, and a session with its connection, for
//! everybody, whether or not the timer has come round; and nobody overtakes a waiter.
//!
//! Reading order: `terms` (the words), [`value`] (the lock itself), `compatibility` (the table of modes), `queue`; then `engine`: `lock_mut` and
//! `visit` (how a lock is opened and changed), `transition` and `serve` (how a place is brought up to date and waiters are granted), and the
//! requests by subject: `commands`, `multi`, `timer`, `clients`, `keyspace`, `replica`, `info`. What hangs on connections is in `sessions`,
//! `unacked`, `delivery`, `replaced` and `revoked`.

mod codec;
mod compatibility;
mod engine;
mod keyspace;
mod queue;
mod replaced;
mod revoked;
mod sent;
mod sessions;
mod stats;
mod terms;
mod unacked;
pub mod value;

#[cfg(test)]
mod tests;

pub use engine::{Engine, HolderInfo, LockInfo, Next, WaiterInfo};
pub use keyspace::{Found, Keyspace};
pub use sent::{Front, Look, Mark, Unsent};
pub use stats::Stats;
pub use terms::{Acquired, Answer, ClientId, EndReason, Grant, LockError, Mode, Request, WaiterId, Wanted};
pub use value::{Hold, Lock};
