//! Requests whose slot moves to another cluster node while they wait.
//!
//! The server itself redirects clients that are blocked, within about a second. It does not know of requests whose clients are not blocked.
//! So while there are such requests, the module regularly asks the server which node serves which slot. It treats these requests as the
//! server treats blocked clients: a request may wait here for a slot that is moving to this node.

use std::collections::VecDeque;

use crate::core::lock::Engine;
use crate::core::pause::Pause;
use crate::core::slot::Slot;
use crate::core::time::{Millis, UnixMs, Wakeup};
use crate::error::Error;
use crate::server::cluster::Nodes;
use crate::server::ctx::Ctx;

/// How long a request may wait for a slot that has moved before its client is told.
const PAUSE: Millis = Millis(500);

/// At how many looks in turn a slot has no owner before its requests are told. It may be without one for a moment while it moves.
const UNOWNED: usize = 3;

/// The last known states of the cluster.
#[derive(Default)]
pub struct SlotWatch {
    /// The results of the last checks, the latest first; at most [`UNOWNED`].
    seen: VecDeque<Nodes>,
    /// Before the next look.
    pause: Pause,
    /// A request has begun to wait since the last look for a slot that was not of this node.
    is_astray: bool,
    /// A request waited at the last look for a slot that no node owned.
    is_unowned: bool,
}

impl SlotWatch {
    /// A request for `slot` has begun to wait.
    pub fn began(&mut self, slot: Slot) {
        self.is_astray |= self.seen.front().is_some_and(|nodes| !nodes.owns(slot));
    }

    /// For a cluster: if it is time to look, asks where the slots are, and ends the requests whose slots another node serves now, or no node
    /// for a second. Returns when to look next.
    pub fn look(&mut self, ctx: &mut Ctx<'_>, now: UnixMs, locks: &mut Engine) -> Wakeup {
        // Those that have ended are yet to be told where their slots are.
        if locks.notified() == 0 && !locks.any_dismissed() {
            *self = Self::default();
            return Wakeup::Never;
        }
        if let Some(next) = self.pause.look(now) {
            return Wakeup::At(next);
        }
        self.pause = Pause::begin(now, PAUSE);
        if let Some(nodes) = Nodes::known(ctx) {
            self.seen.truncate(UNOWNED.saturating_sub(1));
            self.seen.push_front(nodes);
            self.end_moved(now, locks);
        }
        self.pause.end().into()
    }

    /// Ends the requests whose slots have gone. Looks at them only if something may have changed for one of them.
    fn end_moved(&mut self, now: UnixMs, locks: &mut Engine) {
        let Some(nodes) = self.seen.front() else { return };
        if self.seen.get(1) == Some(nodes) && !self.is_astray && !self.is_unowned {
            return;
        }
        let mut is_unowned = false;
        locks.slots_moved(now, |slot| {
            is_unowned |= !nodes.is_owned(slot);
            let stays_unowned = self.seen.len() == UNOWNED && self.seen.iter().all(|nodes| !nodes.is_owned(slot));
            stays_unowned || nodes.elsewhere(slot).is_some()
        });
        (self.is_astray, self.is_unowned) = (false, is_unowned);
    }

    /// The error for an ended request for `slot`.
    pub fn redirection(&self, slot: Slot) -> Error {
        match self.seen.front().and_then(|nodes| nodes.elsewhere(slot)) {
            Some(address) => Error::Moved { slot: slot.number(), address: address.to_owned() },
            None => Error::Unowned,
        }
    }
}
