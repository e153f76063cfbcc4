//! README.md is true: its examples print what it says, and what it points to is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use harness::Server;

use super::page::README;
use super::play::play;

#[test]
fn every_example_prints_what_it_says() {
    play(&README, &Server::start());
}

#[test]
fn what_it_has_you_type_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let makefile = fs::read_to_string(root.join("Makefile")).expect("a Makefile");
    let typed = README.blocks("sh").into_iter().flat_map(|block| block.lines);
    let lines: Vec<&str> = typed.map(|(_, line)| line).chain(README.spans()).collect();
    let targets =
        lines.iter().filter_map(|line| line.split_once("make ")).filter_map(|(_, rest)| rest.split(' ').next());
    let targets: BTreeSet<&str> = targets.collect();
    for wanted in ["run", "test", "demo"] {
        assert!(targets.contains(wanted), "make {wanted} is not explained");
    }
    for target in targets {
        assert!(makefile.contains(&format!("\n{target}:")), "no make {target}");
    }
    let rust = format!("Rust {}", env!("CARGO_PKG_RUST_VERSION"));
    assert!(README.text.contains(&rust), "no {rust}");
}

#[test]
fn a_server_starts_with_the_lines_for_redis_conf() {
    for block in README.blocks("conf") {
        let mut server = Server::builder();
        for (_, line) in &block.lines {
            server = match line.split_once("liblockstock.so") {
                Some((start, args)) if start.starts_with("loadmodule /") => server.module_args(args.trim()),
                _ => server.config(line),
            };
        }
        let server = server.start();
        let set = block.lines.iter().filter(|(_, line)| line.starts_with("lockstock."));
        for (_, setting) in set {
            let (name, value) = setting.split_once(' ').expect("a value");
            server.expect(["CONFIG", "GET", name], (name, value));
        }
    }
}
