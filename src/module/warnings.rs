//! What the operator is told once, when the module has been loaded: how this server is set up in ways that will hurt.

use std::ffi::CStr;

use crate::server::call;
use crate::server::ctx::{Ctx, Level};
use crate::server::server_info;

/// Commands of the server that the module cannot do without, and what comes of it where `rename-command` has taken one away. Their new
/// names are nobody's business, so the module does not look for them.
const NEEDED: [(&CStr, &str); 5] = [
    (c"XADD", "a sale with a STREAM sells nothing, and its holds do not expire"),
    (c"XDEL", "an event that a fault of lockstock's own has left in a sale's stream stays there"),
    (c"UNLINK", "replicas and the AOF may lack what a fault of lockstock's own cut short"),
    (c"PEXPIREAT", "replicas and the AOF may lack a time to live after a fault of lockstock's own"),
    (
        c"CLIENT",
        "a lock that was granted to a connection which ended before it was told is given to the next only at its lease's end",
    ),
];

/// Looks for all of it.
pub fn give(ctx: &mut Ctx<'_>) {
    of_eviction(ctx);
    for (command, loss) in NEEDED {
        if !call::is_known(ctx, command) {
            of_a_command(ctx, &command.to_string_lossy(), loss);
        }
    }
    // Only Valkey has the mode of which that setting tells.
    if server_info::is_valkey(ctx) && !call::is_known(ctx, c"CONFIG") {
        of_a_command(ctx, "CONFIG", "in import mode lockstock ends holds by itself, for it cannot know of the mode");
    }
}

fn of_a_command(ctx: &Ctx<'_>, command: &str, loss: &str) {
    ctx.log(Level::Warning, &format!("lockstock: {command} is renamed or disabled (rename-command): {loss}"));
}

/// A server that may throw locks and sales away when memory runs short.
fn of_eviction(ctx: &Ctx<'_>) {
    if let Some(policy) = server_info::info(ctx, c"memory", c"maxmemory_policy")
        && policy.starts_with("allkeys")
    {
        ctx.log(
            Level::Warning,
            &format!(
                "lockstock: maxmemory-policy is {policy}: at maxmemory this server deletes locks that are held and sales that run. \
                 Set it to noeviction or to a volatile policy"
            ),
        );
    }
}
