//! Where the server of a key is: one server, a node of a cluster, or the primary that Sentinel names.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, ProtocolVersion, PushInfo,
    PushKind, RedisError, RedisResult, cmd,
};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::client::{PATIENCE, limited};
use crate::error::timed_out;

/// A Sentinel that does not answer within this time is passed over.
const SENTINEL: Duration = Duration::from_millis(500);

/// Servers that a URL names.
pub struct Servers {
    kind: Kind,
    /// How to connect to any of them, but for the address.
    pattern: ConnectionInfo,
    seeds: Vec<ConnectionAddr>,
    /// Which node has a slot, as far as a redirection has told.
    slots: Mutex<HashMap<u16, ConnectionAddr>>,
    /// The node that has let no connection be made last. Others are asked first about slots of which nothing is known.
    silent: Mutex<Option<ConnectionAddr>>,
}

enum Kind {
    Alone,
    Cluster,
    Sentinel { name: String },
}

/// A connection, and the end of it.
pub struct Wire {
    pub connection: MultiplexedConnection,
    pub address: ConnectionAddr,
    /// Becomes true when the connection ends.
    pub ended: watch::Receiver<bool>,
}

impl Servers {
    /// `redis://`, `rediss://`, `redis+cluster://host:port,host:port` and `redis+sentinel://host:port,host:port/name`.
    pub fn parse(url: &str) -> RedisResult<Self> {
        let broken = |why| RedisError::from((ErrorKind::InvalidClientConfig, why));
        let (scheme, rest) = url.split_once("://").ok_or_else(|| broken("a URL begins with redis://"))?;
        let (plain, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = authority.rsplit_once('@').map_or(("", authority), |(user, hosts)| (user, hosts));
        let at = if user.is_empty() { "" } else { "@" };
        let (kind, path) = match (plain, kind) {
            (_, "") | ("redis" | "valkey", "unix") => return Ok(Self::alone(url.into_connection_info()?)),
            ("redis" | "rediss" | "valkey" | "valkeys", "cluster") => (Kind::Cluster, path),
            ("redis" | "rediss" | "valkey" | "valkeys", "sentinel") => {
                let (name, db) = path.split_once('/').unwrap_or((path, ""));
                if name.is_empty() {
                    return Err(broken("redis+sentinel:// needs the name of the primary as its path"));
                }
                (Kind::Sentinel { name: name.into() }, db)
            }
            _ => return Err(broken("the scheme is none of redis, rediss, redis+cluster and redis+sentinel")),
        };
        let port = if matches!(kind, Kind::Sentinel { .. }) { 26379 } else { 6379 };
        let mut seeds = Vec::new();
        let mut pattern = None;
        for host in hosts.split(',') {
            // A port is missing where no colon follows the last bracket of an IPv6 address.
            let named = host.rsplit_once(']').map_or(host, |(_, after)| after).contains(':');
            let port = if named { String::new() } else { format!(":{port}") };
            let info = format!("{plain}://{user}{at}{host}{port}/{path}").into_connection_info()?;
            seeds.push(info.addr().clone());
            pattern.get_or_insert(info);
        }
        let pattern = pattern.ok_or_else(|| broken("the URL names no host"))?;
        Ok(Self::of(kind, seeds, pattern))
    }

    /// One server.
    pub fn alone(info: ConnectionInfo) -> Self {
        let seeds = vec![info.addr().clone()];
        Self::of(Kind::Alone, seeds, info)
    }

    fn of(kind: Kind, seeds: Vec<ConnectionAddr>, pattern: ConnectionInfo) -> Self {
        Self { kind, pattern: settled(pattern), seeds, slots: Mutex::default(), silent: Mutex::default() }
    }

    pub fn is_cluster(&self) -> bool {
        matches!(self.kind, Kind::Cluster)
    }

    /// The slot of `key`, where that matters.
    pub fn slot(&self, key: &[u8]) -> u16 {
        if !matches!(self.kind, Kind::Cluster) {
            return 0;
        }
        let tag = || {
            let begin = key.iter().position(|byte| *byte == b'{')?.checked_add(1)?;
            let rest = key.get(begin..)?;
            let length = rest.iter().position(|byte| *byte == b'}')?;
            rest.get(..length).filter(|tag| !tag.is_empty())
        };
        crc16::State::<crc16::XMODEM>::calculate(tag().unwrap_or(key)) % 16_384
    }

    /// The node that serves `slot`, as far as is known without a request to it.
    pub fn expected(&self, slot: u16) -> Option<ConnectionAddr> {
        match self.kind {
            Kind::Alone => self.seeds.first().cloned(),
            Kind::Cluster => {
                let (known, silent) = (self.known(), self.silent());
                let speaks = || self.seeds.iter().chain(known.values()).find(|node| silent.as_ref() != Some(*node));
                known.get(&slot).or_else(speaks).or(self.seeds.first()).cloned()
            }
            Kind::Sentinel { .. } => self.known().get(&0).cloned(),
        }
    }

    /// Remembers the node that a redirection named.
    pub fn moved(&self, slot: u16, host: &str, port: u16) {
        let address = self.neighbour(host, port);
        self.known().insert(slot, address);
    }

    /// Another node of the same cluster.
    pub fn neighbour(&self, host: &str, port: u16) -> ConnectionAddr {
        at(self.pattern.addr(), host, port)
    }

    /// Forgets the node of `slot`: it does not answer, or no longer has the slot.
    pub fn forget(&self, slot: u16) {
        self.known().remove(&slot);
    }

    /// All that a redirection, a Sentinel or the URL has named.
    pub fn all(&self) -> Vec<ConnectionAddr> {
        let mut all: Vec<_> = self.known().values().cloned().collect();
        all.extend(self.seeds.iter().cloned());
        let mut seen: Vec<String> = Vec::new();
        all.retain(|address| {
            let name = address.to_string();
            let new = !seen.contains(&name);
            seen.push(name);
            new
        });
        all
    }

    /// A connection to the server of `slot`; in a cluster to any node, which will say where the slot is.
    pub async fn connect(&self, slot: u16, patience: Duration) -> RedisResult<Wire> {
        match &self.kind {
            Kind::Alone => self.connect_to(self.pattern.addr(), patience).await,
            Kind::Sentinel { name } => {
                let (host, port) = self.ask_sentinels(name).await?;
                let address = at(self.pattern.addr(), &host, port);
                let mut wire = self.connect_to(&address, patience).await?;
                let role = cmd("ROLE");
                let role = limited(patience, role.query_async::<Vec<redis::Value>>(&mut wire.connection)).await?;
                if role.first() != Some(&redis::Value::BulkString(b"master".to_vec())) {
                    return Err(std::io::Error::other("Sentinel names a server that is no primary").into());
                }
                self.known().insert(0, address);
                Ok(wire)
            }
            Kind::Cluster => {
                let (mut nodes, first) = (self.all(), self.expected(slot));
                nodes.sort_by_key(|node| first.as_ref() != Some(node));
                let share = patience / u32::try_from(nodes.len()).unwrap_or(1).clamp(1, 4);
                let mut failure = timed_out();
                for node in nodes {
                    match self.connect_to(&node, share).await {
                        Ok(wire) => {
                            // Until it says otherwise.
                            self.known().insert(slot, node);
                            return Ok(wire);
                        }
                        Err(error) if error.is_io_error() => {
                            failure = error;
                            // Another one may have its slots by now.
                            self.known().retain(|_, at| *at != node);
                            *self.silent() = Some(node);
                        }
                        Err(error) => return Err(error),
                    }
                }
                Err(failure)
            }
        }
    }

    /// Whether the server at `address` is the primary, as far as Sentinel can be asked. One that stood still while it was replaced does not
    /// know of it.
    pub async fn leads(&self, address: &ConnectionAddr) -> bool {
        let Kind::Sentinel { name } = &self.kind else { return true };
        let named = self.ask_sentinels(name).await;
        named.map_or(true, |(host, port)| at(self.pattern.addr(), &host, port) == *address)
    }

    /// A connection to this server.
    pub async fn connect_to(&self, address: &ConnectionAddr, patience: Duration) -> RedisResult<Wire> {
        let (tell, ended) = watch::channel(false);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(patience))
            // Each request has a time of its own.
            .set_response_timeout(None)
            .set_push_sender(move |push: PushInfo| {
                if push.kind == PushKind::Disconnection {
                    tell.send_replace(true);
                }
                Ok::<_, redis::aio::SendError>(())
            });
        let client = redis::Client::open(self.pattern.clone().set_addr(address.clone()))?;
        let connection = timeout(patience, client.get_multiplexed_async_connection_with_config(&config))
            .await
            .map_err(|_| timed_out())??;
        Ok(Wire { connection, address: address.clone(), ended })
    }

