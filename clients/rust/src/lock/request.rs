//! The requests for a lock.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, ConnectionAddr, RedisResult, Value, cmd, pipe};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{Lock, ms};
use crate::claims::Claim;
use crate::client::{Client, PATIENCE, PAUSE, Repeat, limited};
use crate::error::{has_other_value, passes, passes_for_release, timed_out};
use crate::hold::{Hold, Session};
use crate::{Error, background, clock};

/// How long replicas have to take a grant.
const REPLICATION: Duration = Duration::from_secs(1);
/// How long to go on telling servers that a hold or a wait ends.
pub const FAREWELL: Duration = Duration::from_secs(5);
/// How much later than its time a wait ends at most.
const OVERTIME: Duration = Duration::from_millis(1_900);

/// One acquisition.
#[derive(Debug)]
pub struct Request {
    lock: Lock,
    pub token: Vec<u8>,
    pub claim: Arc<Claim>,
}

/// Asks for a hold of `lock`.
pub async fn obtain(lock: Lock, claim: Arc<Claim>) -> Result<Hold, Error> {
    let begun = Instant::now();
    let token = lock.token.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string().into());
    // A wait of centuries is as good as one without limit.
    let end = lock.wait.and_then(|wait| begun.checked_add(wait)?.checked_add(OVERTIME));
    let request = Arc::new(Request { lock, token, claim });
    let asked = async {
        request.claim.take().await?;
        let mut open = Open { request: request.clone(), in_doubt: false };
        request.stand(begun, &mut open.in_doubt).await
    };
    match end {
        None => asked.await,
        Some(end) => timeout_at(end, asked).await.unwrap_or_else(|_| Err(timed_out().into())),
    }
}

