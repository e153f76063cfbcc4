//! `LOCK.MEXTEND`: extends several holds, all or none.

use super::fence::FENCE;
use super::lease::{self, LEASE};
use super::{Arg, Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec, Spelled, clock};
use crate::core::fence::Fence;
use crate::core::lock::{Claim, Extension};
use crate::core::time::UnixMs;
use crate::module::lock_effect::SaidToken;
use crate::module::lock_session;

/// `LOCK.MEXTEND token numkeys key [key …] [PX ms | EX s] [FENCE fence]`
///
/// Moves the ends of the holds of `token` on the locks of all keys, as `LOCK.EXTEND` does for one, or of none of them. The holds may come
/// from different calls and have different modes. A key named twice counts once. With `FENCE` a hold with another fence counts as none.
///
/// Replies 1, or 0 if the token does not hold every one of them, and then none is extended. Works when the server is out of memory.
///
/// Errors: `ERR` for a bad argument; `WRONGTYPE`, and then none is extended. O(k log n) with k keys and n holders.
pub struct LockMextend;

impl Command for LockMextend {
    const SPEC: Spec = Spec {
        name: c"lock.mextend",
        flags: c"write",
        arity: -4,
        summary: c"Moves the ends of a token's leases on several locks, all or none.",
        since: c"0.2.0",
        complexity: c"O(K*log(N)) with K keys and N holders",
        tips: c"",
        keys: Keys::Counted(2, 1, KeyUse::Update),
        args: &[Param::string(c"token"), Param::integer(c"numkeys"), Param::key().multiple(), LEASE, FENCE],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let now = clock::now();
        let ((token, word), keys, extension, fence) = parse(args, now.ms)?;
        let extended = lock_session::run_many(ctx, &keys, |engine, locks, session| {
            session.said = Some(SaidToken { token: &token, word });
            Ok(engine.extend(now, locks, Claim { token: &token, fence }, extension, session)?)
        })?;
        ctx.reply_int(i64::from(extended));
        Ok(())
    }
}

/// The token with its word, the keys, the change of the leases, and the fence.
pub(crate) fn parse(
    mut args: Args<'_>,
    now: UnixMs,
) -> Result<(Spelled<'_>, Vec<Arg<'_>>, Extension, Option<Fence>), Error> {
    let (token, keys) = (args.ident_and_word("token")?, args.counted("numkeys", u64::MAX)?);
    let (extension, fence) = lease::extension(args, now)?;
    Ok((token, keys, extension, fence))
}
