//! The values of a server, and the files that it writes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{ANY, OK, Reply, Server, Words, eventually};

/// Every key of a server by database and name, as `DUMP` shows it: all of a value, to the byte.
///
/// Comparable between servers of one version only, because the version is part of what `DUMP` gives.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys(pub BTreeMap<(usize, Words), Words>);

impl Keys {
    /// Fails the test, showing only what differs, unless these are the `other` keys.
    #[track_caller]
    pub fn are(&self, other: &Self) {
        let names: BTreeSet<_> = self.0.keys().chain(other.0.keys()).collect();
        let values = |name| (self.0.get(name), other.0.get(name));
        let differing = names.into_iter().map(|name| (name, values(name))).filter(|(_, (one, other))| one != other);
        let differing: Vec<_> = differing.collect();
        assert!(differing.is_empty(), "database and name, left and right value:\n{differing:#?}");
    }
}

impl Server {
    /// Everything this server holds.
    #[track_caller]
    pub fn keys(&self) -> Keys {
        let mut client = self.client();
        let mut found = BTreeMap::new();
        for line in self.cmd("INFO keyspace").text().lines() {
            let Some(db) = line.strip_prefix("db").and_then(|line| line.split(':').next()?.parse().ok()) else {
                continue;
            };
            client.expect(format!("SELECT {db}"), OK);
            for name in client.cmd("KEYS *").items() {
                let name = name.bytes();
                if let Reply::Bulk(value) = client.cmd([&b"DUMP"[..], &name]) {
                    found.insert((db, Words(vec![name])), Words(vec![value]));
                }
            }
        }
        Keys(found)
    }

    /// The server's own digest of everything it holds.
    #[track_caller]
    pub fn digest(&self) -> String {
        self.cmd("DEBUG DIGEST").text()
    }

    /// Writes the RDB file in the background.
    #[track_caller]
    pub fn save_in_background(&self) {
        self.expect("BGSAVE", ANY);
        eventually("the file is saved", || self.info_int("persistence", "rdb_bgsave_in_progress") == 0);
        assert_eq!(self.info("persistence")["rdb_last_bgsave_status"], "ok");
    }

    /// Rewrites the append-only file, with an RDB preamble or as commands.
    #[track_caller]
    pub fn rewrite_aof(&self, preamble: bool) {
        let preamble = if preamble { "yes" } else { "no" };
        self.expect(format!("CONFIG SET aof-use-rdb-preamble {preamble}"), OK);
        self.expect("BGREWRITEAOF", ANY);
        self.wait_for_rewrite();
    }

    /// Waits until no rewrite of the append-only file is going on or due.
    #[track_caller]
    pub fn wait_for_rewrite(&self) {
        eventually("the append-only file is rewritten", || {
            let info = self.info("persistence");
            info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
        });
        assert_eq!(self.info("persistence")["aof_last_bgrewrite_status"], "ok");
    }
}

/// The wall clock in Unix milliseconds; the servers of the tests have the same one.
pub fn unix_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    i64::try_from(since_epoch.as_millis()).expect("a clock before the year 292 million")
}
