//! `LOCK.MRELEASE`: releases several locks.

use super::fence::{self, FENCE};
use super::lock_release;
use super::{Arg, Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec, Spelled, clock};
use crate::core::fence::Fence;
use crate::core::lock::Claim;
use crate::module::lock_effect::SaidToken;
use crate::module::lock_session;
use crate::module::verbatim_release::VerbatimRelease;

/// `LOCK.MRELEASE token numkeys key [key …] [FENCE fence]`
///
/// Ends the holds of `token` on the locks of all keys, however they were acquired. The same call grants the locks to the first waiters
/// whose keys are all free now. Ends every request of `token` that waits for any of the keys, too; such a request hears null. A key named
/// twice counts once. With `FENCE` it ends only holds that have this fence, and no request.
///
/// Replies the number of holds that this call ended. Safe to repeat. Works when the server is out of memory.
///
/// Errors: `ERR` for a bad argument; `WRONGTYPE`, and then nothing was released. O(k log n) with k keys and n holders.
pub struct LockMrelease;

impl Command for LockMrelease {
    const SPEC: Spec = Spec {
        name: c"lock.mrelease",
        flags: c"write",
        arity: -4,
        summary: c"Ends a token's holds and waiting requests for several locks. Each lock goes to its first waiter.",
        since: c"0.1.0",
        complexity: c"O(K*log(N)) with K keys and N holders",
        tips: c"",
        keys: Keys::Counted(2, 1, KeyUse::Delete),
        args: &[Param::string(c"token"), Param::integer(c"numkeys"), Param::key().multiple(), FENCE],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let ((token, word), keys, fence) = parse(args)?;
        if let Some(released) = lock_release::applied(ctx, &keys, &token)? {
            ctx.reply_int(released);
            return Ok(());
        }
        let released = lock_session::run_many(ctx, &keys, |engine, locks, session| {
            // Redis 8.4 and later never returns if a command whose keys only its module can tell is in the log while a slot moves. And a
            // fence may be that of some of the holds.
            let sends_words = fence.is_none() && !session.ctx().flags().is_cluster();
            session.verbatim = if sends_words { VerbatimRelease::new(&token) } else { None };
            session.said = Some(SaidToken { token: &token, word });
            Ok(engine.release(clock::now(), locks, Claim { token: &token, fence }, session)?)
        })?;
        ctx.reply_int(released);
        Ok(())
    }
}

/// The token with its word, the keys, and the fence.
pub(crate) fn parse(mut args: Args<'_>) -> Result<(Spelled<'_>, Vec<Arg<'_>>, Option<Fence>), Error> {
    Ok((args.ident_and_word("token")?, args.counted("numkeys", u64::MAX)?, fence::last(args)?))
}
