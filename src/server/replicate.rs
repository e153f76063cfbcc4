//! What replicas and the AOF receive.
//!
//! Always an effect: a hold that begins or ends, a change of a sale. A decision is made once, here, and what came of it is
//! sent; nobody else's clock or queue has a say.

use std::ffi::CStr;

use redis_module::raw;

use super::api;
use super::ctx::{Ctx, Level};
use super::faults;
use super::key::Name;

/// Sends the running command itself. Only for commands whose words are already their effect.
pub fn verbatim(ctx: &Ctx<'_>) {
    faults::point();
    // SAFETY: the context is that of a running command.
    unsafe { api::replicate_verbatim(ctx.raw()) };
}

/// Sends `COMMAND key word…`, with up to nine words.
///
/// Effects of one call stay together: the server wraps them in a transaction when there are several.
pub fn effect(ctx: &Ctx<'_>, command: &CStr, name: &Name<'_>, words: &[&[u8]]) {
    faults::point();
    // SAFETY: a plain read of a pointer that was seen set at load.
    let Some(replicate) = (unsafe { (&raw const raw::RedisModule_Replicate).read() }) else { return };
    macro_rules! send {
        ($format:literal $(, $word:ident)*) => {
            // SAFETY: the context is valid. The format announces, in this order, a string of the server and then a buffer
            // with its length for every word: just what follows it. The server copies the buffers.
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
