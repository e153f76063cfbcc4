//! Where a command comes from: a client that makes a request, or a source that reports what has happened.

use super::ctx::Ctx;
use super::import;
use super::server_info;

/// The client id with which every server loads a file of commands.
const OF_A_FILE: u64 = u64::MAX;

/// Whether the running command reports what was decided elsewhere. Then it comes from the primary, from a file, from the node that a slot
/// is moving from, or, in Valkey's import mode, from the tool that fills this server. Servers call the links to primary and node
/// replicated. A command from a script or from another module never counts as such a report, whoever runs it.
pub fn is_record(ctx: &mut Ctx<'_>) -> bool {
    let flags = ctx.flags();
    if flags.is_replicated() || (flags.is_loading() && ctx.client_id() == OF_A_FILE) {
        return true;
    }
    import::is_on(ctx) && !flags.is_script() && server_info::is_import_source(ctx, ctx.client_id())
}
