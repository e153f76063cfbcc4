//! Where a command comes from: from somebody who asks, or from somebody who says what has happened.

use super::ctx::Ctx;
use super::import;
use super::server_info;

/// The id of the client that a file of commands is loaded through, on every server.
const OF_A_FILE: u64 = u64::MAX;

/// Whether the running command says what has happened elsewhere: it comes from the primary, from a file, from the node that a slot moves
/// here from, or, in Valkey's import mode, from the tool that fills this server. Servers call the links of both kinds replicated. What
/// a script or another module runs comes from neither, whoever runs them.
pub fn is_record(ctx: &mut Ctx<'_>) -> bool {
    let flags = ctx.flags();
    if flags.is_replicated() || (flags.is_loading() && ctx.client_id() == OF_A_FILE) {
        return true;
    }
    import::is_on(ctx) && !flags.is_script() && server_info::is_import_source(ctx, ctx.client_id())
}
