//! A client that any number of tasks share.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::{
    Cmd, ConnectionInfo, ErrorKind, FromRedisValue, IntoConnectionInfo, RedisError, RedisResult, ServerErrorKind,
    Value, cmd,
};
use tokio::time::{sleep, timeout};

use crate::background;
use crate::claims::Claims;
use crate::error::{is_silence, timed_out};
use crate::servers::{Servers, Wire};
use crate::{Error, Lock, Stock};

/// How long a request that does not wait may take.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait before asking a server again that could not answer.
pub const PAUSE: Duration = Duration::from_millis(50);

/// Where the servers are. A clone is the same client: they share one connection for each server, which is made when it is needed.
/// Requests that wait have a connection of their own.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    servers: Servers,
    wires: Mutex<HashMap<String, Wire>>,
    /// One connection at a time is made to a server, which all that wait for it share.
    making: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    claims: Claims,
}

impl Client {
    /// A client of `redis://[user:pass@]host:port[/db]`, `rediss://…` (feature `tls`), `redis+cluster://host:port,host:port` or
    /// `redis+sentinel://host:port,host:port/name`. Nothing is connected yet.
    ///
    /// # Errors
    /// The URL is none of these.
    pub fn open(url: &str) -> Result<Self, Error> {
        Servers::parse(url).map(Self::of).map_err(Error::Refused)
    }

    /// A client of the server that redis-rs's connection parameters name, also those of a `redis::Client` (`get_connection_info`).
    ///
    /// # Errors
    /// The parameters are malformed.
    pub fn new(server: impl IntoConnectionInfo) -> Result<Self, Error> {
        let info: ConnectionInfo = server.into_connection_info().map_err(Error::Refused)?;
        Ok(Self::of(Servers::alone(info)))
    }

    fn of(servers: Servers) -> Self {
        Self {
            shared: Arc::new(Shared {
                servers,
                wires: Mutex::default(),
                making: Mutex::default(),
                claims: Claims::default(),
            }),
        }
    }

    /// Describes a lock on `key`; nothing is sent before [`Lock::acquire`].
    pub fn lock(&self, key: impl Into<Vec<u8>>) -> Lock {
        self.locks([key.into()])
    }

    /// Describes a lock on all of several keys, or on none of them. In a cluster they are of one slot.
    pub fn locks<K: Into<Vec<u8>>>(&self, keys: impl IntoIterator<Item = K>) -> Lock {
        Lock::new(self.clone(), keys.into_iter().map(Into::into).collect())
    }

    /// The sale of this key.
    #[must_use]
    pub fn stock(&self, sale: impl Into<Vec<u8>>) -> Stock {
        Stock::new(self.clone(), sale.into())
    }

    /// Sends any command to the server of `key` and reads its answer, within two seconds. It is sent once.
    ///
    /// # Errors
    /// No answer came, or it was an error.
    pub async fn query<T: FromRedisValue>(&self, key: impl AsRef<[u8]>, command: &Cmd) -> Result<T, Error> {
        self.request(key.as_ref(), command.clone(), Repeat::No).await
    }

    /// The answer to `command`, from the server of `key`, within two seconds.
    pub(crate) async fn request<T: FromRedisValue>(
        &self,
        key: &[u8],
        command: Cmd,
        repeat: Repeat,
    ) -> Result<T, Error> {
        let (client, key) = (self.clone(), key.to_vec());
        let asked = async move { Ok(client.ask(&key, &command, PATIENCE, repeat).await?) };
        T::from_redis_value(background::run(asked).await?).map_err(|error| Error::Refused(error.into()))
    }

    pub(crate) fn servers(&self) -> &Servers {
        &self.shared.servers
    }

    pub(crate) fn claims(&self) -> &Claims {
        &self.shared.claims
    }

    /// The answer to `command`, from the server of `key`, within `patience`. The connections are those of the background.
    pub(crate) async fn ask(
        &self,
        key: &[u8],
        command: &Cmd,
        patience: Duration,
        repeat: Repeat,
    ) -> RedisResult<Value> {
        self.ask_in_doubt(key, command, patience, repeat, &mut false).await
    }

    /// The same. `doubt` becomes true if the command was sent and no answer came.
    pub(crate) async fn ask_in_doubt(
        &self,
        key: &[u8],
        command: &Cmd,
        patience: Duration,
        repeat: Repeat,
        doubt: &mut bool,
    ) -> RedisResult<Value> {
        let slot = self.servers().slot(key);
        let asked = timeout(patience, self.ask_slot(slot, command, patience, repeat, doubt)).await;
        asked.unwrap_or_else(|_| {
            self.drop_wire(slot);
            Err(timed_out())
        })
    }

