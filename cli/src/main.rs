//! `lockstock` on the command line: run a command under a lock, watch locks and sales, examine a server.
//!
//! Reading order: [`options`] has the options of the command line; [`run`] is `lockstock run`: the process in front, which has the terminal
//! and the command, and [`run::guardian`], which has the lock. [`top`] and [`doctor`] look at servers. [`inherited`] is what a command is
//! to find as it would without us.
#![cfg_attr(not(test), no_main)]

mod doctor;
mod fail;
mod inherited;
mod options;
mod run;
mod top;

use std::ffi::OsString;
use std::io::Write;

use clap::{CommandFactory, Parser};

use fail::Failure;
use options::{Command, Options};

/// The C entry, not Rust's: Rust's own would change the signal dispositions and the closed descriptors that the command inherits.
#[cfg(not(test))]
#[unsafe(no_mangle)]
extern "C" fn main(_: libc::c_int, _: *const *const libc::c_char) -> libc::c_int {
    let inherited = inherited::Inherited::take();
    answer(std::env::args_os().collect(), &inherited)
}

fn answer(words: Vec<OsString>, inherited: &inherited::Inherited) -> i32 {
    let options = match Options::try_parse_from(words) {
        Ok(options) => options,
        Err(error) if error.use_stderr() => return Failure::usage(&error).tell(),
        Err(help) => {
            let _ = help.print();
            return 0;
        }
    };
    let outcome = match options.command {
        Command::Run(run) => run::front::run(options.url, *run, inherited),
        Command::Top(top) => top::run(&options.url, &top),
        Command::Doctor => doctor::run(&options.url),
        Command::Guardian => run::guardian::main(),
        Command::Man => man(),
    };
    outcome.unwrap_or_else(Failure::tell)
}

/// The man page: of the program and of each of its commands.
fn man() -> Result<i32, Failure> {
    let mut page = Vec::new();
    let program = Options::command().disable_help_subcommand(true);
    let whole = clap_mangen::Man::new(program.clone());
    let written = whole.render(&mut page).and_then(|()| {
        for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
            writeln!(page, ".SH \"COMMAND {}\"", command.get_name().to_uppercase())?;
            let part = clap_mangen::Man::new(command.clone());
            part.render_description_section(&mut page)?;
            part.render_options_section(&mut page)?;
            part.render_extra_section(&mut page)?;
        }
        std::io::stdout().write_all(&page)
    });
    written.map(|()| 0).map_err(|error| Failure::new(fail::UNAVAILABLE, error))
}

#[cfg(test)]
mod tests {
    #[test]
    fn wrong_words_have_the_status_of_wrong_usage() {
        let inherited = super::inherited::Inherited::take();
        for words in [&["lockstock"][..], &["lockstock", "run", "a", "--"]] {
            assert_eq!(super::answer(words.iter().map(Into::into).collect(), &inherited), 64);
        }
        assert_eq!(super::answer(vec!["lockstock".into(), "--version".into()], &inherited), 0);
    }
}
