//! The programs in Rust under examples/ print what their pages say, also a second time: `make test-docs` compiles and runs them.

use std::process::Command;

use harness::{Cluster, Server};

use super::page::{BUCKETS, CART, Page, RAILWAY};

/// The page's call and what it prints; a point in time is `…` there.
fn play(page: &Page, there: &str, here: &str) {
    let block = page.blocks("text").into_iter().next().expect("a call");
    let (call, printed) = block.shell_calls().into_iter().next().expect("a call");
    assert!(call.contains(there), "{call}");
    for _ in 0..2 {
        let output = Command::new("sh")
            .args(["-c", &call.replace(there, here)])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("a shell");
        let said = String::from_utf8(output.stdout).expect("text");
        let said = said.lines().map(|line| match line.split_once("until: ") {
            Some((before, after)) => {
                format!("{before}until: …{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
            }
            None => line.to_owned(),
        });
        assert_eq!(said.collect::<Vec<_>>(), printed, "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
#[ignore = "compiles the examples: make test-docs"]
fn carts_and_trains() {
    let server = Server::start();
    let here = format!("redis://{}", server.address());
    for page in [CART, RAILWAY] {
        play(&page, "redis://localhost:6379", &here);
    }
    server.expect("DBSIZE", 0);
}

#[test]
#[ignore = "compiles the examples: make test-docs"]
fn buckets() {
    let cluster = Cluster::start(3);
    play(&BUCKETS, "redis://localhost:7000", &format!("redis://{}", cluster.node(0).address()));
}
