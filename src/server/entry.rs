//! The entry point of commands.

use std::ffi::c_int;

use super::acl;
use super::api::{self, RawCtx, RawString};
use super::args::{Arg, Args};
use super::blocked_clients;
use super::cluster;
use super::command::Command;
use super::ctx::Ctx;
use super::guard::{guard, guard_unlocked};
use super::io_threads::{self, KeySearch};
use super::panics::{FAULT, make_good};

/// The function that the server calls for the command `C`.
pub(super) unsafe extern "C" fn command<C: Command>(
    raw: *mut RawCtx,
    words: *mut *mut RawString,
    count: c_int,
) -> c_int {
    // SAFETY: the server calls commands with its lock; context and arguments live until this function returns.
    let (mut ctx, args) = unsafe { (Ctx::new(raw), Args::new(words, count)) };
    let before = blocked_clients::taken_over();
    match guard("a command", || C::run(&mut ctx, args).map_err(|error| error.to_string())) {
        Some(Ok(())) => {}
        Some(Err(error)) => ctx.reply_error(&error),
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

/// The server's own refusal of a key.
const FORBIDDEN: &str = "NOPERM No permissions to access a key";

/// The entry of a command of which the server does not know all keys, because it may not ask: see [`io_threads`](super::io_threads). In a
/// cluster the command checks its keys as the server would, and on Valkey 8.1 their ACL, too.
pub(super) unsafe extern "C" fn command_that_checks_keys<C: Command>(
    raw: *mut RawCtx,
    words: *mut *mut RawString,
    count: c_int,
) -> c_int {
    // SAFETY: the server calls commands with its lock; context and arguments live until this function returns.
    let (mut ctx, args) = unsafe { (Ctx::new(raw), Args::new(words, count)) };
    let refusal = guard("a command", || {
        if !cluster::is_node() {
            return None;
        }
        let (keys, flags): (Vec<Arg<'_>>, Vec<c_int>) = args.at(C::SPEC.keys.positions(args.clone(), count)).unzip();
        // Redis has checked all of them.
        let is_unchecked = io_threads::search() == KeySearch::FirstSpec && C::SPEC.keys.is_by_steps();
        if is_unchecked && !keys.iter().zip(flags).all(|(key, flags)| acl::may_use(&mut ctx, key.bytes(), flags)) {
            return Some(FORBIDDEN);
        }
        cluster::refusal(&mut ctx, &keys)
    });
    match refusal {
        // SAFETY: the server's own call, passed on.
        Some(None) => return unsafe { command::<C>(raw, words, count) },
        Some(Some(refusal)) => ctx.reply_error(refusal),
        None => {
            make_good(&mut ctx);
            ctx.reply_error(FAULT);
        }
    }
    api::OK
}

/// The entry of a command that the server also asks for its keys.
pub(super) unsafe extern "C" fn command_with_keys<C: Command>(
    ctx: *mut RawCtx,
    words: *mut *mut RawString,
    count: c_int,
) -> c_int {
    // SAFETY: the server's own call, passed on; the context is valid.
    unsafe {
        if api::is_keys_position_request(ctx) == 0 {
            return command::<C>(ctx, words, count);
        }
    }
    // SAFETY: the words live until this function returns.
    let args = unsafe { Args::new(words, count) };
    for (at, flags) in guard_unlocked("finding keys", || C::SPEC.keys.positions(args, count)).unwrap_or_default() {
        // SAFETY: the context is that of a request for positions, and there is a word at this position.
        unsafe { api::key_at_pos_with_flags(ctx, at, flags) };
    }
    api::OK
}
