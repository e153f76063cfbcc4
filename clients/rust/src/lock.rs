//! A description of a lock, and the requests for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, RedisResult, Value, cmd, pipe};
use tokio::time::{Instant, sleep, timeout};

use crate::client::{Client, PATIENCE, PAUSE, Repeat};
use crate::error::{passes, timed_out};
use crate::hold::{Hold, Session};
use crate::{Error, background, clock};

/// How long replicas have to take a grant.
const REPLICATION: Duration = Duration::from_secs(1);
/// How much later than its time a wait ends at most.
const OVERTIME: Duration = Duration::from_millis(1_900);

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
    pub(crate) fn new(client: Client, keys: Vec<Vec<u8>>) -> Self {
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

    /// Stands in line as long as it takes.
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
    /// for each other. A token is one holder: two acquisitions by one token are not kept apart.
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
        let lock = self.clone();
        background::run(async move { lock.obtain().await }).await
    }

    async fn obtain(&self) -> Result<Hold, Error> {
        let token = self.token.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string().into());
        let request = Arc::new(Request { lock: self.clone(), token });
        let mut open = Open(Some(request.clone()));
        let asked = request.stand();
        let outcome = match self.wait {
            None => asked.await,
            Some(wait) => {
                // A wait of centuries is as good as one without limit.
                let end = Instant::now().checked_add(wait).and_then(|end| end.checked_add(OVERTIME));
                match end {
                    None => asked.await,
                    Some(end) => tokio::time::timeout_at(end, asked).await.unwrap_or_else(|_| Err(timed_out().into())),
                }
            }
        };
        if !matches!(outcome, Err(Error::Unreachable(_))) {
            // The server has told the outcome.
            open.0 = None;
        }
        outcome
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

/// One acquisition.
#[derive(Debug)]
pub struct Request {
    lock: Lock,
    pub token: Vec<u8>,
}

/// A request whose outcome is unknown; dropping it withdraws it.
struct Open(Option<Arc<Request>>);

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(request) = self.0.take() {
            // If the server cannot be told, the lease ends the grant.
            let _ = background::spawn(async move { request.withdraw().await });
        }
    }
}

impl Request {
    pub fn lease(&self) -> Duration {
        self.lock.lease
    }

    pub fn keys(&self) -> &[Vec<u8>] {
        &self.lock.keys
    }

    pub fn client(&self) -> &Client {
        &self.lock.client
    }

    pub fn first(&self) -> &[u8] {
        self.lock.keys.first().map_or(&[], Vec::as_slice)
    }

    /// `LOCK.VERB`, or `LOCK.MVERB` for several keys.
    pub fn words(&self, verb: &str) -> Cmd {
        let keys = &self.lock.keys;
        if keys.len() == 1 {
            let mut words = cmd(&format!("LOCK.{verb}"));
            words.arg(keys).arg(&self.token);
            return words;
        }
        let mut words = cmd(&format!("LOCK.M{verb}"));
        words.arg(&self.token).arg(keys.len()).arg(keys);
        words
    }

    pub fn extension(&self, fence: i64) -> Cmd {
        let mut words = self.words("EXTEND");
        words.arg("PX").arg(ms(self.lock.lease)).arg("FENCE").arg(fence);
        words
    }

    fn acquisition(&self, left: Wait) -> Cmd {
        let keys = &self.lock.keys;
        let mut words = if keys.len() == 1 { cmd("LOCK.ACQUIRE") } else { cmd("LOCK.MACQUIRE") };
        if keys.len() > 1 {
            words.arg(keys.len());
        }
        words.arg(keys).arg("TOKEN").arg(&self.token).arg("PX").arg(ms(self.lock.lease));
        if self.lock.shared {
            words.arg("SHARED");
        }
        if let Some(n) = self.lock.limit {
            words.arg("LIMIT").arg(n);
        }
        match left {
            Wait::No => {}
            Wait::For(time) => {
                words.arg("WAIT").arg(ms(time));
            }
            Wait::Forever => {
                words.arg("WAIT").arg(0);
            }
        }
        if self.lock.session {
            words.arg("SESSION");
        }
        words
    }

