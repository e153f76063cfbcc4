//! The `Lock` of redis-py, played by redis-py itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use harness::repository;

use super::table;
use crate::contest::{Figures, Outcome};
use crate::lab::Lab;
use crate::stand::Side;

const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/redis_lock.py");

pub fn run(lab: &mut Lab) {
    lab.progress("redis-py: installing");
    let Some(python) = interpreter() else {
        lab.show("\n## The Lock of redis-py\n\nNot measured: there is no Python here that can install redis-py.");
        return;
    };
    let cycles = lab.plan.either(4_000, 1_000);
    contest(lab, &python, "The Lock of redis-py, locks that nobody else wants", 1, cycles);
    contest(lab, &python, "The Lock of redis-py, 25 threads contend for one", 25, cycles / 25);
}

fn contest(lab: &mut Lab, python: &Path, title: &str, threads: usize, cycles: usize) {
    let ways =
        [("ours", "LOCK.ACQUIRE WAIT, LOCK.RELEASE by redis-py", Side::Ours), ("theirs", "redis-py Lock", Side::Plain)];
    let mut outcomes = ways.map(|way| Outcome { name: way.1.into(), turns: vec![] });
    for round in 1..=3 {
        for ((way, name, side), outcome) in ways.iter().zip(&mut outcomes) {
            lab.progress(&format!("{title}: {name} ({round}/3)"));
            outcome.turns.push(turn(lab, python, way, *side, threads, cycles));
        }
    }
    table(lab, title, &outcomes);
}

fn turn(lab: &mut Lab, python: &Path, way: &str, side: Side, threads: usize, cycles: usize) -> Figures {
    let stand = lab.stand(side);
    stand.cmd("FLUSHALL");
    let (begun, before) = (Instant::now(), stand.reading());
    let port = stand.server.port().to_string();
    let words = [DRIVER, &port, way, &threads.to_string(), &cycles.to_string()];
    let status = Command::new(python).args(words).status().expect("Python runs");
    assert!(status.success(), "{words:?}: {status}");
    let (seconds, after) = (begun.elapsed().as_secs_f64(), stand.reading());
    let done = (threads * cycles) as f64;
    Figures {
        done,
        seconds,
        cpu: (after.cpu - before.cpu) / done,
        executed: (after.executed - before.executed - 1.0) / done,
        sent: f64::NAN,
        p50: f64::NAN,
        p99: f64::NAN,
        ..Figures::default()
    }
}

/// The Python of a virtual environment that has redis-py, made at the first run.
fn interpreter() -> Option<PathBuf> {
    let home = repository().join("target/redis-py");
    let python = home.join("bin/python");
    let works = || run_quietly(Command::new(&python).args(["-c", "import redis"]));
    if !works() {
        run_quietly(Command::new("python3").args(["-m", "venv"]).arg(&home));
        run_quietly(Command::new(&python).args(["-m", "pip", "install", "--quiet", "redis"]));
    }
    works().then_some(python)
}

fn run_quietly(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
