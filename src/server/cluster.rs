//! What a member of a cluster may decide.

use redis_module::raw;

use super::api;
use super::ctx::Ctx;
use super::key::Name;

/// Whether this node serves the key `name` at this moment: the slot is its own and the cluster is up.
///
/// A command need not ask: the server did, before it ran it. Also false for a key that has been moved already while its slot
/// is on the way to another node. The one question that every server answers, and answers so, is a call on the key.
pub fn serves(ctx: Ctx<'_>, name: &Name<'_>) -> bool {
    // SAFETY: a plain read of a pointer that was seen set at load.
    let Some(call) = (unsafe { (&raw const raw::RedisModule_Call).read() }) else { return false };
    // SAFETY: the context is valid; the format announces one string of the server, which follows. Refused calls give null.
    unsafe {
        let reply = call(ctx.raw(), c"EXISTS".as_ptr(), c"s".as_ptr(), name.arg().raw());
        if reply.is_null() {
            return false;
        }
        api::free_call_reply(reply);
    }
    true
}
