//! A description of a lock.

mod request;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use redis::{Value, cmd};

pub use request::{FAREWELL, Request};

use crate::claims::Claim;
use crate::client::{Client, Repeat};
use crate::{Error, Hold, background};

/// Describes a request for a lock: its key, token, lease and wait. It is no lock itself: any number of tasks may [`acquire`](Self::acquire) by one
/// description, and each hold has a token and a state of its own.
#[derive(Debug, Clone)]
#[must_use = "nothing is asked for before `acquire`"]
pub struct Lock {
    client: Client,
    keys: Vec<Vec<u8>>,
    token: Option<Vec<u8>>,
    lease: Duration,
    wait: Option<Duration>,
    shared: bool,
    limit: Option<u64>,
    session: bool,
    replicas: usize,
    kept: bool,
}

impl Lock {
    pub(crate) fn new(client: Client, mut keys: Vec<Vec<u8>>) -> Self {
        let mut named = HashSet::new();
        keys.retain(|key| named.insert(key.clone()));
        Self {
            client,
            keys,
            token: None,
            lease: Duration::from_secs(30),
            wait: Some(Duration::ZERO),
            shared: false,
            limit: None,
            session: false,
            replicas: 0,
            kept: true,
        }
    }

    /// How long the lock outlasts this process if it dies or freezes (30 s). While it lives, the hold is extended each third of it.
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// How long to stand in line at most (0: not at all).
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait: Some(wait), ..self }
    }

    /// Stands in line as long as it takes. A task that has the lock waits for itself without end.
    pub fn wait_forever(self) -> Self {
        Self { wait: None, ..self }
    }

    /// Together with other readers.
    pub fn shared(self) -> Self {
        Self { shared: true, ..self }
    }

    /// As one of `n`.
    pub fn limit(self, n: u64) -> Self {
        Self { limit: Some(n), ..self }
    }

    /// The hold ends with its connection, too: at once when this process dies.
    pub fn session(self) -> Self {
        Self { session: true, ..self }
    }

    /// The grant counts only when `n` replicas have it within a second; else it is released: [`Error::NotReplicated`].
    pub fn replicas(self, n: usize) -> Self {
        Self { replicas: n, ..self }
    }

    /// The token of the request, instead of a random one for each hold. One token for all locks of a task lets the server see when two tasks wait
    /// for each other. A token is one holder, so a second acquisition by it is an
    /// [`Error::AlreadyHeld`] as long as the first one asks or holds. One that is being released or withdrawn is waited for.
    pub fn token(self, token: impl Into<Vec<u8>>) -> Self {
        Self { token: Some(token.into()), ..self }
    }

    /// The hold is not extended but by [`Hold::extend`].
    pub fn unattended(self) -> Self {
        Self { kept: false, ..self }
    }

    /// Asks for the lock and stands in line for it; ends at most 2 s after the time given by [`wait`](Self::wait), whatever the server
    /// does. It asks again when a connection breaks or the lock is on another server now. Dropping the future withdraws the request.
    ///
    /// # Errors
    /// [`Error::NotGranted`] if others had the lock all the time.
    pub async fn acquire(&self) -> Result<Hold, Error> {
        self.check()?;
        let claim = Arc::new(Claim::new(self.client.clone(), &self.keys, self.token.as_ref()));
        let mut asking = Asking { claim: &claim, granted: false };
        let hold = background::run(request::obtain(self.clone(), claim.clone())).await;
        asking.granted = hold.is_ok();
        hold
    }

    /// Whether a token holds the lock, or one of its keys.
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub async fn is_locked(&self) -> Result<bool, Error> {
        self.check()?;
        for key in &self.keys {
            let mut look = cmd("LOCK.INFO");
            look.arg(key);
            let info: Option<HashMap<String, Value>> = self.client.request(key, look, Repeat::Yes).await?;
            if info.is_some_and(|info| info.get("mode") != Some(&Value::BulkString(b"free".to_vec()))) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn check(&self) -> Result<(), Error> {
        if self.keys.is_empty() || self.keys.iter().any(Vec::is_empty) {
            return Err(Error::Invalid("a lock needs a key"));
        }
        if self.shared && self.limit.is_some() {
            return Err(Error::Invalid(
                "a lock is for all readers or for so many: `shared` and `limit` do not go together",
            ));
        }
        if self.keys.len() > 1 && (self.shared || self.limit.is_some()) {
            return Err(Error::Invalid("several keys are taken together only for oneself: no `shared`, no `limit`"));
        }
        if self.limit.is_some_and(|n| !(1..=MOST).contains(&n)) {
            return Err(Error::Invalid("a limit is from 1 to 2^53 - 1"));
        }
        if self.lease.as_millis() == 0 {
            return Err(Error::Invalid("a lease is at least a millisecond"));
        }
        if self.token.as_ref().is_some_and(|token| !check_name(token)) {
            return Err(Error::Invalid("a token has 1 to 512 bytes"));
        }
        Ok(())
    }
}

/// An acquisition as its caller sees it. When it is dropped, the next one by its token waits for its end in the background.
struct Asking<'a> {
    claim: &'a Claim,
    granted: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.granted {
            self.claim.give_up();
        }
    }
}

/// The largest number that the server takes.
pub const MOST: u64 = (1 << 53) - 1;

/// Whether it may be a token, an id or a buyer.
pub fn check_name(name: &[u8]) -> bool {
    (1..=512).contains(&name.len())
}

pub fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u64::MAX).clamp(1, MOST)
}
