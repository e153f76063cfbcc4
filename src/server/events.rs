//! Server events.
//!
//! Handlers run in the middle of other work, so they only pass the event on; see [`super::timer`].

use std::ffi::{CStr, c_void};

use redis_module::raw;

use super::api::{self, RawCtx};
use super::cell::ServerCell;
use super::ctx::Ctx;
use super::guard::guard;
use super::import;
use super::origin;
use super::timer;

/// A server event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection of this client ended, for whatever reason.
    ClientGone(u64),
    /// All keys of this database, or of all databases, are gone.
    Flushed(Option<i32>),
    /// Two databases were swapped.
    Swapped(i32, i32),
    /// The server was promoted or demoted.
    Role {
        /// Whether it is the primary now.
        primary: bool,
    },
    /// Data has been loaded.
    Loaded,
    /// The server's import mode was changed; see [`super::import`].
    ImportMode,
}

/// What is called. Neither function may write anything.
#[derive(Clone, Copy)]
pub struct Handlers {
    /// For every event.
    pub event: fn(Event),
    /// For the regular work that the server does some times a second.
    pub cron: fn(),
}

static HANDLERS: ServerCell<Option<Handlers>> = ServerCell::new(None);

/// The events that have the same number and meaning on every server. From 18 on, Redis and Valkey use the same numbers for different
/// events.
const EVENTS: [u64; 7] = [
    raw::REDISMODULE_EVENT_CLIENT_CHANGE,
    raw::REDISMODULE_EVENT_FLUSHDB,
    raw::REDISMODULE_EVENT_SWAPDB,
    raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
    raw::REDISMODULE_EVENT_LOADING,
    raw::REDISMODULE_EVENT_CONFIG,
    raw::REDISMODULE_EVENT_CRON_LOOP,
];

/// Subscribes `handlers` to the events of the server; false if the server refused.
pub fn subscribe(ctx: &Ctx<'_>, handlers: Handlers) -> bool {
    HANDLERS.with(|slot| *slot = Some(handlers));
    origin::learn(ctx.flags().is_primary());
    EVENTS.iter().all(|id| {
        let event = raw::RedisModuleEvent { id: *id, dataver: 1 };
        // SAFETY: the context is that of the module's load.
        unsafe { api::subscribe_to_server_event(ctx.raw(), event, Some(on_event)) == api::OK }
    })
}

unsafe extern "C" fn on_event(_: *mut RawCtx, event: raw::RedisModuleEvent, what: u64, data: *mut c_void) {
    guard("an event", || {
        let Some(Some(handlers)) = HANDLERS.with(|slot| *slot) else { return };
        if event.id == raw::REDISMODULE_EVENT_CRON_LOOP {
            timer::check_clock();
            (handlers.cron)();
        }
        // SAFETY: the server passes the structure that belongs to the event's number, and it is alive during the call.
        if let Some(event) = unsafe { read(event.id, what, data) } {
            (handlers.event)(event);
        }
    });
}

/// Converts an event of the server; `None` if it does not concern us.
///
/// # Safety
/// `data` points to the structure that the event's documentation names, or is null.
unsafe fn read(id: u64, what: u64, data: *mut c_void) -> Option<Event> {
    match (id, what) {
        (raw::REDISMODULE_EVENT_CLIENT_CHANGE, raw::REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED) => {
            // SAFETY: the caller's promise.
            let client = unsafe { data.cast::<raw::RedisModuleClientInfo>().as_ref() }?;
            Some(Event::ClientGone(client.id))
        }
        (raw::REDISMODULE_EVENT_FLUSHDB, raw::REDISMODULE_SUBEVENT_FLUSHDB_END) => {
            // SAFETY: the caller's promise.
            let flush = unsafe { data.cast::<raw::RedisModuleFlushInfo>().as_ref() }?;
            Some(Event::Flushed((flush.dbnum >= 0).then_some(flush.dbnum)))
        }
        (raw::REDISMODULE_EVENT_SWAPDB, _) => {
            // SAFETY: the caller's promise.
            let swap = unsafe { data.cast::<raw::RedisModuleSwapDbInfo>().as_ref() }?;
            Some(Event::Swapped(swap.dbnum_first, swap.dbnum_second))
        }
        (raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, _) => {
            let primary = what == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER;
            origin::learn(primary);
            Some(Event::Role { primary })
        }
        (raw::REDISMODULE_EVENT_LOADING, raw::REDISMODULE_SUBEVENT_LOADING_ENDED) => Some(Event::Loaded),
        (raw::REDISMODULE_EVENT_CONFIG, raw::REDISMODULE_SUBEVENT_CONFIG_CHANGE) => {
            // SAFETY: the caller's promise.
            let change = unsafe { data.cast::<raw::RedisModuleConfigChange>().as_ref() }?;
            let count = usize::try_from(change.num_changes).unwrap_or_default();
            // SAFETY: the structure has this number of settings, each named by a C string.
            let mut names = (0..count).map(|index| unsafe { CStr::from_ptr(*change.config_names.add(index)) });
            names.any(|name| name == import::SETTING).then_some(Event::ImportMode)
        }
        _ => None,
    }
}
