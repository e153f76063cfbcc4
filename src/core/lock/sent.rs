//! Whether the grant to a waiter has reached its connection.
//!
//! The reply is written shortly after the grant, and the server does not report when it has been sent. So the module asks the server what
//! is unsent: after a long wait once before the reply is written; from a moment after it until the reply is found sent; and at the end of
//! the connection. A hold that has been renewed, released or expired by then is not checked. Where locks change hands quickly, that is
//! nearly every hold.

use crate::core::time::Millis;

/// The unsent output of a client. The server fills a first buffer and then a list of blocks behind it, until both are empty again. It sends
/// them in that order, and frees the buffer and each block when all of it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsent {
    /// Bytes in the first buffer.
    pub first: u64,
    /// Blocks in the list.
    pub blocks: u64,
    /// Bytes in the list.
    pub bytes: u64,
    /// What the client has been sent so far, if the server may count the first buffer although all of it is sent. Redis 8.6 does, once the
    /// buffer had a large value that was sent without being copied, until the client's next request.
    pub sent: Option<SendStamp>,
}

/// A number that the server keeps for a client. While it does not change, nothing has been sent to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendStamp(pub u64);

/// What was unsent when the reply with the grant was about to be written: the reply is queued behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// Not checked.
    Unknown,
    /// Nothing: the reply was the first in its buffer. With the stamp at that time, if the server had one.
    Clear(Option<SendStamp>),
    /// Something.
    Unsent(Unsent),
}

/// The state of a connection that a grant was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing is unsent.
    Sent,
    /// Something is.
    Unsent {
        /// This.
        unsent: Unsent,
        /// Whether other output may have been written to the client since the grant: the reply to another command, or a message.
        another: bool,
        /// The current stamp, if the server has one.
        stamp: Option<SendStamp>,
        /// Whether I/O threads may have sent some of it that the server has not counted yet.
        is_late: bool,
    },
    /// The server cannot tell.
    Unknown,
}

/// After a wait this long the cost of two looks does not matter.
pub(super) const LONG_WAIT: Millis = Millis(5);
/// When to look first after a long wait: in the next turn of the event loop.
pub(super) const PROMPT: Millis = Millis(1);
/// When to look first after a short wait, or after a long one if prompt looks are used up.
pub(super) const LAZY: Millis = Millis(50);
/// This many prompt looks may be taken at once, and one more each time `PROMPT_AGAIN` has passed. If a thousand clients wait for one lock,
/// all have waited long; a hand-over among them must not cost more than among a few.
pub(super) const PROMPT_AT_ONCE: i64 = 16;
pub(super) const PROMPT_AGAIN: Millis = Millis(50);
/// The longest pause between two looks.
pub(super) const LONGEST_PAUSE: Millis = Millis(250);

/// What is known of a written reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    /// What it was queued behind.
    pub(super) front: Front,
    /// What was unsent at the last look.
    pub(super) seen: Option<Unsent>,
    /// Whether the client has asked for another lock since.
    pub(super) went_on: bool,
}

/// Whether the state of its connection shows that this reply has been sent, or leaves it in doubt.
///
/// In doubt it counts as sent: a lock that is held for nothing ends with its lease, but a lock that is held twice is unsafe.
pub(super) fn is_sent(reply: Reply, look: Look) -> bool {
    let Look::Unsent { unsent, another, stamp, .. } = look else { return true };
    let another = another || reply.went_on;
    match reply.front {
        Front::Unsent(front) => {
            // Until the first look the server may have sent more of what is in front, as it tries whenever it adds a reply.
            let gone_out = reply.seen.is_some_and(|seen| front.blocks == 0 && has_gone_out(seen, unsent));
            gone_out || may_be_past(front, reply.seen.unwrap_or(front), unsent)
        }
        Front::Clear(then) => unsent.first == 0 || (another && (then.is_none() || then != stamp)),
        Front::Unknown => another || reply.seen.is_some_and(|seen| has_gone_out(seen, unsent)),
    }
}

/// As [`is_sent`], for a connection that is about to end. Numbers that come late prove nothing on their own: an earlier look must have seen
/// the reply unsent.
pub(super) fn is_sent_at_the_end(reply: Reply, look: Look) -> bool {
    let is_late = matches!(look, Look::Unsent { is_late: true, .. });
    (is_late && reply.seen.is_none()) || is_sent(reply, look)
}

/// Whether anything was sent from the first buffer between two looks, though the buffer still counts.
fn has_gone_out(seen: Unsent, now: Unsent) -> bool {
    now.blocks == 0 && now.sent.is_some() && seen.sent != now.sent
}

/// Whether output behind `front` may have been sent, given that first `seen` was unsent and now `now`. A client that reads slowly, or gets
/// messages all the time, may always have something unsent.
fn may_be_past(front: Unsent, seen: Unsent, now: Unsent) -> bool {
    let first = if front.blocks == 0 {
        // The reply is in the first buffer as well.
        now.first < seen.first
    } else {
        // The reply is in the list. The first buffer is filled again only after the list is empty.
        seen.first == 0 && now.first > 0
    };
    // A freed block is visible only in these numbers.
    first || now.blocks < seen.blocks || now.bytes < seen.bytes
}
