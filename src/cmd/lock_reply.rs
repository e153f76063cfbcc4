//! The reply to `LOCK.ACQUIRE` and `LOCK.MACQUIRE`, at once or after a wait.

use crate::core::lock::{Answer, Grant};
use crate::error::Error;
use crate::server::ctx::Ctx;

/// Replies `[token, fence, lease in milliseconds]`.
pub fn granted(ctx: &Ctx<'_>, grant: &Grant) {
    ctx.reply_array(3);
    ctx.reply_bytes(&grant.token.text());
    ctx.reply_int(grant.fence.0);
    ctx.reply_int(grant.lease.0);
}

/// Replies with the answer to a waiter.
pub fn answer(ctx: &Ctx<'_>, answer: &Answer) {
    match answer {
        Answer::Granted(grant) => granted(ctx, grant),
        Answer::TimedOut | Answer::Replaced | Answer::Cancelled => ctx.reply_null(),
        Answer::Failed(error) => ctx.reply_error(&Error::from(*error).to_string()),
    }
}
