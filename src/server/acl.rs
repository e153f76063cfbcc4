//! Whether the caller of a command has the rights to the actions that the command takes for it later.

use std::ffi::c_int;

use redis_module::raw;

use super::api;
use super::args::Name;
use super::ctx::Ctx;
use super::write_check;

/// Whether the user of the running command may publish on `channel`; a refusal goes into the server's `ACL LOG`. Another module may run a
/// command for no user; it may do everything.
pub fn may_publish(ctx: &mut Ctx<'_>, channel: &[u8]) -> bool {
    if !write_check::is_for_a_user(ctx) {
        return true;
    }
    let channel = Name::make(channel);
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
        let publishing = c_int::try_from(raw::REDISMODULE_CMD_CHANNEL_PUBLISH).unwrap_or_default();
        let may = api::acl_check_channel_permissions(user, channel.arg().raw(), publishing) == api::OK;
        if !may {
            let reason = raw::RedisModuleACLLogEntryReason_REDISMODULE_ACL_LOG_CHANNEL;
            api::acl_add_log_entry(ctx.raw(), user, channel.arg().raw(), reason);
        }
        api::free_module_user(user);
        may
    }
}
