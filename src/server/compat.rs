//! Functions that only some servers have, each with its reason.
//!
//! A feature is detected by its function, never by a version number, because Valkey and Redis number their versions differently.

use std::ffi::{CStr, c_char, c_int};

use redis_module::raw;

use super::api::{self, RawCommand};
use super::ctx::Ctx;

/// Adds a command to ACL categories. Redis 7.0 has no categories for module commands; there an ACL must name the commands.
pub fn set_acl_categories(command: *mut RawCommand, categories: &CStr) -> bool {
    // SAFETY: a plain read of a pointer that only module initialisation writes.
    let Some(set) = (unsafe { (&raw const raw::RedisModule_SetCommandACLCategories).read() }) else {
        return true;
    };
    // SAFETY: `command` is a command of this module that is being registered; the text is a C string.
    unsafe { set(command, categories.as_ptr()) == api::OK }
}

/// Whether the server may return a handle for a client that it did not block but sent an error. Redis 7.0 does this only for scripts and
/// transactions, which are recognised before.
pub fn may_not_block() -> bool {
    // SAFETY: a plain read of a pointer that only module initialisation writes. Servers have it since Redis 7.2.
    unsafe { (&raw const raw::RedisModule_BlockClientOnKeysWithFlags).read().is_some() }
}

/// Whether the server stores a reply that is written while a client is being unblocked, and drops it if the client gets another reply
/// before it is released. Valkey does this; Redis before 7.4 writes such a reply at once, and later versions ask for no reply so early.
pub fn keeps_early_replies_aside() -> bool {
    // SAFETY: a plain read of a pointer that only module initialisation writes. Redis has this one since 7.4, Valkey always.
    unsafe { (&raw const raw::RedisModule_ClusterKeySlot).read().is_some() }
}

/// Whether the server asks for a reply while a client is being unblocked, and writes it to the connection at once: Redis before 7.4. It is
/// done with the client only at the end of the event loop's turn, and serves connections before that if a script takes long.
pub fn writes_early_replies_at_once() -> bool {
    !keeps_early_replies_aside()
}

/// Whether a subscription to keyspace events can be cancelled: since Redis 8.4.
pub fn can_unsubscribe() -> bool {
    // SAFETY: a plain read of a pointer that only module initialisation writes.
    unsafe { (&raw const raw::RedisModule_UnsubscribeFromKeyspaceEvents).read() }.is_some()
}

/// Cancels a subscription to keyspace events; false if that is not possible.
pub fn unsubscribe(ctx: &Ctx<'_>, class: c_int, callback: Notified) -> bool {
    // SAFETY: a plain read of a pointer that only module initialisation writes.
    let Some(end) = (unsafe { (&raw const raw::RedisModule_UnsubscribeFromKeyspaceEvents).read() }) else {
        return false;
    };
    // SAFETY: the context is valid, and nobody is being notified at this moment.
    unsafe { end(ctx.raw(), class, Some(callback)) == api::OK }
}

/// The callback for a keyspace event.
pub type Notified = unsafe extern "C" fn(*mut api::RawCtx, c_int, *const c_char, *mut api::RawString) -> c_int;
