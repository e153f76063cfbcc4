//! A server with clients at every place where a fault could hurt.

use harness::shop::{books, orders};
use harness::{ANY, Client, INT, OK, Reply, Server, eventually};

/// A server with clients at every place where a fault could hurt: a holder with a session, a holder whose lease will end, clients that
/// wait for them, a sale with a hold.
pub struct Site {
    pub server: Server,
    pub client: Client,
    /// Holds `session` while it is connected.
    pub holder: Option<Client>,
    /// Wait for `session`, `lease` and `key`, in this order.
    pub heirs: Vec<Client>,
}

impl Site {
    /// On a server as it comes.
    pub fn set() -> Self {
        Self::on(Server::start())
    }

    /// On this server.
    pub fn on(server: Server) -> Self {
        let mut client = server.client();
        let mut holder = server.client();
        holder.expect("LOCK.ACQUIRE session TOKEN first SESSION EX 3600", ANY);
        client.expect("LOCK.ACQUIRE lease TOKEN first PX 1500", ANY);
        client.expect("LOCK.ACQUIRE key TOKEN first EX 3600", ANY);
        client.expect("STOCK.CREATE sale 10", OK);
        client.expect("STOCK.DECR_ONCE sale kept QTY 3", ANY);
        client.expect("STOCK.DECR_ONCE sale held QTY 2 HOLD 1500", ANY);
        let heirs = ["session", "lease", "key"].map(|lock| {
            let mut heir = server.client();
            heir.send(format!("LOCK.ACQUIRE {lock} TOKEN heir WAIT 0 EX 3600"));
            heir
        });
        let heirs = heirs.into();
        eventually("all wait", || server.info_int("lockstock", "lockstock_lock_waiters") == 3);
        Self { server, client, holder: Some(holder), heirs }
    }

    /// Has the next entry that does `doing` panic.
    #[track_caller]
    pub fn arm(&mut self, doing: &str) {
        self.client.expect(["LOCK.FAULT", doing], (INT, INT));
    }

    /// Waits for the fault to have struck.
    #[track_caller]
    pub fn struck(&self, doing: &str) {
        let line = format!("lockstock: {doing} was given up after the fault above");
        eventually(&format!("the log has: {line}"), || self.server.log().contains(&line));
    }

    /// Puts a client that got or lost `lock` back behind another holder.
    #[track_caller]
    pub fn wait_again(&mut self, lock: &str, mut heir: Client) {
        self.client.expect(format!("DEL {lock}"), ANY);
        let mut holder = self.server.client();
        let session = if lock == "session" { "SESSION" } else { "" };
        holder.expect(format!("LOCK.ACQUIRE {lock} TOKEN first EX 3600 {session}"), ANY);
        if lock == "session" {
            self.holder = Some(holder);
        }
        heir.send(format!("LOCK.ACQUIRE {lock} TOKEN heir WAIT 0 EX 3600"));
        self.heirs.push(heir);
    }

    /// Everything still works: the session ends with its connection, the lease at its time, the lock is handed over when it is
    /// deleted, the hold lapses, and what is saved is loaded again.
    #[track_caller]
    pub fn proves_whole(mut self) {
        drop(self.holder.take());
        self.client.expect("DEL key", ANY);
        for heir in &mut self.heirs {
            heir.read().is(("heir", INT, 3_600_000));
        }
        eventually("the hold lapses", || books(&mut self.client, "sale").remaining == 7);
        for lock in ["session", "lease", "key"] {
            self.client.expect(format!("LOCK.RELEASE {lock} heir"), 1);
        }
        let before = orders(&mut self.client, "sale");
        self.client.expect(["LOCK.FAULT", ""], (INT, INT));
        self.client.expect("LOCK.ACQUIRE after TOKEN t EX 3600", ANY);
        self.client.expect("DEBUG RELOAD", OK);
        assert_eq!(orders(&mut self.client, "sale"), before);
        self.client.expect("LOCK.RELEASE after t", 1);
        self.client.expect("PING", Reply::Simple("PONG".into()));
    }
}
