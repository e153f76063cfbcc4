//! README.md is true: every example prints what it says, and everything the module offers is named.

mod block;
mod print;
mod standin;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use harness::{Client, Server};

use self::block::{Block, Step, What, blocks};
use self::print::print;
use self::standin::StandIns;
use crate::server::surface::tokens_of;
use crate::support::line::Line;

const README: &str = include_str!("../../../README.md");

/// The commands that only servers send.
const INTERNAL: [&str; 2] = ["LOCK.APPLY", "STOCK.APPLY"];

/// Plays the examples from top to bottom on one server, as a reader would who follows them.
struct Stage<'a> {
    server: &'a Server,
    line: Line<'a>,
    clients: BTreeMap<&'a str, Client>,
    waiting: BTreeSet<&'a str>,
    values: StandIns,
    /// What came out otherwise than README.md says.
    differences: String,
}

impl<'a> Stage<'a> {
    fn on(server: &'a Server) -> Self {
        Self {
            server,
            line: Line::at(server),
            clients: BTreeMap::new(),
            waiting: BTreeSet::new(),
            values: StandIns::default(),
            differences: String::new(),
        }
    }

    #[track_caller]
    fn play(&mut self, step: &Step<'a>) {
        let client = self.clients.entry(step.client).or_insert_with(|| {
            let mut client = self.server.client();
            client.hello3();
            client
        });
        let came = match step.what {
            What::Sends(call) => client.cmd(self.values.call(call)),
            What::Parks(call) => {
                self.line.enter(client, self.values.call(call));
                assert!(self.waiting.insert(step.client), "README.md:{}: {} waits already", step.line, step.client);
                return;
            }
            What::Hears => {
                assert!(self.waiting.remove(step.client), "README.md:{}: {} does not wait", step.line, step.client);
                client.read()
            }
            What::HangsUp => {
                self.clients.remove(step.client);
                return;
            }
            What::Later(span) => return sleep(Duration::from_millis(span)),
        };
        let came = print(&came);
        if !self.values.fit(&step.printed, &came) {
            let (shown, came) = (step.printed.join("\n"), came.join("\n"));
            let difference = format!("\nREADME.md:{} says\n{shown}\nbut the server\n{came}\n", step.line);
            self.differences.push_str(&difference);
        }
    }
}

/// The blocks that are plays, drawings or syntax.
fn texts() -> Vec<Block<'static>> {
    blocks(README).into_iter().filter(|block| block.language == "text").collect()
}

/// The words in upper case that README.md writes behind a command where it gives its syntax, by command.
fn syntaxes() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut syntaxes = BTreeMap::new();
    for block in texts() {
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

/// What README.md sets between back quotes.
fn spans() -> BTreeSet<&'static str> {
    let prose = README.split("```").step_by(2);
    prose.flat_map(|text| text.split('`').skip(1).step_by(2)).collect()
}

/// The module's commands that clients send, as the server lists them.
fn commands(server: &Server) -> Vec<String> {
    let listed = server.cmd("COMMAND LIST FILTERBY MODULE lockstock");
    let names = listed.items().iter().map(|name| name.text().to_uppercase());
    names.filter(|name| !INTERNAL.contains(&name.as_str())).collect()
}

#[test]
fn every_example_prints_what_it_says() {
    let server = Server::start();
    let mut stage = Stage::on(&server);
    for block in texts() {
        for step in block.steps() {
            stage.play(&step);
        }
    }
    assert!(stage.waiting.is_empty(), "still waiting: {:?}", stage.waiting);
    assert!(stage.differences.is_empty(), "{}", stage.differences);
}

#[test]
fn every_drawing_is_of_a_call() {
    let drawn: Vec<&str> = texts().iter().flat_map(|block| block.drawn_calls().collect::<Vec<_>>()).collect();
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
    let steps: Vec<_> = texts().iter().flat_map(Block::steps).collect();
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
    }
}

#[test]
fn every_setting_field_and_status_is_explained() {
    let server = Server::start();
    let spans = spans();
    let settings = server.cmd("CONFIG GET lockstock.*");
    for (name, default) in settings.fields() {
        let row = format!("| `{name}` | {} |", default.text());
        assert!(README.contains(&row), "no row that begins with {row}");
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
            assert!(README.contains(&row), "no row that begins with {row}");
        }
    }
    for span in spans.iter().filter(|span| ["lock_", "locks_", "stock_"].iter().any(|start| span.starts_with(start))) {
        assert!(fields.contains(span), "there is no field {span}");
    }
}

#[test]
fn what_it_points_to_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for target in README.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
        let elsewhere = target.is_empty() || target.starts_with("https://");
        assert!(elsewhere || root.join(target).exists(), "no {target}");
    }
    let makefile = fs::read_to_string(root.join("Makefile")).expect("a Makefile");
    let typed = blocks(README).into_iter().filter(|block| block.language == "sh").flat_map(|block| block.lines);
    let lines: Vec<&str> = typed.map(|(_, line)| line).chain(spans()).collect();
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
    assert!(README.contains(&rust), "no {rust}");
}

#[test]
fn a_server_starts_with_the_lines_for_redis_conf() {
    for block in blocks(README).iter().filter(|block| block.language == "conf") {
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
