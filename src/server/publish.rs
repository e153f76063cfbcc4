//! Messages to the subscribers of a channel.

use super::api;
use super::args::Name;
use super::cluster;
use super::ctx::Ctx;
use super::faults;
use super::replicate;

/// Publishes `message` on `channel` as `PUBLISH` does: to the subscribers of this server, in a cluster to those of every node, and
/// elsewhere to those of the replicas, if this server may send them anything now. Runs no other code.
pub fn publish(ctx: &Ctx<'_>, channel: &[u8], message: &[u8]) {
    faults::point();
    let (name, text) = (Name::make(channel), Name::make(message));
    // SAFETY: the context and both strings are valid for this call; the server copies them.
    unsafe { api::publish_message(ctx.raw(), name.arg().raw(), text.arg().raw()) };
    if !cluster::is_node() && ctx.may_write() {
        replicate::message(ctx, &name, &text);
    }
}
