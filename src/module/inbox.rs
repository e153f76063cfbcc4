//! What callbacks of the server leave behind until the module has time for it.
//!
//! A callback runs in the middle of the server's own work and may change nothing. It posts what it saw; the next command, or else the timer,
//! takes it in.

use std::mem;

use crate::core::deadline_index::DeadlineId;
use crate::core::key::KeyBuf;
use crate::core::lock::{ClientId, Look, WaiterId};
use crate::core::unlinked::UnlinkedWatch;
use crate::server::blocked_clients::Unblocked;
use crate::server::cell::MainCell;
use crate::server::events::Event;
use crate::server::faults;
use crate::server::timer;

/// Something that a callback saw and could not act upon where it was called.
pub enum Notification {
    /// A sale with holds lost its name; the entry of the deadline index that it had, if it had been met, and a watch on where it goes.
    SaleVanished(Option<DeadlineId>, UnlinkedWatch),
    /// A lock is no longer at this place; the entry of the deadline index that it had there, and a watch on where it goes.
    LockVanished(KeyBuf, Option<DeadlineId>, UnlinkedWatch),
    /// A connection ended; how it looked then.
    ClientGone(ClientId, Look),
    /// The server told of something else.
    Event(Event),
    /// Databases were emptied or changed places in the middle of work on locks. What was entered into the deadline index after that, and before
    /// the module takes note of it, is entered wrongly.
    InBetween,
    /// A parked client left.
    Left(WaiterId, Unblocked),
}

static INBOX: MainCell<Vec<Notification>> = MainCell::new(Vec::new());
/// Where locks and sales were loaded that nobody has met. A list of its own, because meeting one means opening its key, which
/// a command has no time for and which can leave new notifications.
static LOADED: MainCell<Vec<KeyBuf>> = MainCell::new(Vec::new());

/// Posts a notification and has it looked at in the next turn of the event loop.
pub fn post(note: Notification) {
    faults::point();
    INBOX.with(|inbox| inbox.push(note));
    timer::arm(timer::Next::Now);
}

/// A lock or a sale came with a file or a payload.
pub fn loaded(place: KeyBuf) {
    LOADED.with(|loaded| loaded.push(place));
    timer::arm(timer::Next::Now);
}

/// Databases `one` and `other` have traded places. What was loaded before and is met after it lives on the other side by then.
pub fn swap_loaded(one: i32, other: i32) {
    LOADED.with(|loaded| loaded.iter_mut().for_each(|place| place.swap(one, other)));
}

/// Takes one of the places where something was loaded.
pub fn next_loaded() -> Option<KeyBuf> {
    LOADED.with(|loaded| {
        let place = loaded.pop();
        // The list is as long as the file was, and has no use for its room after that.
        if loaded.is_empty() {
            *loaded = Vec::new();
        }
        place
    })?
}

/// A parked client left.
pub fn client_unblocked(waiter: WaiterId, left: Unblocked) {
    match left {
        // Nothing follows from it that could not wait for the next notification: not worth a turn of the event loop.
        Unblocked::Answered => drop(INBOX.with(|inbox| inbox.push(Notification::Left(waiter, left)))),
        Unblocked::TimedOut | Unblocked::Gone => post(Notification::Left(waiter, left)),
    }
}

/// Takes everything out, in the order in which it was posted, and hands each to `f`. `reading` is empty before and after; it is kept for its
/// memory only.
pub fn drain(reading: &mut Vec<Notification>, mut f: impl FnMut(Notification)) {
    INBOX.with(|inbox| mem::swap(inbox, reading));
    reading.drain(..).for_each(&mut f);
    reading.shrink_to(USUAL);
}

/// How many notifications may well be there at once, time and again.
const USUAL: usize = 64;
