//! Where a command comes from: a client that makes a request, or a source that reports the effects of commands.

use std::sync::atomic::{AtomicBool, Ordering};

use super::ctx::{self, Ctx};
use super::import;
use super::server_facts;

/// The client id with which every server loads a file of commands.
const OF_A_FILE: u64 = u64::MAX;

/// Whether another server may be sending commands: this one is a replica, or a cluster node, to which a slot can move.
static HAS_SOURCE: AtomicBool = AtomicBool::new(true);

/// Whether the running command reports a decision of another server. Then it comes from the primary, from a file, from the node that a slot
/// is moving from, or, in Valkey's import mode, from the tool that fills this server. Servers call the links to primary and node
/// replicated. A command from a script or from another module never counts as such a report, for any caller.
///
/// Such a command is only applied: nothing is decided, no clock is read, and no client waits.
pub fn is_record(ctx: &mut Ctx<'_>) -> bool {
    // Cheap for a primary that is no cluster node, because asking for the flags is not.
    if !HAS_SOURCE.load(Ordering::Relaxed) && ctx.client_id() != OF_A_FILE && !import::is_on(ctx) {
        return false;
    }
    let flags = ctx.flags();
    if flags.is_replicated() || (flags.is_loading() && ctx.client_id() == OF_A_FILE) {
        return true;
    }
    import::is_on(ctx) && !flags.is_script() && server_facts::is_import_source(ctx, ctx.client_id())
}

/// Finds out whether another server may be sending commands. Called at load, and when the server's role has changed.
pub fn learn(is_primary: bool) {
    HAS_SOURCE.store(!is_primary || ctx::flags().is_cluster(), Ordering::Relaxed);
}
