//! The only ring that calls the server: all `unsafe` of the crate is in here.
//!
//! It is written for this module only and gives the rest of the crate a safe interface. Of the `redis-module` crate only the bindings are
//! used. Its wrappers allocate on every call, panic on a NUL byte, use log lines as printf formats, and cannot block a client on a key.
//!
//! Rules of the ring:
//! - The server calls us with its lock: on its main thread, or on the thread of another module that calls a command. Only for freeing a value
//!   and for finding a command's keys it may have no lock. All global state is in a [`cell::ServerCell`], which refuses re-entry, and threads
//!   without the lock.
//! - Every entry from the server goes through [`guard`], which stops panics ([`panics`]).
//! - A call that may run other code of the server takes the context by `&mut`: running a command, notifying listeners, unblocking a client.
//!   An open key borrows the context ([`key::Key`]), so no key and no value is held across such a call.
//! - Listeners are notified last, when the transition is complete and nothing in it is needed any more.
//! - An event handler writes nothing. It posts a notification and arms the one timer of [`timer`], which first checks whether this server
//!   may write now.
//!
//! Reading order: [`api`], `alloc`, [`cell`], [`ctx`], [`args`], [`panics`], [`guard`], [`io_threads`], [`keyspec`], [`command`], [`entry`], [`register`], [`load`];
//! then [`key`], [`datatype`], [`replicate`], [`publish`], [`call`], [`delegate`], [`acl`], [`stream`], [`write_check`], [`cluster`], [`keyspace_scan`], [`renames`]; then
//! [`timer`], [`import`], [`origin`], [`blocked_clients`] with `blocking_key`, [`events`]; then [`settings`], [`info_fields`], [`server_facts`].
//! [`faults`] and `fake_server` are for tests and fuzzing.

pub mod acl;
mod alloc;
pub mod api;
pub mod args;
pub mod blocked_clients;
mod blocking_key;
pub mod call;
pub mod cell;
pub mod clock;
pub mod cluster;
pub mod command;
pub mod compat;
pub mod ctx;
pub mod datatype;
pub mod delegate;
pub mod entry;
pub mod events;
#[cfg(any(test, fuzzing))]
pub mod fake_server;
pub mod faults;
pub mod guard;
pub mod import;
pub mod info_fields;
pub mod io_threads;
pub mod key;
pub mod keyspace_scan;
pub mod keyspec;
pub mod load;
pub mod origin;
pub mod panics;
pub mod publish;
pub mod register;
pub mod renames;
pub mod replicate;
pub mod server_facts;
pub mod settings;
pub mod stream;
pub mod timer;
pub mod write_check;
