//! `LOCK.RELEASE`: releases a lock.

use super::Command;
use crate::core::id::Ident;
use crate::error::Error;
use crate::module::lock_session;
use crate::server::args::{Arg, Args};
use crate::server::clock;
use crate::server::entry::{Call, Run};
use crate::server::keyspec::{KeyUse, Keys};
use crate::server::register::{self, Spec};

/// `LOCK.RELEASE key token`
///
/// Ends the hold of `token` on the lock `key`; the same call grants the lock to the first waiter. Ends every request of `token` that waits
/// for this key, too; such a request hears null.
///
/// Replies 1 if this call ended the hold, else 0: there was no hold, its lease has expired, it belongs to another token, or the token was
/// only waiting. Safe to repeat. Works when the server is out of memory.
///
/// Errors: `ERR` for a bad argument, `WRONGTYPE`. O(1), O(log n) with n holders.
pub struct LockRelease;

impl Command for LockRelease {
    const SPEC: Spec = Spec {
        name: c"lock.release",
        flags: c"write fast",
        acl: c"write fast",
        arity: 3,
        summary: c"Ends a token's hold on a lock, and its wait for it, and hands the lock over to whoever waits first.",
        since: c"0.1.0",
        complexity: c"O(1) for exclusive locks, O(log(N)) with N holders otherwise",
        tips: c"",
        keys: Keys::First(KeyUse::Delete),
        args: &[register::Arg::key(), register::Arg::string(c"token")],
    };
}

pub(crate) fn parse(mut args: Args<'_>) -> Result<(Arg<'_>, Ident), Error> {
    let words = (args.next()?, args.ident("token")?);
    args.finish()?;
    Ok(words)
}

impl Run for LockRelease {
    type Error = Error;

    fn run(call: Call<'_>) -> Result<(), Error> {
        let Call { mut ctx, args } = call;
        let (key, token) = parse(args)?;
        let ended = lock_session::run(&mut ctx, key, None, |engine, at, session| {
            Ok(engine.release(clock::now(), at, &token, session)?)
        })?;
        ctx.reply_int(i64::from(ended));
        Ok(())
    }
}
