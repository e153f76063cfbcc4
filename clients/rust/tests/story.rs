//! The example `story`, run against real servers. With `LOCKSTOCK_PROGRAM`, the words that start one in another language, it is that one.
#![expect(clippy::expect_used, reason = "here a panic is a failed test")]

use std::process::{Command, Stdio};

use harness::{Server, eventually};

/// What the programs of all languages print.
const STORY: &str = include_str!("../../story.txt");

fn program(server: &Server) -> Command {
    let words = std::env::var("LOCKSTOCK_PROGRAM").unwrap_or_else(|_| {
        // Built beside this test: `cargo build -p lockstock-client --examples`.
        let test = std::env::current_exe().expect("this test has a path");
        let built = test.parent().and_then(std::path::Path::parent).expect("a directory");
        built.join("examples/story").display().to_string()
    });
    let mut words = words.split_whitespace();
    let mut program = Command::new(words.next().unwrap_or_default());
    program.args(words).arg(format!("redis://{}", server.address()));
    program
}

#[test]
fn it_prints_its_story() {
    let server = Server::start();
    let output = program(&server).output().expect("the program runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), STORY, "{}", String::from_utf8_lossy(&output.stderr));
    server.expect("EXISTS job:42", 0);
}

#[test]
fn it_waits_on_when_its_connection_is_cut() {
    let server = Server::start();
    let mut holder = server.client();
    holder.expect("LOCK.ACQUIRE job:42 TOKEN t PX 60000", harness::ANY);
    let program = program(&server).stdout(Stdio::piped()).spawn().expect("the program runs");
    let waiting = || server.info_int("lockstock", "lockstock_lock_waiters") == 1;
    eventually("it waits", waiting);
    holder.expect("CLIENT KILL TYPE normal SKIPME yes", harness::INT);
    eventually("it waits again", waiting);
    holder.expect("LOCK.RELEASE job:42 t", 1);
    let output = program.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), STORY);
}
