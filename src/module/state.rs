//! What the module remembers besides its keys, and the one way to it.

use std::mem;
use std::sync::LazyLock;

use crate::core::deadline_index::DeadlineIndex;
use crate::core::lock::{Engine, Next};
use crate::core::retry::RefusedExpirations;
use crate::core::sale::Status;
use crate::module::destroyed;
use crate::module::inbox::{self, Notification};
use crate::module::rename_scan::RenameScan;
use crate::server::blocked_clients::Unblocked;
use crate::server::cell::MainCell;
use crate::server::events::Event;
use crate::server::timer;

/// Everything the module remembers besides its keys.
#[derive(Default)]
pub struct State {
    /// Queues, sessions, fences and the ends of leases.
    pub locks: Engine,
    /// When the next hold of each sale ends.
    pub sales: DeadlineIndex,
    /// When to try again what a sale's stream, or the cluster, refused.
    pub refused: RefusedExpirations,
    /// How often each status was answered.
    pub answers: [u64; Status::ALL.len()],
    /// How many holds of sales have expired.
    pub expirations: u64,
    /// Locks and sales that were renamed, and where they may be.
    pub renamed: RenameScan,
    /// The notifications that are being read; empty in between, and kept for its memory only.
    reading: Vec<Notification>,
}

static STATE: LazyLock<MainCell<State>> = LazyLock::new(|| MainCell::new(State::default()));
/// Looks at the state; `None` when it is in use by an outer call.
pub fn enter<R>(f: impl FnOnce(&mut State) -> R) -> Option<R> {
    STATE.with(|state| {
        drain_inbox(state);
        if destroyed::any() {
            // Another thread cannot arm the timer.
            timer::arm(timer::Next::Now);
        }
        f(state)
    })
}

/// As [`enter`], from a callback, which must not take in what others have posted.
pub fn peek<R>(f: impl FnOnce(&mut State) -> R) -> Option<R> {
    STATE.with(f)
}

/// How many requests wait.
pub fn waiters() -> usize {
    enter(|state| state.locks.waiters()).unwrap_or_default()
}

/// Takes in what callbacks saw, in the order in which they saw it; so that no command works on a picture that is older than
/// its own turn.
pub fn drain_inbox(state: &mut State) {
    let mut reading = mem::take(&mut state.reading);
    inbox::drain(&mut reading, |notification| {
        match notification {
            Notification::LockVanished(place, entry, watch) => {
                state.locks.vanished(place.as_key(), entry);
                state.renamed.add(watch);
            }
            Notification::ClientGone(client, look) => {
                state.locks.last_look(client, look);
                state.locks.client_gone(client);
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
            Notification::Event(Event::Role { primary: false }) => state.locks.demoted(),
            // The timer is awake now; that is all they are for.
            Notification::Event(
                Event::Role { primary: true } | Event::Loaded | Event::Import | Event::ClientGone(_),
            ) => {}
            Notification::Left(waiter, Unblocked::Answered) => state.locks.written(waiter),
            Notification::Left(waiter, Unblocked::TimedOut) => state.locks.timed_out(waiter),
            Notification::Left(waiter, Unblocked::Gone) => state.locks.left(waiter),
        }
    });
    state.reading = reading;
}

impl From<Next> for timer::Next {
    fn from(next: Next) -> Self {
        match next {
            Next::Now => Self::Now,
            Next::At(at) => Self::At(at),
            Next::Never => Self::Never,
        }
    }
}
