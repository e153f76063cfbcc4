//! What a member of a cluster may decide.

use redis_module::raw;

use super::api;
use super::compat;
use super::ctx::Ctx;
use super::key::Name;

/// Whether this node serves the key `name` at this moment: the slot is its own and the cluster is up.
///
/// A command need not ask: the server did, before it ran it. Also false for a key that has been moved already while its slot
/// is on the way to another node. The one question that every server answers, and answers so, is a call on the key.
pub fn serves(ctx: &mut Ctx<'_>, name: &Name<'_>) -> bool {
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

/// Whether this node may work on both keys at this moment. As [`serves`]; and also false while one of them is here and the other one
/// is not, and their slot is on the way to another node or from one; and for keys of two slots.
pub fn serves_both(ctx: &mut Ctx<'_>, one: &[u8], other: &[u8]) -> bool {
    // SAFETY: a plain read of a pointer that was seen set at load.
    let Some(call) = (unsafe { (&raw const raw::RedisModule_Call).read() }) else { return false };
    // SAFETY: the context is valid; the format announces two buffers with their lengths, which follow. Refused calls give null.
    unsafe {
        let reply =
            call(ctx.raw(), c"EXISTS".as_ptr(), c"bb".as_ptr(), one.as_ptr(), one.len(), other.as_ptr(), other.len());
        if reply.is_null() {
            return false;
        }
        api::free_call_reply(reply);
    }
    true
}

/// Whether two keys lie in the same slot.
pub fn share_slot(ctx: &mut Ctx<'_>, one: &[u8], other: &[u8]) -> bool {
    let mut slot = |key| compat::slot(key).map_or_else(|| ask_slot(ctx, key), |slot| Some(i64::from(slot)));
    slot(one) == slot(other)
}

/// The slot of a key as the server answers a client; `None` when it does not tell.
fn ask_slot(ctx: &mut Ctx<'_>, key: &[u8]) -> Option<i64> {
    // SAFETY: a plain read of a pointer that was seen set at load.
    let call = unsafe { (&raw const raw::RedisModule_Call).read() }?;
    // SAFETY: the context is valid; the format announces a C string and a buffer with its length, which follow. The reply is ours
    // until it is freed.
    unsafe {
        let reply = call(ctx.raw(), c"CLUSTER".as_ptr(), c"cb".as_ptr(), c"KEYSLOT".as_ptr(), key.as_ptr(), key.len());
        if reply.is_null() {
            return None;
        }
        let told = api::call_reply_type(reply) == api::int(raw::REDISMODULE_REPLY_INTEGER);
        let slot = told.then(|| api::call_reply_integer(reply));
        api::free_call_reply(reply);
        slot
    }
}
