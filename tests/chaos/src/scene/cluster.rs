//! Three primaries with a replica each: failovers, and slots that move while they are used.

use std::collections::BTreeMap;

use harness::{OK, Reply, Server, eventually, eventually_some};

use super::{Nemesis, Scene, ask, in_sync, ready};
use crate::history::{Loss, Time};
use crate::work::{self, Crew, Trade};

/// A cluster has this many slots.
const SLOTS: usize = 16_384;
const PRIMARIES: usize = 3;

/// Keys whose slots are worth moving: with several keys each, or with one that is fought for.
const MOVED: [&str; 4] = ["{sale}few", "{many}-0", "mutex-0", "readers"];

struct Cluster {
    nodes: Vec<Server>,
    ids: Vec<String>,
    strikes: &'static [Strike],
    crew: Crew,
    turn: usize,
}

/// Something that can happen to a cluster.
#[derive(Clone, Copy)]
enum Strike {
    /// A primary is killed, and its replica elected.
    Kill,
    /// `CLUSTER FAILOVER`: replica and primary change places in good order.
    HandOver,
    /// A slot is moved key by key.
    Move,
    /// The slot of the keys that `Trade::Many` locks is moved key by key, and stays half-moved for a while after each of them.
    MoveSlowly,
    /// A slot is moved as a whole, where the server can.
    MoveWhole,
}

/// Clients that want several locks of the slot that moves.
const CROWD: Crew = &[(Trade::Many, 10), (Trade::Look, 1)];

/// No node dies.
pub fn moves() -> Result<Box<dyn Scene>, String> {
    set(&[Strike::Move, Strike::HandOver, Strike::MoveWhole, Strike::Move], work::USUAL)
}

/// A slot is nearly always half-moved.
pub fn halves() -> Result<Box<dyn Scene>, String> {
    set(&[Strike::MoveSlowly], CROWD)
}

/// Primaries die.
pub fn deaths() -> Result<Box<dyn Scene>, String> {
    set(&[Strike::Kill, Strike::Move], work::USUAL)
}

fn set(strikes: &'static [Strike], crew: Crew) -> Result<Box<dyn Scene>, String> {
    let builder = Server::builder().cluster().aof("everysec").config("cluster-replica-validity-factor 0");
    let nodes: Vec<Server> = (0..PRIMARIES * 2).map(|_| builder.clone().start()).collect();
    let ids: Vec<String> = nodes.iter().map(|node| node.cmd("CLUSTER MYID").text()).collect();
    let bus = nodes[0].cluster_port().expect("a cluster node");
    for (number, node) in nodes.iter().enumerate() {
        if number < PRIMARIES {
            let (first, end) = (SLOTS * number / PRIMARIES, SLOTS * (number + 1) / PRIMARIES);
            node.expect(format!("CLUSTER ADDSLOTSRANGE {first} {}", end - 1), OK);
        }
        node.expect(format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1), OK);
        node.expect(format!("CLUSTER MEET 127.0.0.1 {} {bus}", nodes[0].port()), OK);
    }
    for (number, node) in nodes.iter().enumerate().skip(PRIMARIES) {
        eventually("the node knows its primary", || {
            !node.cmd(format!("CLUSTER REPLICATE {}", ids[number - PRIMARIES])).is_error()
        });
    }
    let cluster = Cluster { nodes, ids, strikes, crew, turn: 0 };
    cluster.well();
    ready(cluster)
}

impl Scene for Cluster {
    fn servers(&mut self) -> &mut [Server] {
        &mut self.nodes
    }

    fn replicas(&self) -> usize {
        1
    }

    fn crew(&self) -> Crew {
        self.crew
    }

    fn strike(&mut self, nemesis: &mut Nemesis<'_>) {
        let strike = self.strikes[self.turn % self.strikes.len()];
        let key = MOVED[self.turn / self.strikes.len() % MOVED.len()];
        self.turn += 1;
        let from = nemesis.now();
        match strike {
            Strike::Kill => self.kill(nemesis, key),
            Strike::HandOver => self.hand_over(nemesis, key),
            Strike::Move => {
                self.move_keys(nemesis, key, 20);
                nemesis.did("slot moved key by key", from);
            }
            Strike::MoveSlowly => {
                self.move_keys(nemesis, "{many}-0", 500);
                nemesis.did("slot moved slowly", from);
            }
            Strike::MoveWhole => {
                if self.move_whole(key) {
                    nemesis.did("slot moved as a whole", from);
                }
            }
        }
    }
}

