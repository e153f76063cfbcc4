//! lockstock: distributed locks and oversell-proof stock as native commands of Redis and Valkey.
//!
//! # Layout
//!
//! These are the rings, from the inside out. Each ring uses only the rings before it, and no files of a ring import each other in a circle.
//! `layers.rs` tests this rule and this list.
//!
//! - [`core`]: the rules of locks and sales. The core is pure: time, clients and keys are values, and so are its decisions. It is tested
//!   without a server, by property tests and under Miri.
//! - [`server`]: the only code with `unsafe`. It gives the module API a safe interface: contexts, arguments, replies, keys, data types,
//!   blocked clients, the one deferred timer, replication, settings.
//! - [`error`], [`config`]: the text of every error, and every setting.
//! - [`module`]: the two types, the module's state, and the work between commands.
//! - [`cmd`], [`info_section`]: one file per command, and files with the parsing and replies that several commands share; the section of
//!   `INFO`.
//!
//! `fuzz` (tests and fuzzing only) feeds bytes to all code that reads bytes from outside. DESIGN.md gives the reasons for the design.
//!
//! # Where to look
//!
//! - The effects for replicas and files: `module/lock_effect`, `module/sale_effect`; `module/verbatim_release` for a release that is sent
//!   verbatim.
//! - A connection that ends: `core/lock/engine/clients`. Where a request stands in line, and which places are kept:
//!   `core/lock/engine/line`. The messages of `NOTIFY`: `module/notify_message`.
//! - A grant whose reply was not handed to its connection yet: `core/lock/notes`; how it is undone: `core/lock/engine/delivery`.
//! - The timer: its work is in `module/timer_work`, its times in `server/timer`. One or several sales at once: `module/sale_transaction`.
//! - A guarded command: `cmd/lock_guard`; how it is run for its client, `server/delegate`.
//!
//! # Words
//!
//! - *token*: the owner of a hold, as its caller names it. *Hold*: a token's possession of a lock, with a *lease* and a *fence*.
//! - *fence*: a number that grows with every grant, over all locks. *Permit*: one of several holds that a lock admits.
//! - *session*: a hold that ends with its connection, too. `LockSession`: the keyspace for one call. *Leg*: one sale of a transaction.
//! - *waiter*: a request in line. *Hand-over*: a grant to a waiter.
//! - *sale*: units of stock. *Order*: the units of one id, which are held, sold, cancelled or expired; or the order waits in *line*, and is
//!   *served* when units come back.
//! - *ticket*: a position in line, of a lock's waiter or of an order; smaller comes first.
//! - *expire*: to end by time. *Cutoff*: the instant up to which all holds of a sale have expired.
//! - *effect*: the outcome of a command, as replicas and the AOF get it. *Event*: an entry in a sale's stream, or a keyspace event for
//!   listeners.
//! - *deadline index*: which lock or sale is due next. *Unlinked*: a value that has lost its name and may have another.
//! - *transition*: the work of the lock engine for one call. *Visit*: a lock that is open within a transition.
//! - *backlog*: the work on locks that the timer still has to do. *Budget*: the number of waiters and holds that one step may handle.
//! - *delivered*: a grant whose reply the server has handed to the connection. *Unacked*: a grant whose reply it has not handed over yet.
//!   *Revoked*: a hold that the end of a connection has ended, and that the timer or the next visit removes.
//! - *inbox*: the notifications from callbacks. *Turn*: one round of the server's event loop, or of the timer.

// Where a result must not be lost, its type or its function says so.
#![expect(clippy::must_use_candidate, reason = "nothing imports the module's library")]

pub mod core;
mod error;

mod server;

mod config;
mod info_section;
mod module;

mod cmd;

#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[cfg(test)]
mod layers;

use module::blocked::BLOCKED;
use module::{inbox, repair, server_events, timer_work, warnings};
use server::ctx::{Ctx, Level};
use server::{cluster, datatype, events, info_fields, io_threads, load, panics, renames, timer, write_check};

/// Sets the module up. Called once, by the server; the error is a line for its log, and the module does not load.
fn start(ctx: &mut Ctx<'_>, words: &[&[u8]]) -> Result<(), String> {
    let asked = |done: bool, what: &str| if done { Ok(()) } else { Err(format!("the server refused {what}")) };
    asked(datatype::register::<core::lock::Lock>(ctx), "the data type of locks")?;
    asked(datatype::register::<module::sale_type::SaleValue>(ctx), "the data type of sales")?;
    io_threads::learn(ctx);
    cmd::register(ctx)?;
    config::load(ctx, words)?;
    asked(info_fields::register(ctx, info_section::write), "the section of INFO")?;
    asked(events::subscribe(ctx, server_events::HANDLERS), "the events")?;
    renames::install(inbox::loaded);
    panics::install(repair::repair_all);
    BLOCKED.install(ctx, inbox::client_unblocked, cmd::lock_reply::answer);
    timer::install(ctx, timer_work::run);
    ctx.log(Level::Notice, concat!("lockstock ", env!("CARGO_PKG_VERSION"), " is ready"));
    cluster::learn(ctx);
    write_check::learn(ctx);
    warnings::give(ctx);
    Ok(())
}

/// The version as a number. The compiler computes it.
const VERSION: std::ffi::c_int =
    load::version(env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"), env!("CARGO_PKG_VERSION_PATCH"));

load::module!(c"lockstock", VERSION, start);
