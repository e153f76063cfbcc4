//! Each server of a deployment by itself, for programs that look at all of them.

use std::collections::HashMap;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, Pipeline, Value, cmd};

use crate::client::{PATIENCE, limited};
use crate::servers::Servers;
use crate::{Client, Error};

/// One server, with a connection of its own.
#[derive(Debug, Clone)]
pub struct Node {
    /// Host and port.
    pub address: String,
    /// Whether this node is a primary, or else a replica.
    pub is_primary: bool,
    connection: MultiplexedConnection,
}

impl Node {
    /// Sends a command to this server, whatever its keys are, and reads the answer within two seconds.
    ///
    /// # Errors
    /// No answer came, or it was an error.
    pub async fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, Error> {
        let answer = limited(PATIENCE, command.query_async::<Value>(&mut self.connection)).await?;
        T::from_redis_value(answer).map_err(|error| Error::Refused(error.into()))
    }

    /// Sends commands together. An answer that is an error is in its place.
    ///
    /// # Errors
    /// No answer came.
    pub async fn query_all(&mut self, commands: &mut Pipeline) -> Result<Vec<Value>, Error> {
        let count = commands.cmd_iter().count();
        let asked = self.connection.send_packed_commands(commands, 0, count);
        Ok(limited(PATIENCE.saturating_mul(5), asked).await?)
    }
}

impl Client {
    /// All primaries: one, or those of a cluster.
    ///
    /// # Errors
    /// No server names the nodes, or one of them does not answer.
    pub async fn primaries(&self) -> Result<Vec<Node>, Error> {
        if !self.servers().is_cluster() {
            // Without asking for more rights than a connection needs.
            let wire = self.servers().connect(0, PATIENCE).await?;
            return Ok(vec![Node { address: wire.address.to_string(), is_primary: true, connection: wire.connection }]);
        }
        let mut primaries = Vec::new();
        for (address, is_primary) in self.addresses().await? {
            if is_primary {
                primaries.push(self.node(address, is_primary).await?);
            }
        }
        Ok(primaries)
    }

    /// All servers that are known: primaries and their replicas, or why one cannot be reached.
    ///
    /// # Errors
    /// No server names the nodes.
    pub async fn nodes(&self) -> Result<Vec<(String, Result<Node, Error>)>, Error> {
        let mut nodes = Vec::new();
        for (address, is_primary) in self.addresses().await? {
            let name = address.to_string();
            nodes.push((name, self.node(address, is_primary).await));
        }
        Ok(nodes)
    }

    async fn node(&self, address: redis::ConnectionAddr, is_primary: bool) -> Result<Node, Error> {
        let name = address.to_string();
        let wire = self.servers().connect_to(&address, PATIENCE).await?;
        Ok(Node { address: name, is_primary, connection: wire.connection })
    }

    async fn addresses(&self) -> Result<Vec<(redis::ConnectionAddr, bool)>, Error> {
        let servers = self.servers();
        let mut wire = servers.connect(0, PATIENCE).await?;
        if servers.is_cluster() {
            let slots: Vec<Vec<Value>> =
                limited(PATIENCE, cmd("CLUSTER").arg("SLOTS").query_async(&mut wire.connection)).await?;
            return Ok(in_slots(servers, slots));
        }
        let text: String = limited(PATIENCE, cmd("INFO").arg("replication").query_async(&mut wire.connection)).await?;
        let info: HashMap<&str, &str> = text.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
        let mut found = vec![(wire.address, info.get("role") != Some(&"slave"))];
        for replica in (0..).map_while(|number| info.get(format!("slave{number}").as_str())) {
            let field = |name| replica.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
            if let (Some(host), Some(port)) = (field("ip"), field("port").and_then(|port| port.parse().ok())) {
                found.push((servers.neighbour(host, port), false));
            }
        }
        Ok(found)
    }
}

/// The nodes that `CLUSTER SLOTS` names: of each range the primary first.
fn in_slots(servers: &Servers, slots: Vec<Vec<Value>>) -> Vec<(redis::ConnectionAddr, bool)> {
    let mut found: Vec<(redis::ConnectionAddr, bool)> = Vec::new();
    for range in slots {
        for (place, node) in range.into_iter().skip(2).enumerate() {
            let Ok((host, port, ..)) = redis::from_redis_value::<(String, u16, Value, Value)>(node) else { continue };
            let address = servers.neighbour(&host, port);
            if !found.iter().any(|(known, _)| *known == address) {
                found.push((address, place == 0));
            }
        }
    }
    found
}