    /// Stands in line until the lock is granted or the time is over.
    async fn stand(self: &Arc<Self>) -> Result<Hold, Error> {
        let begun = Instant::now();
        let slot = self.client().servers().slot(self.first());
        // Without a wait at first: most locks are free, and this needs no connection of its own.
        let mut left = Wait::No;
        loop {
            let error = match self.ask(slot, left).await {
                Ok(Some(hold)) => return Ok(hold),
                Ok(None) if left != Wait::No => return Err(Error::NotGranted),
                // The request was granted and the hold has ended since, because no message came in time.
                Ok(None) | Err(Error::Lost) => None,
                Err(Error::Unreachable(error)) => Some(error),
                Err(error) => return Err(error),
            };
            left = match self.lock.wait {
                None => Wait::Forever,
                Some(wait) => Wait::For(wait.saturating_sub(begun.elapsed())),
            };
            if left == Wait::For(Duration::ZERO) {
                return Err(error.map_or(Error::NotGranted, Error::Unreachable));
            }
            if error.is_some_and(|error| !self.client().redirected(slot, &error)) {
                sleep(PAUSE).await;
            }
        }
    }

    /// Asks once.
    async fn ask(self: &Arc<Self>, slot: u16, left: Wait) -> Result<Option<Hold>, Error> {
        let sent = clock::now();
        let words = self.acquisition(left);
        if left == Wait::No && !self.lock.session && self.lock.replicas == 0 {
            let answer = self.client().ask(self.first(), &words, PATIENCE, Repeat::Yes).await?;
            return Ok(fence(answer)?.map(|fence| Hold::begin(self.clone(), fence, sent, None, self.lock.kept)));
        }
        let mut wire = self.client().servers().connect(slot, PATIENCE).await?;
        let answer = match left {
            Wait::No => limited(PATIENCE, words.query_async(&mut wire.connection)).await,
            // The wait as a whole has its own end.
            Wait::For(_) | Wait::Forever => self.listen(&words, &mut wire.connection).await,
        };
        let Some(fence) = fence(answer?)? else { return Ok(None) };
        // After a wait it is unknown how long the answer took, so the lease counts from this extension. WAIT counts the writes of this
        // connection, so the extension is needed for replicas, too.
        let mut since = sent;
        if left != Wait::No || self.lock.replicas > 0 {
            since = clock::now();
            let mut both = pipe();
            both.add_command(self.extension(fence));
            if self.lock.replicas > 0 {
                both.cmd("WAIT").arg(self.lock.replicas).arg(ms(REPLICATION));
            }
            let answers: Vec<i64> = limited(PATIENCE, both.query_async(&mut wire.connection)).await?;
            if answers.first() != Some(&1) {
                return Err(Error::Lost);
            }
            if let Some(replicas) = answers.get(1).and_then(|count| usize::try_from(*count).ok())
                && replicas < self.lock.replicas
            {
                self.withdraw().await;
                return Err(Error::NotReplicated { replicas });
            }
        }
        let session = self.lock.session.then(|| Session { _connection: wire.connection, ended: wire.ended });
        Ok(Some(Hold::begin(self.clone(), fence, since, session, self.lock.kept)))
    }

    /// Waits for the answer. A server that vanished silently is noticed by another request.
    async fn listen(&self, words: &Cmd, connection: &mut redis::aio::MultiplexedConnection) -> RedisResult<Value> {
        let answer = words.query_async(connection);
        tokio::pin!(answer);
        loop {
            if let Ok(answer) = timeout(Duration::from_secs(15), &mut answer).await {
                return answer;
            }
            let mut look = cmd("LOCK.INFO");
            look.arg(self.first());
            if let Err(error) = self.client().ask(self.first(), &look, PATIENCE, Repeat::Yes).await
                && passes(&error)
            {
                return Err(error);
            }
        }
    }

    /// Leaves the line and whatever was granted, as far as a server can be told within 5 s; else the lease ends it.
    pub async fn withdraw(&self) {
        let end = Instant::now() + Duration::from_secs(5);
        while let Err(error) = self.client().ask(self.first(), &self.words("RELEASE"), PATIENCE, Repeat::Yes).await
            && passes(&error)
            && Instant::now() < end
        {
            sleep(PAUSE).await;
        }
        // A request that was sent over an abandoned connection may arrive after the first release.
        sleep(PAUSE).await;
        let _ = self.client().ask(self.first(), &self.words("RELEASE"), PATIENCE, Repeat::Yes).await;
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    No,
    For(Duration),
    Forever,
}

async fn limited<T>(time: Duration, asked: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    timeout(time, asked).await.unwrap_or_else(|_| Err(timed_out()))
}

fn fence(answer: Value) -> RedisResult<Option<i64>> {
    let granted: Option<(Value, i64, i64)> = redis::from_redis_value(answer)?;
    Ok(granted.map(|(_, fence, _)| fence))
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
