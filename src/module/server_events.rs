//! The events of the server that matter to the module.

use crate::core::lock::ClientId;
use crate::core::time::Wakeup;
use crate::module::blocked::BLOCKED;
use crate::module::destroyed;
use crate::module::inbox::{self, Notification};
use crate::module::state;
use crate::server::events::{Event, Handlers};
use crate::server::{compat, import, server_facts, timer};

/// What the server calls.
pub const HANDLERS: Handlers = Handlers { event: hear, cron };

/// Posts the server events that matter to the module.
fn hear(event: Event) {
    match event {
        Event::ClientGone(client) => {
            let Some(client) = ClientId::new(client).filter(|client| is_known(*client)) else { return };
            hand_over_during_script(client);
        }
        Event::ImportMode => import::changed(),
        Event::Swapped(one, other) => inbox::swap_loaded(one, other),
        _ => {}
    }
    inbox::post(Notification::Event(event));
    let moves = matches!(event, Event::Flushed(_) | Event::Swapped(..));
    if moves && state::enter_as_is(|_| ()).is_none() {
        // A listener of another module did this while a key was being opened or created.
        inbox::post(Notification::InBetween);
    }
}

/// Arms the timer for entries that another thread has destroyed. That thread could not do it.
fn cron() {
    if destroyed::any() {
        timer::arm(Wakeup::Now);
    }
}

/// Whether the client holds a lock or waits for one. Connections come and go by the thousand; few of them do.
fn is_known(client: ClientId) -> bool {
    state::enter_as_is(|state| state.locks.knows(client)).unwrap_or(true)
}

/// Before Redis 7.4 a client may read its grant and leave while a script runs; the server is done with the client only after that.
fn hand_over_during_script(client: ClientId) {
    let unacked = state::enter_as_is(|state| state.locks.unacked_of(client)).unwrap_or_default();
    if !unacked.is_empty() && compat::writes_early_replies_at_once() && server_facts::runs_script() {
        for waiter in unacked {
            BLOCKED.handed_over(waiter);
        }
    }
}
