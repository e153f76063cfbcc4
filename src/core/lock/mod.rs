//! The lock: who may hold it, who waits for it, and who is next.
//!
//! [`Lock`] is the value that lives in the keyspace, one per key: its mode and its holds. [`Engine`] is everything around
//! it that no key can hold: the queues, the sessions, the fences, the deadline index of lease ends. Each public method of the
//! engine is one atomic transition. It finds the values it needs through [`World`] and tells the same `World` what came of
//! it; the server does these things with keys, replicas and sockets, a test with a map.
//!
//! Every transition first *settles* the places it touches: holds that are over end, then the waiters that fit are granted.
//! Only then is the request looked at. So a lease is over at its deadline, and a session with its connection, for
//! everybody, whether or not the timer has come round; and nobody overtakes a waiter.
//!
//! Reading order: `terms` (the words), [`value`] (the lock itself), `verdict` (the table of modes), `waiting` (the queues),
//! `visit` (how a lock is opened and changed), `settle` (how a place is brought up to date), then the engine's methods by
//! subject: `engine`, `many`, `tick`, `keyspace`, `replica`, `info`, `doubt`. What hangs on connections is in `session`,
//! `undelivered`, `replaced` and `forfeit`.

mod compatibility;
mod delivery;
mod engine;
mod info;
mod keyspace;
mod many;
mod reconcile;
mod replaced;
mod replica;
mod revoked;
mod session;
mod settle;
mod snapshot;
mod stats;
mod terms;
mod tick;
mod unacked;
pub mod value;
mod visit;
mod waiting;

#[cfg(test)]
mod tests;

pub use delivery::{Front, Look, Unsent};
pub use engine::Engine;
pub use info::{HolderInfo, LockInfo, WaiterInfo};
pub use stats::Stats;
pub use terms::{Acquired, Answer, ClientId, EndReason, Found, Grant, Keyspace, LockError, Mode, Request, Wanted};
pub use tick::Next;
pub use value::{Hold, Lock};
pub use waiting::WaiterId;
