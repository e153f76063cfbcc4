//! How the program fails: one line and a status.

use std::fmt::Display;
use std::io::Write;

/// Wrong usage.
pub const USAGE: i32 = 64;
/// The server cannot be reached, or refuses.
pub const UNAVAILABLE: i32 = 69;
/// The lock was lost while the command ran.
pub const LOST: i32 = 73;
/// Granted, but not on enough replicas.
pub const NOT_REPLICATED: i32 = 74;
/// Not granted within the wait.
pub const NOT_GRANTED: i32 = 75;
/// The command is there and cannot be run.
pub const NOT_EXECUTABLE: i32 = 126;
/// The command is not there.
pub const NOT_FOUND: i32 = 127;

/// A status other than the command's, and why.
#[derive(Debug)]
pub struct Failure {
    status: i32,
    reason: String,
}

impl Failure {
    pub fn new(status: i32, reason: impl Display) -> Self {
        Self { status, reason: reason.to_string() }
    }

    /// The error of clap about the arguments, without the pages that it adds.
    pub fn usage(error: &clap::Error) -> Self {
        let text = error.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        let reason = text.split("\n\n").next().unwrap_or_default();
        let reason = if error.kind() == clap::error::ErrorKind::MissingSubcommand {
            "what is to be done? `lockstock --help` lists the commands"
        } else {
            reason
        };
        Self::new(USAGE, reason)
    }

    /// Says it on standard error; the status.
    pub fn tell(self) -> i32 {
        say(&self.reason);
        self.status
    }
}

/// One line on standard error, in one write, so that lines of several processes do not mix.
pub fn say(text: &str) {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = format!("lockstock: {}\n", words.join(" "));
    let _ = std::io::stderr().write_all(line.as_bytes());
}
