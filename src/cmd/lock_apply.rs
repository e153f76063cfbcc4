//! `LOCK.APPLY`: what became of a lock, for replicas and the AOF.

use super::Command;
use crate::core::fence::{Fence, MAX_FENCE};
use crate::core::ident::Ident;
use crate::core::lock::{Hold, Lock, Mode};
use crate::core::time::UnixMs;
use crate::error::{Error, Range};
use crate::server::args::{Arg, Args};
use crate::server::entry::{Call, Run};
use crate::server::keyspec::{KeyUse, Keys};
use crate::server::register::{self, Spec};
use crate::server::{key, replicate};
use crate::service;

/// `LOCK.APPLY key HELD token fence deadline [SHARED | LIMIT n]`, `LOCK.APPLY key ENDED token [LAPSED | DISCONNECTED]`,
/// `LOCK.APPLY key LOAD payload`
///
/// Carries an effect, never a request: a hold began or changed and is like this now (with the end of its lease in Unix
/// milliseconds); a hold ended; these are the holds of the lock. Nothing is decided, no clock is read, nobody is handed
/// anything. Sent by the primary and by AOF rewrites; a client that may run it can make holds out of nothing, as with
/// `RESTORE`, so it is in the categories admin and dangerous.
///
/// Replies OK. Errors: `ERR` for a bad argument, `WRONGTYPE`. O(log n) with n holders.
pub struct LockApply;

impl Command for LockApply {
    const SPEC: Spec = Spec {
        name: c"lock.apply",
        flags: c"write admin",
        acl: c"write slow admin dangerous",
        arity: -4,
        summary: c"Internal: carries the effects of lock commands to replicas and the AOF.",
        complexity: c"O(log(N)) with N holders",
        tips: c"",
        keys: Keys::First(KeyUse::Update),
        args: &[
            register::Arg::key(),
            register::Arg::one_of(
                c"effect",
                &[
                    register::Arg::word(c"held", c"HELD"),
                    register::Arg::word(c"ended", c"ENDED"),
                    register::Arg::word(c"load", c"LOAD"),
                ],
            ),
            register::Arg::string(c"word").multiple(),
        ],
    };
}

pub(super) enum Effect {
    Held(Mode, Hold),
    Ended(Ident, &'static std::ffi::CStr),
    Load(Lock),
}

pub(super) fn parse(mut args: Args<'_>) -> Result<(Arg<'_>, Effect), Error> {
    let words = (args.next()?, effect(&mut args)?);
    args.finish()?;
    Ok(words)
}

fn effect(args: &mut Args<'_>) -> Result<Effect, Error> {
    let what = args.keyword().ok_or(Error::Syntax)?;
    match what.word() {
        b"HELD" => {
            let token = args.ident("token")?;
            let fence = Fence(args.unsigned("fence", Range::up_to(MAX_FENCE))?);
            let deadline = UnixMs(args.integer("deadline", Range::new(1..=i64::MAX))?);
            let (mode, limit) = match args.keyword() {
                None => (Mode::Exclusive, 0),
                Some(word) if word.word() == b"SHARED" => (Mode::Shared, 0),
                Some(word) if word.word() == b"LIMIT" => {
                    (Mode::Limit, args.unsigned("LIMIT", Range::up_to(MAX_FENCE))?)
                }
                Some(_) => return Err(Error::Syntax),
            };
            Ok(Effect::Held(mode, Hold { token, fence, deadline, limit, session: None }))
        }
        b"ENDED" => {
            let token = args.ident("token")?;
            let event = match args.keyword() {
                None => c"lock.released",
                Some(word) if word.word() == b"LAPSED" => c"lock.lapsed",
                Some(word) if word.word() == b"DISCONNECTED" => c"lock.disconnected",
                Some(_) => return Err(Error::Syntax),
            };
            Ok(Effect::Ended(token, event))
        }
        b"LOAD" => Lock::decode(args.next()?.bytes()).map(Effect::Load).map_err(|_| Error::Payload),
        _ => Err(Error::Syntax),
    }
}

impl Run for LockApply {
    fn run(call: Call<'_>) -> Result<(), Error> {
        let Call { ctx, args } = call;
        let (name, effect) = parse(args)?;
        let event = service::locks(ctx, name, |engine, at, room| match effect {
            Effect::Held(mode, hold) => {
                engine.apply_held(at, mode, hold, room)?;
                Ok(c"lock.held")
            }
            Effect::Ended(token, event) => {
                engine.apply_ended(at, &token, room)?;
                Ok(event)
            }
            Effect::Load(lock) => {
                for hold in lock.holds() {
                    engine.apply_held(at, lock.mode(), hold.clone(), room)?;
                }
                Ok(c"lock.held")
            }
        })?;
        replicate::verbatim(ctx);
        let name = key::Name::of(name);
        key::touched(ctx, &name);
        key::notify(ctx, event, &name);
        ctx.reply_ok();
        Ok(())
    }
}
