//! The connections of clients: how they look, and that they end.

use crate::core::lock::{ClientId, Look, Unsent};
use crate::module::inbox::{self, Notification};
use crate::module::state;
use crate::server::ctx::Ctx;
use crate::server::events::Event;
use crate::server::import;
use crate::server::server_info::{self, Output};

/// Posts the events of the server, where anybody cares.
pub fn hear(ctx: &mut Ctx<'_>, event: Event) {
    let Event::ClientGone(number) = event else {
        if event == Event::Import {
            import::changed();
        }
        if let Event::Swapped(one, other) = event {
            inbox::swap_loaded(one, other);
        }
        return inbox::post(Notification::Event(event));
    };
    let Some(client) = ClientId::new(number) else { return };
    // Connections come and go by the thousand; few of them hold or wait for anything.
    let known = state::peek(|state| (state.locks.knows(client), state.locks.owes(client)));
    let (matters, owed) = known.unwrap_or((true, true));
    if matters {
        inbox::post(Notification::ClientGone(client, if owed { look_at(ctx, client) } else { Look::Unknown }));
    }
}

/// How the connection of `client` looks, to which a grant was written.
pub fn look_at(ctx: &mut Ctx<'_>, client: ClientId) -> Look {
    match server_info::output(ctx, client.get()) {
        None => Look::Unknown,
        Some(Output { first: 0, blocks: 0, .. }) => Look::Sent,
        Some(Output { first, blocks, bytes, command, hears }) => {
            let asked = ["lock.acquire", "lock.macquire"].iter().any(|name| command.eq_ignore_ascii_case(name));
            Look::Unsent { unsent: Unsent { first, blocks, bytes }, another: hears || !asked }
        }
    }
}
