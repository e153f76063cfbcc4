//! lockstock: distributed locks and oversell-proof stock as native commands of Redis and Valkey.
//!
//! # Layout
//!
//! Three rings, from the inside out; each knows only the ones before it.
//!
//! - [`core`]: what a lock and a sale are. Pure: time, clients and keys are values, and what should happen is a value too. Tested without a
//!   server, by property tests and under Miri.
//! - [`server`]: the one place with `unsafe`. The module API with a safe face: contexts, arguments, replies, keys, data types, parked
//!   clients, the one deferred timer, replication, settings.
//! - [`module`] makes locks and sales values of the keyspace, holds the module's state and does the work between commands; [`cmd`] has one
//!   file per command.
//!
//! `fuzz` (tests and fuzzing only) feeds bytes to everything that takes bytes from outside.
//!
//! [`error`] has the text of every error, [`config`] every setting, [`status`] the section of `INFO`. DESIGN.md says why it is made this
//! way.

pub mod core;
mod error;

mod server;

mod config;
mod module;
mod status;

mod cmd;

#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[cfg(test)]
mod layers;

use module::waiters::WAITERS;
use module::{connection, inbox, repair, timer, warnings};
use server::ctx::{Ctx, Level};
use server::{cluster, datatype, defer, events, info, load, panics, renames};

/// All memory is the server's. Tests and fuzz targets of this library run without one, on the allocator of the system.
#[cfg_attr(not(any(test, fuzzing)), global_allocator)]
pub static ALLOCATOR: server::alloc::ServerAlloc = server::alloc::ServerAlloc;

/// Sets the module up. Called once, by the server; the error is a line for its log, and the module does not load.
fn start(ctx: &mut Ctx<'_>, words: &[&[u8]]) -> Result<(), String> {
    let asked = |done: bool, what: &str| if done { Ok(()) } else { Err(format!("the server refused {what}")) };
    asked(datatype::register::<core::lock::Lock>(ctx), "the data type of locks")?;
    asked(datatype::register::<module::sale_type::SaleValue>(ctx), "the data type of sales")?;
    cmd::register(ctx)?;
    config::load(ctx, words)?;
    asked(info::register(ctx, status::write), "the section of INFO")?;
    asked(events::subscribe(ctx, connection::hear), "the events")?;
    renames::install(ctx, inbox::loaded);
    panics::install(repair::repair_all);
    WAITERS.install(ctx, inbox::client_unblocked, cmd::reply::answer);
    defer::install(ctx, timer::work);
    ctx.log(Level::Notice, concat!("lockstock ", env!("CARGO_PKG_VERSION"), " is ready"));
    cluster::learn(ctx);
    warnings::give(ctx);
    Ok(())
}

load::module!(c"lockstock", 1, start);
