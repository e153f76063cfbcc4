//! The turns of the event loop, counted while somebody wants to tell them apart.
//!
//! At the end of a turn the server sends what it has written, but not to connections that it closes. So what was written to a client,
//! and cut off in the same turn, has not been sent. The server tells us of every turn if we ask it to. That makes each of them a little
//! dearer, so it is asked only for a moment.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use redis_module::raw;

use super::api::{self, RawCtx};
use super::cell::MainCell;
use super::ctx::{Ctx, is_connected};
use super::guard::guard;
use super::server_info;

struct Turns {
    /// Since when they are counted, if they are.
    since: Option<Instant>,
    /// This turn.
    number: u64,
    /// The last turn that somebody wants to tell from others.
    marked: u64,
}

static TURNS: MainCell<Turns> = MainCell::new(Turns { since: None, number: 0, marked: 0 });

/// The number of this turn, by which it is told from later ones for a moment; `None` if it cannot be.
pub fn mark(ctx: &Ctx<'_>) -> Option<u64> {
    // A script, or a command of another module, may have been running for long; see `number`.
    let flags = ctx.flags();
    if flags.is_script() || (flags.denies_blocking() && !is_connected(ctx.client_id())) {
        return None;
    }
    let marked = TURNS.with(|turns| {
        if turns.since.is_none() {
            if !subscribe(ctx, Some(on_turn)) {
                return None;
            }
            turns.since = Some(Instant::now());
            turns.number = turns.number.wrapping_add(1);
        }
        turns.marked = turns.number;
        Some(turns.number)
    });
    marked.flatten()
}

/// The number of this turn, if turns are being counted.
///
/// A script or a command that takes longer than `busy-reply-threshold` has the server look after its clients within the turn. If that
/// may have happened, there is no number.
pub fn number(ctx: &mut Ctx<'_>) -> Option<u64> {
    let (since, number) = TURNS.with(|turns| turns.since.map(|since| (since, turns.number)))??;
    let patience = server_info::setting(ctx, c"busy-reply-threshold")?.parse().ok().map(Duration::from_millis)?;
    // Its clock need not be as exact as ours.
    (since.elapsed().saturating_mul(2) < patience).then_some(number)
}

/// Ends the counting once the last turn that was marked is over. Not to be called in an event: the server may be going through those
/// who hear of it.
pub fn rest(ctx: &Ctx<'_>) {
    TURNS.with(|turns| {
        if turns.since.is_some() && turns.number != turns.marked && subscribe(ctx, None) {
            turns.since = None;
        }
    });
}

/// Has `callback` called in every turn, or nothing any more; false if the server refuses.
fn subscribe(ctx: &Ctx<'_>, callback: raw::RedisModuleEventCallback) -> bool {
    let event = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_EVENTLOOP, dataver: 1 };
    // SAFETY: the context is valid. The server only changes a list, which it is not going through: `mark` adds to its end, and `rest` is
    // not called in events.
    unsafe { api::subscribe_to_server_event(ctx.raw(), event, callback) == api::OK }
}

unsafe extern "C" fn on_turn(_: *mut RawCtx, _: raw::RedisModuleEvent, what: u64, _: *mut c_void) {
    if what == raw::REDISMODULE_SUBEVENT_EVENTLOOP_AFTER_SLEEP {
        guard("a turn", || TURNS.with(|turns| turns.number = turns.number.wrapping_add(1)));
    }
}
