//! The reply to `LOCK.ACQUIRE` and `LOCK.MACQUIRE`, at once or after a wait.

use super::{Ctx, Error};
use crate::core::lock::{Grant, WaitResult};
use crate::module::lock_effect::SaidToken;

/// Replies `[token, fence, lease in milliseconds]`; `said` is the token if the running command names it.
pub fn granted(ctx: &Ctx<'_>, grant: &Grant, said: Option<SaidToken<'_>>) {
    ctx.reply_array(3);
    match said {
        Some(said) => ctx.reply_bytes(said.word.bytes()),
        None => ctx.reply_bytes(&grant.token.text()),
    }
    ctx.reply_int(grant.fence.0);
    ctx.reply_int(grant.lease.0);
}

/// Replies with the answer to a waiter.
pub fn answer(ctx: &Ctx<'_>, answer: &WaitResult) {
    match answer {
        WaitResult::Granted(grant) => granted(ctx, grant, None),
        WaitResult::TimedOut | WaitResult::Replaced | WaitResult::Cancelled => ctx.reply_null(),
        WaitResult::Failed(error) => ctx.reply_error(&Error::from(*error).to_string()),
    }
}
