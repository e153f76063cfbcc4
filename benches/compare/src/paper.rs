//! The results of a run: the tables, the pictures, and the bars that were to be reached.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use harness::repository;

use crate::goals::{Finding, Limit};
use crate::plan::Plan;
use crate::stand::cores;
use crate::{pages, summary};

pub struct Paper {
    docs: PathBuf,
    dir: PathBuf,
    pub server: String,
    pub date: String,
    text: String,
    pub findings: Vec<Finding>,
    /// Microseconds of the server for an operation, for the simulation.
    pub costs: BTreeMap<&'static str, f64>,
}

impl Paper {
    pub fn new(server: &str, plan: &Plan) -> Self {
        let docs = repository().join("docs");
        // The repository keeps the run of one server. Those of others are in the build directory, and their goals on the page.
        let kept = docs.join("bench").join(server);
        let dir = if kept.is_dir() { kept } else { repository().join("target/bench").join(server) };
        fs::create_dir_all(&dir).expect("a directory for the pictures");
        let length = plan.either("full run", "quick run");
        let date = today();
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().unwrap_or_default();
        let text = format!(
            "# {server}, {date}, {length}\n\nWritten by `make bench` on {} cores, load {load} at the start; \
             docs/performance.md says how it is measured.\n",
            cores()
        );
        Self { docs, dir, server: server.into(), date, text, findings: vec![], costs: BTreeMap::new() }
    }

    /// The text in the corner of a picture.
    pub fn stamp(&self) -> String {
        format!("{}, {}", self.server, self.date)
    }

    pub fn keep(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Where a picture goes; the text shows it from here on.
    pub fn picture(&mut self, name: &str, title: &str) -> PathBuf {
        self.keep(&format!("\n![{title}]({name}.svg)"));
        self.dir.join(format!("{name}.svg"))
    }

    /// One of the goals was measured.
    pub fn found(&mut self, what: &str, limit: Limit, measured: f64) {
        self.findings.push(Finding { what: what.into(), limit, measured });
    }

    /// Writes what some chapters found to a page of their own, and their goals in the place of what earlier runs found.
    pub fn write_part(&self, chapters: &str) -> PathBuf {
        let path = self.dir.join(format!("{chapters}.md"));
        pages::write(&path, &self.text);
        summary::update(&self.docs, &self.server, &self.findings, false);
        path
    }

    pub fn write(&self) -> PathBuf {
        let path = self.dir.join("README.md");
        pages::write(&path, &self.text);
        let costs = serde_json::to_string_pretty(&self.costs).expect("numbers and their names");
        fs::write(self.dir.join("costs.json"), costs + "\n").expect("the costs are written");
        summary::update(&self.docs, &self.server, &self.findings, true);
        path
    }
}

fn today() -> String {
    let date = Command::new("date").args(["-u", "+%F"]).output().expect("every system has `date`");
    String::from_utf8_lossy(&date.stdout).trim().to_owned()
}
