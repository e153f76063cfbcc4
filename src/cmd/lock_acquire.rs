//! `LOCK.ACQUIRE`: the one way to a lock.

use super::Command;
use super::lease::{LEASE, Lease};
use crate::core::ident::Ident;
use crate::core::lock::{Acquired, ClientId, Request, Wanted};
use crate::core::time::{Millis, UnixMs};
use crate::error::{Error, Range};
use crate::server::args::{Arg, Args};
use crate::server::clock;
use crate::server::entry::{Call, Run};
use crate::server::register::{self, KeyUse, Keys, Spec};
use crate::service;
use crate::store::room::reply_grant;

/// `LOCK.ACQUIRE key [TOKEN token] [PX ms | EX s] [SHARED | LIMIT n] [WAIT ms] [SESSION]`
///
/// Takes the lock `key` for `token`, an owner of the caller's choice (a random UUID without it), until the lease ends (`PX`
/// milliseconds, `EX` seconds, the default lease without either).
///
/// - `SHARED`: together with other shared holds. `LIMIT n`: one of `n` permits. Neither: alone.
/// - `WAIT ms`: parks the client until it is its turn, at most that long; 0 is without limit.
/// - `SESSION`: the hold ends with the connection, too.
///
/// Replies `[token, fence, lease in milliseconds]`, or null when the lock was not granted. The same token again renews its
/// hold and gets the same fence, so a request may be repeated when its reply was lost.
///
/// Errors: `ERR` for a bad argument, `WRONGTYPE`, `DEADLOCK` for a second holder that would wait to become exclusive.
///
/// O(1), O(log n) with n holders.
pub struct LockAcquire;

impl Command for LockAcquire {
    const SPEC: Spec = Spec {
        name: c"lock.acquire",
        flags: c"write deny-oom blocking",
        acl: c"write slow blocking",
        arity: -2,
        summary: c"Acquires a lock, shared lock or permit for a token, and waits for it in line if asked to.",
        complexity: c"O(1) for exclusive locks, O(log(N)) with N holders otherwise; waiting costs nothing",
        tips: c"",
        keys: Keys::First(KeyUse::Update),
        args: &[
            register::Arg::key(),
            register::Arg::string(c"token").after(c"TOKEN").optional(),
            LEASE,
            register::Arg::one_of(
                c"mode",
                &[register::Arg::word(c"shared", c"SHARED"), register::Arg::integer(c"permits").after(c"LIMIT")],
            )
            .optional(),
            register::Arg::integer(c"wait-milliseconds").after(c"WAIT").optional(),
            register::Arg::word(c"session", c"SESSION").optional(),
        ],
    };
}

/// The most permits a lock can have: the largest integer that every client reads exactly.
const MOST_PERMITS: i64 = (1 << 53) - 1;

fn parse<'a>(args: &mut Args<'a>, now: UnixMs) -> Result<(Arg<'a>, Request), Error> {
    let key = args.next()?;
    let (mut token, mut lease, mut mode, mut wait, mut session) = (None, Lease::default(), None, None, false);
    while let Some(word) = args.keyword() {
        match word.word() {
            b"TOKEN" if token.is_none() => token = Some(args.ident("TOKEN")?),
            b"SHARED" if mode.is_none() => mode = Some(Wanted::Shared),
            b"LIMIT" if mode.is_none() => {
                mode = Some(Wanted::Limit(args.unsigned("LIMIT", Range::new(1..=MOST_PERMITS))?))
            }
            b"WAIT" if wait.is_none() => wait = Some(wait_of(args, now)?),
            b"SESSION" if !session => session = true,
            other => lease.option(other, args, now)?,
        }
    }
    let request = Request {
        token: token.unwrap_or_else(Ident::random),
        mode: mode.unwrap_or(Wanted::Exclusive),
        lease: lease.or_default(),
        wait,
        session,
    };
    Ok((key, request))
}

/// The value behind `WAIT`: a span that ends at a 64-bit millisecond time.
pub fn wait_of(args: &mut Args<'_>, now: UnixMs) -> Result<Millis, Error> {
    args.millis("WAIT", Range::new(0..=UnixMs(i64::MAX).left(now).0))
}

impl Run for LockAcquire {
    fn run(call: Call<'_>) -> Result<(), Error> {
        let Call { ctx, mut args } = call;
        let now = clock::now();
        let (key, request) = parse(&mut args, now.ms)?;
        let client = ClientId::new(ctx.client_id()).ok_or(Error::Internal)?;
        // Where nobody may be parked, one try is all there is.
        let wait = request.wait.filter(|_| !ctx.flags().denies_blocking());
        let acquired = service::locks(ctx, key, |engine, at, room| {
            Ok(engine.acquire(now, at, client, &request, wait.is_some(), room)?)
        })?;
        match acquired {
            Acquired::Granted(grant) => reply_grant(ctx, &grant),
            Acquired::Refused => ctx.reply_null(),
            Acquired::Parked(waiter) => service::park(ctx, waiter, &[key], wait.unwrap_or(Millis(0)))?,
        }
        Ok(())
    }
}
