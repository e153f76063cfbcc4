//! The entry point of commands.

use std::ffi::c_int;
use std::fmt;

use super::api::{self, RawCtx, RawString};
use super::args::Args;
use super::blocked_clients;
use super::ctx::Ctx;
use super::guard::guard;
use super::panics::{FAULT, make_good};

/// One call of a command by a client, a script, the primary or the AOF.
pub struct Call<'a> {
    /// The context from the server.
    pub ctx: Ctx<'a>,
    /// The arguments after the command's name.
    pub args: Args<'a>,
}

/// Runs a command. It replies exactly once, or returns an error, which becomes the reply.
pub trait Run {
    /// The error that is sent as the reply.
    type Error: fmt::Display;

    /// Runs the command.
    fn run(call: Call<'_>) -> Result<(), Self::Error>;
}

/// The function that the server calls for the command `C`.
pub(super) unsafe extern "C" fn command<C: Run>(raw: *mut RawCtx, words: *mut *mut RawString, count: c_int) -> c_int {
    // SAFETY: the server calls commands on its main thread; context and arguments live until this function returns.
    let (mut ctx, args) = unsafe { (Ctx::new(raw), Args::new(words, count)) };
    let before = blocked_clients::taken_over();
    match guard("a command", || C::run(Call { ctx: ctx.reborrow(), args })) {
        Some(Ok(())) => {}
        Some(Err(error)) => ctx.reply_error(&error.to_string()),
        None => {
            make_good(&mut ctx);
            // A client that was blocked before the panic gets its answer elsewhere.
            if blocked_clients::taken_over() == before {
                ctx.reply_error(FAULT);
            }
        }
    }
    api::OK
}
