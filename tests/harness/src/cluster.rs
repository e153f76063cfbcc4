//! Clusters of primaries.

use std::collections::BTreeSet;

use super::{Client, Reply, Server, eventually};

/// A cluster in which every node is a primary and serves its share of the slots.
pub struct Cluster {
    nodes: Vec<Server>,
    ids: Vec<String>,
}

/// A cluster has this many slots.
const SLOTS: usize = 16_384;

impl Cluster {
    /// Starts `count` nodes with the module and waits until each of them knows all and serves.
    #[track_caller]
    pub fn start(count: usize) -> Self {
        Self::start_with(count, &[])
    }

    /// The same with these lines in the configuration of each node.
    #[track_caller]
    pub fn start_with(count: usize, config: &[&str]) -> Self {
        let builder = config.iter().fold(Server::builder().cluster(), |builder, line| builder.config(line));
        let nodes: Vec<Server> = (0..count).map(|_| builder.clone().start()).collect();
        for (number, node) in nodes.iter().enumerate() {
            let (first, end) = (SLOTS * number / count, SLOTS * (number + 1) / count);
            node.expect(format!("CLUSTER ADDSLOTSRANGE {first} {}", end - 1), super::OK);
            node.expect(format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1), super::OK);
            let bus = nodes[0].cluster_port().expect("a cluster node");
            node.expect(format!("CLUSTER MEET 127.0.0.1 {} {bus}", nodes[0].port()), super::OK);
        }
        let ids = nodes.iter().map(|node| node.cmd("CLUSTER MYID").text()).collect();
        let cluster = Self { nodes, ids };
        eventually("the cluster is up", || {
            cluster.nodes.iter().all(|node| {
                let info = node.cmd("CLUSTER INFO").text();
                info.contains("cluster_state:ok") && info.contains(&format!("cluster_size:{count}"))
            })
        });
        cluster
    }

    /// A further node, which follows one of the primaries and has all that it has.
    #[track_caller]
    pub fn replica_of(&self, number: usize) -> Server {
        let primary = &self.nodes[number];
        let replica = Server::builder().cluster().start();
        let bus = primary.cluster_port().expect("a cluster node");
        replica.expect(format!("CLUSTER MEET 127.0.0.1 {} {bus}", primary.port()), super::OK);
        let follow = format!("CLUSTER REPLICATE {}", self.ids[number]);
        eventually("it knows its primary", || !replica.cmd(&follow).is_error());
        replica.wait_in_sync(primary);
        replica
    }

    /// Hands over from a primary to its replica, without a loss. The primary and those that vote must know the replica as one.
    #[track_caller]
    pub fn fail_over(&self, primary: &Server, replica: &Server) {
        let [of_primary, of_replica] = [primary, replica].map(|node| node.cmd("CLUSTER MYID").text());
        eventually("all know the replica", || {
            let knows = |node: &Server| {
                let nodes = node.cmd("CLUSTER NODES").text();
                let follows =
                    |line: &str| line.starts_with(&of_replica) && line.contains(&format!("slave {of_primary}"));
                nodes.lines().any(follows)
            };
            self.nodes.iter().all(knows) && knows(primary) && knows(replica)
        });
        replica.expect("CLUSTER FAILOVER", super::OK);
        eventually("the replica has taken over", || replica.cmd("ROLE").at(0).text() == "master");
        eventually("it serves", || replica.cmd("CLUSTER INFO").text().contains("cluster_state:ok"));
        primary.wait_in_sync(replica);
    }

    /// A node.
    pub fn node(&self, number: usize) -> &Server {
        &self.nodes[number]
    }

    /// All nodes.
    pub fn nodes_mut(&mut self) -> &mut [Server] {
        &mut self.nodes
    }

    /// The slot of `key`.
    #[track_caller]
    pub fn slot(&self, key: &str) -> i64 {
        self.nodes[0].cmd(["CLUSTER", "KEYSLOT", key]).int()
    }

    /// The node that serves `key` at the beginning.
    #[track_caller]
    pub fn owner(&self, key: &str) -> usize {
        let slot = usize::try_from(self.slot(key)).expect("a slot");
        let count = self.nodes.len();
        (0..count).find(|number| slot < SLOTS * (number + 1) / count).expect("every slot is served")
    }

    /// Stops a node for good, as a power cut does.
    pub fn lose(&mut self, number: usize) {
        self.nodes[number].kill9();
    }

    /// Begins to move the slot of `key` the classic way.
    #[track_caller]
    pub fn begin_move(&self, key: &str, from: usize, to: usize) {
        let slot = self.slot(key);
        self.nodes[to].expect(format!("CLUSTER SETSLOT {slot} IMPORTING {}", self.ids[from]), super::OK);
        self.nodes[from].expect(format!("CLUSTER SETSLOT {slot} MIGRATING {}", self.ids[to]), super::OK);
    }

    /// Moves one key of a slot that is on the move.
    #[track_caller]
    pub fn move_key(&self, key: &str, from: usize, to: usize) {
        self.nodes[from].expect(format!("MIGRATE 127.0.0.1 {} {key} 0 5000", self.nodes[to].port()), super::OK);
    }

    /// Ends the move: the slot is the other node's from now on.
    #[track_caller]
    pub fn end_move(&self, key: &str, from: usize, to: usize) {
        let slot = self.slot(key);
        for number in [to, from] {
            self.nodes[number].expect(format!("CLUSTER SETSLOT {slot} NODE {}", self.ids[to]), super::OK);
        }
    }

    /// Waits until all nodes tell the same of all slots, and of when each was taken over. Before that, a node may take news that were on
    /// their way for a newer owner.
    #[track_caller]
    pub fn agree(&self) {
        let view = |node: &Server| -> BTreeSet<Vec<String>> {
            let text = node.cmd("CLUSTER NODES").text();
            // Id, epoch and slots.
            let told = |line: &str| -> Vec<String> {
                let words = line.split_whitespace().enumerate();
                let words =
                    words.filter(|(place, word)| (matches!(place, 0 | 6) || *place > 7) && !word.starts_with('['));
                words.map(|(_, word)| word.to_owned()).collect()
            };
            text.lines().map(told).collect()
        };
        eventually("all nodes agree on the owners of slots", || {
            let views: BTreeSet<_> = self.nodes.iter().map(view).collect();
            views.len() == 1
        });
    }

    /// Moves the slot of `key` as a whole, if this server can: `None` if not. Returns before it is done.
    #[track_caller]
    pub fn move_whole_slot(&self, key: &str, from: usize, to: usize) -> Option<Reply> {
        let slot = self.slot(key);
        let (node, words) = if self.nodes[from].is_valkey() {
            (from, format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {}", self.ids[to]))
        } else {
            (to, format!("CLUSTER MIGRATION IMPORT {slot} {slot}"))
        };
        let mut admin: Client = self.nodes[node].client();
        let begun = admin.cmd(words);
        // Servers from before this kind of move do not know the word.
        if matches!(&begun, Reply::Error(text) if text.contains("unknown subcommand")) { None } else { Some(begun) }
    }

    /// Calls all moves of whole slots between two nodes off.
    #[track_caller]
    pub fn cancel_move(&self, from: usize, to: usize) {
        let (node, words) = if self.nodes[from].is_valkey() {
            (from, "CLUSTER CANCELSLOTMIGRATIONS")
        } else {
            (to, "CLUSTER MIGRATION CANCEL ALL")
        };
        self.nodes[node].expect(words, super::ANY);
    }
}
