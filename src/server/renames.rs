//! Hearing of keys that get another name, while somebody wants to know.
//!
//! `RENAME` and `MOVE` take a value's name away, and then tell which it has now. Where a subscription can be ended again (Redis 8.4), it is
//! made in between, and costs nothing at other times. On older ones it is there for good and costs every `DEL` and `EXPIRE` of the server
//! some 100 ns; so it is made when a renamed value is missed for the first time, and never where nobody renames any. Valkey is not
//! listened to: there `MOVE` leaves its caller in another database when somebody does.

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use redis_module::raw;

use super::api::{self, RawCtx, RawString};
use super::args::Arg;
use super::cell::MainCell;
use super::compat;
use super::ctx::{Ctx, Level};
use super::defer;
use super::entry::guard;
use super::facts;
use crate::core::place::{At, Place};

/// Hears where a key has come to under its new name. Runs in the middle of a command: may write nothing.
pub type Hear = fn(Place);

/// When to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// Not at all.
    Never,
    /// Once a value has been missed.
    FromTheFirst,
    /// While one may be missing.
    Meanwhile,
}

static HEAR: MainCell<Option<(Hear, Policy)>> = MainCell::new(None);
static IS_SUBSCRIBED: AtomicBool = AtomicBool::new(false);
/// Whether somebody wants to know.
static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// Names who hears. Called once, at load.
pub fn install(ctx: &Ctx<'_>, hear: Hear) {
    let policy = if facts::is_valkey(ctx) {
        Policy::Never
    } else if compat::can_unsubscribe() {
        Policy::Meanwhile
    } else {
        Policy::FromTheFirst
    };
    HEAR.with(|slot| *slot = Some((hear, policy)));
}

fn policy() -> Policy {
    HEAR.with(|slot| slot.map_or(Policy::Never, |(_, policy)| policy)).unwrap_or(Policy::Never)
}

/// A value has just lost its name. If it is about to get another one, that shall be heard.
pub fn expect() {
    if policy() == Policy::Meanwhile {
        defer::with_detached(subscribe);
    }
    IS_WANTED.store(true, Ordering::Relaxed);
}

/// A value has lost its name and still exists.
pub fn listen(ctx: &Ctx<'_>) {
    if policy() == Policy::FromTheFirst && !IS_SUBSCRIBED.load(Ordering::Relaxed) {
        subscribe(ctx);
        let text = "lockstock: a lock or sale was renamed. To be told of the next time, lockstock listens to keyspace events \
                    until the server ends, which costs each DEL and EXPIRE about 100 ns";
        ctx.log(Level::Notice, text);
    }
    IS_WANTED.store(true, Ordering::Relaxed);
}

/// Nothing is missing.
pub fn stop(ctx: &Ctx<'_>) {
    if IS_WANTED.swap(false, Ordering::Relaxed)
        && IS_SUBSCRIBED.load(Ordering::Relaxed)
        && compat::unsubscribe(ctx, CLASS, on_event)
    {
        IS_SUBSCRIBED.store(false, Ordering::Relaxed);
    }
}

/// The events of keys, whatever they hold.
const CLASS: c_int = raw::REDISMODULE_NOTIFY_GENERIC;

fn subscribe(ctx: &Ctx<'_>) {
    if !IS_SUBSCRIBED.swap(true, Ordering::Relaxed) {
        // SAFETY: the context is one of the module's.
        unsafe { api::subscribe_to_keyspace_events(ctx.raw(), CLASS, Some(on_event)) };
    }
}

unsafe extern "C" fn on_event(ctx: *mut RawCtx, _: c_int, event: *const c_char, key: *mut RawString) -> c_int {
    if IS_WANTED.load(Ordering::Relaxed) {
        // SAFETY: the server passes a C string.
        let event = unsafe { CStr::from_ptr(event) };
        if event == c"rename_to" || event == c"move_to" {
            // SAFETY: the context and the key's name are valid while the callback runs, which is on the main thread.
            let (ctx, key) = unsafe { (Ctx::new(ctx), Arg::new(key)) };
            guard("an event", || {
                if let Some(Some((hear, _))) = HEAR.with(|slot| *slot) {
                    hear(At { db: ctx.db(), key: key.bytes() }.keep());
                }
            });
        }
    }
    api::OK
}
