//! Listening for renamed keys, while a value is unlinked.
//!
//! `RENAME` and `MOVE` first take the value from its key and then publish the new key. The module subscribes in between. If it can
//! unsubscribe (Redis 8.4), this costs nothing at other times. On older versions the subscription stays and adds some 100 ns to every `DEL`
//! and `EXPIRE` of the server; a server whose locks and sales are never deleted, renamed or expired does not pay that. On Valkey the module
//! does not subscribe, because there `MOVE` leaves its caller in the wrong database if a module does.

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use redis_module::raw;

use super::api::{self, RawCtx, RawString};
use super::args::Arg;
use super::cell::ServerCell;
use super::compat;
use super::ctx::{Ctx, Level};
use super::guard::guard;
use super::server_facts;
use super::timer;
use crate::core::key::{KeyBuf, KeyRef};

/// Receives the new key of a renamed value. Runs in the middle of a command: may write nothing.
pub type Hear = fn(KeyBuf);

static HEAR: ServerCell<Option<Hear>> = ServerCell::new(None);
static IS_SUBSCRIBED: AtomicBool = AtomicBool::new(false);
/// Whether new keys are wanted now.
static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// Sets the receiver. Called once, at load.
pub fn install(hear: Hear) {
    if !server_facts::is_valkey() {
        HEAR.with(|slot| *slot = Some(hear));
    }
}

/// A value has just lost its key; listens for a new one.
pub fn expect() {
    if heard_by().is_some() {
        IS_WANTED.store(true, Ordering::Relaxed);
        timer::with_detached(|ctx| subscribe(ctx));
    }
}

/// No value is unlinked any more, so stops listening.
pub fn stop(ctx: &Ctx<'_>) {
    if IS_WANTED.swap(false, Ordering::Relaxed)
        && IS_SUBSCRIBED.load(Ordering::Relaxed)
        && compat::unsubscribe(ctx, CLASS, on_event)
    {
        IS_SUBSCRIBED.store(false, Ordering::Relaxed);
    }
}

fn heard_by() -> Option<Hear> {
    HEAR.with(|slot| *slot).flatten()
}

/// The class of events for keys of any type.
const CLASS: c_int = raw::REDISMODULE_NOTIFY_GENERIC;

fn subscribe(ctx: &Ctx<'_>) {
    if !IS_SUBSCRIBED.swap(true, Ordering::Relaxed) {
        // SAFETY: the context belongs to the module.
        unsafe { api::subscribe_to_keyspace_events(ctx.raw(), CLASS, Some(on_event)) };
        if !compat::can_unsubscribe() {
            let text = "lockstock: a lock or sale was deleted or renamed by a command that is not lockstock's. To hear of new names, \
                        lockstock listens to keyspace events until the server ends, which costs each DEL and EXPIRE about 100 ns";
            ctx.log(Level::Notice, text);
        }
    }
}

unsafe extern "C" fn on_event(ctx: *mut RawCtx, _: c_int, event: *const c_char, key: *mut RawString) -> c_int {
    if IS_WANTED.load(Ordering::Relaxed) {
        // SAFETY: the server passes a C string.
        let event = unsafe { CStr::from_ptr(event) };
        if event == c"rename_to" || event == c"move_to" {
            // SAFETY: the context and the key's name are valid while the callback runs, which is with the server's lock.
            let (ctx, key) = unsafe { (Ctx::new(ctx), Arg::new(key)) };
            guard("a new name", || {
                if let Some(hear) = heard_by() {
                    hear(KeyRef { db: ctx.db(), key: key.bytes() }.to_buf());
                }
            });
        }
    }
    api::OK
}
