//! A panic in every entry from the server: the caller gets an error or nothing, all others go on, and whatever was lost
//! is found out soon after.
//!
//! Needs a debug build of the module: `make test-panics` builds it and runs these.

mod clients;
mod files;
mod site;
mod values;

use std::time::{Duration, Instant};

use harness::{INT, OK, Server, Words, err, eventually};

use self::site::Site;
use crate::support::forms::FORMS;

/// What the caller of a command reads in which a fault has struck.
const REFUSED: &str = "ERR lockstock could not carry this out";

#[test]
#[ignore = "needs a debug build: make test-panics"]
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
        let reply = site.client.cmd(form);
        assert!(err(REFUSED).fits(&reply), "{form}: {reply:?}\n{}", site.server.log());
    }
    site.struck("a command");
    site.proves_whole();
}

#[test]
#[ignore = "needs a debug build: make test-panics"]
fn a_violated_invariant_is_counted_each_time_and_logged_once() {
    let server = Server::start();
    assert_eq!(server.info_int("lockstock", "lockstock_invariants_violated"), 0);
    for _ in 0..3 {
        server.cmd(["LOCK.FAULT", "an invariant"]);
    }
    assert_eq!(server.info_int("lockstock", "lockstock_invariants_violated"), 3);
    let log = server.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("invariant violated")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("lockstock: invariant violated: a test says so (src/cmd/lock_fault.rs:"), "{lines:?}");
    assert!(lines[0].ends_with("noticed in a command"), "{lines:?}");
}

#[test]
#[ignore = "needs a debug build: make test-panics"]
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
#[ignore = "needs a debug build: make test-panics"]
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
#[ignore = "needs a debug build: make test-panics"]
fn in_the_timer() {
    let mut site = Site::set();
    site.arm("deferred work");
    site.struck("deferred work");
    site.proves_whole();
}

#[test]
#[ignore = "needs a debug build: make test-panics"]
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
