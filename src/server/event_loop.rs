//! Counting the turns of the event loop, while they must be told apart.
//!
//! At the end of a turn the server sends what it has written, but not to connections that it closes. So output that was written to a client
//! and cut off in the same turn was not sent. The server can notify us of every turn. That makes each turn a little more expensive, so it
//! is requested only for a short time.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use redis_module::raw;

use super::api::{self, RawCtx};
use super::cell::MainCell;
use super::ctx::{Ctx, is_connected};
use super::guard::guard;
use super::server_info;

struct Turns {
    /// When the counting began, if it is on.
    since: Option<Instant>,
    /// The current turn.
    number: u64,
    /// The last turn whose number was given out to be compared later.
    remembered: u64,
}

static TURNS: MainCell<Turns> = MainCell::new(Turns { since: None, number: 0, remembered: 0 });

/// The number of the current turn, to tell it from later ones for a short time; `None` if that is impossible.
pub fn remember(ctx: &Ctx<'_>) -> Option<u64> {
    // A script, or a command of another module, may have been running for a long time; see [`number`].
    let flags = ctx.flags();
    if flags.is_script() || (flags.denies_blocking() && !is_connected(ctx.client_id())) {
        return None;
    }
    let remembered = TURNS.with(|turns| {
        if turns.since.is_none() {
            if !subscribe(ctx, Some(on_turn)) {
                return None;
            }
            turns.since = Some(Instant::now());
            turns.number = turns.number.wrapping_add(1);
        }
        turns.remembered = turns.number;
        Some(turns.number)
    });
    remembered.flatten()
}

/// The number of the current turn, if turns are being counted.
///
/// During a script or command that takes longer than `busy-reply-threshold`, the server serves its clients within the turn. If that may
/// have happened, there is no number.
pub fn number(ctx: &mut Ctx<'_>) -> Option<u64> {
    let (since, number) = TURNS.with(|turns| turns.since.map(|since| (since, turns.number)))??;
    let patience = server_info::setting(ctx, c"busy-reply-threshold")?.parse().ok().map(Duration::from_millis)?;
    // The server's clock may be less precise than ours.
    (since.elapsed().saturating_mul(2) < patience).then_some(number)
}

/// Ends the counting once the last remembered turn is over. Do not call this in an event: the server may be iterating over its subscribers.
pub fn rest(ctx: &Ctx<'_>) {
    TURNS.with(|turns| {
        if turns.since.is_some() && turns.number != turns.remembered && subscribe(ctx, None) {
            turns.since = None;
        }
    });
}

/// Subscribes `callback` to every turn, or unsubscribes; false if the server refuses.
fn subscribe(ctx: &Ctx<'_>, callback: raw::RedisModuleEventCallback) -> bool {
    let event = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_EVENTLOOP, dataver: 1 };
    // SAFETY: the context is valid. The server only changes a list that it is not iterating over: `remember` adds at its end, and `rest` is not
    // called in events.
    unsafe { api::subscribe_to_server_event(ctx.raw(), event, callback) == api::OK }
}

unsafe extern "C" fn on_turn(_: *mut RawCtx, _: raw::RedisModuleEvent, what: u64, _: *mut c_void) {
    if what == raw::REDISMODULE_SUBEVENT_EVENTLOOP_AFTER_SLEEP {
        guard("a turn", || TURNS.with(|turns| turns.number = turns.number.wrapping_add(1)));
    }
}
