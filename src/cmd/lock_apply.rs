//! `LOCK.APPLY`: what became of a lock, for replicas and the AOF.

use std::ffi::CStr;

use smallvec::SmallVec;

use super::Command;
use crate::config;
use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::limits::{MAX_FENCE, MAX_PERMITS};
use crate::core::lock::{EndReason, Engine, Hold, Keyspace, Lock, LockError, Mode};
use crate::core::time::UnixMs;
use crate::error::Error;
use crate::module::lock_effect;
use crate::module::lock_session;
use crate::server::args::{Arg, Args, Keyword, Range};
use crate::server::entry::{Call, Run};
use crate::server::keyspec::{KeyUse, Keys};
use crate::server::register::{self, Spec};
use crate::server::{clock, key, origin, replicate};

/// `LOCK.APPLY key effect [effect …]`, with an effect of `HELD token fence deadline [SHARED | LIMIT n]`,
/// `ENDED token [LAPSED | DISCONNECTED]` or `LOAD payload`
///
/// Carries effects, never a request: a hold began or changed and is like this now (with the end of its lease in Unix
/// milliseconds); a hold ended; these are the holds of the lock. They happen in their order, or none of them. Nothing is decided,
/// nobody is handed anything. Sent by the primary, by AOF rewrites and by the node that a slot moves here from, and accepted from these
/// only, unless `lockstock.accept-effects` is yes: whoever may run it then can make holds out of nothing, as with `RESTORE`. A fence of
/// his must not be more than an hour ahead of the clock.
///
/// Replies OK. Errors: `NOPERM` for everybody else, `ERR` for a bad argument, `WRONGTYPE`. O(log n) with n holders.
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

pub(crate) enum Effect {
    Held(Mode, Hold),
    Ended(Ident, EndReason),
    Load(Lock),
}

/// The effects of one call: a hand-over has two.
type Effects = SmallVec<[Effect; 2]>;

pub(crate) fn parse(mut args: Args<'_>) -> Result<(Arg<'_>, Effects), Error> {
    let name = args.next()?;
    let mut effects = Effects::new();
    let mut next = Some(args.keyword().ok_or(Error::Syntax)?);
    while let Some(what) = next {
        let (effect, behind) = effect(&what, &mut args)?;
        effects.push(effect);
        next = behind;
    }
    Ok((name, effects))
}

/// Reads the effect that `what` begins, and the word behind it, if there is one.
fn effect(what: &Keyword, args: &mut Args<'_>) -> Result<(Effect, Option<Keyword>), Error> {
    match what.word() {
        b"HELD" => {
            let token = args.ident("token")?;
            let fence = Fence(args.unsigned("fence", Range::up_to(MAX_FENCE))?);
            let deadline = UnixMs(args.integer("deadline", Range::new(1..=i64::MAX))?);
            let next = args.keyword();
            let (mode, limit) = match next.as_ref().map(Keyword::word) {
                Some(b"SHARED") => (Mode::Shared, 0),
                Some(b"LIMIT") => (Mode::Limit, args.unsigned("LIMIT", Range::up_to(MAX_PERMITS))?),
                _ => (Mode::Exclusive, 0),
            };
            let next = if mode == Mode::Exclusive { next } else { args.keyword() };
            Ok((Effect::Held(mode, Hold { token, fence, deadline, limit, session: None }), next))
        }
        b"ENDED" => {
            let token = args.ident("token")?;
            let next = args.keyword();
            let why = match next.as_ref().map(Keyword::word) {
                Some(b"LAPSED") => EndReason::Expired,
                Some(b"DISCONNECTED") => EndReason::Disconnected,
                _ => EndReason::Released,
            };
            let next = if why == EndReason::Released { next } else { args.keyword() };
            Ok((Effect::Ended(token, why), next))
        }
        b"LOAD" => {
            let lock = Lock::decode(args.next()?.bytes()).map_err(|_| Error::Payload)?;
            Ok((Effect::Load(lock), args.keyword()))
        }
        _ => Err(Error::Syntax),
    }
}

impl Run for LockApply {
    type Error = Error;

    fn run(call: Call<'_>) -> Result<(), Error> {
        let Call { mut ctx, args } = call;
        let is_record = origin::is_record(&mut ctx);
        if !is_record && !config::ACCEPT_EFFECTS.get() {
            return Err(Error::Effects);
        }
        let (name, effects) = parse(args)?;
        let now = clock::now();
        if !is_record && effects.iter().filter_map(Effect::fence).any(|fence| fence.is_out_of_reach(now.us)) {
            return Err(Error::FenceAhead);
        }
        let mut events: SmallVec<[&CStr; 2]> = SmallVec::new();
        lock_session::run(&mut ctx, name, None, |engine, at, session| {
            for effect in &effects {
                events.push(effect.apply(engine, at, session)?);
            }
            replicate::verbatim(session.ctx());
            Ok(())
        })?;
        let name = key::Name::of(name);
        key::touched(&ctx, &name);
        for event in events {
            key::notify(&mut ctx, event, &name);
        }
        ctx.reply_ok();
        Ok(())
    }
}

impl Effect {
    /// The largest fence in it.
    fn fence(&self) -> Option<Fence> {
        match self {
            Self::Held(_, hold) => Some(hold.fence),
            Self::Ended(..) => None,
            Self::Load(lock) => lock.holds().last().map(|hold| hold.fence),
        }
    }

    /// Makes it true, and says what the listeners are told.
    pub(crate) fn apply<W: Keyspace>(
        &self,
        engine: &mut Engine,
        at: KeyRef<'_>,
        keyspace: &mut W,
    ) -> Result<&'static CStr, LockError> {
        match self {
            Self::Held(mode, hold) => engine.apply_held(at, *mode, hold.clone(), keyspace)?,
            Self::Ended(token, why) => {
                engine.apply_ended(at, token, keyspace)?;
                return Ok(lock_effect::event_of(*why));
            }
            Self::Load(lock) => {
                for hold in lock.holds() {
                    engine.apply_held(at, lock.mode(), hold.clone(), keyspace)?;
                }
            }
        }
        Ok(c"lock.held")
    }
}