    async fn ask_slot(
        &self,
        slot: u16,
        command: &Cmd,
        patience: Duration,
        repeat: Repeat,
        doubt: &mut bool,
    ) -> RedisResult<Value> {
        loop {
            let (mut wire, new) = self.wire(slot, patience).await?;
            let error = match send(command, &mut wire, doubt).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if is_silence(&error) {
                self.drop_wire(slot);
                if new || repeat == Repeat::No {
                    return Err(error);
                }
            } else if let Some(node) = self.asking(&error) {
                let mut wire = self.servers().connect_to(&node, patience).await?.connection;
                cmd("ASKING").exec_async(&mut wire).await?;
                return send(command, &mut wire, doubt).await;
            } else if !self.redirected(slot, &error) {
                if error.kind() != ErrorKind::Server(ServerErrorKind::TryAgain) {
                    return Err(error);
                }
                sleep(PAUSE).await;
            }
        }
    }

    /// Remembers the node that `error` names for `slot`; `false` if it names none.
    pub(crate) fn redirected(&self, slot: u16, error: &RedisError) -> bool {
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::Moved) if self.servers().is_cluster() => {
                node(error).is_some_and(|(host, port)| {
                    self.servers().moved(slot, host, port);
                    true
                })
            }
            // The primary is another one now; only asking anew tells which.
            _ => {
                if matches!(error.code(), Some("READONLY" | "MASTERDOWN" | "UNBLOCKED")) {
                    self.drop_wire(slot);
                }
                false
            }
        }
    }

    /// The node that `error` names for the next request alone.
    pub(crate) fn asking(&self, error: &RedisError) -> Option<redis::ConnectionAddr> {
        let asks = error.kind() == ErrorKind::Server(ServerErrorKind::Ask);
        let (host, port) = node(error).filter(|_| asks)?;
        Some(self.servers().neighbour(host, port))
    }

    /// The shared connection to the server of `slot`, and whether it is new.
    async fn wire(&self, slot: u16, patience: Duration) -> RedisResult<(redis::aio::MultiplexedConnection, bool)> {
        if let Some(wire) = self.made(slot) {
            return Ok((wire, false));
        }
        let address = self.servers().expected(slot).map(|address| address.to_string()).unwrap_or_default();
        let making =
            self.shared.making.lock().unwrap_or_else(PoisonError::into_inner).entry(address).or_default().clone();
        let _turn = making.lock().await;
        if let Some(wire) = self.made(slot) {
            return Ok((wire, false));
        }
        let wire = self.servers().connect(slot, patience).await?;
        let connection = wire.connection.clone();
        self.wires().insert(wire.address.to_string(), wire);
        Ok((connection, true))
    }

    fn made(&self, slot: u16) -> Option<redis::aio::MultiplexedConnection> {
        let address = self.servers().expected(slot)?.to_string();
        self.wires().get(&address).filter(|wire| !*wire.ended.borrow()).map(|wire| wire.connection.clone())
    }

    /// Has the next request to `slot` find its server anew.
    pub(crate) fn drop_wire(&self, slot: u16) {
        if let Some(address) = self.servers().expected(slot) {
            self.wires().remove(&address.to_string());
        }
        self.servers().forget(slot);
    }

    fn wires(&self) -> std::sync::MutexGuard<'_, HashMap<String, Wire>> {
        self.shared.wires.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer over this connection. `doubt` stays as it was if there is one.
async fn send(command: &Cmd, wire: &mut redis::aio::MultiplexedConnection, doubt: &mut bool) -> RedisResult<Value> {
    let before = std::mem::replace(doubt, true);
    let answer = command.query_async(wire).await;
    if answer.as_ref().err().is_none_or(|error| !is_silence(error)) {
        *doubt = before;
    }
    answer
}

/// The host and the port that a redirection names.
fn node(error: &RedisError) -> Option<(&str, u16)> {
    let (host, port) = error.redirect_node()?.0.rsplit_once(':')?;
    Some((host, port.parse().ok()?))
}

/// The answer, if it comes in this time.
pub async fn limited<T>(time: Duration, asked: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    timeout(time, asked).await.unwrap_or_else(|_| Err(timed_out()))
}

/// Whether a request may be sent again when its connection broke.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    Yes,
    No,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
