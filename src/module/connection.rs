//! The connections of clients: how they look, and that they end.

use crate::core::lock::{ClientId, Front, Look, Mark, Unsent};
use crate::module::inbox::{self, Notification};
use crate::module::state;
use crate::server::ctx::Ctx;
use crate::server::event_loop;
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
        inbox::post(Notification::Event(event));
        let moves = matches!(event, Event::Flushed(_) | Event::Swapped(..));
        if moves && state::peek(|_| ()).is_none() {
            // A listener of another module has done it, while a key was opened or made.
            inbox::post(Notification::InBetween);
        }
        return;
    };
    let Some(client) = ClientId::new(number) else { return };
    // Connections come and go by the thousand; few of them hold or wait for anything.
    let known = state::peek(|state| (state.locks.knows(client), state.locks.has_undelivered(client)));
    let (matters, owed) = known.unwrap_or((true, true));
    if matters {
        inbox::post(Notification::ClientGone(client, if owed { look(ctx, client) } else { Look::Unknown }));
    }
}

/// What a reply to `client` would be behind.
pub fn front(ctx: &mut Ctx<'_>, client: ClientId) -> Front {
    let Some(output) = server_info::output(ctx, client.get()) else { return Front::Unknown };
    if let Some(unsent) = unsent(&output) {
        return Front::Unsent(unsent);
    }
    // What was asked for behind the lock may be answered in the same turn.
    let turn = || if output.asks { event_loop::mark(ctx) } else { None };
    Front::Clear(output.sent.or_else(turn).map(Mark))
}

/// How the connection of `client` looks, to which a grant was written.
pub fn look(ctx: &mut Ctx<'_>, client: ClientId) -> Look {
    let Some(output) = server_info::output(ctx, client.get()) else { return Look::Unknown };
    let Some(unsent) = unsent(&output) else { return Look::Sent };
    let asked = ["lock.acquire", "lock.macquire"].iter().any(|name| output.command.eq_ignore_ascii_case(name));
    Look::Unsent { unsent, another: output.hears || !asked, mark: mark(ctx, &output) }
}

fn unsent(&Output { first, blocks, bytes, .. }: &Output) -> Option<Unsent> {
    (first > 0 || blocks > 0).then_some(Unsent { first, blocks, bytes })
}

/// The mark of a connection at this moment: what it has been sent so far, where the server counts that, else the turn.
fn mark(ctx: &mut Ctx<'_>, output: &Output) -> Option<Mark> {
    // Who takes no more has been written to, perhaps in this turn.
    let turn = |ctx: &mut Ctx<'_>| if output.is_slow { None } else { event_loop::number(ctx) };
    let mark = output.sent.or_else(|| turn(ctx))?;
    // Other threads may have sent what the server has not counted yet.
    (server_info::setting(ctx, c"io-threads")? == "1").then_some(Mark(mark))
}
