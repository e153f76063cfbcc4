//! Checking at the connections whether grants have been delivered.

use super::Engine;
use crate::core::deadline_index::DeadlineId;
use crate::core::fence::Fence;
use crate::core::lock::sent::{Front, LAZY, LONG_WAIT, LONGEST_PAUSE, Look, PROMPT, is_sent, is_sent_at_the_end};
use crate::core::lock::terms::{ClientId, EndReason, WaiterId};
use crate::core::time::{Millis, UnixMs, Wakeup};

impl Engine {
    /// Tracks the reply with a grant to `waiter`, whose `client` has been blocked. Returns whether the caller should look at what the reply
    /// will be queued behind.
    pub(super) fn track_delivery(
        &mut self,
        now: UnixMs,
        waiter: WaiterId,
        client: ClientId,
        waited: Millis,
        fence: Fence,
        entries: impl IntoIterator<Item = DeadlineId>,
    ) -> bool {
        let long = waited >= LONG_WAIT && self.unacked.may_be_prompt(now);
        let pause = if long { PROMPT } else { LAZY };
        self.unacked.track(waiter, client, fence, entries, now.plus(pause).unwrap_or(UnixMs::MAX));
        long
    }

    /// What the reply to `waiter`, if it is a grant, will be queued behind.
    pub fn goes_behind(&mut self, waiter: WaiterId, front: Front) {
        self.unacked.goes_behind(waiter, front);
    }

    /// The reply to `waiter`, if it is a grant, has been written to the output buffer; it is not sent yet.
    pub fn written(&mut self, waiter: WaiterId) {
        self.unacked.written(waiter);
    }

    /// When to call [`take_look`](Self::take_look).
    pub fn next_look(&self) -> Wakeup {
        self.unacked.next_look().into()
    }

    /// A grant whose connection should be looked at now; the caller reports the result by [`looked`](Self::looked).
    pub fn take_look(&mut self, now: UnixMs) -> Option<(WaiterId, ClientId)> {
        self.unacked.take_look(now)
    }

    /// The state of the connection to which the grant of `waiter` was written.
    pub fn looked(&mut self, now: UnixMs, waiter: WaiterId, look: Look) {
        let Some(reply) = self.unacked.reply(waiter) else {
            // The server is about to write the reply.
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

    /// A connection is about to end, and this is its last state. It keeps the grants whose reply was sent;
    /// [`client_gone`](Self::client_gone) revokes the others.
    pub fn last_look(&mut self, client: ClientId, look: Look) {
        for waiter in self.unacked.of(client).collect::<Vec<_>>() {
            if self.unacked.reply(waiter).is_some_and(|reply| is_sent_at_the_end(reply, look)) {
                self.delivered(waiter);
            }
        }
    }

    /// `client` asks for another lock, so its earlier grants count as delivered. Not so where the reply is known to be queued behind unsent
    /// data. And where the stamp may still show that the client pipelined both requests, it is only noted that the client went on.
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

    /// The reply to a waiter has been sent, so its grant is final.
    pub fn delivered(&mut self, waiter: WaiterId) {
        if let Some(grant) = self.unacked.settle(waiter) {
            for entry in grant.entries {
                self.drop_replaced(entry, grant.fence);
            }
        }
    }

    /// The reply with the grant to a waiter was not sent and will not be: the grant is taken back.
    pub(super) fn lost(&mut self, waiter: WaiterId) {
        if let Some(grant) = self.unacked.settle(waiter) {
            for entry in grant.entries {
                self.revoke(entry, grant.fence, EndReason::Undelivered);
            }
        }
    }

    /// Whether this connection has an unacknowledged grant.
    #[must_use]
    pub fn has_undelivered(&self, client: ClientId) -> bool {
        self.unacked.of(client).next().is_some()
    }
}
