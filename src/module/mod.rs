//! Locks and sales as values in the keyspace, the module state, and the timer work.
//!
//! A lock and a sale are ordinary keys of two data types of our own: they expire, move, and are saved, replicated and deleted like any
//! other key. The core defines what a value contains; this folder connects it with the server.

pub mod blocked;
pub mod destroyed;
pub mod expirations;
pub mod expire_watch;
pub mod fence_clock;
pub mod inbox;
pub mod lock_effect;
pub mod lock_session;
pub mod lock_type;
pub mod notify_message;
pub mod open_sale;
pub mod rename_scan;
pub mod repair;
pub mod sale_calls;
pub mod sale_counts;
pub mod sale_effect;
pub mod sale_transaction;
pub mod sale_type;
pub mod server_events;
pub mod slot_watch;
pub mod state;
pub mod timer_work;
pub mod verbatim_release;
pub mod warnings;
