//! A lock that is held until it is dropped.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use redis::{Client, Connection, ErrorKind, RedisError, RedisResult, ServerErrorKind, cmd};

/// How much later than asked for the answer to a wait may come before the server is taken for dead.
const GRACE: Duration = Duration::from_secs(5);
/// How long to wait before asking a server again that could not answer.
const PAUSE: Duration = Duration::from_millis(50);

/// A lock that this process holds. Dropping it releases it.
pub struct Lock {
    /// A number larger than that of every grant before: have what you write to refuse smaller ones.
    pub fence: i64,
    request: Request,
    /// Until when the hold lasts if nobody extends it, by this process's clock.
    until: Arc<Mutex<Instant>>,
    /// Dropped with the lock, which ends the thread that extends it.
    over: Option<Sender<()>>,
    keeper: Option<JoinHandle<()>>,
}

/// Who asks for which lock, where.
#[derive(Clone)]
struct Request {
    client: Client,
    key: String,
    /// One for this request and all its repetitions.
    token: String,
    lease: Duration,
}

impl Lock {
    /// Stands in line for `key` for at most `wait`. `None` if others had it all the time.
    pub fn acquire(client: &Client, key: &str, wait: Duration, lease: Duration) -> RedisResult<Option<Self>> {
        let token = uuid::Uuid::new_v4().to_string();
        let request = Request { client: client.clone(), key: key.into(), token, lease };
        let end = Instant::now() + wait;
        loop {
            let sent = Instant::now();
            let left = end.saturating_duration_since(sent);
            match request.ask(left) {
                Ok(None) => return Ok(None),
                Ok(Some(fence)) if left.is_zero() => return Ok(Some(Self::begin(request, fence, sent, lease / 3))),
                // Extended at once after a wait: nobody knows how long the answer took.
                Ok(Some(fence)) => return Ok(Some(Self::begin(request, fence, Instant::now(), Duration::ZERO))),
                // Asked again with the same token, the server finds its place in line, or its grant.
                Err(error) if passes(&error) && !left.is_zero() => thread::sleep(PAUSE),
                Err(error) => {
                    // Without an answer the request may stand in line, and would be granted the lock though nobody is here.
                    if is_silence(&error) {
                        request.withdraw();
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Extends the hold from now on, the first time after `pause`. The lease counts from `since`.
    fn begin(request: Request, fence: i64, since: Instant, mut pause: Duration) -> Self {
        let until = Arc::new(Mutex::new(since + request.lease));
        let (over, ends) = channel();
        let (kept, extended) = (request.clone(), until.clone());
        let keeper = thread::spawn(move || {
            // The sender says nothing; it goes away.
            while ends.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let sent = Instant::now();
                // No answer says nothing; the clock does.
                let answer = kept.extend();
                pause = kept.lease / if answer.is_ok() { 3 } else { 20 };
                if let Ok(held) = answer {
                    // The lease counts from before it was asked for.
                    let end = if held { sent + kept.lease } else { sent };
                    *extended.lock().unwrap_or_else(PoisonError::into_inner) = end;
                    if !held {
                        return;
                    }
                }
            }
        });
        Self { fence, request, until, over: Some(over), keeper: Some(keeper) }
    }

    /// Whether the hold should last still. Look before each step that must not be done twice, and send the fence with it.
    pub fn is_held(&self) -> bool {
        Instant::now() < *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the hold; `false` if it was over already: somebody else may have had the lock meanwhile.
    pub fn release(mut self) -> RedisResult<bool> {
        self.stop();
        self.request.release()
    }

    /// Stops extending; `false` if somebody has done so before.
    fn stop(&mut self) -> bool {
        self.over = None;
        self.keeper.take().is_some_and(|keeper| keeper.join().is_ok())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.stop() {
            // If the server cannot be told, the lease ends the hold.
            let _ = self.request.release();
        }
    }
}

impl Request {
    /// A connection of its own: a parked request holds up all that come behind it.
    fn connect(&self, patience: Duration) -> RedisResult<Connection> {
        let connection = self.client.get_connection_with_timeout(GRACE)?;
        // Longer than the server takes to answer.
        connection.set_read_timeout(Some(patience + GRACE))?;
        Ok(connection)
    }

    fn ask(&self, wait: Duration) -> RedisResult<Option<i64>> {
        let mut ask = cmd("LOCK.ACQUIRE");
        ask.arg(&self.key).arg("TOKEN").arg(&self.token).arg("PX").arg(ms(self.lease));
        if !wait.is_zero() {
            ask.arg("WAIT").arg(ms(wait));
        }
        let granted: Option<(String, i64, i64)> = ask.query(&mut self.connect(wait)?)?;
        Ok(granted.map(|(_, fence, _)| fence))
    }

    fn extend(&self) -> RedisResult<bool> {
        let mut connection = self.client.get_connection_with_timeout(self.lease / 3)?;
        connection.set_read_timeout(Some(self.lease / 3))?;
        cmd("LOCK.EXTEND").arg(&self.key).arg(&self.token).arg("PX").arg(ms(self.lease)).query(&mut connection)
    }

    /// After this the token neither holds the lock nor waits for it. It may be said twice.
    fn release(&self) -> RedisResult<bool> {
        cmd("LOCK.RELEASE").arg(&self.key).arg(&self.token).query(&mut self.connect(Duration::ZERO)?)
    }

    fn withdraw(&self) {
        // Out of reach: the place went with the connection, and what was granted ends with its lease.
        let _ = self.release();
    }
}

fn ms(time: Duration) -> u128 {
    time.as_millis().max(1)
}

/// Whether nobody answered.
fn is_silence(error: &RedisError) -> bool {
    error.is_io_error() || error.is_timeout() || error.is_connection_dropped()
}

/// Whether asking again, of the same server or another, may help.
fn passes(error: &RedisError) -> bool {
    let demoted = || error.code() == Some("UNBLOCKED") && error.detail().is_some_and(|text| text.starts_with("force"));
    let server = [
        ServerErrorKind::Moved,
        ServerErrorKind::Ask,
        ServerErrorKind::TryAgain,
        ServerErrorKind::ClusterDown,
        ServerErrorKind::BusyLoading,
        ServerErrorKind::MasterDown,
        ServerErrorKind::ReadOnly,
    ];
    is_silence(error) || demoted() || server.iter().any(|kind| error.kind() == ErrorKind::Server(*kind))
}
