//! A lock that is held.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::{Arg, Cmd, FromRedisValue, RedisResult, Value, cmd};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::client::{PATIENCE, Repeat};
use crate::error::has_other_value;
use crate::lock::{FAREWELL, Request, ms};
use crate::{Error, background, clock};

/// The longest look away from the clock, which goes on while the machine sleeps though timers do not.
const LOOK: Duration = Duration::from_secs(1);

/// A lock that this process holds. Dropping it releases it in the background, also when its runtime or the process ends.
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct Hold {
    state: Arc<State>,
    keeper: AbortHandle,
    released: bool,
}

/// The connection that a session lasts as long as.
#[derive(Debug)]
pub struct Session {
    pub _connection: redis::aio::MultiplexedConnection,
    pub ended: watch::Receiver<bool>,
}

#[derive(Debug)]
struct State {
    request: Arc<Request>,
    fence: i64,
    /// The time until which the hold lasts at least, unless another client ends it: milliseconds of our clock.
    until: AtomicU64,
    lost: watch::Sender<bool>,
    /// Ends after the release: else the end of its connection would have ended the hold before.
    session: Option<Session>,
}

impl Hold {
    /// The lease counts from `since`. Called in the background.
    pub(crate) fn begin(
        request: Arc<Request>,
        fence: i64,
        since: Duration,
        session: Option<Session>,
        kept: bool,
    ) -> Self {
        let (until, lost) = (AtomicU64::new(0), watch::Sender::new(false));
        let state = Arc::new(State { request, fence, until, lost, session });
        state.lasts_from(since);
        let keeper = tokio::spawn(state.clone().keep(since, kept)).abort_handle();
        Self { state, keeper, released: false }
    }

    /// A number larger than that of every grant before: let the resource that you write refuse smaller ones.
    #[must_use]
    pub fn fence(&self) -> i64 {
        self.state.fence
    }

    /// The token that holds the lock.
    #[must_use]
    pub fn token(&self) -> &[u8] {
        &self.state.request.token
    }

    /// The locked keys.
    #[must_use]
    pub fn keys(&self) -> &[Vec<u8>] {
        self.state.request.keys()
    }

