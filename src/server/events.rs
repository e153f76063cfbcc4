//! What happens on the server besides commands.
//!
//! Handlers run in the middle of somebody else's work, so they only pass on what they heard; see [`super::defer`].

use std::ffi::{CStr, c_void};

use redis_module::raw;

use super::api::{self, RawCtx};
use super::cell::MainCell;
use super::ctx::Ctx;
use super::guard::guard;
use super::import;

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection of this client ended, whoever ended it.
    ClientGone(u64),
    /// The keys of this database, or of all, are gone.
    Flushed(Option<i32>),
    /// Two databases have changed places.
    Swapped(i32, i32),
    /// The server decides from now on, or does not any more.
    Role {
        /// Whether it is the primary now.
        primary: bool,
    },
    /// Data has been loaded.
    Loaded,
    /// The server has begun or ended to be filled by a copying tool, or may have; see [`super::import`].
    Import,
}

/// Hears of every event. May write nothing.
pub type Hear = fn(&mut Ctx<'_>, Event);

static HEAR: MainCell<Option<Hear>> = MainCell::new(None);

/// The events that exist on every server with the same number and meaning. From 18 on, Redis and Valkey use the same numbers for
/// different things.
const EVENTS: [u64; 6] = [
    raw::REDISMODULE_EVENT_CLIENT_CHANGE,
    raw::REDISMODULE_EVENT_FLUSHDB,
    raw::REDISMODULE_EVENT_SWAPDB,
    raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
    raw::REDISMODULE_EVENT_LOADING,
    raw::REDISMODULE_EVENT_CONFIG,
];

/// Subscribes `hear`; false when the server refused.
pub fn subscribe(ctx: &Ctx<'_>, hear: Hear) -> bool {
    HEAR.with(|slot| *slot = Some(hear));
    EVENTS.iter().all(|id| {
        let event = raw::RedisModuleEvent { id: *id, dataver: 1 };
        // SAFETY: the context is that of the module's load.
        unsafe { api::subscribe_to_server_event(ctx.raw(), event, Some(on_event)) == api::OK }
    })
}

unsafe extern "C" fn on_event(raw: *mut RawCtx, event: raw::RedisModuleEvent, what: u64, data: *mut c_void) {
    guard("an event", || {
        // SAFETY: the server passes the structure that belongs to the event's number, alive during the call.
        if let Some(event) = unsafe { read(event.id, what, data) }
            && let Some(Some(hear)) = HEAR.with(|slot| *slot)
        {
            // SAFETY: the server passes a context that lives until this function returns, on the main thread.
            hear(&mut unsafe { Ctx::new(raw) }, event);
        }
    });
}

/// What the server says, in our words; `None` for what does not concern us.
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
            Some(Event::Role { primary: what == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER })
        }
        (raw::REDISMODULE_EVENT_LOADING, raw::REDISMODULE_SUBEVENT_LOADING_ENDED) => Some(Event::Loaded),
        (raw::REDISMODULE_EVENT_CONFIG, raw::REDISMODULE_SUBEVENT_CONFIG_CHANGE) => {
            // SAFETY: the caller's promise.
            let change = unsafe { data.cast::<raw::RedisModuleConfigChange>().as_ref() }?;
            let count = usize::try_from(change.num_changes).unwrap_or_default();
            // SAFETY: the structure names so many settings, each by a C string.
            let mut names = (0..count).map(|index| unsafe { CStr::from_ptr(*change.config_names.add(index)) });
            names.any(|name| name == import::SETTING).then_some(Event::Import)
        }
        _ => None,
    }
}
