//! The upgrade of docs/operations.md, step by step: replicas first, a failover, the old primary last.
//!
//! `LOCKSTOCK_OLD_MODULE` names the module to upgrade from; without it, the new one stands for the old one, too.

use std::path::{Path, PathBuf};
use std::{env, fs};

use harness::{ANY, INT, NULL, OK, Reply, Server, err, eventually, module_path};

use crate::support::line::Line;

/// The first version that takes commands in the words of their clients from its primary.
const VERSION_0_2: i64 = 200;

/// Where the hosts' configurations say that the module is.
struct Installed(tempfile::TempDir);

impl Installed {
    fn path(&self) -> PathBuf {
        self.0.path().join("liblockstock.so")
    }

    /// Installs a version under the old name, as packages do: the file of a running server is replaced and not overwritten.
    fn install(&self, module: &Path) {
        let new = self.0.path().join("new");
        fs::copy(module, &new).expect("a copy");
        fs::rename(new, self.path()).expect("it is installed");
    }

    fn server(&self) -> Server {
        Server::plain().config(&format!("loadmodule {}", self.path().display())).aof("always").start()
    }
}

fn old_module() -> PathBuf {
    env::var_os("LOCKSTOCK_OLD_MODULE").map_or_else(module_path, PathBuf::from)
}

fn version_of(server: &Server) -> i64 {
    let modules = server.cmd("MODULE LIST");
    modules
        .items()
        .iter()
        .find(|module| module.field("name").text() == "lockstock")
        .expect("it is loaded")
        .field("ver")
        .int()
}

/// What a server has, as clients see it.
fn seen(server: &Server) -> Vec<Reply> {
    let order = |id: &str| server.cmd(["STOCK.ORDER", "sale", id]);
    let mut seen =
        vec![order("held"), order("sold"), order("after"), order("between"), server.cmd("STOCK.BUYER sale ann")];
    seen.extend(["job", "free"].map(|lock| {
        let info = server.cmd(["LOCK.INFO", lock]);
        if matches!(info, Reply::Nil(_)) { info } else { info.field("holders").at(0).field("fence") }
    }));
    seen.push(server.cmd("XLEN events"));
    seen
}

#[test]
fn nothing_is_lost_in_an_upgrade() {
    let hosts =
        [Installed(tempfile::tempdir().expect("a directory")), Installed(tempfile::tempdir().expect("a directory"))];
    for host in &hosts {
        host.install(&old_module());
    }
    let (mut old, mut new) = (hosts[0].server(), hosts[1].server());
    new.follow(&old);
    new.wait_in_sync(&old);
    let old_version = version_of(&old);
    old.expect("STOCK.CREATE sale 10 LIMIT 5 STREAM events", OK);
    old.expect("STOCK.DECR_ONCE sale held BUYER ann HOLD 600000 REF cart", ("OK", 1, 9, INT, "cart"));
    old.expect("STOCK.DECR_ONCE sale sold BUYER ann QTY 2", ("OK", 2, 7, -1, ""));
    let fence = old.expect("LOCK.ACQUIRE job TOKEN holder PX 600000", ("holder", INT, 600_000)).at(1).int();

    // 1 and 2: install the new file, and restart the replica.
    for host in &hosts {
        host.install(&module_path());
    }
    new.wait_for_rewrite();
    new.restart();
    new.follow(&old);
    new.wait_in_sync(&old);
    assert_eq!(version_of(&old), old_version, "a running server keeps what it has loaded");
    assert!(version_of(&new) >= old_version);
    assert_eq!(seen(&new), seen(&old));

    // Meanwhile the older primary's clients go on.
    old.expect("STOCK.DECR_ONCE sale after BUYER ann", ("OK", 1, 6, -1, ""));
    old.expect("STOCK.CONFIRM sale held", ("OK", 1, 6, -1, "cart"));
    old.expect("LOCK.ACQUIRE free TOKEN brief", ANY);
    old.expect("LOCK.RELEASE free brief", 1);
    new.wait_in_sync(&old);
    assert_eq!(seen(&new), seen(&old));
    assert_eq!(new.info_int("stats", "unexpected_error_replies"), 0);

    // 3: fail over. The waiters are told. Until 4 the older version applies what the newer one sends.
    if old_version < VERSION_0_2 {
        new.expect("CONFIG SET lockstock.replicate-commands no", OK);
    }
    let mut line = Line::at(&old);
    let mut waiter = line.join("LOCK.ACQUIRE job TOKEN waiter WAIT 0");
    old.wait_online();
    old.expect(format!("FAILOVER TO 127.0.0.1 {}", new.port()), OK);
    waiter.read_to_end().pop().expect("an answer").is(err("UNBLOCKED"));
    eventually("the roles are exchanged", || new.info("replication")["role"] == "master");

    new.expect("STOCK.DECR_ONCE sale between BUYER carl", ("OK", 1, 5, -1, ""));
    new.expect("LOCK.ACQUIRE free TOKEN brief", ANY);
    new.expect("LOCK.RELEASE free brief", 1);
    old.wait_in_sync(&new);
    assert_eq!(seen(&old), seen(&new));

    // 4: restart the old primary.
    old.wait_for_rewrite();
    old.restart();
    old.follow(&new);
    old.wait_in_sync(&new);
    assert_eq!(version_of(&old), version_of(&new));
    assert_eq!(seen(&old), seen(&new));
    new.expect("CONFIG SET lockstock.replicate-commands yes", OK);

    // Whatever was promised is kept, and everything new is there.
    new.expect("LOCK.ACQUIRE job TOKEN other", NULL);
    new.expect("LOCK.ACQUIRE job TOKEN holder PX 600000", ("holder", fence, 600_000));
    let waits = "LOCK.ACQUIRE job TOKEN other WAIT 60000 NOTIFY news";
    let mut other = new.client();
    other.expect(waits, 1);
    new.expect("LOCK.RELEASE job holder", 1);
    assert!(other.expect("LOCK.ACQUIRE job TOKEN other", ("other", INT, 30_000)).at(1).int() > fence);
    new.expect("STOCK.DECR_ONCE sale sold BUYER ann QTY 2", ("DUPLICATE", 2, 5, -1, ""));
    new.expect("STOCK.DECR_ONCE sale late BUYER bob QTY 4", ("OK", 4, 1, -1, ""));
    new.expect("STOCK.DECR_ONCE sale last BUYER carl QTY 2 WAITLIST", ("QUEUED", 0, 1, -1, ""));
    new.expect("STOCK.CANCEL sale after", ("OK", 0, 0, -1, ""));
    new.expect("STOCK.ORDER sale last", ANY).field("state").is("sold");
    old.wait_in_sync(&new);
    assert_eq!(old.info_int("stats", "unexpected_error_replies"), 0);
}

