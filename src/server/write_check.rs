//! Asks the server whether it would carry out a write that nobody has sent.
//!
//! The server checks the commands of clients. It does not check what a module does by itself, so the module asks.

use std::ffi::CStr;
use std::io::{Error, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

use super::call::{self, How};
use super::ctx::Ctx;
use super::faults;
use super::io_threads::{self, KeySearch};

/// The command that the questions name: `LOCK.MRELEASE token numkeys key [key …]`. It is a write command, and it cannot be renamed.
///
/// Where it is really run (Redis 7.0) it has no effect, because a token cannot be empty. The server has checked everything else before that.
const WRITE: &CStr = c"LOCK.MRELEASE";
const NO_TOKEN: &[u8] = b"";

/// Write commands of the server itself, for servers that find only the first key of ours: one with any number of keys, and one without keys,
/// which has no effect.
const BY_RANGE: &CStr = c"UNLINK";
const KEYLESS: (&CStr, [&[u8]; 2]) = (c"SWAPDB", [b"0", b"0"]);

/// The codes of the errors with which the server refuses all writes of clients: too few replicas, and a disk that is full or fails.
const REFUSALS: [&[u8]; 2] = [b"NOREPLICAS", b"MISCONF"];

/// Whether this server supports dry runs.
static CAN_BE_DRY: AtomicBool = AtomicBool::new(false);

/// Finds out how to ask this server. Called once, at load, after the commands are registered. The test is a dry run without arguments: a
/// server with support returns an error, one without does not understand the call.
pub fn learn(ctx: &mut Ctx<'_>) {
    CAN_BE_DRY.store(call::call(ctx, WRITE, How::Dry, &[]).is_some(), Ordering::Relaxed);
}

/// Whether the server refuses all writes of clients now.
pub fn refuses_all(ctx: &mut Ctx<'_>) -> bool {
    let how = if is_dry() { How::DryForScript } else { How::ForScript };
    // It names no key, because Valkey 9.1 first looks whether this node serves the keys.
    let reply = if io_threads::search() == KeySearch::Asking {
        faults::spare(|| call::call(ctx, WRITE, how, &[NO_TOKEN, b"0", b"-"]))
    } else {
        call::call(ctx, KEYLESS.0, how, &KEYLESS.1)
    };
    reply.is_some_and(|reply| reply.is_error() && REFUSALS.iter().any(|code| reply.text().starts_with(code)))
}

/// Whether the server would carry out a write to `keys`; if not, the kind of the error.
pub(super) fn check(ctx: &mut Ctx<'_>, keys: &[&[u8]]) -> Result<(), ErrorKind> {
    let mut count = itoa::Buffer::new();
    let mut ours: SmallVec<[&[u8]; 4]> = SmallVec::from_slice(&[NO_TOKEN, count.format(keys.len()).as_bytes()]);
    ours.extend_from_slice(keys);
    // A server that may not ask a command for its keys finds the first key of ours.
    let by_range = keys.len() > 1 && io_threads::search() != KeySearch::Asking;
    let (command, words) = if by_range { (BY_RANGE, keys) } else { (WRITE, &ours[..]) };
    let would_run = if is_dry() {
        // Null on most servers and an empty reply on Valkey 9.1, unless it is an error.
        !call::call(ctx, command, How::Dry, words).is_some_and(|reply| reply.is_error())
    } else {
        // An error of the command itself; null if the server refused the call.
        faults::spare(|| call::call(ctx, command, How::Quietly, words)).is_some()
    };
    if would_run { Ok(()) } else { Err(Error::last_os_error().kind()) }
}

/// Whether the running command has a user. The test is a call without arguments: the server looks for a user, and refuses the call for want
/// of arguments only if there is one.
pub(super) fn is_for_a_user(ctx: &mut Ctx<'_>) -> bool {
    call::call(ctx, WRITE, How::AsUser, &[]).is_some() || Error::last_os_error().kind() == ErrorKind::InvalidInput
}

fn is_dry() -> bool {
    CAN_BE_DRY.load(Ordering::Relaxed)
}
