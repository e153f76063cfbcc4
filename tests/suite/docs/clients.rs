//! docs/clients.md is true: the errors of its table are the servers' or the module's, and the names of calls are those of the packages. Its
//! programs run in `make test-clients`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use harness::{ANY, OK, Reply, Server, err, eventually, repository};

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

/// The packages, as the columns of their table are named, and where they are.
const PACKAGES: [(&str, &str); 5] = [
    ("Python", "clients/python"),
    ("Node", "clients/node"),
    ("Rust", "clients/rust"),
    ("Go", "clients/go"),
    ("Java", "clients/java"),
];

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// The words of the sources and of the tests of a package.
fn words_below(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        // Installed or built by a tool.
        if path.is_dir() && !["build", "node_modules", "target"].contains(&name) {
            words_below(&path, found);
        } else if [".go", ".java", ".js", ".mjs", ".py", ".rs"].iter().any(|kind| name.ends_with(kind)) {
            found.extend(words(&fs::read_to_string(&path).expect("a source")).map(String::from));
        }
    }
}

#[test]
fn every_name_in_the_table_of_packages_is_one_of_its_package() {
    let table = CLIENTS.text.lines().skip_while(|line| !line.starts_with("| | Python |"));
    let table = table.take_while(|line| line.starts_with('|'));
    let rows: Vec<Vec<&str>> = table.map(|line| line.split('|').skip(1).map(str::trim).collect()).collect();
    assert!(rows.len() > 40, "{rows:?}");
    for (at, (name, folder)) in PACKAGES.iter().enumerate() {
        let mut known = BTreeSet::new();
        words_below(&repository().join(folder), &mut known);
        assert_eq!(rows[0][at + 1], *name);
        for row in &rows {
            let code = row[at + 1].split('`').skip(1).step_by(2);
            // No number, and no single letter, which stands for a value.
            let named = |word: &&str| word.len() > 1 && word.starts_with(|c: char| c.is_alphabetic());
            for word in code.flat_map(words).filter(named) {
                assert!(known.contains(word), "{}: the package for {name} has no {word}", row[0]);
            }
        }
    }
}
