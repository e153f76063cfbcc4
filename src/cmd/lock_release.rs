//! `LOCK.RELEASE`: releases a lock.

use super::fence::{self, FENCE};
use super::{Arg, Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec, Spelled, clock};
use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::lock::{Claim, EndReason};
use crate::module::lock_effect::SaidToken;
use crate::module::verbatim_release::VerbatimRelease;
use crate::module::{lock_effect, lock_session};
use crate::server::args::Name;
use crate::server::{key, origin, replicate};

/// `LOCK.RELEASE key token [FENCE fence]`
///
/// Ends the hold of `token` on the lock `key`; the same call grants the lock to the first waiter. Ends every request of `token` that waits
/// for this key, too; such a request hears null. With `FENCE` it ends the hold only if the hold has this fence, and no request.
///
/// Replies 1 if this call ended the hold, else 0: there was no hold, its lease has expired, it belongs to another token, it has another fence,
/// or the token was only waiting. Safe to repeat. Works when the server is out of memory.
///
/// Errors: `ERR` for a bad argument, `WRONGTYPE`. O(1), O(log n) with n holders.
pub struct LockRelease;

impl Command for LockRelease {
    const SPEC: Spec = Spec {
        name: c"lock.release",
        flags: c"write fast",
        arity: -3,
        summary: c"Ends a token's hold on a lock and the token's waiting requests. The lock goes to its first waiter.",
        since: c"0.1.0",
        complexity: c"O(1) for exclusive locks, O(log(N)) with N holders otherwise",
        tips: c"",
        keys: Keys::First(KeyUse::Delete),
        args: &[Param::key(), Param::string(c"token"), FENCE],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let (key, (token, word), fence) = parse(args)?;
        if let Some(ended) = applied(ctx, &[key], &token)? {
            ctx.reply_int(ended);
            return Ok(());
        }
        let ended = lock_session::run(ctx, key, |engine, at, session| {
            session.verbatim = VerbatimRelease::new(&token);
            session.said = Some(SaidToken { token: &token, word });
            Ok(engine.release(clock::now(), &[at], Claim { token: &token, fence }, session)?)
        })?;
        ctx.reply_int(ended);
        Ok(())
    }
}

/// The key, the token with its word, and the fence.
pub(crate) fn parse(mut args: Args<'_>) -> Result<(Arg<'_>, Spelled<'_>, Option<Fence>), Error> {
    Ok((args.next()?, args.ident_and_word("token")?, fence::last(args)?))
}

/// Applies a command that releases the holds of `token`, if they ended elsewhere, and says how many there were; `None` if it is for this
/// server to decide. The fence in such a command is ignored: a primary sends the command only when every hold that it may mean has ended.
pub(super) fn applied(ctx: &mut Ctx<'_>, keys: &[Arg<'_>], token: &Ident) -> Result<Option<u64>, Error> {
    if !origin::is_record(ctx) {
        return Ok(None);
    }
    let mut ended = 0_u64;
    for key in keys {
        let held = lock_session::run(ctx, *key, |engine, at, session| Ok(engine.apply_ended(at, token, session)?))?;
        if held {
            ended = ended.saturating_add(1);
            let name = Name::of(*key);
            key::touched(ctx, &name);
            key::notify(ctx, lock_effect::event_of(EndReason::Released), &name);
        }
    }
    replicate::verbatim(ctx);
    Ok(Some(ended))
}
