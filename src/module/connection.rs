//! The connections of clients: their unsent output, and their end.

use crate::core::lock::{ClientId, Front, Look, SendStamp, Unsent};
use crate::module::inbox::{self, Notification};
use crate::module::state;
use crate::server::ctx::Ctx;
use crate::server::event_loop;
use crate::server::events::Event;
use crate::server::import;
use crate::server::server_info::{self, Output};

/// Posts the server events that matter to the module.
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
        if moves && state::enter_as_is(|_| ()).is_none() {
            // A listener of another module did this while a key was being opened or created.
            inbox::post(Notification::InBetween);
        }
        return;
    };
    let Some(client) = ClientId::new(number) else { return };
    // Connections come and go by the thousand; few of them hold a lock or wait for one.
    let known = state::enter_as_is(|state| (state.locks.knows(client), state.locks.has_undelivered(client)));
    let (matters, owed) = known.unwrap_or((true, true));
    if matters {
        inbox::post(Notification::ClientGone(client, if owed { look(ctx, client) } else { Look::Unknown }));
    }
}

/// What a reply to `client` would be queued behind.
pub fn front(ctx: &mut Ctx<'_>, client: ClientId) -> Front {
    let Some(output) = server_info::output(ctx, client.get()) else { return Front::Unknown };
    if let Some(unsent) = unsent(&output) {
        return Front::Unsent(unsent);
    }
    // A command that was pipelined behind the lock request may be answered in the same turn.
    let turn = || if output.asks { event_loop::remember(ctx) } else { None };
    Front::Clear(output.sent.or_else(turn).map(SendStamp))
}

/// The unsent output of `client`, whose connection a grant was written to.
pub fn look(ctx: &mut Ctx<'_>, client: ClientId) -> Look {
    let Some(output) = server_info::output(ctx, client.get()) else { return Look::Unknown };
    let Some(unsent) = unsent(&output) else { return Look::Sent };
    let asked = ["lock.acquire", "lock.macquire"].iter().any(|name| output.command.eq_ignore_ascii_case(name));
    let is_late = !sends_at_once(ctx);
    let stamp = if is_late { None } else { stamp(ctx, &output) };
    Look::Unsent { unsent, another: output.hears || !asked, stamp, is_late }
}

fn unsent(&Output { first, blocks, bytes, sent, may_count_sent, .. }: &Output) -> Option<Unsent> {
    let sent = sent.filter(|_| may_count_sent).map(SendStamp);
    (first > 0 || blocks > 0).then_some(Unsent { first, blocks, bytes, sent })
}

/// The current stamp of a connection: the bytes sent so far if the server counts them, else the number of the turn.
fn stamp(ctx: &mut Ctx<'_>, output: &Output) -> Option<SendStamp> {
    // A client that accepts no more data was written to, perhaps in this turn.
    let turn = |ctx: &mut Ctx<'_>| if output.is_slow { None } else { event_loop::number(ctx) };
    output.sent.or_else(|| turn(ctx)).map(SendStamp)
}

/// Whether the main thread sends all replies. Otherwise I/O threads may have sent data that the server has not counted yet.
fn sends_at_once(ctx: &mut Ctx<'_>) -> bool {
    server_info::setting(ctx, c"io-threads").is_some_and(|threads| threads == "1")
}
