//! Warnings that are logged once, at load: settings of this server that will cause trouble.

use std::ffi::CStr;

use crate::server::ctx::{Ctx, Level};
use crate::server::io_threads::{self, KeySearch};
use crate::server::{call, cluster, compat, server_facts};

/// Server commands that the module calls, whether it needs them on this server, and the functions that are lost if `rename-command` has taken
/// a command away. The new name may be secret, so the module does not look for it.
fn commands() -> [(bool, &'static CStr, &'static str); 11] {
    let (is_valkey, is_node) = (server_facts::is_valkey(), cluster::is_node());
    let never_asks = io_threads::search() != KeySearch::Asking;
    let by_range = is_node && never_asks;
    let of_keys =
        "a sale with a STREAM sells nothing, and a request for several keys is refused if one of them does not exist";
    let of_grants = "a lock that was granted to a connection which ended before it was told is given to the next only at its lease's end";
    [
        (true, c"XADD", "a sale with a STREAM sells nothing, and its holds do not expire"),
        (true, c"XDEL", "an event that a fault of lockstock's own has left in a sale's stream stays there"),
        (by_range, c"UNLINK", of_keys),
        (!by_range, c"UNLINK", "replicas and the AOF may lack what a fault of lockstock's own cut short"),
        (true, c"PEXPIREAT", "replicas and the AOF may lack a time to live after a fault of lockstock's own"),
        (!is_node, c"PUBLISH", "subscribers of a replica hear nothing of requests with NOTIFY"),
        (is_node, c"CLUSTER", "a request with NOTIFY is not told that its slot has moved"),
        (compat::writes_early_replies_at_once(), c"FUNCTION", of_grants),
        (never_asks, c"SWAPDB", "lockstock goes on deciding by itself while the server refuses writes"),
        (is_valkey, c"CLIENT", "in import mode the effects that a copying tool sends are refused"),
        (is_valkey, c"CONFIG", "in import mode lockstock ends holds by itself, for it cannot know of the mode"),
    ]
}

/// Checks all settings.
pub fn give(ctx: &mut Ctx<'_>) {
    let warn = |ctx: &Ctx<'_>, text: &str| ctx.log(Level::Warning, &format!("lockstock: {text}"));
    if let Some(policy) = server_facts::of_info(c"memory", c"maxmemory_policy")
        && policy.starts_with("allkeys")
    {
        let told = format!(
            "maxmemory-policy is {policy}: at maxmemory this server deletes locks that are held and sales that run. \
             Set it to noeviction or to a volatile policy"
        );
        warn(ctx, &told);
    }
    // Valkey 9.2 makes no snapshots without a fork while this module is loaded.
    if server_facts::setting(ctx, c"forkless-infrastructure-enabled").as_deref() == Some("yes") {
        let loss = "with lockstock loaded this server still forks to save, and refuses BGSAVE FORKLESS";
        warn(ctx, &format!("forkless-infrastructure-enabled is yes: {loss}. Set it to no"));
    }
    for (_, command, loss) in commands().into_iter().filter(|(is_needed, ..)| *is_needed) {
        if !call::is_known(ctx, command) {
            let command = command.to_string_lossy();
            warn(ctx, &format!("{command} is renamed or disabled (rename-command): {loss}"));
        }
    }
}
