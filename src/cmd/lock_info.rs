//! `LOCK.INFO`: the holders and waiters of a lock.

use super::{Args, Command, Ctx, Error, KeyUse, Keys, Param, Spec, clock};
use crate::core::lock::{ClientId, LockView, Mode};
use crate::module::lock_session;

/// `LOCK.INFO key`
///
/// Replies null if the lock `key` has no holder and no waiter, else fields and values (a map in RESP3): `mode` (exclusive, shared, limit;
/// free if there are only waiters), `limit` (the largest number of permits that a holder asked for, else 0), `holders` (`token`, `fence`,
/// `lease-ms` left, `session` yes or no), `waiters` (`token`, `mode`, `waited-ms`, `wait-left-ms`, −1 without limit, `client`, the connection's
/// id, 0 for a request of a script; the first 100) and `waiting`, the number of waiters.
///
/// Errors: `WRONGTYPE`. O(n) with n holders.
pub struct LockInfo;

impl Command for LockInfo {
    const SPEC: Spec = Spec {
        name: c"lock.info",
        flags: c"readonly",
        arity: 2,
        summary: c"Tells who holds a lock and who waits for it.",
        since: c"0.1.0",
        complexity: c"O(N) with N holders",
        tips: c"nondeterministic_output",
        keys: Keys::First(KeyUse::Read),
        args: &[Param::key()],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let key = args.only()?;
        match lock_session::look(ctx, key, clock::now())? {
            None => ctx.reply_null(),
            Some(info) => reply(ctx, &info),
        }
        Ok(())
    }
}

fn reply(ctx: &Ctx<'_>, info: &LockView) {
    ctx.reply_map(5);
    ctx.reply_bytes_field("mode", info.mode.map_or("free", mode).as_bytes());
    ctx.reply_int_field("limit", info.limit);
    ctx.reply_bytes(b"holders");
    ctx.reply_array(info.holders.len());
    for holder in &info.holders {
        ctx.reply_map(4);
        ctx.reply_bytes_field("token", &holder.token.text());
        ctx.reply_int_field("fence", holder.fence.0);
        ctx.reply_int_field("lease-ms", holder.left.0);
        ctx.reply_bytes_field("session", if holder.session { b"yes" } else { b"no" });
    }
    ctx.reply_bytes(b"waiters");
    ctx.reply_array(info.waiters.len());
    for waiter in &info.waiters {
        ctx.reply_map(5);
        ctx.reply_bytes_field("token", &waiter.token.text());
        ctx.reply_bytes_field("mode", mode(waiter.mode.mode()).as_bytes());
        ctx.reply_int_field("waited-ms", waiter.waited.0);
        ctx.reply_int_field("wait-left-ms", waiter.left.map_or(-1, |left| left.0));
        ctx.reply_int_field("client", waiter.client.map_or(0, ClientId::get));
    }
    ctx.reply_int_field("waiting", info.waiting);
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
        Mode::Limit => "limit",
    }
}
