//! What only some servers have, each by name and with its reason.
//!
//! Features are found by looking for their function, never by a version number: Valkey and Redis count differently.

use std::ffi::CStr;

use redis_module::raw;

use super::api::{self, RawCommand};

/// Puts a command into ACL categories. Redis 7.0 has none for the commands of modules; there an ACL names commands.
pub fn set_acl_categories(command: *mut RawCommand, categories: &CStr) -> bool {
    // SAFETY: a plain read of a pointer that only module initialisation writes.
    let Some(set) = (unsafe { (&raw const raw::RedisModule_SetCommandACLCategories).read() }) else {
        return true;
    };
    // SAFETY: `command` is a command of this module that is being registered; the text is a C string.
    unsafe { set(command, categories.as_ptr()) == api::OK }
}

/// The cluster's slot of a key. Redis before 7.4 has no function for this; there a command tells, which Valkey 9.1 in its turn
/// refuses to modules.
pub fn slot(key: &[u8]) -> Option<u32> {
    // SAFETY: a plain read of a pointer that only module initialisation writes, and a call that reads `len` bytes.
    unsafe { (&raw const raw::RedisModule_ClusterKeySlotC).read().map(|slot| slot(key.as_ptr().cast(), key.len())) }
}

/// Says that this module's data can be moved by Valkey 9's atomic slot migration, which is refused otherwise. The data
/// goes as the commands of an AOF rewrite and the effects after it, so there is nothing more to do. Other servers know no such
/// option and ignore the bit.
pub const OPTION_ATOMIC_SLOT_MIGRATION: u32 = 1 << 5;
