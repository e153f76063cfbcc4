//! The notifications that callbacks of the server leave for the module.
//!
//! A callback runs in the middle of the server's own work and may change nothing. A callback posts a notification; the next command, or
//! else the timer, processes it.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::core::deadline_index::DeadlineId;
use crate::core::key::KeyBuf;
use crate::core::lock::WaiterId;
use crate::core::time::Wakeup;
use crate::core::unlinked::UnlinkedWatch;
use crate::server::blocked_clients::Unblocked;
use crate::server::cell::ServerCell;
use crate::server::events::Event;
use crate::server::faults;
use crate::server::timer;

/// Something that a callback saw and could not handle immediately.
pub enum Notification {
    /// A sale with holds lost its key; its entry in the deadline index, if it was registered, and a watch on the value.
    SaleVanished(Option<DeadlineId>, UnlinkedWatch),
    /// A lock is no longer at this key; the entry in the deadline index that it had there, and a watch on the value.
    LockVanished(KeyBuf, Option<DeadlineId>, UnlinkedWatch),
    /// An event of the server.
    Event(Event),
    /// Databases were flushed or swapped in the middle of work on locks. Entries that were added to the deadline index after that, but
    /// before the module processes this notification, are wrong.
    InBetween,
    /// A blocked client was unblocked.
    Unblocked(WaiterId, Unblocked),
}

static INBOX: ServerCell<Vec<Notification>> = ServerCell::new(Vec::new());
/// Whether there is anything in the inbox. Most commands find it empty, and need not open it for that.
static IS_FULL: AtomicBool = AtomicBool::new(false);
/// The keys of loaded locks and sales that are not registered yet. They have a list of their own, because registering one means opening its
/// key. A command has no time for that, and it can cause new notifications.
static LOADED: ServerCell<Vec<KeyBuf>> = ServerCell::new(Vec::new());

/// Posts a notification; the timer processes it in the next turn of the event loop, if no command does so earlier.
pub fn post(note: Notification) {
    faults::point();
    put_in(note);
    timer::arm(Wakeup::Now);
}

fn put_in(note: Notification) {
    INBOX.with(|inbox| inbox.push(note));
    IS_FULL.store(true, Ordering::Relaxed);
}

/// A lock or a sale was loaded from a file or a payload.
pub fn loaded(key: KeyBuf) {
    LOADED.with(|loaded| loaded.push(key));
    timer::arm(Wakeup::Now);
}

/// Databases `one` and `other` were swapped. Keys that were loaded before and are registered later are now in the other database.
pub fn swap_loaded(one: i32, other: i32) {
    LOADED.with(|loaded| loaded.iter_mut().for_each(|key| key.swap(one, other)));
}

/// Takes the key of one loaded value.
pub fn next_loaded() -> Option<KeyBuf> {
    LOADED.with(|loaded| {
        let key = loaded.pop();
        // Free the memory: the list may be as long as the whole file.
        if loaded.is_empty() {
            *loaded = Vec::new();
        }
        key
    })?
}

/// A blocked client was unblocked.
pub fn client_unblocked(waiter: WaiterId, left: Unblocked) {
    match left {
        // This can wait for the next notification; it is not worth a turn of the event loop.
        Unblocked::Answered => put_in(Notification::Unblocked(waiter, left)),
        Unblocked::TimedOut | Unblocked::Gone => post(Notification::Unblocked(waiter, left)),
    }
}

/// Whether there are notifications.
pub fn any() -> bool {
    IS_FULL.load(Ordering::Relaxed)
}

/// Takes all notifications in the order in which they were posted, and passes each to `f`. `reading` is empty before and after; it is only
/// kept to reuse its memory.
pub fn drain(reading: &mut Vec<Notification>, mut f: impl FnMut(Notification)) {
    IS_FULL.store(false, Ordering::Relaxed);
    INBOX.with(|inbox| mem::swap(inbox, reading));
    reading.drain(..).for_each(&mut f);
    reading.shrink_to(USUAL);
}

/// The usual number of notifications at once; memory for these is kept.
const USUAL: usize = 64;
