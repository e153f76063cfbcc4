//! Whether the caller of a command has the rights to the actions that the command takes for it later.

use std::ffi::c_int;

use redis_module::raw;

use super::api::{self, RawString};
use super::args::Name;
use super::ctx::Ctx;
use super::write_check;

/// What a command may do with the content of a key.
const ACTIONS: c_int = (raw::REDISMODULE_CMD_KEY_ACCESS
    | raw::REDISMODULE_CMD_KEY_UPDATE
    | raw::REDISMODULE_CMD_KEY_INSERT
    | raw::REDISMODULE_CMD_KEY_DELETE)
    .cast_signed();

/// Whether the user of the running command may publish on `channel`; a refusal goes into the server's `ACL LOG`. Another module may run a
/// command for no user; it may do everything.
pub fn may_publish(ctx: &mut Ctx<'_>, channel: &[u8]) -> bool {
    let publishing = c_int::try_from(raw::REDISMODULE_CMD_CHANNEL_PUBLISH).unwrap_or_default();
    let reason = raw::RedisModuleACLLogEntryReason_REDISMODULE_ACL_LOG_CHANNEL;
    // SAFETY: the user is one of the server's, and the string lives.
    may(ctx, channel, reason, |user, channel| unsafe { api::acl_check_channel_permissions(user, channel, publishing) })
}

/// Whether the user of the running command may use `key` in the way that these flags of the server say; else like [`may_publish`].
pub fn may_use(ctx: &mut Ctx<'_>, key: &[u8], flags: c_int) -> bool {
    let reason = raw::RedisModuleACLLogEntryReason_REDISMODULE_ACL_LOG_KEY;
    // SAFETY: as above. The server takes no other flags than these.
    may(ctx, key, reason, |user, key| unsafe { api::acl_check_key_permissions(user, key, flags & ACTIONS) })
}

/// Whether the server's function `check` allows `what` to the user of the running command; a refusal goes into the log.
fn may(
    ctx: &mut Ctx<'_>,
    what: &[u8],
    reason: raw::RedisModuleACLLogEntryReason,
    check: impl FnOnce(*mut raw::RedisModuleUser, *mut RawString) -> c_int,
) -> bool {
    if !write_check::is_for_a_user(ctx) {
        return true;
    }
    let what = Name::make(what);
    // SAFETY: the context is that of a running command with a user, so the server can copy its name; the copy, and the handle of the user,
    // are ours to free.
    unsafe {
        let name = api::get_current_user_name(ctx.raw());
        let user = api::get_module_user_from_user_name(name);
        api::free_string(ctx.raw(), name);
        if user.is_null() {
            // Deleted while its last command runs.
            return false;
        }
        let may = check(user, what.arg().raw()) == api::OK;
        if !may {
            api::acl_add_log_entry(ctx.raw(), user, what.arg().raw(), reason);
        }
        api::free_module_user(user);
        may
    }
}
