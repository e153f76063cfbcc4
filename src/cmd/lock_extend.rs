//! `LOCK.EXTEND`: changes the lease of a hold.

use super::fence::FENCE;
use super::lease::{self, LEASE};
use super::{Arg, Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec, Spelled, clock};
use crate::core::fence::Fence;
use crate::core::lock::{Claim, Extension};
use crate::core::time::UnixMs;
use crate::module::lock_effect::SaidToken;
use crate::module::lock_session;

/// `LOCK.EXTEND key token [PX ms | EX s] [FENCE fence]`
///
/// Sets the lease of `token` on the lock `key` to end `PX` milliseconds or `EX` seconds from now; the new end may be later or earlier.
/// Without an option it ends after the default lease, but never sooner than it would have.
///
/// Replies 1, or 0 if the token holds nothing, or not with the fence that `FENCE` names: a hold that has ended is never revived. Works when the server is out of memory.
///
/// Errors: `ERR` for a bad argument, `WRONGTYPE`. O(1), O(log n) with n holders.
pub struct LockExtend;

impl Command for LockExtend {
    const SPEC: Spec = Spec {
        name: c"lock.extend",
        flags: c"write fast",
        arity: -3,
        summary: c"Moves the end of a hold's lease.",
        since: c"0.1.0",
        complexity: c"O(1) for exclusive locks, O(log(N)) with N holders otherwise",
        tips: c"",
        keys: Keys::First(KeyUse::Update),
        args: &[Param::key(), Param::string(c"token"), LEASE, FENCE],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let now = clock::now();
        let (key, (token, word), extension, fence) = parse(args, now.ms)?;
        let extended = lock_session::run(ctx, key, |engine, at, session| {
            session.said = Some(SaidToken { token: &token, word });
            Ok(engine.extend(now, &[at], Claim { token: &token, fence }, extension, session)?)
        })?;
        ctx.reply_int(i64::from(extended));
        Ok(())
    }
}

/// The key, the token with its word, the change of the lease, and the fence.
pub(crate) fn parse(
    mut args: Args<'_>,
    now: UnixMs,
) -> Result<(Arg<'_>, Spelled<'_>, Extension, Option<Fence>), Error> {
    let (key, token) = (args.next()?, args.ident_and_word("token")?);
    let (extension, fence) = lease::extension(args, now)?;
    Ok((key, token, extension, fence))
}
