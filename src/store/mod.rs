//! Locks and sales as values of the keyspace.
//!
//! A lock and a sale are ordinary keys of two native types of our own: they expire, move, are saved, replicated and deleted like any
//! other. What a value is made of is the core's business; here it gets its life in the server.

pub mod destroyed;
pub mod lock_effect;
pub mod lock_session;
pub mod lock_type;
pub mod rename_scan;
pub mod repair;
pub mod sale_effect;
pub mod sale_type;