/// Carries the key to the other server, and says whether it was taken there.
fn is_taken(from: &Server, key: &str, to: &Server) -> bool {
    let payload = from.cmd(["DUMP", key]).bytes();
    let restored = to.cmd([b"RESTORE", key.as_bytes(), b"0", &payload]);
    let taken = !restored.is_error();
    restored.is(if taken { OK } else { err("ERR Bad data format") });
    taken
}

#[test]
#[ignore = "needs LOCKSTOCK_OLD_MODULE"]
fn an_older_version_takes_what_uses_nothing_new() {
    let old = Server::plain().config(&format!("loadmodule {}", old_module().display())).start();
    let new = Server::start();
    assert!(version_of(&old) < version_of(&new), "LOCKSTOCK_OLD_MODULE is no older module");
    for call in [
        "LOCK.ACQUIRE lock TOKEN ann SHARED SESSION PX 600000",
        "LOCK.ACQUIRE lock TOKEN bob SHARED PX 600000",
        "STOCK.CREATE plain 5 LIMIT 2 START 1 END 4102444800000 REBUY STREAM events DEADLINES",
        "STOCK.DECR_ONCE plain held BUYER ann HOLD 600000 REF cart",
        "STOCK.MDECR_ONCE cart 1 plain 2",
        "STOCK.CREATE settled 5 STREAM settled-events",
        "STOCK.DECR_ONCE settled kept QTY 3",
        "STOCK.CANCEL settled kept KEEP 2",
        "STOCK.CREATE waiting 1",
        "STOCK.DECR_ONCE waiting first",
        "STOCK.DECR_ONCE waiting second WAITLIST",
        "STOCK.CREATE adjusted 1",
        "STOCK.ADJUST adjusted 1 ID delivery:1",
        "STOCK.CREATE refused 1",
        "STOCK.DECR_ONCE refused late HOLD 1",
    ] {
        assert!(!new.cmd(call).is_error(), "{call}");
    }
    eventually("the hold is over", || new.cmd("STOCK.DECR_ONCE refused other").at(0).text() == "OK");
    new.expect("STOCK.CONFIRM refused late", ("EXPIRED", 0, 0, -1, ""));

    let taken = |key: &str| is_taken(&new, key, &old);
    assert!(taken("lock") && taken("plain") && taken("settled"));
    // These have been in sales since version 0.2.
    let known = version_of(&old) >= VERSION_0_2;
    for key in ["waiting", "adjusted", "refused"] {
        assert_eq!(taken(key), known, "{key}");
    }
    assert_eq!(old.log().matches("lockstock: a lockstk-s is refused").count(), if known { 0 } else { 3 });
    if !known {
        new.expect("STOCK.CANCEL waiting second", ANY);
        assert!(taken("waiting"));
    }
    for order in ["STOCK.ORDER plain held", "STOCK.ORDER settled kept"] {
        assert_eq!(old.cmd(order), new.cmd(order));
    }
}
