//! The common part of `LOCK.ACQUIRE` and `LOCK.MACQUIRE`: token, lease and waiting.

use super::lease::Lease;
use super::lock_reply;
use super::{Arg, ArgError, Args, Ctx, Error, Param, Range, Spelled, clock};
use crate::core::id::Ident;
use crate::core::limits::MAX_WAIT;
use crate::core::lock::{Acquired, ClientId, Notice, Request, Wait, Wanted};
use crate::core::time::{Millis, UnixMs};
use crate::module::lock_effect::SaidToken;
use crate::module::{expire_watch, state};
use crate::server::acl;
use crate::server::blocked_clients;
use crate::server::cluster;
use crate::server::ctx::{has_user, is_connected};
use crate::server::delegate;
use crate::server::server_facts;
use crate::server::timer;

#[cfg(test)]
mod tests;

/// `TOKEN token` in the documentation.
pub const TOKEN: Param = Param::string(c"token").after(c"TOKEN").optional();
/// `WAIT ms [NOTIFY channel]` in the documentation.
pub const WAIT: Param = Param::group(
    c"wait",
    &[Param::integer(c"milliseconds"), Param::string(c"channel").after(c"NOTIFY").optional().since(c"0.2.0")],
)
.after(c"WAIT")
.optional();
/// `SESSION` in the documentation.
pub const SESSION: Param = Param::word(c"session", c"SESSION").optional();

/// The options `[TOKEN token] [PX ms | EX s] [WAIT ms [NOTIFY channel]] [SESSION]`.
#[derive(Default)]
pub struct Options<'a> {
    token: Option<Spelled<'a>>,
    lease: Lease,
    wait: Option<Millis>,
    channel: Option<Arg<'a>>,
    session: bool,
}

impl<'a> Options<'a> {
    /// Parses the value after `word`; an unknown or repeated option is a syntax error.
    pub fn option(&mut self, word: &[u8], args: &mut Args<'a>, now: UnixMs) -> Result<(), Error> {
        match word {
            b"TOKEN" if self.token.is_none() => self.token = Some(args.ident_and_word("TOKEN")?),
            b"WAIT" if self.wait.is_none() => {
                self.wait = Some(args.integer("WAIT", Range::new(0..=MAX_WAIT.0)).map(Millis)?);
            }
            b"NOTIFY" if self.channel.is_none() => self.channel = Some(args.next()?),
            b"SESSION" if !self.session => self.session = true,
            other => self.lease.option(other, args, now)?,
        }
        Ok(())
    }

    /// The request, in the mode `mode`. Without a token it gets a random one. `about` has the parts of published messages that describe the
    /// request.
    pub fn request(self, mode: Wanted, about: impl FnOnce(&Ident) -> Option<Box<str>>) -> Result<Parsed<'a>, Error> {
        let wait = match (self.wait, self.channel, &self.token) {
            (None, None, _) => Wait::No,
            (Some(limit), None, _) => Wait::Parked(limit),
            (Some(limit), Some(channel), Some((token, _))) => {
                let about = about(token).ok_or(Error::NoText)?;
                Wait::Notified(limit, Box::new(Notice { channel: channel.bytes().into(), about }))
            }
            _ => return Err(ArgError::Needs { option: "NOTIFY", other: "WAIT and TOKEN" }.into()),
        };
        let (token, word) = self.token.unzip();
        let request = Request {
            token: token.unwrap_or_else(Ident::random),
            mode,
            lease: self.lease.or_default(),
            wait,
            client: None,
            session: self.session,
        };
        Ok(Parsed { request, word })
    }
}

/// A request, and the word for its token if the caller chose it.
pub struct Parsed<'a> {
    /// The request.
    pub request: Request,
    word: Option<Arg<'a>>,
}

impl Parsed<'_> {
    /// The token that the caller chose.
    pub fn said(&self) -> Option<SaidToken<'_>> {
        self.word.map(|word| SaidToken { token: &self.request.token, word })
    }
}

/// Whether the running command came over a connection whose end the server will report.
///
/// The clients that run commands for scripts and other modules have ids, too. Most servers do not find a client by such an id; Valkey 9.1
/// does, but does not list it. Listing is expensive, so only a suspicious client is looked up: one without a user of its own, or one that
/// may not block.
fn has_connection(ctx: &mut Ctx<'_>, client: ClientId) -> bool {
    if ctx.flags().is_script() || !is_connected(client.get()) {
        return false;
    }
    let suspect = ctx.flags().denies_blocking() || !has_user(ctx, client.get());
    !suspect || server_facts::is_connection(ctx, client.get())
}

/// Lets `ask` decide on the request for the client of the running command, and replies unless the client was blocked.
///
/// A request is granted now or refused if its client would have to be blocked and may not be, or if the server then refuses that (as Valkey
/// does for a RESP3 client with a subscription).
pub fn carry_out<'a>(
    ctx: &mut Ctx<'_>,
    mut parsed: Parsed<'a>,
    ask: impl FnOnce(&mut Ctx<'_>, &Parsed<'a>) -> Result<Acquired, Error>,
) -> Result<(), Error> {
    let request = &mut parsed.request;
    let client = ClientId::new(delegate::client_id(ctx)).ok_or(Error::Internal)?;
    if request.session && !has_connection(ctx, client) {
        return Err(Error::NoConnection);
    }
    request.client = Some(client);
    let may_wait = match &request.wait {
        Wait::No => false,
        Wait::Parked(_) => !ctx.flags().denies_blocking(),
        Wait::Notified(_, notice) => {
            if !acl::may_publish(ctx, &notice.channel) {
                return Err(Error::NoChannel);
            }
            request.client = has_connection(ctx, client).then_some(client);
            ctx.flags().decides()
        }
    };
    if !may_wait {
        request.wait = Wait::No;
    }
    let before = blocked_clients::taken_over();
    match ask(ctx, &parsed)? {
        Acquired::Granted(grant) => lock_reply::granted(ctx, &grant, parsed.said()),
        // Null would mean that its time was over.
        Acquired::Full => return Err(Error::TooManyWait),
        // The server did not block the client, and has already replied with an error.
        Acquired::Refused if blocked_clients::taken_over() != before => {}
        Acquired::Refused => ctx.reply_null(),
        Acquired::Deadlock(keys) => return Err(Error::Deadlock(keys)),
        Acquired::Parked(_) => timer::arm(expire_watch::next_look(clock::now().ms)),
        Acquired::Notified { place, waiter } => {
            if cluster::is_node() {
                state::enter(|state| {
                    if let Some(slot) = state.locks.slot_of(waiter) {
                        state.slots.began(slot);
                    }
                });
            }
            // It looks at the slots, too.
            timer::arm(expire_watch::next_look(clock::now().ms));
            ctx.reply_int(place);
        }
    }
    Ok(())
}
