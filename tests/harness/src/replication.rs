//! Primaries and replicas.

use super::{Server, eventually};

impl Server {
    /// Makes this server a replica of `primary`.
    #[track_caller]
    pub fn follow(&self, primary: &Server) {
        let primary = primary.address();
        self.expect(format!("REPLICAOF {} {}", primary.ip(), primary.port()), super::OK);
    }

    /// Waits until this replica has everything that `primary` has written so far.
    #[track_caller]
    pub fn wait_in_sync(&self, primary: &Server) {
        let goal = primary.info_int("replication", "master_repl_offset");
        eventually("the replica catches up with its primary", || {
            let info = self.info("replication");
            let is = |field: &str, value: &str| info.get(field).is_some_and(|found| found == value);
            let offset = info.get("slave_repl_offset").and_then(|offset| offset.parse::<i64>().ok());
            is("role", "slave")
                && is("master_link_status", "up")
                && is("master_port", &primary.port().to_string())
                && offset.is_some_and(|offset| offset >= goal)
        });
        // The primary learns of it a little later, and some things it does only for replicas that it counts as online.
        let online = format!("port={},state=online", self.port());
        eventually("the primary counts its replica as online", || {
            primary.cmd("INFO replication").text().contains(&online)
        });
    }

    /// Waits until this primary takes its replica for one that could replace it, which is a little after both are in sync.
    #[track_caller]
    pub fn wait_online(&self) {
        eventually("the replica is online", || self.cmd("INFO replication").text().contains("state=online"));
    }

    /// Lets every client send this server effects, as a tool would that copies another one.
    #[track_caller]
    pub fn take_effects(&self) {
        self.expect("CONFIG SET lockstock.accept-effects yes", super::OK);
    }

    /// Makes this replica a primary, as a failover does.
    #[track_caller]
    pub fn promote(&self) {
        self.expect("REPLICAOF NO ONE", super::OK);
    }

    /// A Sentinel that knows this primary as `main`, and `replica` as its replica, and loses patience after half a second.
    #[track_caller]
    pub fn watched_with(&self, replica: &Server) -> Server {
        replica.wait_in_sync(self);
        let sentinel = Server::plain().sentinel().start();
        sentinel.expect(format!("SENTINEL MONITOR main 127.0.0.1 {} 1", self.port()), super::OK);
        sentinel.expect("SENTINEL SET main down-after-milliseconds 500 failover-timeout 2000", super::OK);
        // It knows the replica before it has talked to it.
        eventually("Sentinel sees the replica", || {
            format!("{:?}", sentinel.cmd("SENTINEL REPLICAS main")).contains(&replica.port().to_string())
        });
        sentinel
    }
}
