//! Requests whose slot moves to another cluster node while they wait.
//!
//! The server itself redirects clients that are blocked, within about a second. It does not know of requests whose clients are not blocked.
//! So while there are any, the module asks it now and then which node serves which slot, and does for these requests what the server does for
//! blocked clients: a slot that is on its way to this node may be waited for here.

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
    /// A request has begun to wait since then for a slot that was not of this node.
    is_astray: bool,
    /// A request waited then for a slot that no node owned.
    is_unowned: bool,
}

/// When to look next, after a look or after a request has begun to wait.
pub fn next_look(now: UnixMs) -> Wakeup {
    now.plus(PAUSE).into()
}

impl SlotWatch {
    /// A request for `slot` has begun to wait.
    pub fn began(&mut self, slot: Slot) {
        self.is_astray |= self.nodes.as_ref().is_some_and(|nodes| !nodes.owns(slot));
    }

    /// For a cluster: if it is time to look, asks where the slots are, and ends the requests whose slots another node serves now, or none since
    /// the last look. Returns when to look next.
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
            let before = self.nodes.replace(nodes);
            self.end_moved(now, locks, before.as_ref());
        }
        next_look(now)
    }

    /// Ends the requests whose slots have gone. Looks at them only if something may have changed for one of them.
    fn end_moved(&mut self, now: UnixMs, locks: &mut Engine, before: Option<&Nodes>) {
        let Some(nodes) = &self.nodes else { return };
        if before == Some(nodes) && !self.is_astray && !self.is_unowned {
            return;
        }
        let mut is_unowned = false;
        locks.slots_moved(now, |slot| {
            // A slot may be without an owner for a moment while it moves.
            let unowned = !nodes.is_owned(slot);
            let was_unowned = unowned && before.is_some_and(|before| !before.is_owned(slot));
            is_unowned |= unowned && !was_unowned;
            was_unowned || nodes.elsewhere(slot).is_some()
        });
        (self.is_astray, self.is_unowned) = (false, is_unowned);
    }

    /// What a request for `slot` is told that has ended.
    pub fn redirection(&self, slot: Slot) -> Error {
        match self.nodes.as_ref().and_then(|nodes| nodes.elsewhere(slot)) {
            Some(address) => Error::Moved { slot: slot.number(), address: address.to_owned() },
            None => Error::Unowned,
        }
    }
}
