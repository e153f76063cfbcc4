//! The effects of a lock for replicas and the AOF: `LOCK.APPLY key EFFECT …`, written and read. An AOF rewrite writes two of them elsewhere:
//! `LOAD` in `lock_type`, `HELD` and `ENDED` in `fence_clock`.

use std::ffi::CStr;

use smallvec::SmallVec;

use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::limits::{MAX_FENCE, MAX_PERMITS};
use crate::core::lock::{EndReason, Engine, Hold, Keyspace, Lock, LockError, Mode};
use crate::core::time::UnixMs;
use crate::error::Error;
use crate::server::args::{Arg, Args, Keyword, Name, Range};
use crate::server::ctx::Ctx;
use crate::server::replicate::{self, Fixed};

/// The command that carries the effects.
const APPLY: &CStr = c"LOCK.APPLY";

/// The effect on one lock: a hold ended, and then another hold began or changed. Together they are a hand-over, which is sent as one
/// command.
#[derive(Default)]
pub struct LockChange {
    /// The hold of this token ended.
    pub ended: Option<(Ident, EndReason)>,
    /// This hold began or changed.
    pub held: Option<(Mode, Hold)>,
}

/// The keyspace event of the module for the end of a hold.
pub fn event_of(why: EndReason) -> &'static CStr {
    match why {
        EndReason::Released => c"lock.released",
        EndReason::Expired => c"lock.lapsed",
        EndReason::Disconnected | EndReason::Undelivered => c"lock.disconnected",
    }
}

static HELD: Fixed = Fixed::new(b"HELD");
static ENDED: Fixed = Fixed::new(b"ENDED");
static LAPSED: Fixed = Fixed::new(b"LAPSED");
static DISCONNECTED: Fixed = Fixed::new(b"DISCONNECTED");
static SHARED: Fixed = Fixed::new(b"SHARED");
static LIMIT: Fixed = Fixed::new(b"LIMIT");

/// The token of the running command, as a value and as the caller's word.
#[derive(Clone, Copy)]
pub struct SaidToken<'a> {
    /// The value.
    pub token: &'a Ident,
    /// The word.
    pub word: Arg<'a>,
}

/// Sends all holds of a lock, for a key that is empty at the receiver.
pub fn send_whole(ctx: &Ctx<'_>, name: &Name<'_>, lock: &Lock) {
    replicate::effect(ctx, APPLY, name, &[Name::make(b"LOAD"), Name::make(&lock.encode())]);
}

/// Sends the effects of a change. `said` is the token of the running command, if it names one.
pub fn send(ctx: &Ctx<'_>, name: &Name<'_>, change: &LockChange, said: Option<SaidToken<'_>>) {
    let word_of = |token: &Ident| match said {
        Some(said) if said.token == token => Name::of(said.word),
        _ => Name::make(&token.text()),
    };
    let mut text = itoa::Buffer::new();
    let mut words: SmallVec<[Name<'_>; 9]> = SmallVec::new();
    if let Some((token, why)) = &change.ended {
        words.extend([ENDED.word(), word_of(token)]);
        match why {
            EndReason::Released => {}
            EndReason::Expired => words.push(LAPSED.word()),
            EndReason::Disconnected | EndReason::Undelivered => words.push(DISCONNECTED.word()),
        }
    }
    if let Some((mode, hold)) = &change.held {
        words.extend([HELD.word(), word_of(&hold.token)]);
        words.push(Name::make(text.format(hold.fence.0).as_bytes()));
        words.push(Name::make(text.format(hold.deadline.0).as_bytes()));
        match mode {
            Mode::Exclusive => {}
            Mode::Shared => words.push(SHARED.word()),
            Mode::Limit => {
                words.extend([LIMIT.word(), Name::make(text.format(hold.limit).as_bytes())]);
            }
        }
    }
    replicate::effect(ctx, APPLY, name, &words);
}

/// One effect, as it is received.
pub enum Effect {
    /// A hold began or changed, in this mode.
    Held(Mode, Hold),
    /// The hold of this token ended.
    Ended(Ident, EndReason),
    /// All holds of a lock.
    Load(Lock),
}

/// The effects of one call: a hand-over has two.
pub type Effects = SmallVec<[Effect; 2]>;

/// Reads a key and its effects.
pub fn parse(mut args: Args<'_>) -> Result<(Arg<'_>, Effects), Error> {
    let name = args.next()?;
    let mut effects = Effects::new();
    let mut next = Some(args.keyword().ok_or(Error::SYNTAX)?);
    while let Some(what) = next {
        let (effect, behind) = effect(what.text(), &mut args)?;
        effects.push(effect);
        next = behind;
    }
    Ok((name, effects))
}

/// Reads the effect that begins with the word `what`, and the word after the effect, if there is one.
fn effect(what: &[u8], args: &mut Args<'_>) -> Result<(Effect, Option<Keyword>), Error> {
    match what {
        b"HELD" => {
            let token = args.ident("token")?;
            let fence = Fence(args.unsigned("fence", Range::up_to(MAX_FENCE))?);
            let deadline = UnixMs(args.integer("deadline", Range::new(1..=i64::MAX))?);
            let next = args.keyword();
            let (mode, limit) = match next.as_ref().map(Keyword::text) {
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
            let why = match next.as_ref().map(Keyword::text) {
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
        _ => Err(Error::SYNTAX),
    }
}

impl Effect {
    /// The largest fence in it.
    pub fn fence(&self) -> Option<Fence> {
        match self {
            Self::Held(_, hold) => Some(hold.fence),
            Self::Ended(..) => None,
            Self::Load(lock) => lock.holds().last().map(|hold| hold.fence),
        }
    }

    /// Applies the effect, and returns the events for listeners.
    pub fn apply<W: Keyspace>(
        &self,
        engine: &mut Engine,
        at: KeyRef<'_>,
        keyspace: &mut W,
    ) -> Result<&'static CStr, LockError> {
        match self {
            Self::Held(mode, hold) => engine.apply_held(at, *mode, hold.clone(), keyspace)?,
            Self::Ended(token, why) => {
                engine.apply_ended(at, token, keyspace)?;
                return Ok(event_of(*why));
            }
            Self::Load(lock) => {
                for hold in lock.holds() {
                    engine.apply_held(at, lock.mode(), hold.to_hold(), keyspace)?;
                }
            }
        }
        Ok(c"lock.held")
    }
}
