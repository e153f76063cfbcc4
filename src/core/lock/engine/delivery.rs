//! Whether grants have been delivered: the looks at their connections.

use super::Engine;
use super::backlog::Next;
use crate::core::deadline_index::DeadlineId;
use crate::core::fence::Fence;
use crate::core::lock::queue::Waiter;
use crate::core::lock::sent::{Front, LAZY, LONG_WAIT, LONGEST_PAUSE, Look, PROMPT, is_sent};
use crate::core::lock::terms::{ClientId, EndReason, WaiterId};
use crate::core::time::UnixMs;

impl Engine {
    /// Remembers that the reply with a grant is on its way to `parked`; whether it should be looked at what that will be behind.
    pub(super) fn track_delivery(
        &mut self,
        now: UnixMs,
        waiter: WaiterId,
        parked: &Waiter,
        fence: Fence,
        entries: impl IntoIterator<Item = DeadlineId>,
    ) -> bool {
        let long = parked.waited(now) >= LONG_WAIT && self.unacked.may_be_prompt(now);
        let pause = if long { PROMPT } else { LAZY };
        self.unacked.track(waiter, parked.client, fence, entries, now.plus(pause).unwrap_or(UnixMs::MAX));
        long
    }

    /// The reply to `waiter`, if it was granted the lock, is going to be written behind this.
    pub fn goes_behind(&mut self, waiter: WaiterId, front: Front) {
        self.unacked.goes_behind(waiter, front);
    }

    /// The reply to `waiter` has been written, if it was granted the lock; it is not sent yet.
    pub fn written(&mut self, waiter: WaiterId) {
        self.unacked.written(waiter);
    }

    /// When [`take_look`](Self::take_look) wants to be called.
    pub fn next_look(&self) -> Next {
        self.unacked.next_look().map_or(Next::Never, Next::At)
    }

    /// A grant whose connection should be looked at now; what is seen is told by [`looked`](Self::looked).
    pub fn take_look(&mut self, now: UnixMs) -> Option<(WaiterId, ClientId)> {
        self.unacked.take_look(now)
    }

    /// This is how the connection looks that the grant of `waiter` was written to.
    pub fn looked(&mut self, now: UnixMs, waiter: WaiterId, look: Look) {
        let Some(reply) = self.unacked.reply(waiter) else {
            // The server is about to write it.
            return self.unacked.look_again(waiter, now.plus(PROMPT).unwrap_or(UnixMs::MAX));
        };
        if is_sent(reply, look) {
            self.delivered(waiter);
        } else {
            if let Look::Unsent { unsent, .. } = look {
                self.unacked.see(waiter, unsent);
            }
            let pause = self.unacked.pause(waiter, PROMPT, LONGEST_PAUSE);
            self.unacked.look_again(waiter, now.plus(pause).unwrap_or(UnixMs::MAX));
        }
    }

    /// A connection is about to end, and looks like this. What it has been granted and told, it keeps; the rest is over with
    /// [`client_gone`](Self::client_gone).
    pub fn last_look(&mut self, client: ClientId, look: Look) {
        for waiter in self.unacked.of(client).collect::<Vec<_>>() {
            if self.unacked.reply(waiter).is_some_and(|reply| is_sent(reply, look)) {
                self.delivered(waiter);
            }
        }
    }

    /// `client` asks for a lock. Who goes on has had the replies before, unless it is known that they were behind something unsent, or
    /// a mark may yet tell that the client asked for both at once.
    pub(super) fn another_request(&mut self, client: ClientId) {
        if !self.unacked.is_empty() {
            for waiter in self.unacked.of(client).collect::<Vec<_>>() {
                match self.unacked.reply(waiter).map(|reply| reply.front) {
                    Some(Front::Unknown | Front::Clear(None)) => self.delivered(waiter),
                    Some(Front::Clear(Some(_))) => self.unacked.goes_on(waiter),
                    Some(Front::Unsent(_)) | None => {}
                }
            }
        }
    }

    /// The reply to a waiter has been sent; the grant is not taken back any more.
    pub fn delivered(&mut self, waiter: WaiterId) {
        if let Some(grant) = self.unacked.settle(waiter) {
            for entry in grant.entries {
                self.drop_replaced(entry, grant.fence);
            }
        }
    }

    /// The reply to a waiter that was granted its lock has not been sent and will not be: the grant is taken back.
    pub(super) fn lost(&mut self, waiter: WaiterId) {
        if let Some(grant) = self.unacked.settle(waiter) {
            for entry in grant.entries {
                self.revoke(entry, grant.fence, EndReason::Undelivered);
            }
        }
    }

    /// Whether a grant is on its way to this connection.
    #[must_use]
    pub fn has_undelivered(&self, client: ClientId) -> bool {
        self.unacked.of(client).next().is_some()
    }
}
