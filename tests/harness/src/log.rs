//! The log of a test server: its output, from all its starts.

use std::fs;
use std::path::Path;

/// What a server writes when it does something that no test may provoke.
const CRASH_MARKS: [&str; 3] = ["BUG REPORT START", "ASSERTION FAILED", "panicked at"];

/// The whole log; empty if there is none.
pub fn read(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// The log's last lines, set off for an error message.
pub fn tail(path: &Path) -> String {
    const LINES: usize = 40;
    let log = read(path);
    let lines: Vec<&str> = log.lines().collect();
    let shown = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join("\n");
    format!("--- end of {}\n{shown}\n---", path.display())
}

/// The log from its first line that speaks of a crash on, or its last lines if none does.
pub fn from_crash(path: &Path) -> String {
    const LINES: usize = 120;
    let log = read(path);
    let Some(at) = crash(&log).and_then(|line| log.find(line)) else { return tail(path) };
    let shown: Vec<&str> = log[at..].lines().take(LINES).collect();
    format!("--- from {}\n{}\n---", path.display(), shown.join("\n"))
}

/// Where the faults come from that a test provokes by `LOCK.FAULT`.
const ON_PURPOSE: &str = "panicked at src/server/faults.rs";

/// The first line that speaks of a crash.
pub fn crash(log: &str) -> Option<&str> {
    let mut lines = log.lines().filter(|line| !line.contains(ON_PURPOSE));
    lines.find(|line| CRASH_MARKS.iter().any(|mark| line.contains(mark)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_is_seen_among_ordinary_lines() {
        let calm = "1:M * Ready to accept connections\n1:M # Warning: panic is not what this is\n";
        assert_eq!(crash(calm), None);
        let report = "=== VALKEY BUG REPORT START: Cut & paste starting from here ===";
        assert_eq!(crash(&format!("{calm}{report}\n{calm}")), Some(report));
        let fault = "1:M # <module> lockstock: fault: panicked at src/core/lock/tick.rs:1:2:";
        assert_eq!(crash(fault), Some(fault));
    }
}