/// A request. If this is dropped while the outcome is in doubt, the request is withdrawn.
struct Open {
    request: Arc<Request>,
    in_doubt: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.in_doubt && self.request.claim.leave() {
            let request = self.request.clone();
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

    /// Stands in line until the lock is granted or the time is over. The outcome is in doubt while the server may have granted a lock unheard.
    async fn stand(self: &Arc<Self>, begun: Instant, in_doubt: &mut bool) -> Result<Hold, Error> {
        let slot = self.client().servers().slot(self.first());
        // Without a wait at first: most locks are free, and this needs no connection of its own.
        let mut left = Wait::No;
        // While a slot moves, the node that is to have it.
        let mut other = None;
        loop {
            let mut before = std::mem::replace(in_doubt, true);
            let answer = self.ask(slot, left, other.take(), &mut before).await;
            *in_doubt = match answer {
                Ok(Some(_)) => false,
                Err(Error::Lost | Error::Unreachable(_)) => true,
                // This says nothing of earlier requests: they may have got some of several keys.
                Ok(None) | Err(_) => before,
            };
            let error = match answer {
                Ok(Some(hold)) => return Ok(hold),
                Ok(None) if left != Wait::No => return Err(Error::NotGranted),
                // A first try; or the request was granted and the hold has ended since, because no message came in time.
                Ok(None) | Err(Error::Lost) => None,
                Err(Error::Unreachable(error)) => Some(error),
                Err(error) => return Err(error),
            };
            left = match self.lock.wait.map(|wait| wait.saturating_sub(begun.elapsed())) {
                None => Wait::Forever,
                Some(Duration::ZERO) => Wait::No,
                Some(left) => Wait::For(left),
            };
            let redirection =
                error.as_ref().map(|error| (self.client().asking(error), self.client().redirected(slot, error)));
            // Where the server is says nothing of the lock: that node is asked, though the time may be over.
            match redirection {
                Some((None, false)) | None if left == Wait::No => {
                    return Err(error.map_or(Error::NotGranted, Error::Unreachable));
                }
                Some((None, false)) => sleep(PAUSE).await,
                Some((node, _)) => other = node,
                None => {}
            }
        }
    }

    /// Asks once: the server of the slot, or the `other` node that this server has named for one request. `doubt` becomes true if no answer came
    /// over a connection that was made before.
    async fn ask(
        self: &Arc<Self>,
        slot: u16,
        left: Wait,
        other: Option<ConnectionAddr>,
        doubt: &mut bool,
    ) -> Result<Option<Hold>, Error> {
        let sent = clock::now();
        let words = self.acquisition(left);
        if left == Wait::No && !self.lock.session && self.lock.replicas == 0 {
            let answer = self.client().ask_in_doubt(self.first(), &words, PATIENCE, Repeat::Yes, doubt).await?;
            return fence(answer)?.map(|fence| self.hold(fence, sent, None)).transpose();
        }
        let servers = self.client().servers();
        let mut wire = match &other {
            None => servers.connect(slot, PATIENCE).await?,
            Some(node) => {
                let mut wire = servers.connect_to(node, PATIENCE).await?;
                limited(PATIENCE, cmd("ASKING").exec_async(&mut wire.connection)).await?;
                wire
            }
        };
        let answer = match left {
            Wait::No => limited(PATIENCE, words.query_async(&mut wire.connection)).await,
            // The wait as a whole has its own end.
            Wait::For(_) | Wait::Forever => self.listen(&words, &mut wire.connection).await,
        };
        let Some(fence) = fence(answer?)? else { return Ok(None) };
        if left != Wait::No && !servers.leads(&wire.address).await {
            return Err(Error::Unreachable(io::Error::other("the primary was replaced during the wait").into()));
        }
        // After a wait it is unknown how long the answer took, so the lease counts from this extension. WAIT counts the writes of this
        // connection, so the extension is needed for replicas, too.
        let mut since = sent;
        if left != Wait::No || self.lock.replicas > 0 {
            since = clock::now();
            let mut both = pipe();
            if other.is_some() {
                both.cmd("ASKING").ignore();
            }
            both.add_command(self.extension(fence));
            if self.lock.replicas > 0 {
                both.cmd("WAIT").arg(self.lock.replicas).arg(ms(REPLICATION));
            }
            let answers = limited(PATIENCE, both.query_async::<Vec<i64>>(&mut wire.connection)).await;
            let refused = match answers.map_err(Error::from) {
                Err(error @ Error::Unreachable(_)) => return Err(error),
                Err(error) => Some(error),
                // Of several keys, the others may be held still.
                Ok(answers) if answers.first() != Some(&1) => Some(Error::Lost),
                Ok(answers) => answers.get(1).and_then(|count| {
                    let replicas = usize::try_from(*count).ok().filter(|count| *count < self.lock.replicas)?;
                    Some(Error::NotReplicated { replicas })
                }),
            };
            if let Some(error) = refused {
                self.withdraw().await;
                return Err(error);
            }
        }
        let session = self.lock.session.then(|| Session { _connection: wire.connection, ended: wire.ended });
        self.hold(fence, since, session).map(Some)
    }

    /// The hold of a grant whose lease counts from `since`, unless that is over: the answer may have been long on its way, or this process asleep.
    fn hold(self: &Arc<Self>, fence: i64, since: Duration, session: Option<Session>) -> Result<Hold, Error> {
        if clock::now() >= since.saturating_add(self.lock.lease) {
            return Err(Error::Unreachable(io::Error::other("the grant came when its lease was over").into()));
        }
        Ok(Hold::begin(self.clone(), fence, since, session, self.lock.kept))
    }

    /// Waits for the answer. Another request, to the server that serves the lock now, notices when the server or the connection has vanished
    /// silently.
    async fn listen(&self, words: &Cmd, connection: &mut redis::aio::MultiplexedConnection) -> RedisResult<Value> {
        let answer = words.query_async(connection);
        tokio::pin!(answer);
        loop {
            if let Ok(answer) = timeout(Duration::from_secs(15), &mut answer).await {
                return answer;
            }
            let mut look = cmd("LOCK.INFO");
            look.arg(self.first());
            let stands = match self.client().ask(self.first(), &look, PATIENCE, Repeat::Yes).await {
                Ok(info) => self.stands_in(info),
                Err(error) => !passes(&error),
            };
            if !stands {
                // The answer may be on its way. Else the next request, by the same token, finds the place or the grant.
                return limited(PAUSE, answer).await;
            }
        }
    }

    /// Whether the answer of `LOCK.INFO`, which names the first hundred waiters, has the request in line.
    fn stands_in(&self, info: Value) -> bool {
        let mut info: HashMap<String, Value> = redis::from_redis_value(info).unwrap_or_default();
        let mut take = |field| info.remove(field).unwrap_or(Value::Nil);
        let named: Vec<HashMap<String, Value>> = redis::from_redis_value(take("waiters")).unwrap_or_default();
        let number: usize = redis::from_redis_value(take("waiting")).unwrap_or_default();
        let token = Value::BulkString(self.token.clone());
        number > named.len() || named.iter().any(|waiter| waiter.get("token") == Some(&token))
    }

    /// Leaves the line and whatever was granted, as far as a server can be told; else the lease ends it.
    async fn withdraw(&self) {
        let _ = self.free(None, FAREWELL, &mut false).await;
        // A request that was sent over an abandoned connection may arrive after the first release.
        sleep(PAUSE).await;
        let _ = self.free(None, PATIENCE, &mut false).await;
    }

    /// Ends the hold with this fence, or without one all that the token has or asks for, within `time`. If one of several keys has another
    /// value, nothing was released together: then each is by itself. `doubt` becomes true if the release was sent and no answer came.
    pub async fn free(&self, fence: Option<i64>, time: Duration, doubt: &mut bool) -> RedisResult<Value> {
        let end = clock::now().saturating_add(time);
        let fenced = |mut words: Cmd| {
            if let Some(fence) = fence {
                words.arg("FENCE").arg(fence);
            }
            words
        };
        let answer = self.say(&fenced(self.words("RELEASE")), time, doubt).await;
        if self.keys().len() > 1 && has_other_value(&answer) {
            for key in self.keys() {
                let mut words = cmd("LOCK.RELEASE");
                words.arg(key).arg(&self.token);
                let _ = self.say(&fenced(words), end.saturating_sub(clock::now()), &mut false).await;
            }
        }
        answer
    }

    /// Says it until the server has taken it, within `time`. `doubt` becomes true if it was sent and no answer came.
    pub async fn say(&self, words: &Cmd, time: Duration, doubt: &mut bool) -> RedisResult<Value> {
        let end = clock::now().saturating_add(time);
        loop {
            let left = end.saturating_sub(clock::now());
            match self.client().ask_in_doubt(self.first(), words, left.min(PATIENCE), Repeat::No, doubt).await {
                Err(error) if passes_for_release(&error) && clock::now() < end => sleep(PAUSE).await,
                answer => return answer,
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    No,
    For(Duration),
    Forever,
}

fn fence(answer: Value) -> Result<Option<i64>, Error> {
    let granted: Option<(Value, i64, i64)> =
        redis::from_redis_value(answer).map_err(|error| Error::Refused(error.into()))?;
    Ok(granted.map(|(_, fence, _)| fence))
}
