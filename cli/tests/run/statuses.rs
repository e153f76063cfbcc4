//! What it ends with, and what it says.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Instant;

use harness::{ANY, OK, Server, eventually};
use rustix::process::Signal;

use super::support::{Ended, Frozen, Job, SECOND, assert_one_line, at, ended, is_free, lockstock, refused};

const NOWHERE: &str = "redis://127.0.0.1:1";

#[test]
fn the_command_is_as_without_it_and_its_status_is_ours() {
    let server = Server::start();
    let script = "cat; echo $LOCKSTOCK_KEY:$LOCKSTOCK_KEYS:$LOCKSTOCK_TOKEN; echo bad >&2; exit 7";
    let mut command = lockstock(&server, &["run", "a", "b c", "--token", "me", "--", "sh", "-c", script]);
    let mut run = command.stdin(Stdio::piped()).spawn().expect("lockstock runs");
    run.stdin.take().expect("a pipe").write_all(b"typed\n").expect("it reads");
    let ended: Ended = run.wait_with_output().expect("it ends").into();
    assert_eq!(ended, Ended { status: Some(7), out: "typed\na:a b c:me\n".into(), err: "bad\n".into() });
    let killed = super::support::ended(lockstock(&server, &["run", "a", "--", "sh", "-c", "kill -9 $$"]));
    assert_eq!(killed, Ended { status: Some(137), out: String::new(), err: String::new() });
    server.expect("DBSIZE", 0);
}

#[test]
fn the_fence_is_that_of_the_grant() {
    let server = Server::start();
    let job = Job::start(&server, &[], "echo $LOCKSTOCK_FENCE > $DIR/fence; exec sleep 60");
    let fence: i64 = job.appears("fence").trim().parse().expect("a number");
    let held = server.cmd("LOCK.INFO job");
    assert!(format!("{held:?}").contains(&fence.to_string()), "{fence} {held:?}");
    job.signal(Signal::TERM);
    assert_eq!(job.end().status, Some(143));
}

#[test]
fn wrong_usage_is_one_line() {
    let server = Server::start();
    for (words, part) in [
        (&["run", "a", "--", ""][..], "no such command"),
        (&["run", "a"], "COMMAND"),
        (&["run", "--", "true"], "KEY"),
        (&["run", "a", "--wait", "5", "--", "true"], "30s"),
        (&["run", "a", "--lease", "999ms", "--", "true"], "1s"),
        (&["run", "a", "--limit", "0", "--", "true"], "--limit"),
        (&["run", "a", "--shared", "--limit", "2", "--", "true"], "--limit"),
        (&["run", "a", "b", "--shared", "--", "true"], "one key"),
        (&["run", "a", "b", "--limit", "2", "--", "true"], "one key"),
        (&["run", "a", "--session", "--at-least", "5s", "--", "true"], "--at-least"),
        (&["run", "a", "--token", "", "--", "true"], "token"),
        (&["run", "", "--", "true"], "key"),
        (&["run", "a", "--frob", "--", "true"], "--frob"),
        (&["run", "a", "--url", "http://x", "--", "true"], "--url"),
        (&["frob"], "frob"),
        (&[], "--help"),
    ] {
        let status = if words.last() == Some(&"") { 127 } else { 64 };
        refused(lockstock(&server, words), status, part);
    }
}

#[test]
fn a_command_that_cannot_be_run_is_found_out_before_the_server_is_asked() {
    let dir = tempfile::tempdir().expect("a directory");
    let plain = dir.path().join("plain");
    fs::write(&plain, "#!/bin/sh\n").expect("written");
    let plain = plain.to_str().expect("text");
    refused(at(NOWHERE, &["run", "a", "--", "no-such-command"]), 127, "no-such-command");
    refused(at(NOWHERE, &["run", "a", "--", "/no/such/command"]), 127, "/no/such/command");
    refused(at(NOWHERE, &["run", "a", "--", plain]), 126, "plain");
    refused(at(NOWHERE, &["run", "a", "--", "/"]), 126, "/");
    let mut hidden = at(NOWHERE, &["run", "a", "--", "plain"]);
    hidden.env("PATH", dir.path());
    refused(hidden, 126, "plain");
    // Found, and yet the kernel cannot run it: nothing stays locked.
    let server = Server::start();
    fs::write(plain, "#!/no/such/interpreter\n").expect("written");
    fs::set_permissions(plain, fs::Permissions::from_mode(0o755)).expect("permitted");
    refused(lockstock(&server, &["run", "job", "--", plain]), 127, "plain");
    assert!(is_free(&server));
}