    async fn ask_sentinels(&self, name: &str) -> RedisResult<(String, u16)> {
        let mut failure = timed_out();
        for seed in &self.seeds {
            // The user and the password are those of the primary.
            let info = seed.clone().into_connection_info()?;
            let asked = async {
                let client = redis::Client::open(info)?;
                let mut connection = client.get_multiplexed_async_connection().await?;
                let answer: Option<(String, u16)> =
                    cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name).query_async(&mut connection).await?;
                answer.ok_or_else(|| (ErrorKind::Client, "Sentinel knows no primary of this name").into())
            };
            match timeout(SENTINEL, asked).await.unwrap_or_else(|_| Err(timed_out())) {
                Ok(address) => return Ok(address),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<u16, ConnectionAddr>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn silent(&self) -> MutexGuard<'_, Option<ConnectionAddr>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// With RESP3, the receiver of pushed messages also hears of the end of the connection.
fn settled(info: ConnectionInfo) -> ConnectionInfo {
    let redis = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let tcp = info.tcp_settings().clone();
    // A request that a network holds up is given up by the system, too. Else it could arrive after the next one of its token.
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    let tcp = tcp.set_user_timeout(PATIENCE);
    info.set_redis_settings(redis).set_tcp_settings(tcp)
}

/// Another host and port, reached in the same way. An empty host is the same host.
fn at(like: &ConnectionAddr, host: &str, port: u16) -> ConnectionAddr {
    let same = |old: &String| if host.is_empty() { old.clone() } else { host.to_owned() };
    match like {
        ConnectionAddr::TcpTls { host: old, insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host: same(old), port, insecure: *insecure, tls_params: tls_params.clone() }
        }
        ConnectionAddr::Tcp(old, _) => ConnectionAddr::Tcp(same(old), port),
        _ => ConnectionAddr::Tcp(host.to_owned(), port),
    }
}
