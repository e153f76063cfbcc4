//! The module state outside of its keys, and the only access to it.

use std::mem;
use std::sync::LazyLock;

use crate::config;
use crate::core::deadline_index::DeadlineIndex;
use crate::core::lock::{ClientId, Engine};
use crate::core::pause::Pause;
use crate::core::retry::RefusedSales;
use crate::core::time::Wakeup;
use crate::module::destroyed;
use crate::module::inbox::{self, Notification};
use crate::module::rename_scan::RenameScan;
use crate::module::slot_watch::SlotWatch;
use crate::server::blocked_clients::Unblocked;
use crate::server::cell::ServerCell;
use crate::server::clock;
use crate::server::events::Event;
use crate::server::timer;

/// The module state outside of its keys.
#[derive(Default)]
pub struct State {
    /// Queues, sessions, fences and lease deadlines.
    pub locks: Engine,
    /// When the timer has something to do for each sale: its next hold expires, or its line can be served.
    pub sales: DeadlineIndex,
    /// Sales whose stream or whose cluster refused their due changes.
    pub refused: RefusedSales,
    /// The number of expired holds of sales.
    pub expirations: u64,
    /// Locks and sales that were renamed and must be found.
    pub renamed: RenameScan,
    /// The pause before the next look for locks that are waited for and whose own TTLs are over.
    pub expiring: Pause,
    /// Where the slots of requests are that wait without blocking their clients.
    pub slots: SlotWatch,
    /// The notifications that are being processed. Empty between calls, and only kept to reuse its memory.
    reading: Vec<Notification>,
}

static STATE: LazyLock<ServerCell<State>> = LazyLock::new(|| ServerCell::new(State::default()));

/// Runs `f` on the state, after processing the inbox; `None` if an outer call is using the state.
pub fn enter<R>(f: impl FnOnce(&mut State) -> R) -> Option<R> {
    enter_as_is(|state| {
        drain_inbox(state);
        if destroyed::any() {
            // Another thread cannot arm the timer.
            timer::arm(Wakeup::Now);
        }
        f(state)
    })
}

/// Like [`enter`], but without the inbox: for callbacks, and for callers that drain it themselves.
pub fn enter_as_is<R>(f: impl FnOnce(&mut State) -> R) -> Option<R> {
    STATE.with(|state| {
        state.locks.settings = config::for_locks();
        f(state)
    })
}

/// Processes the notifications of callbacks, in the order of posting. So every command sees the events that came before it.
pub fn drain_inbox(state: &mut State) {
    if !inbox::any() {
        return;
    }
    let mut reading = mem::take(&mut state.reading);
    inbox::drain(&mut reading, |notification| {
        match notification {
            Notification::LockVanished(key, entry, watch) => {
                state.locks.vanished(key.as_key(), entry);
                state.renamed.add(watch);
            }
            Notification::Event(Event::ClientGone(client)) => {
                if let Some(client) = ClientId::new(client) {
                    state.locks.client_gone(clock::now().ms, client);
                }
            }
            Notification::SaleVanished(entry, watch) => {
                if let Some(entry) = entry {
                    state.sales.remove(entry);
                }
                state.renamed.add(watch);
            }
            Notification::Event(Event::Flushed(db)) => {
                state.locks.flushed(db);
                state.sales.flush(db);
            }
            Notification::Event(Event::Swapped(one, other)) => {
                state.locks.swapped(one, other);
                state.sales.swap(one, other);
                state.renamed.begin_again();
            }
            Notification::InBetween => state.renamed.for_everything(),
            Notification::Event(Event::Role { primary: false }) => state.locks.demoted(clock::now().ms),
            // These only had to wake the timer.
            Notification::Event(Event::Role { primary: true } | Event::Loaded | Event::ImportMode) => {}
            Notification::Unblocked(waiter, Unblocked::Answered) => state.locks.delivered(waiter),
            Notification::Unblocked(waiter, Unblocked::TimedOut) => state.locks.timed_out(clock::now().ms, waiter),
            Notification::Unblocked(waiter, Unblocked::Gone) => state.locks.left(clock::now().ms, waiter),
        }
    });
    state.reading = reading;
}
