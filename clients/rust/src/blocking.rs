//! The same for programs without an async runtime. One thread in the background extends all holds of the process.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

use redis::{Cmd, FromRedisValue, IntoConnectionInfo, Value};
use tokio::runtime::{Builder, Runtime};

use crate::{Error, Order, Outcome};

/// As [`crate::Client`].
#[derive(Debug, Clone)]
pub struct Client(crate::Client);

/// As [`crate::Lock`].
#[derive(Debug, Clone)]
#[must_use = "nothing is asked for before `acquire`"]
pub struct Lock(crate::Lock);

/// As [`crate::Hold`]: dropping it releases the lock.
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct Hold(crate::Hold);

/// As [`crate::Stock`].
#[derive(Debug, Clone)]
pub struct Stock(crate::Stock);

fn run<T>(asked: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();

    let runtime = RUNTIME.get_or_init(|| {
        Builder::new_multi_thread().worker_threads(1).thread_name("lockstock").enable_all().build().ok()
    });
    let runtime = runtime.as_ref().ok_or(Error::Invalid("the system gives no thread to extend holds"))?;
    if tokio::runtime::Handle::try_current().is_ok() {
        return Err(Error::Invalid("a task of an async runtime must not block: use lockstock::Client"));
    }
    runtime.block_on(asked)
}

impl Client {
    /// As [`crate::Client::open`].
    ///
    /// # Errors
    /// The URL is malformed.
    pub fn open(url: &str) -> Result<Self, Error> {
        crate::Client::open(url).map(Self)
    }

    /// As [`crate::Client::new`].
    ///
    /// # Errors
    /// The parameters are malformed.
    pub fn new(server: impl IntoConnectionInfo) -> Result<Self, Error> {
        crate::Client::new(server).map(Self)
    }

    /// As [`crate::Client::lock`].
    pub fn lock(&self, key: impl Into<Vec<u8>>) -> Lock {
        Lock(self.0.lock(key))
    }

    /// As [`crate::Client::locks`].
    pub fn locks<K: Into<Vec<u8>>>(&self, keys: impl IntoIterator<Item = K>) -> Lock {
        Lock(self.0.locks(keys))
    }

    /// As [`crate::Client::stock`].
    #[must_use]
    pub fn stock(&self, sale: impl Into<Vec<u8>>) -> Stock {
        Stock(self.0.stock(sale))
    }

    /// As [`crate::Client::query`].
    ///
    /// # Errors
    /// No answer came, or it was an error.
    pub fn query<T: FromRedisValue>(&self, key: impl AsRef<[u8]>, command: &Cmd) -> Result<T, Error> {
        run(self.0.query(key, command))
    }
}

impl From<crate::Lock> for Lock {
    /// Any description will do: `Lock::from(client.lock("job").shared())`.
    fn from(lock: crate::Lock) -> Self {
        Self(lock)
    }
}

impl Lock {
    /// As [`crate::Lock::lease`].
    pub fn lease(self, lease: Duration) -> Self {
        Self(self.0.lease(lease))
    }

    /// As [`crate::Lock::wait`].
    pub fn wait(self, wait: Duration) -> Self {
        Self(self.0.wait(wait))
    }

    /// As [`crate::Lock::wait_forever`].
    pub fn wait_forever(self) -> Self {
        Self(self.0.wait_forever())
    }

    /// As [`crate::Lock::shared`].
    pub fn shared(self) -> Self {
        Self(self.0.shared())
    }

    /// As [`crate::Lock::limit`].
    pub fn limit(self, n: u64) -> Self {
        Self(self.0.limit(n))
    }

    /// As [`crate::Lock::session`].
    pub fn session(self) -> Self {
        Self(self.0.session())
    }

    /// As [`crate::Lock::replicas`].
    pub fn replicas(self, n: usize) -> Self {
        Self(self.0.replicas(n))
    }

    /// As [`crate::Lock::token`].
    pub fn token(self, token: impl Into<Vec<u8>>) -> Self {
        Self(self.0.token(token))
    }

    /// As [`crate::Lock::acquire`].
    ///
    /// # Errors
    /// [`Error::NotGranted`] if others had the lock all the time.
    pub fn acquire(&self) -> Result<Hold, Error> {
        run(self.0.acquire()).map(Hold)
    }
}

impl Hold {
    /// As [`crate::Hold::fence`].
    #[must_use]
    pub fn fence(&self) -> i64 {
        self.0.fence()
    }

    /// As [`crate::Hold::token`].
    #[must_use]
    pub fn token(&self) -> &[u8] {
        self.0.token()
    }

    /// As [`crate::Hold::left`].
    #[must_use]
    pub fn left(&self) -> Duration {
        self.0.left()
    }

    /// As [`crate::Hold::is_held`].
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// As [`crate::Hold::extend`].
    ///
    /// # Errors
    /// [`Error::Lost`] if the hold has ended.
    pub fn extend(&self) -> Result<(), Error> {
        run(self.0.extend())
    }

    /// As [`crate::Hold::guard`].
    ///
    /// # Errors
    /// [`Error::Lost`] if the hold has ended; else as the command's own.
    pub fn guard<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Error> {
        run(self.0.guard(command))
    }

    /// As [`crate::Hold::release`].
    ///
    /// # Errors
    /// [`Error::Lost`] if the hold had ended before; [`Error::Unreachable`] if the server could not be told.
    pub fn release(self) -> Result<(), Error> {
        run(self.0.release())
    }
}

impl Stock {
    /// As [`crate::Stock::create`].
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub fn create(&self, total: u64, limit: Option<u64>) -> Result<bool, Error> {
        run(self.0.create(total, limit))
    }

    /// As [`crate::Stock::order`].
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub fn order(&self, id: impl AsRef<[u8]>, order: &Order) -> Result<Outcome, Error> {
        run(self.0.order(id, order))
    }

    /// As [`crate::Stock::confirm`].
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub fn confirm(&self, id: impl AsRef<[u8]>, keep: Option<u64>) -> Result<Outcome, Error> {
        run(self.0.confirm(id, keep))
    }

    /// As [`crate::Stock::cancel`].
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub fn cancel(&self, id: impl AsRef<[u8]>, keep: Option<u64>) -> Result<Outcome, Error> {
        run(self.0.cancel(id, keep))
    }

    /// As [`crate::Stock::extend`].
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub fn extend(&self, id: impl AsRef<[u8]>, hold: Duration) -> Result<Outcome, Error> {
        run(self.0.extend(id, hold))
    }

    /// As [`crate::Stock::adjust`].
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub fn adjust(&self, delta: i64, id: Option<&[u8]>) -> Result<u64, Error> {
        run(self.0.adjust(delta, id))
    }

    /// As [`crate::Stock::info`].
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub fn info(&self) -> Result<Option<HashMap<String, Value>>, Error> {
        run(self.0.info())
    }

    /// As [`crate::Stock::look`].
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub fn look(&self, id: impl AsRef<[u8]>) -> Result<Option<HashMap<String, Value>>, Error> {
        run(self.0.look(id))
    }
}
