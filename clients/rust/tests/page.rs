//! The README's program, as it is printed there, run against a real server. `LOCKSTOCK_SERVER` names it.

use std::process::Command;

use harness::Server;

const README: &str = include_str!("../README.md");
const PROGRAM: &str = include_str!("../examples/first.rs");

#[test]
fn the_program_of_the_page_works() {
    let (_, printed) = README.split_once("```rust\n").expect("a program");
    let (printed, _) = printed.split_once("```").expect("its end");
    let (_, program) = PROGRAM.split_once("\n\n").expect("a line about it");
    assert_eq!(printed, program, "examples/first.rs is not what the page prints");
    let server = Server::start();
    let test = std::env::current_exe().expect("this test has a path");
    let built = test.parent().and_then(std::path::Path::parent).expect("a directory");
    let mut program = Command::new(built.join("examples/first"));
    let output = program.arg(format!("redis://{}", server.address())).output().expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "job:42 is ours: true\n");
    server.expect("EXISTS job:42", 0);
}
