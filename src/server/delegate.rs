//! A command that a client names in a command of ours, and that runs as if the client had sent it by itself.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_int};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{ptr, slice};

use errno::{Errno, errno, set_errno};
use smallvec::SmallVec;

use super::api;
use super::args::{Arg, Args};
use super::call::{self, ACL_FAILED, NO_USER, RunAs};
use super::cell::Marked;
use super::cluster;
use super::ctx::Ctx;

/// The outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delegated {
    /// It ran, and its reply was passed on.
    Ran,
    /// The server refused it, and the server's reason was passed on.
    Refused,
    /// The client may not run it. The server has logged that, but its text says it badly. Nothing was replied.
    Forbidden,
    /// It may not run so: scripts may not run it either, or it is part of another delegated command. Nothing was replied.
    Unfit,
    /// It may not run in a cluster, because its keys cannot be checked. Nothing was replied.
    Unchecked,
}

thread_local! {
    /// Whether this thread runs a delegated command. One in another would use the stack without a limit.
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };

    /// Whether this thread looks for the keys of a delegated command. Threads without the server's lock may do that, too.
    static IS_ASKING: Cell<bool> = const { Cell::new(false) };
}

/// The client on whose behalf a delegated request for locks is about to run; 0 if there is none. The request may end with its connection.
static CLIENT: AtomicU64 = AtomicU64::new(0);

/// The commands that ask for their client: once, before they do anything else.
const ASKS_FOR_CLIENT: [&[u8]; 2] = [b"LOCK.ACQUIRE", b"LOCK.MACQUIRE"];

/// A command whose keys no server tells a module. So in a cluster nothing would check that this node serves them.
const UNTOLD: &[u8] = b"MSETEX";

/// Whether some server dies of this command behind a guard: of a wait for replicas in a script (Valkey 8.1), or of what nodes of a cluster
/// are told about slots (Valkey).
fn is_fatal(ctx: &Ctx<'_>, name: &[u8], first: Option<&[u8]>) -> bool {
    let is = |word: &[u8], words: [&[u8]; 2]| words.iter().any(|other| word.eq_ignore_ascii_case(other));
    is(name, [b"WAIT", b"WAITAOF"]) && ctx.flags().is_script()
        || name.eq_ignore_ascii_case(b"CLUSTER") && first.is_some_and(|word| is(word, [b"SETSLOT", b"SYNCSLOTS"]))
}

/// The id of the client that sent the running command, or, if it is delegated, the command that named it.
pub fn client_id(ctx: &Ctx<'_>) -> u64 {
    match CLIENT.swap(0, Ordering::Relaxed) {
        0 => ctx.client_id(),
        client => client,
    }
}

/// Runs the command that the rest of `args` spells: with the client's rights, in its database and its protocol, and replicated.
///
/// It may be any command, one of ours included. So nothing may be open, and no state in use.
pub fn run(ctx: &mut Ctx<'_>, mut args: Args<'_>) -> Delegated {
    let running = Marked::set(&IS_RUNNING, true);
    if running.before {
        return Delegated::Unfit;
    }
    // The server takes the name as a C string. No command has a NUL in its name.
    let Some(name) = args.next().ok().and_then(|name| CString::new(name.bytes()).ok()) else {
        ctx.reply_error("ERR unknown command");
        return Delegated::Refused;
    };
    if cluster::is_node() && name.to_bytes().eq_ignore_ascii_case(UNTOLD) {
        return Delegated::Unchecked;
    }
    let words: SmallVec<[Arg<'_>; 8]> = std::iter::from_fn(|| args.next().ok()).collect();
    if is_fatal(ctx, name.to_bytes(), words.first().map(|word| word.bytes())) {
        return Delegated::Unfit;
    }
    // Another module may run our command for no user.
    [RunAs::Client, RunAs::Module]
        .into_iter()
        .find_map(|user| run_as(ctx, &name, user, &words))
        .unwrap_or(Delegated::Refused)
}

/// Runs a command as this user; `None` if there is no such user.
fn run_as(ctx: &mut Ctx<'_>, name: &CStr, user: RunAs, words: &[Arg<'_>]) -> Option<Delegated> {
    if ASKS_FOR_CLIENT.iter().any(|asks| name.to_bytes().eq_ignore_ascii_case(asks)) {
        CLIENT.store(ctx.client_id(), Ordering::Relaxed);
    }
    set_errno(Errno(0));
    let reply = call::call_for_client(ctx, name, user, words);
    let refused = errno() != Errno(0);
    // The server may have refused it.
    CLIENT.store(0, Ordering::Relaxed);
    let reply = reply?;
    // The server says by errno that it has refused a call. A command that ran and failed does not change it.
    let outcome = if reply.is_error() && refused {
        match &reply.text()[..] {
            reason if reason.starts_with(NO_USER.as_bytes()) => return None,
            reason if reason.starts_with(ACL_FAILED.as_bytes()) => return Some(Delegated::Forbidden),
            reason if reason.ends_with(b" is not allowed on script mode") => return Some(Delegated::Unfit),
            _ => Delegated::Refused,
        }
    } else {
        Delegated::Ran
    };
    reply.pass_on(ctx);
    Some(outcome)
}

/// The keys of the command that the rest of `args` spells: their positions, counted from its name, and the server's flags for their use.
/// Empty if the server does not know the command, or if that command names yet another one.
pub(super) fn keys(args: &Args<'_>) -> Vec<(c_int, c_int)> {
    let asking = Marked::set(&IS_ASKING, true);
    let words = args.raw();
    let Some(len) = c_int::try_from(words.len()).ok().filter(|len| *len > 0 && !asking.before) else {
        return Vec::new();
    };
    let (mut count, mut flags) = (0, ptr::null_mut());
    // SAFETY: the words are live strings, which the server only reads; it does not use the context. If it finds keys, it allocates two
    // arrays of `count` numbers, which are ours to free.
    unsafe {
        let words = words.as_ptr().cast_mut();
        let positions = api::get_command_keys_with_flags(ptr::null_mut(), words, len, &raw mut count, &raw mut flags);
        if positions.is_null() {
            return Vec::new();
        }
        let count = usize::try_from(count).unwrap_or_default();
        let found = slice::from_raw_parts(positions, count).iter().copied();
        let found = found.zip(slice::from_raw_parts(flags, count).iter().copied()).collect();
        api::free(positions.cast());
        api::free(flags.cast());
        found
    }
}