    /// How long the hold lasts at least, by a clock that goes on while the machine sleeps; zero if it is over.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.state.left()
    }

    /// Whether the hold should last still. Look before each step that must not be done twice, and send the fence with it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.left().is_zero()
    }

    /// Ends when the hold does without a release: its lease is over, its session has ended, or an administrator has ended it.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut lost = self.state.lost.subscribe();
        async move {
            // The sender goes with the hold: after a release nothing is lost any more.
            if lost.wait_for(|lost| *lost).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Asks the server whether the hold lasts, with all of its keys.
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub async fn is_owned(&self) -> Result<bool, Error> {
        for key in self.state.request.keys() {
            match self.guarded::<Value>(key, &cmd("PING"), Repeat::Yes).await {
                Ok(_) => {}
                Err(Error::Lost) => return Ok(false),
                // Another value has the key.
                Err(Error::Refused(error)) if error.code() == Some("WRONGTYPE") => {
                    self.state.lose();
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Extends the hold by its lease, from now on; the keeper does so by itself.
    ///
    /// # Errors
    /// [`Error::Lost`] if the hold has ended. [`Error::Unreachable`] says nothing about it.
    pub async fn extend(&self) -> Result<(), Error> {
        self.extend_within(PATIENCE).await
    }

    /// The same, but ends within `patience`.
    ///
    /// # Errors
    /// As those of [`extend`](Self::extend).
    pub async fn extend_within(&self, patience: Duration) -> Result<(), Error> {
        let state = self.state.clone();
        background::run(async move { state.extend(patience).await }).await
    }

    /// Carries out `command` in the same step in which the server sees that this hold has the (first) lock: `LOCK.GUARD`. It is sent
    /// once.
    ///
    /// # Errors
    /// [`Error::Lost`] if the hold has ended: nothing was done then. Else as the command's own.
    pub async fn guard<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Error> {
        self.guarded(self.state.request.first(), command, Repeat::No).await
    }

    async fn guarded<T: FromRedisValue>(&self, key: &[u8], command: &Cmd, repeat: Repeat) -> Result<T, Error> {
        let request = &self.state.request;
        let mut guard = cmd("LOCK.GUARD");
        guard.arg(key).arg(&request.token).arg("FENCE").arg(self.state.fence);
        for word in command.args_iter() {
            match word {
                Arg::Simple(word) => guard.arg(word),
                _ => return Err(Error::Invalid("a guarded command has no cursor")),
            };
        }
        let answer = request.client().request(key, guard, repeat).await;
        if matches!(answer, Err(Error::Lost)) {
            self.state.lose();
        }
        answer
    }

    /// Ends the hold, within 5 s or the rest of its lease; also when the future is dropped before. [`Error::Lost`] if it had ended before:
    /// another token may have had the lock since.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if the server could not be told: the lease ends the hold. [`Error::NotReleased`] if the hold has ended, but perhaps
    /// before: the answer to a first request was lost.
    pub async fn release(mut self) -> Result<(), Error> {
        self.end().await
    }

    /// Releases it; the hold must not be used again.
    pub(crate) async fn end(&mut self) -> Result<(), Error> {
        if !self.stop() {
            return Err(Error::Lost);
        }
        let state = self.state.clone();
        background::finish(async move { state.release().await }).await
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.released
    }

    /// Lets the hold end by itself `after` that time instead of releasing it.
    ///
    /// # Errors
    /// As those of [`release`](Self::release).
    pub async fn release_after(mut self, after: Duration) -> Result<(), Error> {
        if !self.stop() {
            return Err(Error::Lost);
        }
        let state = self.state.clone();
        background::finish(async move {
            let said = state.release_after(after).await;
            if matches!(said, Err(Error::Lost | Error::NotReleased)) {
                // Of several keys, the others may be held still.
                let _ = state.release().await;
            } else if state.session.is_some() {
                // Else the end of its connection would end the hold now.
                tokio::spawn(async move { (sleep(after).await, state) });
            } else {
                state.request.claim.end();
            }
            said
        })
        .await
    }

    /// Whether the server may be told of the end: not if a later hold of the token has taken the place of this one.
    fn stop(&mut self) -> bool {
        self.released = true;
        if background::is_elsewhere() {
            // The background refuses to tell it.
            return true;
        }
        self.keeper.abort();
        self.state.request.claim.leave()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.released && self.stop() {
            let state = self.state.clone();
            // If the server cannot be told, the lease ends the hold.
            let _ = background::farewell(async move { state.release().await });
        }
    }
}

impl State {
    fn lasts_from(&self, since: Duration) {
        let until = since.saturating_add(self.request.lease()).as_millis();
        self.until.fetch_max(u64::try_from(until).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn left(&self) -> Duration {
        if *self.lost.borrow() || background::is_elsewhere() {
            return Duration::ZERO;
        }
        let left = Duration::from_millis(self.until.load(Ordering::Relaxed)).saturating_sub(clock::now());
        if left.is_zero() {
            self.lose();
        }
        left
    }

    /// Extends the hold in time, and tells when it is over.
    async fn keep(self: Arc<Self>, since: Duration, kept: bool) {
        let mut ended = self.session.as_ref().map(|session| session.ended.clone());
        let lease = self.request.lease();
        // The grant may have been long on its way.
        let mut next = since.saturating_add(lease / 3);
        loop {
            let (now, left) = (clock::now(), self.left());
            if left.is_zero() {
                break;
            }
            if kept && next <= now {
                let pause = match self.extend((lease / 3).min(left).min(PATIENCE)).await {
                    Ok(()) => lease / 3,
                    // No answer says nothing; the clock does.
                    Err(_) => lease / 20,
                };
                next = now.saturating_add(pause);
                continue;
            }
            let pause = if kept { next.saturating_sub(now).min(left) } else { left };
            let hung_up = async {
                match &mut ended {
                    Some(ended) => drop(ended.wait_for(|ended| *ended).await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = hung_up => break,
                () = sleep(pause.min(LOOK)) => {}
            }
        }
        self.lose();
    }

    fn lose(&self) {
        self.request.claim.lose();
        self.lost.send_replace(true);
    }

    async fn extend(&self, patience: Duration) -> Result<(), Error> {
        let since = clock::now();
        // A later hold of the token may have its fence.
        if self.left().is_zero() {
            return Err(Error::Lost);
        }
        let words = self.request.extension(self.fence);
        let answer = self.request.client().ask(self.request.first(), &words, patience, Repeat::Yes).await;
        if ended(answer)? != Value::Int(1) {
            self.lose();
        }
        if *self.lost.borrow() {
            return Err(Error::Lost);
        }
        self.lasts_from(since);
        Ok(())
    }

    async fn release(&self) -> Result<(), Error> {
        let time = self.farewell();
        let (mut doubt, lost) = (false, *self.lost.borrow());
        // A repeated release cannot end a later hold of the token.
        let answer = self.request.free(Some(self.fence), time, &mut doubt).await;
        self.request.claim.end();
        judged(answer, self.request.keys().len(), doubt && !lost)
    }

    async fn release_after(&self, after: Duration) -> Result<(), Error> {
        let mut words = self.request.words("EXTEND");
        words.arg("PX").arg(ms(after)).arg("FENCE").arg(self.fence);
        let time = self.farewell();
        let (mut doubt, lost) = (false, *self.lost.borrow());
        let answer = self.request.say(&words, time, &mut doubt).await;
        judged(answer, 1, doubt && !lost)
    }

    /// How long to go on telling the server of the end: 5 s or the rest of the lease. One whose lease is over is lost from here on.
    fn farewell(&self) -> Duration {
        self.left().clamp(Duration::from_millis(200), FAREWELL)
    }
}

/// What came of an end that is to be answered with `whole`. In `doubt`, an attempt that was not answered may have done it.
fn judged(answer: RedisResult<Value>, whole: usize, doubt: bool) -> Result<(), Error> {
    match ended(answer)? {
        Value::Int(count) if usize::try_from(count) == Ok(whole) => Ok(()),
        Value::Int(0) if doubt => Err(Error::NotReleased),
        _ => Err(Error::Lost),
    }
}

/// The answer, which is 0 also where another value has the key: the hold has ended then.
fn ended(answer: RedisResult<Value>) -> RedisResult<Value> {
    if has_other_value(&answer) { Ok(Value::Int(0)) } else { answer }
}
