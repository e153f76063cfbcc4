//! lockstock: distributed locks and oversell-proof stock as native commands of Redis and Valkey.
//!
//! # Layout
//!
//! Rings, from the inside out. Each knows only the ones before it, and no files of a ring name each other in a circle; `layers.rs` is the test
//! of that, and of this list.
//!
//! - [`core`]: what a lock and a sale are. Pure: time, clients and keys are values, and what should happen is a value too. Tested without a
//!   server, by property tests and under Miri.
//! - [`server`]: the one place with `unsafe`. The module API with a safe face: contexts, arguments, replies, keys, data types, blocked
//!   clients, the one deferred timer, replication, settings.
//! - [`error`], [`config`]: the text of every error, and every setting.
//! - [`module`]: the two types, the module's state, and the work between commands.
//! - [`cmd`], [`info_section`]: one file per command, and what several of them parse or reply alike; the section of `INFO`.
//!
//! `fuzz` (tests and fuzzing only) feeds bytes to everything that takes bytes from outside. DESIGN.md says why it is made this way.
//!
//! # Where to look
//!
//! - What replicas and files get: `module/lock_effect`, `module/sale_effect`; `module/verbatim_release` for a release that is sent verbatim.
//! - A connection that ends: `core/lock/engine/clients`. Where a request stands in line, and which places are kept: `core/lock/engine/line`. What `NOTIFY` tells: `module/notify_message`.
//! - A grant whose reply was not handed to its connection yet: `core/lock/notes`; how it is undone: `core/lock/engine/delivery`.
//! - The timer: what it does in `module/timer_work`, when in `server/timer`. One or several sales at once: `module/sale_transaction`.
//! - A guarded command: `cmd/lock_guard`; how it is run for its client, `server/delegate`.
//!
//! # Words
//!
//! - *token*: the owner of a hold, as its caller names it. *Hold*: what a token has of a lock, with a *lease* and a *fence*.
//! - *fence*: a number that grows with every grant, over all locks. *Permit*: one of several holds that a lock admits.
//! - *session*: a hold that ends with its connection, too. `LockSession`: the keyspace for one call. *Leg*: one sale of a transaction.
//! - *waiter*: a request in line. *Hand-over*: a grant to a waiter.
//! - *sale*: units of stock. *Order*: what one id has of them: held, sold, cancelled or expired; or it waits
//!   in *line*, and is *served* when units come back.
//! - *ticket*: a position in line, of a lock's waiter or of an order; smaller comes first.
//! - *expire*: to end by time. *Cutoff*: the instant up to which all holds of a sale have expired.
//! - *effect*: what came of a command, as replicas and the AOF get it. *Event*: what a sale's stream gets, and what listeners hear.
//! - *deadline index*: which lock or sale is due next. *Unlinked*: a value that has lost its name and may have another.
//! - *transition*: what the lock engine does at once, for one call. *Visit*: a lock that is open within a transition.
//! - *backlog*: what the timer has yet to do for locks. *Budget*: how many waiters and holds may be dealt with at once.
//! - *delivered*: of a grant, that the server has handed its reply to the connection. *Unacked*: that it has not yet. *Revoked*: a hold that
//!   a connection's end has ended, and that the timer or the next visit takes out.
//! - *inbox*: what callbacks saw. *Turn*: one round of the server's event loop, or of the timer.

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
use server::{cluster, datatype, events, info_fields, load, panics, renames, timer};

/// Sets the module up. Called once, by the server; the error is a line for its log, and the module does not load.
fn start(ctx: &mut Ctx<'_>, words: &[&[u8]]) -> Result<(), String> {
    let asked = |done: bool, what: &str| if done { Ok(()) } else { Err(format!("the server refused {what}")) };
    asked(datatype::register::<core::lock::Lock>(ctx), "the data type of locks")?;
    asked(datatype::register::<module::sale_type::SaleValue>(ctx), "the data type of sales")?;
    cmd::register(ctx)?;
    config::load(ctx, words)?;
    asked(info_fields::register(ctx, info_section::write), "the section of INFO")?;
    asked(events::subscribe(ctx, server_events::hear), "the events")?;
    renames::install(inbox::loaded);
    panics::install(repair::repair_all);
    BLOCKED.install(ctx, inbox::client_unblocked, cmd::lock_reply::answer);
    timer::install(ctx, timer_work::run);
    ctx.log(Level::Notice, concat!("lockstock ", env!("CARGO_PKG_VERSION"), " is ready"));
    cluster::learn(ctx);
    warnings::give(ctx);
    Ok(())
}

/// The version as a number. The compiler computes it.
const VERSION: std::ffi::c_int =
    load::version(env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"), env!("CARGO_PKG_VERSION_PATCH"));

load::module!(c"lockstock", VERSION, start);
