//! The events of the server that matter to the module.

use crate::core::lock::ClientId;
use crate::module::blocked::BLOCKED;
use crate::module::inbox::{self, Notification};
use crate::module::state;
use crate::server::events::Event;
use crate::server::{compat, import, server_facts};

/// Posts the server events that matter to the module.
pub fn hear(event: Event) {
    let Event::ClientGone(number) = event else {
        if event == Event::Import {
            import::changed();
        }
        if let Event::Swapped(one, other) = event {
            inbox::swap_loaded(one, other);
        }
        inbox::post(Notification::Event(event));
        let moves = matches!(event, Event::Flushed(_) | Event::Swapped(..));
        if moves && state::enter_as_is(|_| ()).is_none() {
            // A listener of another module did this while a key was being opened or created.
            inbox::post(Notification::InBetween);
        }
        return;
    };
    let Some(client) = ClientId::new(number) else { return };
    // Connections come and go by the thousand; few of them hold a lock or wait for one.
    if state::enter_as_is(|state| state.locks.knows(client)).unwrap_or(true) {
        let unacked = state::enter_as_is(|state| state.locks.unacked_of(client)).unwrap_or_default();
        if !unacked.is_empty() && compat::writes_early_replies_at_once() && server_facts::runs_script() {
            for waiter in unacked {
                BLOCKED.handed_over(waiter);
            }
        }
        inbox::post(Notification::ClientGone(client));
    }
}
