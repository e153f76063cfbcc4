//! `LOCK.APPLY`: effects on a lock, for replicas and the AOF.

use std::ffi::CStr;

use smallvec::SmallVec;

use super::{Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec, clock};
use crate::config;
use crate::module::lock_effect::Effect;
use crate::module::{lock_effect, lock_session};
use crate::server::args::Name;
use crate::server::{key, origin, replicate};

/// `LOCK.APPLY key effect [effect …]`, with an effect of `HELD token fence deadline [SHARED | LIMIT n]`,
/// `ENDED token [LAPSED | DISCONNECTED]` or `LOAD payload`
///
/// Applies effects; it never requests anything. `HELD`: a hold began or changed, and this is its state (with the end of its lease in Unix
/// milliseconds). `ENDED`: a hold ended. `LOAD`: these are the holds of the lock. The effects are applied in this order, or none of them.
/// Nothing is decided and nothing is handed over. The primary, AOF rewrites and the node that a slot is moving from send it. Only these may
/// use it, unless `lockstock.accept-effects` is yes: then every client with permission for the command can create holds out of nothing, as
/// with `RESTORE`. A fence from such a client must not be more than an hour ahead of the clock.
///
/// Replies OK. Errors: `NOPERM` for any other sender, `ERR` for a bad argument, `WRONGTYPE`. O(log n) with n holders.
pub struct LockApply;

impl Command for LockApply {
    const SPEC: Spec = Spec {
        name: c"lock.apply",
        flags: c"write admin",
        arity: -2,
        summary: c"Internal: carries the effects of lock commands to replicas and the AOF.",
        since: c"0.1.0",
        complexity: c"O(log(N)) with N holders",
        tips: c"",
        keys: Keys::First(KeyUse::Update),
        args: &[
            Param::key(),
            Param::one_of(
                c"effect",
                &[Param::word(c"held", c"HELD"), Param::word(c"ended", c"ENDED"), Param::word(c"load", c"LOAD")],
            ),
            Param::string(c"word").multiple(),
        ],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let is_record = origin::is_record(ctx);
        if !is_record && !config::ACCEPT_EFFECTS.is_yes() {
            return Err(Error::Effects);
        }
        let (name, effects) = lock_effect::parse(args)?;
        let now = clock::now();
        if !is_record && effects.iter().filter_map(Effect::fence).any(|fence| fence.is_out_of_reach(now.us)) {
            return Err(Error::FenceAhead);
        }
        let mut events: SmallVec<[&CStr; 2]> = SmallVec::new();
        lock_session::run(ctx, name, |engine, at, session| {
            for effect in &effects {
                events.push(effect.apply(engine, at, session)?);
            }
            replicate::verbatim(session.ctx());
            Ok(())
        })?;
        let name = Name::of(name);
        key::touched(ctx, &name);
        for event in events {
            key::notify(ctx, event, &name);
        }
        ctx.reply_ok();
        Ok(())
    }
}
