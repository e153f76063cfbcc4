//! Plays the examples of a page, as a reader would who follows them.

pub mod block;
mod print;
mod standin;

use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::Duration;

use harness::{Client, Reply, Server};

use self::block::{Step, What};
use self::print::print;
use self::standin::StandIns;
use super::page::Page;
use crate::support::line::Line;

/// Plays the examples of `page` from top to bottom on `server`, and compares what it prints.
#[track_caller]
pub fn play(page: &Page, server: &Server) {
    play_on(page, server, &[]);
}

/// The same with other servers beside it, for the clients of these names.
#[track_caller]
pub fn play_on<'a>(page: &Page, server: &'a Server, others: &[(&'a str, &'a Server)]) {
    let mut stage = Stage::on(server, page.path);
    stage.others = others.iter().copied().collect();
    for block in page.blocks("text") {
        for step in block.steps() {
            stage.play(&step);
        }
    }
    assert!(stage.waiting.is_empty(), "still waiting: {:?}", stage.waiting);
    assert!(stage.differences.is_empty(), "{}", stage.differences);
}

/// One server and the clients that talk to it.
struct Stage<'a> {
    server: &'a Server,
    /// The servers of some clients.
    others: BTreeMap<&'a str, &'a Server>,
    path: &'a str,
    line: Line<'a>,
    clients: BTreeMap<&'a str, Client>,
    waiting: BTreeSet<&'a str>,
    values: StandIns,
    /// What came out otherwise than the page says.
    differences: String,
}

impl<'a> Stage<'a> {
    fn on(server: &'a Server, path: &'a str) -> Self {
        Self {
            server,
            others: BTreeMap::new(),
            path,
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
            let mut client = self.others.get(step.client).unwrap_or(&self.server).client();
            client.hello3();
            client
        });
        let came = match step.what {
            What::Sends(call) => client.cmd(self.values.call(call)),
            What::Parks(call) => {
                self.line.enter(client, self.values.call(call));
                assert!(self.waiting.insert(step.client), "{}:{}: {} waits already", self.path, step.line, step.client);
                return;
            }
            What::Hears => {
                let waited = self.waiting.remove(step.client);
                let came = client.read();
                let is_due = waited || matches!(came, Reply::Push(_));
                assert!(is_due, "{}:{}: {} does not wait", self.path, step.line, step.client);
                came
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
            let difference = format!("\n{}:{} says\n{shown}\nbut the server\n{came}\n", self.path, step.line);
            self.differences.push_str(&difference);
        }
    }
}