impl Cluster {
    /// Every slot's owner as a node sees it: lines of `CLUSTER NODES` by id, with the flags and the primary of each.
    fn seen_by(&self, node: usize) -> BTreeMap<String, (String, String)> {
        let text = ask(&self.nodes[node], "CLUSTER NODES").map_or_else(String::new, |reply| reply.text());
        let lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>()).filter(|words| words.len() > 3);
        lines.map(|words| (words[0].to_owned(), (words[2].to_owned(), words[3].to_owned()))).collect()
    }

    /// Waits until every node sees every node and the cluster serves.
    fn well(&self) {
        eventually("the cluster is well", || {
            (0..self.nodes.len()).all(|node| {
                let seen = self.seen_by(node);
                let primaries = seen.values().filter(|(flags, _)| flags.contains("master")).count();
                let ok =
                    ask(&self.nodes[node], "CLUSTER INFO").is_some_and(|info| info.text().contains("cluster_state:ok"));
                ok && seen.len() == self.nodes.len()
                    && primaries == PRIMARIES
                    && seen.values().all(|(flags, _)| !flags.contains("fail") && !flags.contains("handshake"))
            })
        });
    }

    fn slot(&self, key: &str) -> i64 {
        self.nodes[0].cmd(["CLUSTER", "KEYSLOT", key]).int()
    }

    /// The node that says that it serves `key`.
    fn owner(&self, key: &str) -> usize {
        eventually_some("the key is served", || {
            (0..self.nodes.len()).find(|node| {
                let is_primary = ask(&self.nodes[*node], "ROLE").is_some_and(|role| role.at(0).text() == "master");
                is_primary && ask(&self.nodes[*node], &format!("TTL {key}")).is_some_and(|reply| !reply.is_error())
            })
        })
    }

    /// The replica of a node.
    fn replica(&self, primary: usize) -> usize {
        eventually_some("the primary has a replica", || {
            let seen = self.seen_by(primary);
            self.ids.iter().position(|id| seen.get(id).is_some_and(|(_, of)| *of == self.ids[primary]))
        })
    }

    fn in_sync(&self, nemesis: &Nemesis<'_>, primary: usize) -> (usize, Time) {
        let replica = self.replica(primary);
        (replica, in_sync(nemesis, &self.nodes[primary], [&self.nodes[replica]]))
    }

    /// Waits until this replica is a primary.
    fn promoted(&self, replica: usize) {
        eventually("the replica is in charge", || {
            ask(&self.nodes[replica], "ROLE").is_some_and(|role| role.at(0).text() == "master")
        });
    }

    fn kill(&mut self, nemesis: &mut Nemesis<'_>, key: &str) {
        let old = self.owner(key);
        let (replica, since) = self.in_sync(nemesis, old);
        let at = nemesis.now();
        self.nodes[old].kill9();
        let (server, until) = (self.nodes[old].port(), nemesis.now());
        nemesis.forgot(Loss { server, since, at, until, spares_replicated: true });
        self.promoted(replica);
        self.nodes[old].start_again();
        self.well();
        self.in_sync(nemesis, replica);
        nemesis.did("primary killed, cluster", at);
    }

    fn hand_over(&self, nemesis: &mut Nemesis<'_>, key: &str) {
        let old = self.owner(key);
        let (replica, _) = self.in_sync(nemesis, old);
        let from = nemesis.now();
        self.nodes[replica].expect("CLUSTER FAILOVER", OK);
        self.promoted(replica);
        self.well();
        nemesis.did("CLUSTER FAILOVER", from);
    }

    /// Moves the slot of `key` to another primary the classic way, with every key that is in it, while it is used. Up to `pause`
    /// milliseconds go by after each key.
    fn move_keys(&self, nemesis: &mut Nemesis<'_>, key: &str, pause: u64) {
        let (from, to, slot) = (self.owner(key), self.other(key), self.slot(key));
        self.nodes[to].expect(format!("CLUSTER SETSLOT {slot} IMPORTING {}", self.ids[from]), OK);
        self.nodes[from].expect(format!("CLUSTER SETSLOT {slot} MIGRATING {}", self.ids[to]), OK);
        nemesis.rest(50, 200);
        loop {
            let keys = self.nodes[from].cmd(format!("CLUSTER GETKEYSINSLOT {slot} 100"));
            if keys.items().is_empty() {
                break;
            }
            for key in keys.items().iter().map(Reply::text) {
                // A lock may be free by now.
                let moved = self.nodes[from].cmd(format!("MIGRATE 127.0.0.1 {} {key} 0 5000", self.nodes[to].port()));
                assert!(!moved.is_error(), "{moved:?}");
                nemesis.rest(0, pause);
            }
        }
        for node in [to, from] {
            self.nodes[node].expect(format!("CLUSTER SETSLOT {slot} NODE {}", self.ids[to]), OK);
        }
        nemesis.rest(100, 200);
    }

    /// Moves the slot of `key` as a whole; whether this server can.
    fn move_whole(&self, key: &str) -> bool {
        let (from, to, slot) = (self.owner(key), self.other(key), self.slot(key));
        let begun = if self.nodes[from].is_valkey() {
            self.nodes[from].cmd(format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {}", self.ids[to]))
        } else {
            self.nodes[to].cmd(format!("CLUSTER MIGRATION IMPORT {slot} {slot}"))
        };
        // Servers from before this kind of move do not know the word.
        if matches!(&begun, Reply::Error(text) if text.contains("unknown subcommand")) {
            return false;
        }
        assert!(!begun.is_error(), "{begun:?}");
        eventually("the slot has moved", || {
            ask(&self.nodes[to], &format!("TTL {key}")).is_some_and(|reply| !reply.is_error())
        });
        true
    }

    /// A primary that does not serve `key`.
    fn other(&self, key: &str) -> usize {
        let owner = self.owner(key);
        let seen = self.seen_by(owner);
        let primary = |node: &usize| seen.get(&self.ids[*node]).is_some_and(|(flags, _)| flags.contains("master"));
        (0..self.nodes.len()).find(|node| *node != owner && primary(node)).expect("another primary")
    }
}
