//! The commands: one file each, with its syntax, its parser and what it does.
//!
//! A file reads from top to bottom: the documentation of the command, `SPEC` as the server is told it, the words it takes, `run`.

use crate::server::ctx::Ctx;
use crate::server::register::{self, Command};

mod lease;
mod lock_acquire;
mod lock_apply;
mod lock_extend;
mod lock_info;
mod lock_macquire;
mod lock_mrelease;
mod lock_release;
mod request;

/// Registers every command; the error names the one that the server refused.
pub fn register(ctx: Ctx<'_>) -> Result<(), String> {
    one::<lock_acquire::LockAcquire>(ctx)?;
    one::<lock_release::LockRelease>(ctx)?;
    one::<lock_extend::LockExtend>(ctx)?;
    one::<lock_info::LockInfo>(ctx)?;
    one::<lock_macquire::LockMacquire>(ctx)?;
    one::<lock_mrelease::LockMrelease>(ctx)?;
    one::<lock_apply::LockApply>(ctx)
}

fn one<C: Command>(ctx: Ctx<'_>) -> Result<(), String> {
    if register::register::<C>(ctx) {
        return Ok(());
    }
    Err(format!("the server refused the command {}", C::SPEC.name.to_string_lossy()))
}
