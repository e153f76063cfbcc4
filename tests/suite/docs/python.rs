//! The programs in Python on the pages run, and print what stands behind each `print`.
//!
//! They need redis-py: `make test-docs` installs it under target/ and runs these.

use std::env;
use std::process::Command;

use harness::Server;

use super::page::{MIGRATING, MIGRATING_ZH, OPERATIONS, PYTHON, Page, README, README_ZH};

/// Python with the package.
pub fn python() -> Command {
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/python");
    let mut command = Command::new(env::var("LOCKSTOCK_PYTHON").unwrap_or_else(|_| "python3".into()));
    command.env("PYTHONPATH", package).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUTF8", "1");
    command
}

/// Runs one program, and returns the lines that it printed.
#[track_caller]
fn run(program: &str) -> Vec<String> {
    said(python().args(["-c", program]), program)
}

#[track_caller]
fn said(command: &mut Command, program: &str) -> Vec<String> {
    let output = command.output().expect("Python runs");
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program}\n{said}\n{complained}");
    said.lines().map(String::from).collect()
}

/// Runs the programs of a page on one server, one after the other, as a reader would; then so often again.
#[track_caller]
fn play(page: &Page, again: usize) -> usize {
    let blocks = page.blocks("python");
    if blocks.is_empty() {
        return 0;
    }
    let server = Server::start();
    let port = format!("redis.Redis(port={}, ", server.port());
    for block in blocks.iter().cycle().take(blocks.len() * (1 + again)) {
        let program = block.text();
        let said = program.lines().filter(|line| line.trim_start().starts_with("print("));
        let said: Vec<&str> = said.map(|line| line.rsplit_once("# ").expect("what it prints").1).collect();
        assert_eq!(run(&program.replace("redis.Redis(", &port)), said, "{}", page.path);
    }
    blocks.len()
}

#[test]
#[ignore = "needs redis-py: make test-docs"]
fn every_program_prints_what_it_says() {
    // `make test-clients` runs those of docs/clients.md, which need other libraries, too.
    let played = [README, README_ZH].iter().map(|page| play(page, 1)).collect::<Vec<_>>();
    assert_eq!(played, [1, 1]);
    let played = [OPERATIONS, MIGRATING, MIGRATING_ZH].iter().map(|page| play(page, 0)).sum::<usize>();
    assert!(played >= 7, "{played}");
}

/// A second run finds nothing of the first.
#[test]
#[ignore = "needs redis-py: make test-docs"]
fn the_old_programs_fail_and_the_new_ones_do_not_as_their_page_says() {
    let server = Server::start();
    let url = format!("redis://{}", server.address());
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/python");
    for _ in 0..2 {
        let mut played = 0;
        for block in PYTHON.blocks("text") {
            for (call, printed) in block.shell_calls() {
                let path = call.strip_prefix("python ").expect("a program");
                let mut command = python();
                command.arg(path).current_dir(folder).env("REDIS_URL", &url);
                assert_eq!(said(&mut command, path), printed, "{path}");
                played += 1;
            }
        }
        assert_eq!(played, 10);
        server.expect("DBSIZE", 0);
    }
}
