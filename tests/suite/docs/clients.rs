//! docs/clients.md is true: the errors of its table are the servers' or the module's. Its programs run in `make test-clients`.

use harness::{ANY, OK, Reply, Server, err, eventually};

use super::page::CLIENTS;

/// Errors that servers answer themselves.
const SERVERS: [&str; 14] = [
    "ASK",
    "CLUSTERDOWN",
    "CROSSSLOT",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOPERM",
    "NOREPLICAS",
    "OOM",
    "READONLY",
    "TRYAGAIN",
    "UNBLOCKED client unblocked via CLIENT UNBLOCK",
    "UNBLOCKED force unblock …",
];

#[test]
fn every_error_of_the_table_can_be_met() {
    let sources = [include_str!("../../../src/error.rs"), include_str!("../../../src/server/stream.rs")].concat();
    // Texts that go on in the next line of the source.
    let sources = sources.replace("\\\n", "").split_whitespace().collect::<Vec<_>>().join(" ");
    let rows = CLIENTS.text.lines().skip_while(|line| !line.starts_with("| error |")).skip(2);
    let first = rows.take_while(|line| line.starts_with('|')).filter_map(|line| line.split('|').nth(1));
    let errors: Vec<&str> = first.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(errors.len() > 20, "{errors:?}");
    for error in errors {
        let ours = error.split(" … ").all(|part| sources.contains(part.trim_end_matches(['…', ' '])));
        let unloaded = error == "ERR unknown command";
        assert!(ours || unloaded || SERVERS.contains(&error), "nobody answers {error}");
    }
}

#[test]
fn without_its_replicas_a_primary_refuses_even_a_release() {
    let server = Server::start();
    server.expect("LOCK.ACQUIRE lock TOKEN ann PX 300", ANY);
    server.expect("CONFIG SET min-replicas-to-write 1", OK);
    server.expect("LOCK.RELEASE lock ann", err("NOREPLICAS"));
    server.expect("LOCK.ACQUIRE other TOKEN ann", err("NOREPLICAS"));
    // "Until a release succeeds, the lock stays held for its lease." The timer writes that down when it may write again.
    eventually("its lease is over", || matches!(server.cmd("LOCK.INFO lock"), Reply::Nil(_)));
    assert_eq!(server.info_int("lockstock", "lockstock_locks_held"), 1);
    server.expect("CONFIG SET min-replicas-to-write 0", OK);
    eventually("it is free", || server.info_int("lockstock", "lockstock_locks_held") == 0);
}
