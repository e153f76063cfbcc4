//! Cleaning up what outlives a process.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Runs its script when it is dropped, and also when this program ends in any other way: it waits for the end of a pipe.
pub struct Janitor(Child);

impl Janitor {
    /// Gives it its work.
    pub fn hire(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("cat >/dev/null\n{script}")).stdin(Stdio::piped()).stderr(Stdio::null());
        // An interrupt of this program from a terminal does not reach it.
        Self(command.process_group(0).spawn().expect("a shell"))
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // Files that it could not remove stay behind, to be seen.
        let _ = self.0.wait();
    }
}
