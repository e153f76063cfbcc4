//! The five programs that people write by hand against Redis today, a railway, a budget and refunds, played for real with lockstock's
//! commands: many client processes against a server of the demo's own, and afterwards books that say what each client got.
//!
//! ```text
//! cargo run -p lockstock-demo                    # all scenes, with a live bar and tables
//! cargo run -p lockstock-demo -- --check      # one line for each scene; exit code 1 if any books are wrong
//! cargo run -p lockstock-demo -- --check --scenarios 1,2,3,5 --rounds 20
//! ```
//!
//! `QUICK=1` plays a tenth of everything.
//!
//! Reading order: [`wire`] (what processes say to each other), [`client`] (the commands), [`worker`] (a worker process),
//! [`server`] and [`crew`] (starting all of them), [`books`] (what must be true afterwards), [`scenario`] (the scenes).
#![expect(clippy::arithmetic_side_effects, reason = "the lint guards the server; this only counts what it did")]

mod books;
mod client;
mod crew;
mod scenario;
mod server;
mod show;
mod stage;
mod wire;
mod worker;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use lexopt::prelude::{Long, Short, Value, ValueExt};

use crate::books::Findings;
use crate::scenario::{SCENES, Scene};
use crate::server::Server;
use crate::stage::{Act, PROCESSES, Scale, Stage};

const HELP: &str = "\
Plays the scenarios against a server of its own, and checks the books.

usage: demo [--check] [--rounds N] [--scenarios 1,2,…] [--quick]

  --check         one line for each scene, at a tenth of the size; exit code 1 if any books are wrong
  --rounds N      with --check: play each scene N times (1)
  --scenarios L   only these, such as 1,2 or 4b
  --quick         a tenth of everything, as with QUICK=1";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let done = match arguments.as_slice() {
        [role, address] if role == "worker" => worker::work(&address.to_string_lossy()).map(|()| true),
        [role, binary, module] if role == "guardian" => {
            server::guard(Path::new(binary), Path::new(module)).map(|()| true)
        }
        _ => Options::parse(arguments).and_then(|options| options.map_or(Ok(true), |options| options.run())),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("demo: {why:#}");
            ExitCode::FAILURE
        }
    }
}

/// The options of the command line.
struct Options {
    check: bool,
    rounds: u64,
    scenes: Vec<&'static Scene>,
    scale: Scale,
}

impl Options {
    /// Reads the command line; `None` when it only asked for help.
    fn parse(arguments: Vec<OsString>) -> Result<Option<Self>> {
        let quick = std::env::var_os("QUICK").is_some_and(|value| value != "0" && !value.is_empty());
        let scale = if quick { Scale::Quick } else { Scale::Full };
        let mut options = Self { check: false, rounds: 1, scenes: SCENES.iter().collect(), scale };
        let mut parser = lexopt::Parser::from_args(arguments);
        while let Some(argument) = parser.next()? {
            match argument {
                Long("check") => options.check = true,
                Long("quick") => options.scale = Scale::Quick,
                Long("rounds") => options.rounds = parser.value()?.parse()?,
                Long("scenarios") => options.scenes = scenes(&parser.value()?.string()?)?,
                Long("help") | Short('h') => {
                    show::print(HELP)?;
                    return Ok(None);
                }
                Value(_) | Long(_) | Short(_) => return Err(argument.unexpected().into()),
            }
        }
        ensure!(options.rounds > 0, "--rounds must be at least 1");
        ensure!(options.check || options.rounds == 1, "--rounds needs --check");
        if options.check {
            options.scale = Scale::Quick;
        }
        Ok(Some(options))
    }

    /// Plays what was asked for: whether all books are right.
    fn run(&self) -> Result<bool> {
        let server = Server::start()?;
        let played = self.play(&server);
        played.map_err(|why| anyhow!("{why:#}\n\nthe end of the server's log:\n{}", server.log_tail()))
    }

    fn play(&self, server: &Server) -> Result<bool> {
        let mut stage = Stage::new(server.address(), self.scale, !self.check)?;
        let start = Instant::now();
        let mut findings = Findings::default();
        if !self.check {
            show::print(format!("{} at {}, {PROCESSES} worker processes", server.name(), server.address()))?;
        }
        for scene in &self.scenes {
            findings.add(if self.check { scene.check(&mut stage, self.rounds)? } else { scene.show(&mut stage)? });
        }
        if !self.check {
            show::sum(&findings, start.elapsed())?;
        }
        Ok(findings.broken().is_empty())
    }
}

impl Scene {
    /// Plays the scene for a spectator.
    fn show(&self, stage: &mut Stage<'_>) -> Result<Findings> {
        show::heading(self.number, self.title, self.how)?;
        let act = self.play(stage)?;
        act.sheet.print()?;
        act.notes.iter().try_for_each(|note| show::note(note))?;
        show::verdict(&act.verdict, &act.findings)?;
        Ok(act.findings)
    }

    /// Plays the scene up to `rounds` times for a test, and prints one line, or the first books that are wrong.
    fn check(&self, stage: &mut Stage<'_>, rounds: u64) -> Result<Findings> {
        let start = Instant::now();
        let mut findings = Findings::default();
        let mut answers = 0;
        let mut verdict = String::new();
        for round in 1..=rounds {
            let act = self.play(stage)?;
            answers += act.answers;
            verdict = act.verdict;
            findings.add(act.findings);
            if !findings.broken().is_empty() {
                show::print(format!("FAIL  {:<2}  {} (round {round})", self.number, self.title))?;
                show::broken(&findings)?;
                return Ok(findings);
            }
        }
        let (answers, checks, seconds) = (show::count(answers), findings.held(), start.elapsed().as_secs_f64());
        let times = if rounds == 1 { String::new() } else { format!("{rounds} rounds, ") };
        show::print(format!(
            "ok    {:<2}  {verdict} ({times}{answers} answers, {checks} checks, {seconds:.1} s)",
            self.number
        ))?;
        Ok(findings)
    }

    /// Whether it is meant by `name`: its own number or its scenario's.
    fn is(&self, name: &str) -> bool {
        name == self.number || name == self.number.trim_end_matches(char::is_alphabetic)
    }

    fn play(&self, stage: &mut Stage<'_>) -> Result<Act> {
        (self.play)(stage).with_context(|| format!("scene {}: {}", self.number, self.title))
    }
}

/// Reads a list such as `1,2,4b` and returns the scenes it names, in their own order.
fn scenes(list: &str) -> Result<Vec<&'static Scene>> {
    let names: Vec<_> = list.split(',').map(str::trim).collect();
    let stranger = names.iter().find(|name| !SCENES.iter().any(|scene| scene.is(name)));
    ensure!(stranger.is_none(), "there is no scenario {}", stranger.unwrap_or(&""));
    Ok(SCENES.iter().filter(|scene| names.iter().any(|name| scene.is(name))).collect())
}
