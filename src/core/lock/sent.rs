//! Whether the grant of a waiter has reached its connection.
//!
//! The reply is written a moment after the grant, and no server tells when it has gone out. So the server is asked what is unsent: once, a
//! little after the reply was written, and at the end of the connection if that comes first. A hold that is renewed, released or over
//! by then is not asked about, and that is nearly every one of them where locks go from hand to hand quickly.

use crate::core::time::Millis;

/// What a server has yet to send to a client. It fills a first buffer and then a list of blocks behind it, until both are empty again. It
/// sends them in that order, and forgets the buffer and each block when all of it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsent {
    /// Bytes in the first buffer.
    pub first: u64,
    /// Blocks in the list.
    pub blocks: u64,
    /// Bytes in the list.
    pub bytes: u64,
}

/// A number of the server's for a client. As long as it stays the same, the client has been sent nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub u64);

/// What was unsent to a client when the reply with its grant was about to be written: that reply would be behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// Nobody has looked.
    Unknown,
    /// Nothing: the reply was the first in its buffer. With the mark of that moment, if the server had one.
    Clear(Option<Mark>),
    /// Something.
    Unsent(Unsent),
}

/// What the server says of a connection that a grant was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing is unsent.
    Sent,
    /// Something is.
    Unsent {
        /// This.
        unsent: Unsent,
        /// Whether something else than the grant may have been written to the client since: the reply to another command, or a message.
        another: bool,
        /// The mark of this moment, if the server has one.
        mark: Option<Mark>,
    },
    /// It cannot be asked.
    Unknown,
}

/// A wait that is long enough for the price of two looks not to matter.
pub(super) const LONG_WAIT: Millis = Millis(5);
/// When to look first after such a wait: in the next turn of the event loop.
pub(super) const PROMPT: Millis = Millis(1);
/// When to look first after a short wait, and after a long one where many have waited long.
pub(super) const LAZY: Millis = Millis(50);
/// So many prompt looks may be taken at once, and one more each time that this has passed: of a thousand who wait for one lock all have waited
/// long, and handing it on shall cost what it costs among a few.
pub(super) const PROMPT_AT_ONCE: i64 = 16;
pub(super) const PROMPT_AGAIN: Millis = Millis(50);
/// The longest pause between two looks.
pub(super) const LONGEST_PAUSE: Millis = Millis(250);

/// What is known of a reply that has been reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    /// What was in front of it.
    pub(super) front: Front,
    /// What was unsent when its connection was looked at last.
    pub(super) seen: Option<Unsent>,
    /// Whether the client has asked for another lock since.
    pub(super) went_on: bool,
}

/// Whether this reply is known to have been sent, or must be taken for it, now that its connection looks like this.
///
/// In doubt it was sent: a lock that is held for nothing ends with its lease, and one that is held twice does not end well.
pub(super) fn is_sent(reply: Reply, look: Look) -> bool {
    let Look::Unsent { unsent, another, mark } = look else { return true };
    let another = another || reply.went_on;
    match reply.front {
        Front::Unsent(front) => may_be_past(front, reply.seen.unwrap_or(front), unsent),
        Front::Clear(then) => unsent.first == 0 || (another && (then.is_none() || then != mark)),
        Front::Unknown => another,
    }
}

/// Whether what was written behind `front` may have been sent, now that first this was `seen` to be unsent, and then that. Who reads slowly,
/// or is sent messages all the time, may always have something unsent.
fn may_be_past(front: Unsent, seen: Unsent, now: Unsent) -> bool {
    let first = if front.blocks == 0 {
        // The reply is in the first buffer, too.
        now.first < seen.first
    } else {
        // It is in the list. The first buffer is filled again when that is empty.
        seen.first == 0 && now.first > 0
    };
    // Nobody can tell which block is gone.
    first || now.blocks < seen.blocks || now.bytes < seen.bytes
}
