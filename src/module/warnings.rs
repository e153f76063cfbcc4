//! Warnings that are logged once, at load: settings of this server that will cause trouble.

use std::ffi::CStr;

use crate::server::ctx::{Ctx, Level};
use crate::server::io_threads::{self, KeySearch};
use crate::server::{call, cluster, compat, server_facts};

/// Server commands that the module needs, and the functions that are lost if `rename-command` has taken a command away. The new name may be
/// secret, so the module does not look for it.
fn needed() -> impl Iterator<Item = (&'static CStr, &'static str)> {
    let (is_valkey, is_node) = (server_facts::is_valkey(), cluster::is_node());
    let by_range = is_node && io_threads::search() != KeySearch::Asking;
    [
        (true, c"XADD", "a sale with a STREAM sells nothing, and its holds do not expire"),
        (true, c"XDEL", "an event that a fault of lockstock's own has left in a sale's stream stays there"),
        (!by_range, c"UNLINK", "replicas and the AOF may lack what a fault of lockstock's own cut short"),
        (
            by_range,
            c"UNLINK",
            "a sale with a STREAM sells nothing, and a request for several keys is refused if one of them does not exist",
        ),
        (true, c"PEXPIREAT", "replicas and the AOF may lack a time to live after a fault of lockstock's own"),
        (!is_node, c"PUBLISH", "subscribers of a replica hear nothing of requests with NOTIFY"),
        (is_node, c"CLUSTER", "a request with NOTIFY is not told that its slot has moved"),
        (
            compat::writes_early_replies_at_once(),
            c"FUNCTION",
            "a lock that was granted to a connection which ended before it was told is given to the next only at its lease's end",
        ),
        (
            io_threads::search() != KeySearch::Asking,
            c"SWAPDB",
            "lockstock goes on deciding by itself while the server refuses writes",
        ),
        (is_valkey, c"CLIENT", "in import mode the effects that a copying tool sends are refused"),
        (is_valkey, c"CONFIG", "in import mode lockstock ends holds by itself, for it cannot know of the mode"),
    ]
    .into_iter()
    .filter_map(|(is_needed, command, loss)| is_needed.then_some((command, loss)))
}

/// Checks all settings.
pub fn give(ctx: &mut Ctx<'_>) {
    of_eviction(ctx);
    of_snapshots(ctx);
    for (command, loss) in needed() {
        if !call::is_known(ctx, command) {
            let command = command.to_string_lossy();
            let told = format!("lockstock: {command} is renamed or disabled (rename-command): {loss}");
            ctx.log(Level::Warning, &told);
        }
    }
}

/// Warns if the server may evict locks and sales when memory runs short.
fn of_eviction(ctx: &Ctx<'_>) {
    if let Some(policy) = server_facts::of_info(c"memory", c"maxmemory_policy")
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

/// Warns if the server is set up for snapshots without a fork (Valkey 9.2), which it does not make while this module is loaded.
fn of_snapshots(ctx: &mut Ctx<'_>) {
    if server_facts::setting(ctx, c"forkless-infrastructure-enabled").as_deref() == Some("yes") {
        ctx.log(
            Level::Warning,
            "lockstock: forkless-infrastructure-enabled is yes: with lockstock loaded this server still forks to save, and refuses \
             BGSAVE FORKLESS. Set it to no",
        );
    }
}
