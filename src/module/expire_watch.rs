//! Locks that are waited for, and whose keys have a TTL of their own from `EXPIRE`.
//!
//! The end of this TTL ends the lock. The server removes the key when a command touches it, or when the server's own search comes upon it.
//! Among many keys with a TTL this search may take minutes. So while requests wait, the module opens the keys that they wait for, a few at
//! a time. To open a key whose TTL is over removes it.

use crate::core::lock::{Engine, Found, Keyspace};
use crate::core::pause::Pause;
use crate::core::time::{Millis, UnixMs, Wakeup};

/// The time between two looks.
const PAUSE: Millis = Millis(100);

/// The most keys that one look opens. It takes a quarter of a millisecond if none of them is in the processor's cache.
const MOST: usize = 100;

/// When to look next, after a look or after a request has begun to wait.
pub fn next_look(now: UnixMs) -> Wakeup {
    now.plus(PAUSE).into()
}

/// If it is time to look, opens the next keys that requests wait for. Returns when to look next.
pub fn look(pause: &mut Pause, keyspace: &mut impl Keyspace, now: UnixMs, locks: &mut Engine) -> Wakeup {
    if locks.waiters() == 0 {
        return Wakeup::Never;
    }
    if let Some(next) = pause.look(now) {
        return Wakeup::At(next);
    }
    *pause = Pause::begin(now, PAUSE);
    for key in locks.next_waited_for(MOST) {
        // The unlink callback of the data type reports a lock that expires here.
        if let Found::Foreign = keyspace.find(key.as_key()) {
            locks.vanished(key.as_key(), None);
        }
    }
    next_look(now)
}
