//! Requests whose slot moves to another cluster node while they wait.
//!
//! The server itself redirects clients that are blocked, within about a second. It does not know of requests whose clients are not blocked.
//! So while there are any, the module asks it now and then which slots this node serves.

use crate::core::lock::Engine;
use crate::core::slot::Slot;
use crate::core::time::{Millis, UnixMs, Wakeup};
use crate::error::Error;
use crate::server::cluster::Nodes;
use crate::server::ctx::Ctx;

/// How long a request may wait for a slot that has moved before its client is told.
const PAUSE: Millis = Millis(500);

/// What was known of the cluster at the last look.
#[derive(Default)]
pub struct SlotWatch {
    nodes: Option<Nodes>,
    next: Option<UnixMs>,
}

/// When to look next, after a look or after a request has begun to wait.
pub fn next_look(now: UnixMs) -> Wakeup {
    now.plus(PAUSE).into()
}

impl SlotWatch {
    /// For a cluster: if it is time to look, asks where the slots are, and ends the requests whose slots another node serves now. Returns
    /// when to look next.
    pub fn look(&mut self, ctx: &mut Ctx<'_>, now: UnixMs, locks: &mut Engine) -> Wakeup {
        if locks.notified() == 0 {
            *self = Self::default();
            return Wakeup::Never;
        }
        // If the clock was set back, the next look is due.
        let wait = self.next.filter(|next| !next.reached(now) && next.left(now) <= PAUSE);
        if let Some(next) = wait {
            return Wakeup::At(next);
        }
        self.next = now.plus(PAUSE);
        if let Some(nodes) = Nodes::known(ctx) {
            // A request that began to wait since the last look waits for a slot that was of this node then.
            if self.nodes.as_ref().is_none_or(|before| !before.own().eq(nodes.own())) {
                locks.slots_moved(now, |slot| nodes.elsewhere(slot).is_some());
            }
            self.nodes = Some(nodes);
        }
        next_look(now)
    }

    /// The redirection to the node that serves `slot`.
    pub fn redirection(&self, slot: Slot) -> Error {
        let address = self.nodes.as_ref().and_then(|nodes| nodes.elsewhere(slot));
        Error::Moved { slot: slot.number(), address: address.unwrap_or(":0").to_owned() }
    }
}
