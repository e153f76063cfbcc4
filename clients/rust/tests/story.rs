//! The program, run against real servers.

use std::process::{Command, Stdio};

use harness::{Server, eventually};

/// What the programs of all languages print.
const STORY: &str = include_str!("../../story.txt");

#[test]
fn it_prints_its_story() {
    let server = Server::start();
    let url = format!("redis://{}", server.address());
    let output = Command::new(env!("CARGO_BIN_EXE_lockstock-client")).arg(url).output().expect("the program runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), STORY, "{}", String::from_utf8_lossy(&output.stderr));
    server.expect("EXISTS job:42", 0);
}

#[test]
fn it_waits_on_when_its_connection_is_cut() {
    let server = Server::start();
    let url = format!("redis://{}", server.address());
    let mut holder = server.client();
    holder.expect("LOCK.ACQUIRE job:42 TOKEN t PX 60000", harness::ANY);
    let program = Command::new(env!("CARGO_BIN_EXE_lockstock-client"))
        .arg(url)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let waiting = || server.info_int("lockstock", "lockstock_lock_waiters") == 1;
    eventually("it waits", waiting);
    holder.expect("CLIENT KILL TYPE normal SKIPME yes", harness::INT);
    eventually("it waits again", waiting);
    holder.expect("LOCK.RELEASE job:42 t", 1);
    let output = program.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), STORY);
}
