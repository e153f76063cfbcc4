//! Clients that stand in line for locks, and an eye on them.

use harness::{Client, INT, Reply, Server, Words, eventually};

/// Watches a server and lets clients join its queues one after another, so that their order is known.
pub struct Line<'a> {
    server: &'a Server,
    eye: Client,
}

impl<'a> Line<'a> {
    /// Watches `server`.
    #[track_caller]
    pub fn at(server: &'a Server) -> Self {
        Self { server, eye: server.client() }
    }

    /// Sends `words` from a new connection and returns when the server has parked it.
    #[track_caller]
    pub fn join(&mut self, words: impl Into<Words>) -> Client {
        let mut client = self.server.client();
        self.enter(&mut client, words);
        client
    }

    /// Sends `words` from `client` and returns when the server has parked it.
    #[track_caller]
    pub fn enter(&mut self, client: &mut Client, words: impl Into<Words>) {
        let before = self.count("lock_waits");
        client.send(words);
        self.until("lock_waits", before + 1);
    }

    /// Has `holder` take the lock `lock` as "holder", with a "waiter" right behind it. From then on the lease lasts `lease_ms`.
    #[track_caller]
    pub fn join_behind(&mut self, holder: &mut Client, lease_ms: i64) -> Client {
        holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 600000", ("holder", INT, 600_000));
        let waiter = self.join("LOCK.ACQUIRE lock TOKEN waiter PX 60000 WAIT 0");
        holder.expect(format!("LOCK.EXTEND lock holder PX {lease_ms}"), 1);
        waiter
    }

    /// One of the module's numbers in INFO.
    #[track_caller]
    pub fn count(&mut self, field: &str) -> i64 {
        let text = self.eye.cmd("INFO lockstock").text();
        let value =
            text.lines().find_map(|line| line.strip_prefix("lockstock_")?.strip_prefix(field)?.strip_prefix(':'));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no number {field} in {text}"))
    }

    /// Returns when the number `field` in INFO is `value`.
    #[track_caller]
    pub fn until(&mut self, field: &str, value: i64) {
        eventually(&format!("{field} is {value}"), || self.count(field) == value);
    }

    /// The tokens that hold `lock`, in the order of their fences.
    #[track_caller]
    pub fn holders(&mut self, lock: &str) -> Vec<String> {
        self.tokens(lock, "holders")
    }

    /// The tokens that wait for `lock`, in order.
    #[track_caller]
    pub fn waiters(&mut self, lock: &str) -> Vec<String> {
        self.tokens(lock, "waiters")
    }

    /// How long the lease of each holder of `lock` lasts from now on, in the order of their fences.
    #[track_caller]
    pub fn leases(&mut self, lock: &str) -> Vec<i64> {
        let info = self.eye.cmd(["LOCK.INFO", lock]);
        info.field("holders").items().iter().map(|row| row.field("lease-ms").int()).collect()
    }

    #[track_caller]
    fn tokens(&mut self, lock: &str, side: &str) -> Vec<String> {
        match self.eye.cmd(["LOCK.INFO", lock]) {
            Reply::Nil(_) => vec![],
            info => info.field(side).items().iter().map(|row| row.field("token").text()).collect(),
        }
    }
}
