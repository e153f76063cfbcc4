//! `LOCK.MACQUIRE`: acquires several locks, all or none.

use super::lease::LEASE;
use super::lock_request::{self, Options, Parsed, SESSION, TOKEN, WAIT};
use super::{Arg, Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec, clock};
use crate::config;
use crate::core::lock::Wanted;
use crate::core::time::UnixMs;
use crate::module::{lock_session, notify_message};

/// `LOCK.MACQUIRE numkeys key [key …] [TOKEN token] [PX ms | EX s] [WAIT ms [NOTIFY channel]] [SESSION]`
///
/// Acquires the locks of all keys for `token`, exclusively, or none of them, with one fence and one lease for all. The options are those of
/// `LOCK.ACQUIRE`. A waiting request keeps its position in the queue of every key, so requests for the same keys in any order never
/// deadlock with each other. A key named twice counts once.
///
/// Replies `[token, fence, lease in milliseconds]`, or null if the locks were not granted. A token that holds all of them from one such
/// call renews them and gets the same fence. Keys that it already holds exclusively in another way are no obstacle.
///
/// Errors: `ERR` for a bad argument, `WRONGTYPE`, `DEADLOCK` for a request that would wait in a circle of tokens, `ERR` for one that would
/// wait while too many requests are waiting. At most `lockstock.max-keys` keys.
///
/// O(k log n) with k keys and n requests in their queues.
pub struct LockMacquire;

impl Command for LockMacquire {
    const SPEC: Spec = Spec {
        name: c"lock.macquire",
        flags: c"write deny-oom blocking",
        arity: -3,
        summary: c"Acquires several locks for a token, all or none, and waits for them in line if asked to.",
        since: c"0.1.0",
        complexity: c"O(K*log(N)) with K keys and N requests waiting for them",
        tips: c"",
        keys: Keys::Counted(1, 1, KeyUse::Update),
        args: &[Param::integer(c"numkeys"), Param::key().multiple(), TOKEN, LEASE, WAIT, SESSION],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let now = clock::now();
        let (keys, parsed) = parse(args, now.ms)?;
        lock_request::carry_out(ctx, parsed, |ctx, parsed| {
            lock_session::run_many(ctx, &keys, |engine, locks, session| {
                session.said = parsed.said();
                Ok(engine.acquire_many(now, locks, &parsed.request, session)?)
            })
        })
    }
}

pub(crate) fn parse(mut args: Args<'_>, now: UnixMs) -> Result<(Vec<Arg<'_>>, Parsed<'_>), Error> {
    let keys = args.counted("numkeys", config::max_keys())?;
    let mut options = Options::default();
    while let Some(word) = args.keyword() {
        options.option(word.text(), &mut args, now)?;
    }
    let names = || keys.iter().map(|key| key.bytes()).collect::<Vec<_>>();
    let parsed = options.request(Wanted::Exclusive, |token| notify_message::about(&names(), true, token))?;
    Ok((keys, parsed))
}
