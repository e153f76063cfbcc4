//! Process groups.

use std::fs;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// The command's process group.
#[derive(Debug, Clone, Copy)]
pub struct Group(pub Pid);

impl Group {
    /// A group that has stopped is woken, too, so that it hears it.
    pub fn term(self) {
        self.send(Signal::TERM);
        self.send(Signal::CONT);
    }

    pub fn kill(self) {
        self.send(Signal::KILL);
    }

    /// Sends to the whole group; if the group is gone, nothing happens.
    pub fn send(self, signal: Signal) {
        let _ = kill_process_group(self.0, signal);
    }

    /// Whether a process of it lives. Those that have ended and were not waited for yet count for the kernel, but not here.
    pub fn is_alive(self) -> bool {
        if test_kill_process_group(self.0) == Err(rustix::io::Errno::SRCH) {
            return false;
        }
        let Ok(processes) = fs::read_dir("/proc") else { return true };
        processes.flatten().any(|process| {
            let path = process.path();
            fs::read_to_string(path.join("stat")).is_ok_and(|stat| {
                self.has(&stat).is_some_and(|state| {
                    // The first thread may end before the others.
                    !matches!(state, "Z" | "X") || fs::read_dir(path.join("task")).is_ok_and(|tasks| tasks.count() > 1)
                })
            })
        })
    }

    /// The state of the process of this `/proc/…/stat`, if it is of this group.
    fn has(self, stat: &str) -> Option<&str> {
        // The name of the program, in parentheses, may contain anything.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let group: i32 = fields.nth(1)?.parse().ok()?;
        (group == self.0.as_raw_nonzero().get()).then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_an_odd_name_is_found() {
        let group = Group(Pid::from_raw(42).unwrap());
        assert_eq!(group.has("7 (a) Z 1 9 b) S 1 42 42 0 -1"), Some("S"));
        assert_eq!(group.has("7 (cat) S 1 43 42 0 -1"), None);
    }

    #[test]
    fn our_own_group_is_alive() {
        assert!(Group(rustix::process::getpgrp()).is_alive());
    }
}
