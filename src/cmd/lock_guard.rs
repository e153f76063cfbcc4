//! `LOCK.GUARD`: runs a command only while a token holds a lock.

use super::fence::{self, FENCE, FENCE_WORD};
use super::{Arg, Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec, clock};
use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::lock::Claim;
use crate::module::{lock_session, state};
use crate::server::args::ArgError;
use crate::server::delegate::{self, Delegated};

/// `LOCK.GUARD key token [FENCE fence] command [arg …]`
///
/// Runs `command` if `token` holds the lock `key` in any mode, and, with `FENCE`, with exactly this fence; in the same step, so no other
/// command comes between. A hold whose lease is over does not count. Changes no lease.
///
/// The command runs as if the client had sent it: with its rights, in its database and its protocol. A command that could block behaves as
/// in a transaction. Replicas and files get the effects of the command.
///
/// Replies what `command` replies.
///
/// Errors: `NOTHELD`, and the command did not run; `ERR` for a bad argument, and for a command that may not be guarded: `SELECT`,
/// `LOCK.GUARD`, scripts and functions, commands that these may not run, and in a cluster `MSETEX`; `NOPERM`; `WRONGTYPE`; and every error of
/// `command`. O(1), O(log n) with n holders, and what `command` takes.
pub struct LockGuard;

impl Command for LockGuard {
    const SPEC: Spec = Spec {
        name: c"lock.guard",
        flags: c"write",
        arity: -4,
        summary: c"Checks that a token holds a lock, and if so runs a command in the same step.",
        since: c"0.3.0",
        complexity: c"O(1) for exclusive locks, O(log(N)) with N holders otherwise, and that of the command",
        tips: c"",
        keys: Keys::FirstAndDelegated(KeyUse::Read, take_own),
        args: &[
            Param::key(),
            Param::string(c"token"),
            FENCE,
            Param::string(c"command"),
            Param::string(c"arg").optional().multiple(),
        ],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let (key, token, fence, command) = parse(args)?;
        if !lock_session::guards(ctx, key, clock::now(), Claim { token: &token, fence })? {
            return Err(Error::NotHeld);
        }
        match delegate::run(ctx, command) {
            Delegated::Ran => {
                state::enter_as_is(|state| state.locks.guarded());
                Ok(())
            }
            Delegated::Refused => Ok(()),
            Delegated::Forbidden => Err(Error::NoGuarded),
            Delegated::Unfit => Err(Error::Unguarded),
            Delegated::Unchecked => Err(Error::Unchecked),
        }
    }
}

/// The lock, the token, the fence, and the words of the command.
pub(crate) fn parse(mut args: Args<'_>) -> Result<(Arg<'_>, Ident, Option<Fence>, Args<'_>), Error> {
    let (key, token) = (args.next()?, args.ident("token")?);
    let fence = if args.take_word(FENCE_WORD) { Some(fence::fence(&mut args)?) } else { None };
    let command = args.peek().ok_or(ArgError::Needs { option: "LOCK.GUARD", other: "a command" })?.bytes();
    if [&b"SELECT"[..], b"LOCK.GUARD"].iter().any(|name| command.eq_ignore_ascii_case(name)) {
        return Err(Error::Unguarded);
    }
    Ok((key, token, fence, args))
}

/// Takes everything before the words of the command.
fn take_own(args: &mut Args<'_>) -> Result<(), ArgError> {
    args.skip(2)?;
    if args.take_word(FENCE_WORD) { args.skip(1) } else { Ok(()) }
}
