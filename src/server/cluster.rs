//! Which keys a cluster node serves.

use std::ffi::CStr;
use std::io::{Error, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

use super::call::{self, How};
use super::ctx::Ctx;
use super::key::Name;

/// What this node serves now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// The requested keys.
    These,
    /// Not these keys, perhaps others.
    Others,
    /// No keys at all: the cluster is down, or takes no writes.
    Nothing,
}

impl Serves {
    /// The result of the call that was just made, from whether it was answered.
    fn told(answered: bool) -> Self {
        if answered {
            return Self::These;
        }
        // When the cluster refuses a call, this error shows whether it would refuse every other call too.
        match Error::last_os_error().kind() {
            ErrorKind::NetworkDown | ErrorKind::ReadOnlyFilesystem => Self::Nothing,
            _ => Self::Others,
        }
    }
}

/// The command that is used to ask the server whether it would serve a call. It is a write command, and it cannot be renamed.
/// `LOCK.MRELEASE token numkeys key [key …]`.
///
/// A running command need not ask, because the server checked before it ran it.
const CHANGING: &CStr = c"LOCK.MRELEASE";

/// Whether this server supports dry runs.
static CAN_BE_DRY: AtomicBool = AtomicBool::new(false);

/// Finds out how to ask this server. Called once, at load, after the commands are registered.
pub fn learn(ctx: &mut Ctx<'_>) {
    CAN_BE_DRY.store(call::can_be_dry(ctx, CHANGING), Ordering::Relaxed);
}

/// Whether this node serves the key `name` now: it owns the slot and the cluster is up. Also false for a key that has already moved while
/// its slot is being migrated.
pub fn serves(ctx: &mut Ctx<'_>, name: &Name<'_>) -> Serves {
    ask(ctx, &[name.bytes()])
}

/// Whether this node may work on both keys now. Both are of one slot. Like [`serves`]; also false during a migration of their slot, in
/// either direction, when only one of the keys is here.
pub fn serves_both(ctx: &mut Ctx<'_>, one: &[u8], other: &[u8]) -> bool {
    ask(ctx, &[one, other]) == Serves::These
}

/// Asks about all of `keys`.
fn ask(ctx: &mut Ctx<'_>, keys: &[&[u8]]) -> Serves {
    let dry = CAN_BE_DRY.load(Ordering::Relaxed);
    // Where the call is really made (Redis 7.0) it has no effect, because a token cannot be empty. The server has checked everything else
    // before that.
    let (how, token) = if dry { (How::Dry, &b"token"[..]) } else { (How::Quietly, &b""[..]) };
    let mut count = itoa::Buffer::new();
    let mut words: SmallVec<[&[u8]; 4]> = SmallVec::from_slice(&[token, count.format(keys.len()).as_bytes()]);
    words.extend_from_slice(keys);
    let answer = call::call(ctx, CHANGING, how, &words);
    match answer {
        // Null on most servers and an empty reply on Valkey 9.1, unless it is an error.
        answer if dry => Serves::told(answer.is_none_or(|answer| !answer.is_error())),
        // An error of the command itself; null if the server refused the call.
        answer => Serves::told(answer.is_some()),
    }
}
