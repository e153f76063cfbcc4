//! Describing the server that a test needs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::paths::module_path;
use super::server::Server;

/// A server to be started; see [`Server::builder`].
#[derive(Clone, Default)]
pub struct Builder {
    pub(super) module: bool,
    pub(super) module_args: String,
    pub(super) config: Vec<String>,
    pub(super) port: Option<u16>,
    pub(super) replica_of: Option<SocketAddr>,
    pub(super) cluster: bool,
    pub(super) sentinel: bool,
    pub(super) under: Vec<String>,
    pub(super) host: Option<IpAddr>,
}

impl Builder {
    /// Adds one line of redis.conf. Later lines win over earlier ones and over the harness's own.
    pub fn config(mut self, line: &str) -> Self {
        self.config.push(line.into());
        self
    }

    /// The module's arguments, as they stand on the `loadmodule` line.
    pub fn module_args(mut self, args: &str) -> Self {
        self.module_args = args.into();
        self
    }

    /// Turns the append-only file on. `fsync` is one of `always`, `everysec`, `no`.
    pub fn aof(self, fsync: &str) -> Self {
        self.config("appendonly yes").config(&format!("appendfsync {fsync}"))
    }

    /// Turns cluster mode on. The node serves no slots yet.
    pub fn cluster(mut self) -> Self {
        self.cluster = true;
        self
    }

    /// Starts as a replica of `primary`.
    pub fn replica_of(mut self, primary: &Server) -> Self {
        self.replica_of = Some(primary.address());
        self
    }

    /// Runs as a Sentinel.
    pub fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self
    }

    /// Has the server run by another program, as in `valgrind redis-server`, which ends in the server's own process.
    pub fn under(mut self, program: &[&str]) -> Self {
        self.under = program.iter().map(ToString::to_string).collect();
        self
    }

    /// Listens on this address instead of 127.0.0.1.
    pub fn host(mut self, host: IpAddr) -> Self {
        self.host = Some(host);
        self
    }

    /// Listens on this port instead of a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Starts the server and waits until it serves.
    #[track_caller]
    pub fn start(self) -> Server {
        Server::launch(self)
    }

    /// Fails the test unless the server refuses to start; its log says why.
    #[track_caller]
    pub fn start_refused(self) -> String {
        Server::launch_refused(self)
    }

    /// The address that it listens on.
    pub(super) fn listens_on(&self) -> IpAddr {
        self.host.unwrap_or(Ipv4Addr::LOCALHOST.into())
    }

    /// The configuration file of a server that listens on `port`.
    pub(super) fn conf(&self, port: u16, cluster_port: Option<u16>) -> String {
        let mut lines: Vec<String> = [
            "protected-mode no",
            "daemonize no",
            "dir .",
            // Standard output is the log: it also catches what the loader, a panic or an abort has to say.
            "logfile \"\"",
            "save \"\"",
            // Tests look inside with DEBUG, load modules and set protected settings.
            "enable-debug-command yes",
            "enable-module-command yes",
            "enable-protected-configs yes",
            // A replica is to be in sync now rather than in five seconds.
            "repl-diskless-sync yes",
            "repl-diskless-sync-delay 0",
        ]
        .map(String::from)
        .into();
        lines.push(format!("bind {}", self.listens_on()));
        lines.push(format!("port {port}"));
        if let Some(cluster_port) = cluster_port {
            lines.extend([
                "cluster-enabled yes".into(),
                format!("cluster-port {cluster_port}"),
                "cluster-node-timeout 2000".into(),
            ]);
        }
        if let Some(primary) = self.replica_of {
            lines.push(format!("replicaof {} {}", primary.ip(), primary.port()));
        }
        if self.module {
            lines.push(format!("loadmodule {} {}", module_path().display(), self.module_args));
        }
        lines.extend(self.config.iter().cloned());
        lines.join("\n") + "\n"
    }
}
