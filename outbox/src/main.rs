//! `lockstock-outbox`: the orders of sales, written into a database, each change once.
//!
//! Reading order: [`options`] has the options of the command line; [`supervisor`] finds the sales and starts a [`follower`] for each, which
//! reads the sale's stream ([`source`], [`event`]), sees whether it goes on where the tables end ([`past`]) and writes rows and position in
//! one transaction ([`store`]). [`reconcile`] makes the tables agree with the sale. [`trouble`] has the errors, [`report`] the messages, [`metrics`] the counters.
#![expect(clippy::doc_markdown, reason = "databases have names like MariaDB")]

mod event;
mod follower;
mod metrics;
mod name;
mod options;
mod past;
mod reconcile;
mod report;
mod source;
mod store;
mod supervisor;
mod trouble;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use options::Options;
use trouble::{Failure, USAGE};

fn main() -> ExitCode {
    // For the packages: `--help` names no such option.
    if std::env::args_os().skip(1).eq([OsString::from("--man")]) {
        let mut page = Vec::new();
        let written = clap_mangen::Man::new(Options::command()).render(&mut page);
        return match written.and_then(|()| std::io::stdout().write_all(&page)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => Failure::new(USAGE, error).tell(),
        };
    }
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) if error.use_stderr() => return Failure::usage(&error).tell(),
        Err(help) => {
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
    };
    supervisor::run(options).unwrap_or_else(Failure::tell)
}
