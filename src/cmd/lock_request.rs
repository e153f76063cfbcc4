//! The common part of `LOCK.ACQUIRE` and `LOCK.MACQUIRE`: token, lease and waiting.

use super::lease::Lease;
use super::lock_reply;
use super::{Arg, ArgError, Args, Ctx, Error, Param, Range, Spelled, clock};
use crate::core::id::Ident;
use crate::core::limits::MAX_WAIT;
use crate::core::lock::{Acquired, ClientId, Notice, Request, Wait, Wanted};
use crate::core::time::{Millis, UnixMs};
use crate::module::lock_effect::SaidToken;
use crate::module::{slot_watch, state};
use crate::server::acl;
use crate::server::blocked_clients;
use crate::server::cluster;
use crate::server::ctx::{has_user, is_connected};
use crate::server::delegate;
use crate::server::server_info;
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
                self.wait = Some(args.millis("WAIT", Range::new(0..=MAX_WAIT.0))?);
            }
            b"NOTIFY" if self.channel.is_none() => self.channel = Some(args.next()?),
            b"SESSION" if !self.session => self.session = true,
            other => self.lease.option(other, args, now)?,
        }
        Ok(())
    }

    /// The request, in the mode `mode`, and where its outcome is to be published. Without a token it gets a random one. `about` says what
    /// the messages say of the request.
    pub fn request(
        self,
        mode: Wanted,
        about: impl FnOnce(&Ident) -> Option<Box<str>>,
    ) -> Result<(Parsed<'a>, Option<Notice>), Error> {
        let notice = match self.channel {
            Some(channel) => {
                let (Some((token, _)), Some(_)) = (&self.token, self.wait) else {
                    return Err(ArgError::Needs { option: "NOTIFY", other: "WAIT and TOKEN" }.into());
                };
                let about = about(token).ok_or(Error::NoText)?;
                Some(Notice { client: None, channel: channel.bytes().into(), about })
            }
            None => None,
        };
        let (token, word) = self.token.unzip();
        let request = Request {
            token: token.unwrap_or_else(Ident::random),
            mode,
            lease: self.lease.or_default(),
            wait: self.wait,
            session: self.session,
        };
        Ok((Parsed { request, word }, notice))
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
    !suspect || server_info::is_connection(ctx, client.get())
}

/// Lets `ask` decide on the request for the client of the running command, and replies unless the client was blocked.
///
/// `ask` gets how the request waits, and for how long its client is blocked if that may be. A request is granted now or refused if its
/// client would have to be blocked and may not be, or if the server then refuses that (as Valkey does for a RESP3 client with a
/// subscription).
pub fn carry_out(
    ctx: &mut Ctx<'_>,
    parsed: &Parsed<'_>,
    mut notice: Option<Notice>,
    ask: impl FnOnce(&mut Ctx<'_>, ClientId, Wait<'_>, Option<Millis>) -> Result<Acquired, Error>,
) -> Result<(), Error> {
    let request = &parsed.request;
    let client = ClientId::new(delegate::client_id(ctx)).ok_or(Error::Internal)?;
    if request.session && !has_connection(ctx, client) {
        return Err(Error::NoConnection);
    }
    if let Some(notice) = &mut notice {
        if !acl::may_publish(ctx, &notice.channel) {
            return Err(Error::NoChannel);
        }
        notice.client = has_connection(ctx, client).then_some(client);
    }
    let wait = match &notice {
        _ if request.wait.is_none() => Wait::No,
        Some(notice) if ctx.flags().decides() => Wait::Notified(notice),
        None if !ctx.flags().denies_blocking() => Wait::Parked,
        Some(_) | None => Wait::No,
    };
    if !matches!(wait, Wait::No) {
        state::prepare_wait();
    }
    let before = blocked_clients::taken_over();
    match ask(ctx, client, wait, request.wait.filter(|_| matches!(wait, Wait::Parked)))? {
        Acquired::Granted(grant) => lock_reply::granted(ctx, &grant, parsed.said()),
        // Null would mean that its time was over.
        Acquired::Full => return Err(Error::TooManyWait),
        // The server did not block the client, and has already replied with an error.
        Acquired::Refused if blocked_clients::taken_over() != before => {}
        Acquired::Refused => ctx.reply_null(),
        Acquired::Deadlock(keys) => return Err(Error::Deadlock(keys)),
        Acquired::Parked(_) => {}
        Acquired::Notified { place, waiter } => {
            if cluster::is_node() {
                state::enter(|state| {
                    if let Some(slot) = state.locks.slot_of(waiter) {
                        state.slots.began(slot);
                    }
                });
                timer::arm(slot_watch::next_look(clock::now().ms));
            }
            ctx.reply_int(place);
        }
    }
    Ok(())
}
