//! What `LOCK.ACQUIRE` and `LOCK.MACQUIRE` have in common: who asks, for how long, and whether to wait.

use super::lease::Lease;
use super::lock_reply;
use crate::config;
use crate::core::id::Ident;
use crate::core::limits::MAX_WAIT;
use crate::core::lock::{Acquired, ClientId, Request, Wanted};
use crate::core::time::{Millis, UnixMs};
use crate::error::Error;
use crate::module::state;
use crate::server::args::{Args, Range};
use crate::server::blocked_clients;
use crate::server::ctx::{Ctx, has_user, is_connected};
use crate::server::register;
use crate::server::server_info;

#[cfg(test)]
mod tests;

/// How `TOKEN token` appears in the documentation.
pub const TOKEN: register::Arg = register::Arg::string(c"token").after(c"TOKEN").optional();
/// How `WAIT ms` does.
pub const WAIT: register::Arg = register::Arg::integer(c"milliseconds").after(c"WAIT").optional();
/// How `SESSION` does.
pub const SESSION: register::Arg = register::Arg::word(c"session", c"SESSION").optional();

/// The options `[TOKEN token] [PX ms | EX s] [WAIT ms] [SESSION]`.
#[derive(Default)]
pub struct Options {
    token: Option<Ident>,
    lease: Lease,
    wait: Option<Millis>,
    session: bool,
}

impl Options {
    /// Takes the value behind `word`; a word that is none of these options, or one that came before, is a syntax error.
    pub fn option(&mut self, word: &[u8], args: &mut Args<'_>, now: UnixMs) -> Result<(), Error> {
        match word {
            b"TOKEN" if self.token.is_none() => self.token = Some(args.ident("TOKEN")?),
            b"WAIT" if self.wait.is_none() => {
                self.wait = Some(args.millis("WAIT", Range::new(0..=MAX_WAIT.0))?);
            }
            b"SESSION" if !self.session => self.session = true,
            other => self.lease.option(other, args, now)?,
        }
        Ok(())
    }

    /// The request, in the mode `mode`. Whoever named no token gets a random one.
    pub fn request(self, mode: Wanted) -> Request {
        Request {
            token: self.token.unwrap_or_else(Ident::random),
            mode,
            lease: self.lease.or_default(),
            wait: self.wait,
            session: self.session,
        }
    }
}

/// Whether the running command has come over a connection whose end will be told of.
///
/// The clients that scripts and other modules run commands through have ids, too. Most servers do not find them when they are asked for
/// the id; Valkey 9.1 does, but does not list them. The list is dear, so it is asked only about a client that has shown that it may be
/// such a one: by having no user of its own, or by not being allowed to wait.
fn has_connection(ctx: &mut Ctx<'_>, client: ClientId) -> bool {
    if ctx.flags().is_script() || !is_connected(client.get()) {
        return false;
    }
    let suspect = ctx.flags().denies_blocking() || !has_user(ctx, client.get());
    !suspect || server_info::is_connection(ctx, client.get())
}

/// Has `ask` decide on `request` for the client of the running command, and replies unless it has parked the client.
///
/// `ask` is told how long the request may wait: where nobody may be parked, one try is all there is, and also where the server turns out not
/// to block the client (as Valkey one that speaks RESP3 and has a subscription). One that would wait where as many
/// do as may is an error, for null would say that its time was over.
pub fn carry_out(
    ctx: &mut Ctx<'_>,
    request: &Request,
    ask: impl FnOnce(&mut Ctx<'_>, ClientId, Option<Millis>) -> Result<Acquired, Error>,
) -> Result<(), Error> {
    let client = ClientId::new(ctx.client_id()).ok_or(Error::Internal)?;
    if request.session && !has_connection(ctx, client) {
        return Err(Error::NoConnection);
    }
    let wait = request.wait.filter(|_| !ctx.flags().denies_blocking());
    let full = wait.is_some() && state::waiters() >= config::max_waiters();
    let before = blocked_clients::taken_over();
    match ask(ctx, client, wait.filter(|_| !full))? {
        Acquired::Granted(grant) => lock_reply::granted(ctx, &grant),
        Acquired::Refused if full => return Err(Error::TooManyWait),
        // The server did not block the client, and has told it so itself.
        Acquired::Refused if blocked_clients::taken_over() != before => {}
        Acquired::Refused => ctx.reply_null(),
        Acquired::Parked(_) => {}
    }
    Ok(())
}
