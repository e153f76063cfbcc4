//! A panic in every entry from the server: the caller gets an error or nothing, everybody else goes on, and whatever was lost
//! is found out soon after.
//!
//! Needs a module with the feature `inject-faults`: `make test-panics` builds it and runs these.

use std::time::{Duration, Instant};

use harness::shop::{books, orders};
use harness::{ANY, Aof, Client, INT, NULL, OK, Reply, Server, TEXT, Words, err, eventually};

use crate::support::forms::FORMS;

const REFUSED: &str = "ERR lockstock could not carry this out";

/// A server with somebody at every place where a fault could hurt: a holder with a session, a holder whose lease will end, those who
/// wait for them, a sale with a hold.
struct Site {
    server: Server,
    client: Client,
    /// Holds `session` while it is connected.
    holder: Option<Client>,
    /// Wait for `session`, `lease` and `key`, in this order.
    heirs: Vec<Client>,
}

impl Site {
    fn set() -> Self {
        Self::on(Server::start())
    }

    fn on(server: Server) -> Self {
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
    fn arm(&mut self, doing: &str) {
        self.client.expect(["LOCK.FAULT", doing], (INT, INT));
    }

    /// Waits for the fault to have struck.
    #[track_caller]
    fn struck(&self, doing: &str) {
        let line = format!("lockstock: {doing} was given up after the fault above");
        eventually(&format!("the log has: {line}"), || self.server.log().contains(&line));
    }

    /// Puts somebody who got or lost `lock` back behind another holder.
    #[track_caller]
    fn wait_again(&mut self, lock: &str, mut heir: Client) {
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
    fn proves_whole(mut self) {
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

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn in_each_command() {
    let mut site = Site::set();
    for form in FORMS {
        let before = site.server.keys();
        site.arm("a command");
        site.client.expect(Words(form.shortest("some")), err(REFUSED));
        site.server.keys().are(&before);
    }
    for form in ["LOCK.MACQUIRE 2 a b", "LOCK.MRELEASE t 1 a", "LOCK.APPLY a ENDED t", "STOCK.APPLY sale LAPSED held"] {
        site.arm("a command");
        site.client.expect(form, err(REFUSED));
    }
    site.struck("a command");
    site.proves_whole();
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn while_somebody_asks_how_things_are() {
    for (doing, asks) in [
        ("INFO", &["INFO lockstock"][..]),
        ("measuring a value", &["MEMORY USAGE sale", "MEMORY USAGE lease"]),
        ("digesting a value", &["DEBUG DIGEST"]),
    ] {
        let mut site = Site::set();
        for ask in asks {
            site.arm(doing);
            site.client.cmd(*ask);
            site.struck(doing);
        }
        site.proves_whole();
    }
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn while_a_cluster_asks_for_keys() {
    let server = Server::builder().cluster().start();
    server.expect("CLUSTER ADDSLOTSRANGE 0 16383", OK);
    eventually("the cluster serves", || server.cmd("CLUSTER INFO").text().contains("cluster_state:ok"));
    let mut client = server.client();
    client.expect(["LOCK.FAULT", "finding keys"], (INT, INT));
    // A call without known keys is served where it arrives.
    client.expect("LOCK.MACQUIRE 1 a TOKEN t", ("t", INT, 30_000));
    let struck = server.log().contains("lockstock: finding keys was given up");
    assert!(struck || (!server.is_valkey() && server.version() >= [8, 2, 0]), "nothing was struck");
    client.expect("LOCK.MACQUIRE 1 a TOKEN t", ("t", INT, 30_000));
    client.expect("LOCK.MRELEASE t 1 a", 1);
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn in_the_timer() {
    let mut site = Site::set();
    site.arm("deferred work");
    site.struck("deferred work");
    site.proves_whole();
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn again_and_again_in_the_timer_without_flooding_the_log() {
    let mut site = Site::set();
    site.client.expect(["LOCK.FAULT", "deferred work", "0", "4"], (INT, INT));
    let failures = || site.server.log().matches("lockstock: deferred work was given up").count();
    eventually("the work fails, and again at once", || failures() >= 2);
    let begun = Instant::now();
    eventually("and again, later", || failures() == 4);
    assert!(begun.elapsed() > Duration::from_millis(1_500), "{:?}", begun.elapsed());
    site.proves_whole();
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn while_a_value_goes() {
    for doing in ["letting go of a value", "freeing a value", "measuring a value"] {
        for delete in ["DEL key", "UNLINK key", "SET key v", "PEXPIRE key 1"] {
            let mut site = Site::set();
            site.arm(doing);
            site.client.expect(delete, ANY);
            let mut heir = site.heirs.pop().expect("the heir of the key");
            if delete.starts_with("SET") {
                // Whoever waits for a lock does not want a string.
                heir.read().is(err("WRONGTYPE"));
            } else {
                heir.read().is(("heir", INT, 3_600_000));
            }
            site.wait_again("key", heir);
            if doing != "measuring a value" {
                site.struck(doing);
            }
            site.proves_whole();
        }
    }
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn while_a_value_is_renamed() {
    // Redis tells of the new name. Valkey is not listened to; without SCAN the scan for modules looks for it.
    let found = if Server::start().is_valkey() { "a scan of the keys" } else { "a new name" };
    for doing in ["letting go of a value", found] {
        let mut site = Site::on(Server::builder().config("rename-command SCAN \"\"").start());
        site.client.expect("LOCK.ACQUIRE short TOKEN t PX 1000", ANY);
        site.client.expect("STOCK.CREATE goods 5", OK);
        site.client.expect("STOCK.DECR_ONCE goods a HOLD 1000", ANY);
        for (from, to) in [("short", "shorter"), ("goods", "wares")] {
            site.arm(doing);
            site.client.expect(format!("RENAME {from} {to}"), OK);
            site.struck(doing);
        }
        eventually("the lease ends under its new name", || site.client.cmd("EXISTS shorter") == Reply::Int(0));
        let state = |client: &mut Client| client.cmd("STOCK.ORDER wares a").field("state").text();
        eventually("and the hold of the sale", || state(&mut site.client) == "expired");
        site.proves_whole();
    }
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn while_turns_are_counted() {
    let mut site = Site::set();
    // Others count what they have sent instead.
    if site.client.cmd("CLIENT LIST").text().contains("tot-net-out") {
        return;
    }
    let mut waiter = site.server.client();
    waiter.send("LOCK.ACQUIRE key TOKEN waiter WAIT 0");
    waiter.send("PING");
    eventually("it waits, and what it has sent behind that is there", || {
        site.client
            .cmd("CLIENT LIST")
            .text()
            .lines()
            .any(|line| line.contains("lock.acquire") && !line.contains(" qbuf=0 "))
    });
    std::thread::park_timeout(Duration::from_millis(10));
    site.arm("a turn");
    let mut heir = site.heirs.remove(2);
    site.client.expect("LOCK.RELEASE key first", 1);
    heir.read().is(("heir", INT, 3_600_000));
    site.client.expect("LOCK.RELEASE key heir", 1);
    site.struck("a turn");
    waiter.read().is(("waiter", INT, 30_000));
    assert_eq!(waiter.read().text(), "PONG");
    site.client.expect("LOCK.RELEASE key waiter", 1);
    site.wait_again("key", heir);
    site.proves_whole();
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn in_an_event() {
    let mut site = Site::set();
    let id = site.holder.as_mut().expect("the holder").id();
    site.arm("an event");
    site.client.expect(format!("CLIENT KILL ID {id}"), ANY);
    site.struck("an event");
    let mut heir = site.heirs.remove(0);
    heir.read().is(("heir", INT, 3_600_000));
    site.wait_again("session", heir);
    site.proves_whole();

    for (event, both) in [("FLUSHALL", false), ("SWAPDB 0 1", true)] {
        let mut site = Site::set();
        site.arm("an event");
        site.client.expect(event, OK);
        site.struck("an event");
        for heir in &mut site.heirs {
            heir.read().is(("heir", INT, 3_600_000));
        }
        if both {
            site.client.expect("SELECT 1", OK);
            eventually("the lease ends where it is now", || site.client.cmd("EXISTS lease") == Reply::Int(0));
            let state = |client: &mut Client| client.cmd("STOCK.ORDER sale held").field("state").text();
            eventually("and so does the hold", || state(&mut site.client) == "expired");
        }
        site.client.expect("PING", Reply::Simple("PONG".into()));
    }
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn while_a_parked_client_is_answered_or_leaves() {
    // The grant that its client never heard of goes to the next.
    let mut site = Site::set();
    let mut next = site.server.client();
    next.send("LOCK.ACQUIRE key TOKEN next WAIT 0");
    eventually("it waits", || site.server.info_int("lockstock", "lockstock_lock_waiters") == 4);
    site.arm("an answer to a parked client");
    site.client.expect("LOCK.RELEASE key first", 1);
    let mut unlucky = site.heirs.pop().expect("the heir of the key");
    unlucky.read().is(err(REFUSED));
    next.read().is(("next", INT, 30_000));
    site.wait_again("key", unlucky);
    site.struck("an answer to a parked client");
    site.proves_whole();

    // Its time is over, it hangs up, it is unblocked: the one behind it gets the lock all the same.
    for leave in ["time", "hangs up", "unblocked"] {
        for doing in ["the end of a parked client", "an answer to a parked client"] {
            let mut site = Site::set();
            let mut leaver = site.server.client();
            let id = leaver.id();
            leaver.send("LOCK.ACQUIRE session TOKEN leaver WAIT 1000");
            eventually("it waits", || site.server.info_int("lockstock", "lockstock_lock_waiters") == 4);
            site.arm(doing);
            match leave {
                "time" => drop(leaver.read()),
                "hangs up" => leaver.reset(),
                _ => {
                    site.client.expect(format!("CLIENT UNBLOCK {id} ERROR"), 1);
                    leaver.read().is(err("UNBLOCKED"));
                }
            }
            if leave == "time" || doing == "the end of a parked client" {
                site.struck(doing);
            }
            site.arm("");
            eventually("it is forgotten", || site.server.info_int("lockstock", "lockstock_lock_waiters") == 3);
            site.proves_whole();
        }
    }
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn while_a_file_is_written() {
    let server = Server::builder().aof("always").start();
    let mut site = Site::on(server);
    let status = |site: &Site, field: &str| site.server.info("persistence")[field].clone();
    // A file that lacks a lock or a sale must not take the place of one that has it.
    site.arm("saving a value");
    site.client.expect("BGSAVE", ANY);
    eventually("the file is given up", || status(&site, "rdb_last_bgsave_status") == "err");
    site.struck("saving a value");
    site.arm("");
    site.client.expect("BGSAVE", ANY);
    eventually("the next one is whole", || status(&site, "rdb_last_bgsave_status") == "ok");

    site.client.expect("CONFIG SET aof-use-rdb-preamble no", OK);
    site.arm("rewriting a value");
    site.client.expect("BGREWRITEAOF", ANY);
    eventually("the rewrite is given up", || status(&site, "aof_last_bgrewrite_status") == "err");
    site.arm("");
    site.client.expect("BGREWRITEAOF", ANY);
    eventually("the next one is whole", || status(&site, "aof_last_bgrewrite_status") == "ok");
    site.struck("rewriting a value");

    // What DUMP gives then is refused where it is restored.
    let whole = site.client.cmd("DUMP key").bytes();
    site.arm("saving a value");
    let broken = site.client.cmd("DUMP key").bytes();
    assert_ne!(whole, broken);
    site.client.expect([&b"RESTORE"[..], b"copy", b"0", &broken], err("ERR Bad data format"));
    site.arm("loading a value");
    site.client.expect([&b"RESTORE"[..], b"copy", b"0", &whole], err("ERR Bad data format"));
    site.client.expect([&b"RESTORE"[..], b"copy", b"0", &whole], OK);
    site.client.expect("LOCK.RELEASE copy first", 1);
    site.struck("loading a value");
    site.proves_whole();
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn while_a_replica_is_fed_or_a_file_is_read() {
    let mut site = Site::set();
    site.arm("saving a value");
    let replica = Server::builder().replica_of(&site.server).start();
    site.struck("saving a value");
    // The child that was to feed it failed; it asks again.
    site.arm("");
    replica.wait_in_sync(&site.server);
    assert_eq!(replica.digest(), site.server.digest());
    site.client.expect("LOCK.INFO key", ANY);

    // A file that cannot be read whole is not read at all.
    let mut other = Site::set();
    other.arm("loading a value");
    other.client.expect("DEBUG RELOAD", err("ERR"));
    other.struck("loading a value");
    other.client.expect("PING", Reply::Simple("PONG".into()));
    other.client.expect("LOCK.ACQUIRE new TOKEN t", (TEXT, INT, INT));
    site.proves_whole();
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn while_a_replica_applies_an_effect() {
    let server = Server::start();
    let replica = Server::builder().aof("always").replica_of(&server).start();
    replica.wait_in_sync(&server);
    replica.wait_for_rewrite();
    replica.expect(["LOCK.FAULT", "a command", "3"], (INT, INT));
    server.expect("LOCK.ACQUIRE lock TOKEN t EX 3600", ANY);
    server.expect("LOCK.ACQUIRE next TOKEN t EX 3600", ANY);
    replica.wait_in_sync(&server);
    assert!(replica.log().contains("is sending an error to its"), "it says so");
    // It lacks that one effect, and no other.
    replica.expect("LOCK.INFO lock", NULL);
    replica.expect("LOCK.INFO next", ANY);
    replica.promote();
    eventually("it tells its own replicas and its file what it has", || {
        Aof::of(&replica).commands.iter().any(|command| *command == "UNLINK lock")
    });
    replica.follow(&server);
    replica.wait_in_sync(&server);
    eventually("it has loaded everything anew", || replica.digest() == server.digest());
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn while_the_fence_clock_is_saved_or_loaded() {
    let mut site = Site::set();
    site.arm("saving the module's data");
    site.client.expect("BGSAVE", ANY);
    let done = || site.server.info_int("persistence", "rdb_bgsave_in_progress") == 0;
    eventually("the file is written or given up", done);
    let given_up = site.server.info("persistence")["rdb_last_bgsave_status"] == "err";
    // Redis 7.0 has no place in the file for it.
    assert_eq!(given_up, site.server.log().contains("lockstock: saving the module's data was given up"));
    assert!(given_up || site.server.version() < [7, 2, 0], "nothing was struck");
    site.arm("loading the module's data");
    site.client.cmd("DEBUG RELOAD");
    site.client.expect("PING", Reply::Simple("PONG".into()));
    site.client.expect("LOCK.INFO nothing", NULL);
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn whoever_has_read_its_grant_keeps_it() {
    let server = Server::start();
    let (mut holder, mut heir) = (server.client(), server.client());
    holder.expect("LOCK.ACQUIRE lock TOKEN first EX 3600", ANY);
    heir.send("LOCK.ACQUIRE lock TOKEN heir EX 3600 WAIT 0");
    eventually("it waits", || server.info_int("lockstock", "lockstock_lock_waiters") == 1);
    // The fault comes in the same turn of the server's event loop as the reply, and has nothing to do with it.
    let replies = holder.pipeline([
        Words::from("LOCK.RELEASE lock first"),
        ["LOCK.FAULT", "a command"].into(),
        "LOCK.INFO other".into(),
    ]);
    assert!(replies[2].is_error(), "{replies:?}");
    let grant = heir.read();
    eventually("the look after the fault is over", || server.info_int("lockstock", "lockstock_lock_waiters") == 0);
    server.expect("LOCK.ACQUIRE lock TOKEN other", NULL);
    let holders = server.cmd("LOCK.INFO lock");
    assert_eq!(holders.field("holders").at(0).field("fence"), *grant.at(1), "{holders:?}");
}
