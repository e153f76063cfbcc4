//! What is sent to replicas and the AOF.
//!
//! A decision is made once, here, and its result is sent: a hold that begins or ends, a change of a sale. No other server's clock or queue
//! matters.

use std::ffi::CStr;

use redis_module::raw;

use super::api;
use super::ctx::{Ctx, Level};
use super::faults;
use super::key::Name;

/// Sends the running command unchanged. Only for commands that are their own effect.
pub fn verbatim(ctx: &Ctx<'_>) {
    faults::point();
    // SAFETY: the context is that of a running command.
    unsafe { api::replicate_verbatim(ctx.raw()) };
}

/// Sends a message to the subscribers of the replicas; the AOF does not get it.
pub fn message(ctx: &Ctx<'_>, channel: &Name<'_>, text: &Name<'_>) {
    // SAFETY: a plain read of a pointer that was checked at load.
    let Some(replicate) = (unsafe { (&raw const raw::RedisModule_Replicate).read() }) else { return };
    // SAFETY: the context is valid. The format excludes the AOF and announces two server strings, which follow. The server refuses a
    // command that the operator has renamed; then the replicas hear nothing.
    unsafe { replicate(ctx.raw(), c"PUBLISH".as_ptr(), c"Ass".as_ptr(), channel.arg().raw(), text.arg().raw()) };
}

/// Sends `COMMAND key word…`, with up to nine words.
///
/// Effects of one call stay together, because the server wraps several of them in a transaction.
pub fn effect(ctx: &Ctx<'_>, command: &CStr, name: &Name<'_>, words: &[&[u8]]) {
    faults::point();
    // SAFETY: a plain read of a pointer that was checked at load.
    let Some(replicate) = (unsafe { (&raw const raw::RedisModule_Replicate).read() }) else { return };
    macro_rules! send {
        ($format:literal $(, $word:ident)*) => {
            // SAFETY: the context is valid. The format announces, in this order, a server string and then a buffer with its length for
            // every word, exactly what follows. The server copies the buffers.
            unsafe {
                replicate(
                    ctx.raw(), command.as_ptr(), $format.as_ptr(), name.arg().raw()
                    $(, $word.as_ptr(), $word.len())*
                )
            }
        };
    }
    let sent = match words {
        [] => send!(c"s"),
        [w1] => send!(c"sb", w1),
        [w1, w2] => send!(c"sbb", w1, w2),
        [w1, w2, w3] => send!(c"sbbb", w1, w2, w3),
        [w1, w2, w3, w4] => send!(c"sbbbb", w1, w2, w3, w4),
        [w1, w2, w3, w4, w5] => send!(c"sbbbbb", w1, w2, w3, w4, w5),
        [w1, w2, w3, w4, w5, w6] => send!(c"sbbbbbb", w1, w2, w3, w4, w5, w6),
        [w1, w2, w3, w4, w5, w6, w7] => send!(c"sbbbbbbb", w1, w2, w3, w4, w5, w6, w7),
        [w1, w2, w3, w4, w5, w6, w7, w8] => send!(c"sbbbbbbbb", w1, w2, w3, w4, w5, w6, w7, w8),
        [w1, w2, w3, w4, w5, w6, w7, w8, w9] => send!(c"sbbbbbbbbb", w1, w2, w3, w4, w5, w6, w7, w8, w9),
        _ => api::ERR,
    };
    if sent != api::OK {
        ctx.log(Level::Warning, "lockstock: an effect could not be sent to the replicas and the AOF");
    }
}
