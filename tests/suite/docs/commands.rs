//! docs/commands.md, docs/locks.md and docs/stock.md are true: every example prints what it says, and everything the module offers is named.

use std::collections::{BTreeMap, BTreeSet};

use harness::{ANY, Server, err};

use super::page::{COMMANDS, LOCKS, Page, STOCK};
use super::play::block::{Block, Step, What};
use super::play::play;
use crate::server::surface::tokens_of;

/// The commands that only servers send.
const INTERNAL: [&str; 2] = ["LOCK.APPLY", "STOCK.APPLY"];

/// The pages that show commands.
const SHOWING: [Page; 2] = [LOCKS, STOCK];

/// The plays and drawings of both pages.
fn shown() -> Vec<Block<'static>> {
    SHOWING.iter().flat_map(|page| page.blocks("text")).collect()
}

/// The words in upper case that the page writes behind a command where it gives its syntax, by command.
fn syntaxes() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut syntaxes = BTreeMap::new();
    for block in shown() {
        let drawn: Vec<&str> = block.drawn_calls().collect();
        let lines = block.head().iter().map(|(_, line)| *line).filter(|line| !drawn.contains(line));
        for (command, rest) in
            lines.filter_map(|line| line.split_once(' ')).filter(|(command, _)| command.contains('.'))
        {
            let words = rest.split(|letter: char| !letter.is_ascii_alphabetic());
            let upper = |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase());
            assert!(syntaxes.insert(command, words.filter(upper).collect()).is_none(), "{command} twice");
        }
    }
    syntaxes
}

/// The module's commands that clients send, as the server lists them.
fn commands(server: &Server) -> Vec<String> {
    let listed = server.cmd("COMMAND LIST FILTERBY MODULE lockstock");
    let names = listed.items().iter().map(|name| name.text().to_uppercase());
    names.filter(|name| !INTERNAL.contains(&name.as_str())).collect()
}

#[test]
fn every_example_prints_what_it_says() {
    for page in &SHOWING {
        play(page, &Server::start());
    }
}

#[test]
fn a_script_that_begins_with_a_guard_ends_there_when_the_lock_is_lost() {
    let server = Server::start();
    let blocks = LOCKS.blocks("lua");
    let [script] = &blocks[..] else { panic!("{} scripts", blocks.len()) };
    let call = ["EVAL", &script.text(), "3", "job:42", "result:42", "runs:42", "ann", "done"];
    server.expect(call, err("NOTHELD"));
    server.expect("DBSIZE", 0);
    server.expect("LOCK.ACQUIRE job:42 TOKEN ann", ANY);
    server.expect(call, 1);
    server.expect("GET result:42", "done");
}

#[test]
fn every_drawing_is_of_a_call() {
    let drawn: Vec<&str> = shown().iter().flat_map(|block| block.drawn_calls().collect::<Vec<_>>()).collect();
    for command in ["LOCK.ACQUIRE", "STOCK.DECR_ONCE"] {
        assert!(drawn.iter().any(|call| call.starts_with(command)), "no drawing of {command}");
    }
    for call in drawn {
        let reply = Server::start().cmd(call);
        assert!(!reply.is_error(), "{call}: {reply:?}");
    }
}

#[test]
fn every_command_is_shown_with_all_its_options() {
    let server = Server::start();
    let mut client = server.client();
    client.hello3();
    let syntaxes = syntaxes();
    let commands = commands(&server);
    assert_eq!(commands.iter().map(String::as_str).collect::<BTreeSet<_>>(), syntaxes.keys().copied().collect());
    let blocks = shown();
    let steps: Vec<_> = blocks.iter().flat_map(Block::steps).collect();
    for command in &commands {
        let docs = client.cmd(["COMMAND", "DOCS", command]).field(&command.to_lowercase());
        let (mut options, mut written) = (vec![], syntaxes[command.as_str()].clone());
        tokens_of(&docs.field("arguments"), &mut options);
        options.sort_unstable();
        written.sort_unstable();
        assert_eq!(written, options, "{command}");
        let played = |step: &Step<'_>| match step.what {
            What::Sends(call) | What::Parks(call) => call.split(' ').next() == Some(command),
            _ => false,
        };
        assert!(steps.iter().any(played), "no example of {command}");
        let page = if command.starts_with("LOCK.") { "locks.md" } else { "stock.md" };
        let anchor = command.to_lowercase().replace('.', "");
        let row = format!("| [{command}]({page}#{anchor}) | {} |", docs.field("summary").text());
        assert!(COMMANDS.text.contains(&row), "no row {row}");
    }
}

#[test]
fn every_setting_field_and_status_is_explained() {
    let server = Server::start();
    let spans = COMMANDS.spans();
    let settings = server.cmd("CONFIG GET lockstock.*");
    for (name, default) in settings.fields() {
        let row = format!("| `{name}` | {} |", default.text());
        assert!(COMMANDS.text.contains(&row), "no row that begins with {row}");
    }
    let named =
        |start: &str| spans.iter().any(|span| span.strip_prefix("lockstock.").is_some_and(|rest| rest == start));
    assert!(named("default-lease-ms"), "{spans:?}");

    let info = server.info("lockstock");
    let fields: BTreeSet<&str> = info.keys().filter_map(|field| field.strip_prefix("lockstock_")).collect();
    assert!(fields.len() > 20, "{fields:?}");
    for field in &fields {
        assert!(spans.contains(field), "{field} is not explained");
        // Whatever is counted by status is one.
        if let Some(status) = field.strip_prefix("stock_").filter(|status| *status != "lapses") {
            let row = format!("| `{}` |", status.to_uppercase());
            assert!(STOCK.text.contains(&row), "no row that begins with {row}");
        }
    }
    for span in spans.iter().filter(|span| ["lock_", "locks_", "stock_"].iter().any(|start| span.starts_with(start))) {
        assert!(fields.contains(span), "there is no field {span}");
    }
}
