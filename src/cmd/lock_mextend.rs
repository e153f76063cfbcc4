//! `LOCK.MEXTEND`: extends several holds, all or none.

use super::Command;
use super::lease::{LEASE, Lease};
use crate::core::id::Ident;
use crate::core::lock::Extension;
use crate::core::time::UnixMs;
use crate::error::Error;
use crate::module::lock_session;
use crate::server::args::{Arg, Args};
use crate::server::clock;
use crate::server::entry::{Call, Run};
use crate::server::keyspec::{KeyUse, Keys};
use crate::server::register::{self, Spec};

/// `LOCK.MEXTEND token numkeys key [key …] [PX ms | EX s]`
///
/// Moves the ends of the holds of `token` on the locks of all keys, as `LOCK.EXTEND` does for one, or of none of them. The holds may come
/// from different calls and have different modes. A key named twice counts once.
///
/// Replies 1, or 0 if the token does not hold every one of them, and then none is extended. Works when the server is out of memory.
///
/// Errors: `ERR` for a bad argument; `WRONGTYPE`, and then none is extended. O(k log n) with k keys and n holders.
pub struct LockMextend;

impl Command for LockMextend {
    const SPEC: Spec = Spec {
        name: c"lock.mextend",
        flags: c"write",
        acl: c"write slow",
        arity: -4,
        summary: c"Moves the ends of a token's leases on several locks, all or none.",
        since: c"0.2.0",
        complexity: c"O(K*log(N)) with K keys and N holders",
        tips: c"",
        keys: Keys::Counted(2, KeyUse::Update),
        args: &[
            register::Arg::string(c"token"),
            register::Arg::integer(c"numkeys"),
            register::Arg::key().multiple(),
            LEASE,
        ],
    };
}

pub(crate) fn parse(mut args: Args<'_>, now: UnixMs) -> Result<(Ident, Vec<Arg<'_>>, Extension), Error> {
    let (token, keys) = (args.ident("token")?, args.counted("numkeys", u64::MAX)?);
    let mut lease = Lease::default();
    while let Some(word) = args.keyword() {
        lease.option(word.word(), &mut args, now)?;
    }
    Ok((token, keys, lease.extension()))
}

impl Run for LockMextend {
    type Error = Error;

    fn run(call: Call<'_>) -> Result<(), Error> {
        let Call { mut ctx, args } = call;
        let now = clock::now();
        let (token, keys, extension) = parse(args, now.ms)?;
        let extended = lock_session::run_many(&mut ctx, &keys, None, |engine, db, keys, session| {
            Ok(engine.extend_many(now, db, keys, &token, extension, session)?)
        })?;
        ctx.reply_int(i64::from(extended));
        Ok(())
    }
}
