//! The one ring that touches the server: all `unsafe` of the crate is in here.
//!
//! It is written for this product only and shows the rest of the crate a safe face. The wrappers of the `redis-module`
//! crate are not used, only its bindings: they allocate on every call, they panic on a NUL byte, their log lines are
//! printf formats, and they cannot block a client on a key.
//!
//! Rules of the ring:
//! - The server calls us on its main thread, except that it may free values on another one. Everything global is in a
//!   [`cell::MainCell`], which refuses other threads and re-entry instead of trusting to luck.
//! - Every entry from the server goes through [`guard`], where a panic ends ([`panics`]).
//! - What may run other code of the server takes the context by `&mut`: a command that the module runs, a notification, the waking of a
//!   client. An open key has borrowed it ([`key::Key`]), so no key and no value is held across such a call.
//! - Listeners are told last, when the transition is complete and nothing of it is relied on any more.
//! - A handler of an event writes nothing. It posts a notification and wakes the one timer of [`timer`], which asks first whether this
//!   server may write at this moment.
//!
//! Reading order: [`api`], [`alloc`], [`cell`], [`ctx`], [`args`], [`panics`], [`guard`], [`entry`], [`load`], [`register`], [`keyspec`]; then
//! [`key`], [`datatype`], [`replicate`], [`call`], [`stream`], [`cluster`], [`keyspace_scan`], [`renames`]; then [`timer`], [`import`], [`origin`],
//! [`blocked_clients`] with `blocking_key`, [`events`]; then [`settings`], [`info`], [`server_info`] and [`event_loop`].
//! [`faults`] and `fake_server` are for tests and fuzzing.

pub mod alloc;
pub mod api;
pub mod args;
pub mod blocked_clients;
mod blocking_key;
pub mod call;
pub mod cell;
pub mod clock;
pub mod cluster;
pub mod compat;
pub mod ctx;
pub mod datatype;
pub mod entry;
pub mod event_loop;
pub mod events;
#[cfg(any(test, fuzzing))]
pub mod fake_server;
pub mod faults;
pub mod guard;
pub mod import;
pub mod info;
pub mod key;
pub mod keyspace_scan;
pub mod keyspec;
pub mod load;
pub mod origin;
pub mod panics;
pub mod register;
pub mod renames;
pub mod replicate;
pub mod server_info;
pub mod settings;
pub mod stream;
pub mod timer;
