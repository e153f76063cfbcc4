//! What only some servers have, each by name and with its reason.
//!
//! Features are found by looking for their function, never by a version number: Valkey and Redis count differently.

use std::ffi::{CStr, c_char, c_int};

use redis_module::raw;

use super::api::{self, RawCommand};
use super::ctx::Ctx;

/// Puts a command into ACL categories. Redis 7.0 has none for the commands of modules; there an ACL names commands.
pub fn set_acl_categories(command: *mut RawCommand, categories: &CStr) -> bool {
    // SAFETY: a plain read of a pointer that only module initialisation writes.
    let Some(set) = (unsafe { (&raw const raw::RedisModule_SetCommandACLCategories).read() }) else {
        return true;
    };
    // SAFETY: `command` is a command of this module that is being registered; the text is a C string.
    unsafe { set(command, categories.as_ptr()) == api::OK }
}

/// Whether the server may hand out the handle of a client that it has not blocked, having told it why not. Redis 7.0 does so for scripts and
/// transactions only, which are known before.
pub fn may_not_block() -> bool {
    // SAFETY: a plain read of a pointer that only module initialisation writes. Servers have it since Redis 7.2.
    unsafe { (&raw const raw::RedisModule_BlockClientOnKeysWithFlags).read().is_some() }
}

/// Whether a reply that is written while a client is being woken is kept aside until the server lets the client go, and forgotten if the client
/// has another reply by then. Valkey does so; Redis before 7.4 writes such a reply at once, and later ones none so early.
pub fn keeps_early_replies_aside() -> bool {
    // SAFETY: a plain read of a pointer that only module initialisation writes. Redis has this one since 7.4, Valkey always.
    unsafe { (&raw const raw::RedisModule_ClusterKeySlot).read().is_some() }
}

/// Whether a subscription to keyspace events can be ended: from Redis 8.4 on.
pub fn can_unsubscribe() -> bool {
    // SAFETY: a plain read of a pointer that only module initialisation writes.
    unsafe { (&raw const raw::RedisModule_UnsubscribeFromKeyspaceEvents).read() }.is_some()
}

/// Ends a subscription to keyspace events; false if that cannot be.
pub fn unsubscribe(ctx: &Ctx<'_>, class: c_int, callback: Notified) -> bool {
    // SAFETY: a plain read of a pointer that only module initialisation writes.
    let Some(end) = (unsafe { (&raw const raw::RedisModule_UnsubscribeFromKeyspaceEvents).read() }) else {
        return false;
    };
    // SAFETY: the context is valid, and nobody is being notified at this moment.
    unsafe { end(ctx.raw(), class, Some(callback)) == api::OK }
}

/// What a keyspace event calls.
pub type Notified = unsafe extern "C" fn(*mut api::RawCtx, c_int, *const c_char, *mut api::RawString) -> c_int;
