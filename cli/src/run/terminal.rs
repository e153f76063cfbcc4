//! The terminal, which is the command's while it runs, if it was ours.

use std::fs::File;

use rustix::process::{Pid, getpgrp};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

/// The terminal that controls this process.
pub struct Terminal {
    file: File,
    /// How it was set when we began.
    settings: Option<Termios>,
}

impl Terminal {
    /// `None` without one.
    pub fn open() -> Option<Self> {
        let file = File::options().read(true).write(true).open("/dev/tty").ok()?;
        let settings = tcgetattr(&file).ok();
        Some(Self { file, settings })
    }

    /// Whether what is typed goes to our group.
    pub fn is_ours(&self) -> bool {
        self.belongs_to(getpgrp())
    }

    pub fn belongs_to(&self, group: Pid) -> bool {
        tcgetpgrp(&self.file) == Ok(group)
    }

    /// What is typed goes to this group from now on.
    pub fn give(&self, group: Pid) {
        let _ = tcsetpgrp(&self.file, group);
    }

    /// Takes it back from the command's group.
    pub fn take_back(&self, group: Pid) {
        if self.belongs_to(group) {
            self.give(getpgrp());
        }
    }

    /// The terminal settings that a killed command may have left in disorder.
    pub fn settle(&self) {
        if let Some(settings) = &self.settings {
            let _ = tcsetattr(&self.file, OptionalActions::Now, settings);
        }
    }

    pub fn file(&self) -> &File {
        &self.file
    }
}
