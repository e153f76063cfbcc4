//! `LOCK.ACQUIRE`: acquires one lock.

use super::lease::LEASE;
use super::lock_request::{self, Options, Parsed, SESSION, TOKEN, WAIT};
use super::{Arg, Args, Command, Ctx, Error, KeyUse, Keys, Param, Range, Spec, clock};
use crate::core::id::Ident;
use crate::core::limits::MAX_PERMITS;
use crate::core::lock::Wanted;
use crate::core::time::UnixMs;
use crate::module::{lock_session, notify_message};

/// `LOCK.ACQUIRE key [TOKEN token] [PX ms | EX s] [SHARED | LIMIT n] [WAIT ms [NOTIFY channel]] [SESSION]`
///
/// Acquires the lock `key` for `token`, an owner name that the caller chooses (default: a random UUID), until the lease ends (`PX`
/// milliseconds, `EX` seconds, or the default lease).
///
/// - `SHARED`: together with other shared holds. `LIMIT n`: one of `n` permits. Neither: exclusively.
/// - `WAIT ms`: blocks the client until the lock is granted, for at most this time (up to 2^53 - 1); 0 is without limit.
/// - `NOTIFY channel`, only with `TOKEN` and `WAIT`: the client is not blocked. The reply is the request's place in line, and the outcome is
///   published on `channel` as a JSON object.
/// - `SESSION`: the hold also ends with the connection. In a script this is an error, because a script has no connection.
///
/// Replies `[token, fence, lease in milliseconds]`, or null if the lock was not granted. A repeated request with the same token renews its
/// hold and gets the same fence, so it is safe to repeat a request after its reply was lost.
///
/// Errors: `ERR` for a bad argument; `WRONGTYPE`; `DEADLOCK` for a request that would wait in a circle of tokens, and for a second holder
/// that would wait to become exclusive; `ERR` for a request that would wait while `lockstock.max-waiters` requests are waiting.
///
/// O(1), O(log n) with n holders.
pub struct LockAcquire;

impl Command for LockAcquire {
    const SPEC: Spec = Spec {
        name: c"lock.acquire",
        flags: c"write deny-oom blocking",
        arity: -2,
        summary: c"Acquires a lock, shared lock or permit for a token, and waits for it in line if asked to.",
        since: c"0.1.0",
        complexity: c"O(1) for exclusive locks, O(log(N)) with N holders otherwise; waiting costs nothing",
        tips: c"",
        keys: Keys::First(KeyUse::Update),
        args: &[
            Param::key(),
            TOKEN,
            LEASE,
            Param::one_of(c"mode", &[Param::word(c"shared", c"SHARED"), Param::integer(c"permits").after(c"LIMIT")])
                .optional(),
            WAIT,
            SESSION,
        ],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let now = clock::now();
        let (key, parsed) = parse(args, now.ms)?;
        lock_request::carry_out(ctx, parsed, |ctx, parsed| {
            lock_session::run(ctx, key, |engine, at, session| {
                session.said = parsed.said();
                Ok(engine.acquire(now, at, &parsed.request, session)?)
            })
        })
    }
}

pub(crate) fn parse(mut args: Args<'_>, now: UnixMs) -> Result<(Arg<'_>, Parsed<'_>), Error> {
    let key = args.next()?;
    let (mut options, mut mode) = (Options::default(), None);
    while let Some(word) = args.keyword() {
        match word.text() {
            b"SHARED" if mode.is_none() => mode = Some(Wanted::Shared),
            b"LIMIT" if mode.is_none() => {
                mode = Some(Wanted::Limit(args.unsigned("LIMIT", Range::up_to(MAX_PERMITS))?));
            }
            other => options.option(other, &mut args, now)?,
        }
    }
    let about = |token: &Ident| notify_message::about(&[key.bytes()], false, token);
    Ok((key, options.request(mode.unwrap_or(Wanted::Exclusive), about)?))
}