#[test]
fn a_server_that_is_not_there_frozen_without_the_module_or_closed_to_us() {
    for skip in [&["run", "a", "--", "true"][..], &["run", "--skip", "a", "--", "true"]] {
        refused(at(NOWHERE, skip), 69, "reached");
    }
    let begun = Instant::now();
    refused(at(NOWHERE, &["run", "--wait", "1h", "a", "--", "true"]), 69, "reached");
    assert!(begun.elapsed() < SECOND * 5);
    refused(lockstock(&Server::plain().start(), &["run", "a", "--", "true"]), 69, "module");
    let server = Server::start();
    let mut admin = server.client();
    admin.expect("CONFIG SET requirepass secret", OK);
    refused(lockstock(&server, &["run", "a", "--", "true"]), 69, "NOAUTH");
    let url = |password: &str| format!("redis://:{password}@{}", server.address());
    refused(at(&url("wrong"), &["run", "a", "--wait", "1m", "--", "true"]), 69, "");
    assert_eq!(ended(at(&url("secret"), &["run", "a", "--", "true"])).status, Some(0));
    admin.expect(["CONFIG", "SET", "requirepass", ""], OK);
    let frozen = Frozen::new(&server);
    let begun = Instant::now();
    refused(lockstock(&server, &["run", "a", "--", "true"]), 69, "reached");
    refused(lockstock(&server, &["run", "a", "--wait", "1s", "--", "true"]), 69, "reached");
    assert!(begun.elapsed() < SECOND * 10, "{:?}", begun.elapsed());
    drop(frozen);
    server.expect("SET a text", OK);
    refused(lockstock(&server, &["run", "a", "--", "true"]), 69, "WRONGTYPE");
}

#[test]
fn a_lock_that_others_have() {
    let server = Server::start();
    server.expect("LOCK.ACQUIRE job TOKEN other PX 60000", ANY);
    refused(lockstock(&server, &["run", "job", "--", "echo", "ran"]), 75, "job is taken");
    let begun = Instant::now();
    refused(lockstock(&server, &["run", "job", "--wait", "500ms", "--", "echo", "ran"]), 75, "not granted");
    assert!(begun.elapsed() >= SECOND / 2 && begun.elapsed() < SECOND * 3);
    let skipped = ended(lockstock(&server, &["run", "job", "--skip", "--", "echo", "ran"]));
    assert_eq!(skipped, Ended { status: Some(0), out: String::new(), err: String::new() });
    let waits = lockstock(&server, &["run", "job", "--wait", "forever", "--", "echo", "ran"]).spawn().expect("runs");
    eventually("it waits", || server.info_int("lockstock", "lockstock_lock_waiters") == 1);
    server.expect("LOCK.RELEASE job other", 1);
    let granted: Ended = waits.wait_with_output().expect("it ends").into();
    assert_eq!(granted, Ended { status: Some(0), out: "ran\n".into(), err: String::new() });
}

#[test]
fn readers_and_permits() {
    let server = Server::start();
    let reader = Job::start(&server, &["--shared"], "exec sleep 60");
    assert_eq!(ended(lockstock(&server, &["run", "job", "--shared", "--", "true"])).status, Some(0));
    refused(lockstock(&server, &["run", "job", "--", "true"]), 75, "taken");
    reader.signal(Signal::TERM);
    assert_eq!(reader.end().status, Some(143));
    let one = lockstock(&server, &["run", "pool", "--limit", "1", "--", "sleep", "60"]).spawn().expect("runs");
    eventually("it runs", || server.cmd("EXISTS pool").int() == 1);
    refused(lockstock(&server, &["run", "pool", "--limit", "1", "--", "true"]), 75, "pool");
    assert_eq!(ended(lockstock(&server, &["run", "pool", "--limit", "2", "--", "true"])).status, Some(0));
    super::support::send(i32::try_from(one.id()).expect("a number"), Signal::TERM);
    let ended: Ended = one.wait_with_output().expect("it ends").into();
    assert_eq!(ended.status, Some(143));
}

#[test]
fn replicas_have_the_grant_or_it_does_not_count() {
    let server = Server::start();
    refused(lockstock(&server, &["run", "job", "--replicas", "1", "--", "echo", "ran"]), 74, "0 of 1");
    assert!(is_free(&server));
    let replica = Server::builder().replica_of(&server).start();
    eventually("it follows", || replica.info("replication").get("master_link_status").is_some_and(|link| link == "up"));
    assert_eq!(ended(lockstock(&server, &["run", "job", "--replicas", "1", "--", "true"])).status, Some(0));
}

#[test]
fn the_lock_stays_taken_for_a_least_time() {
    let server = Server::start();
    let begun = Instant::now();
    assert_eq!(ended(lockstock(&server, &["run", "job", "--at-least", "5s", "--", "true"])).status, Some(0));
    assert!(begun.elapsed() < SECOND * 4, "it does not wait for that");
    refused(lockstock(&server, &["run", "job", "--", "true"]), 75, "taken");
    eventually("it is free", || is_free(&server));
    assert!(begun.elapsed() > SECOND * 49 / 10 && begun.elapsed() < SECOND * 8, "{:?}", begun.elapsed());
}

#[test]
fn it_says_what_happens_only_if_asked() {
    let server = Server::start();
    let said = ended(lockstock(&server, &["run", "-v", "job", "--lease", "3s", "--", "sleep", "1.5"])).err;
    let words: Vec<_> = said.lines().map(|line| line.split(' ').nth(1).unwrap_or_default()).collect();
    assert_eq!(words.first(), Some(&"granted"), "{said}");
    assert!(words.contains(&"extended") && words.last() == Some(&"released"), "{said}");
    assert!(said.lines().all(|line| line.starts_with("lockstock: ")));
    server.expect("LOCK.ACQUIRE job TOKEN other PX 60000", ANY);
    assert_one_line(&ended(lockstock(&server, &["run", "-v", "job", "--", "true"])).err, "taken");
}
