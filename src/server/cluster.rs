//! What a member of a cluster may decide.

use std::ffi::CStr;
use std::io::{Error, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

use super::call::{self, How};
use super::ctx::Ctx;
use super::key::Name;

/// What this node serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// The keys in question.
    These,
    /// Not these, perhaps others.
    Others,
    /// None at all: the cluster is down, or takes no writes.
    Nothing,
}

impl Serves {
    /// What the call says that has just been made, and answered or not.
    fn told(answered: bool) -> Self {
        if answered {
            return Self::These;
        }
        // A call that the cluster refuses says by this whether it would refuse every other one, too.
        match Error::last_os_error().kind() {
            ErrorKind::NetworkDown | ErrorKind::ReadOnlyFilesystem => Self::Nothing,
            _ => Self::Others,
        }
    }
}

/// The command about which the server is asked whether it would serve a call of it: it would change keys, and nobody can have renamed
/// it. `LOCK.MRELEASE token numkeys key [key …]`.
///
/// A command need not ask: the server did, before it ran it.
const CHANGING: &CStr = c"LOCK.MRELEASE";

/// Whether this server can say what it would do with a call without doing it.
static CAN_BE_DRY: AtomicBool = AtomicBool::new(false);

/// Finds out how this server can be asked. Called once, at load, when the commands are registered.
pub fn learn(ctx: &mut Ctx<'_>) {
    CAN_BE_DRY.store(call::can_be_dry(ctx, CHANGING), Ordering::Relaxed);
}

/// Whether this node serves the key `name` at this moment: the slot is its own and the cluster is up. Also false for a key that has been
/// moved already while its slot is on the way to another node.
pub fn serves(ctx: &mut Ctx<'_>, name: &Name<'_>) -> Serves {
    ask(ctx, &[name.bytes()])
}

/// Whether this node may work on both keys at this moment. As [`serves`]; and also false while one of them is here and the other one
/// is not, and their slot is on the way to another node or from one; and for keys of two slots.
pub fn serves_both(ctx: &mut Ctx<'_>, one: &[u8], other: &[u8]) -> bool {
    ask(ctx, &[one, other]) == Serves::These
}

/// Asks for all of `keys`.
fn ask(ctx: &mut Ctx<'_>, keys: &[&[u8]]) -> Serves {
    let dry = CAN_BE_DRY.load(Ordering::Relaxed);
    // Where the call is made (Redis 7.0) it comes to nothing, for no token is empty. The server has looked at all else before it.
    let (how, token) = if dry { (How::Dry, &b"token"[..]) } else { (How::Quietly, &b""[..]) };
    let mut count = itoa::Buffer::new();
    let mut words: SmallVec<[&[u8]; 4]> = SmallVec::from_slice(&[token, count.format(keys.len()).as_bytes()]);
    words.extend_from_slice(keys);
    let answer = call::call(ctx, CHANGING, how, &words);
    match answer {
        // Null on most servers, and on Valkey 9.1 an empty reply, unless it is an error.
        answer if dry => Serves::told(answer.is_none_or(|answer| !answer.is_error())),
        // The error of the command itself; null when the server has refused the call.
        answer => Serves::told(answer.is_some()),
    }
}
