//! A terminal with a shell on it, and a user's keystrokes.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use harness::{PATIENCE, Server, eventually};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::support::{SECOND, heeding, is_free};

/// bash at a prompt.
struct Typist {
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
    shell: Child,
}

impl Typist {
    fn begin(server: &Server, shell: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let name = ptsname(&master, Vec::new()).expect("a name");
        let slave = File::options().read(true).write(true).open(name.to_str().expect("text")).expect("it opens");
        let (program, words) = shell.split_first().expect("a shell");
        let mut command = heeding();
        command.arg(program);
        let other = || OwnedFd::from(slave.try_clone().expect("a copy"));
        command.args(words).stdin(other()).stdout(other()).stderr(other()).env("PS1", "ready> ");
        command.env("LOCKSTOCK_URL", format!("redis://{}", server.address())).env("TERM", "dumb");
        command.env("L", env!("CARGO_BIN_EXE_lockstock")).env_remove("PROMPT_COMMAND");
        // SAFETY: two system calls, no memory.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin().as_fd())?;
                Ok(())
            });
        }
        let shell = command.spawn().expect("a shell");
        let keyboard = File::from(master);
        let mut eye = keyboard.try_clone().expect("a copy");
        let (tell, screen) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 1024];
            while let Ok(count) = eye.read(&mut buffer)
                && tell.send(buffer.get(..count).unwrap_or_default().to_vec()).is_ok()
            {}
        });
        Self { keyboard, screen, seen: String::new(), shell }
    }

    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("typed");
    }

    /// Waits for these words, and forgets all until behind them.
    #[track_caller]
    fn sees(&mut self, words: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(place) = self.seen.find(words) {
                self.seen.drain(..place + words.len());
                return;
            }
            let left = end.saturating_duration_since(Instant::now());
            let Ok(bytes) = self.screen.recv_timeout(left) else { panic!("no {words:?} in {:?}", self.seen) };
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
}

impl Drop for Typist {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

const BASH: [&str; 4] = ["bash", "--norc", "--noprofile", "-i"];

#[test]
fn ctrl_z_and_fg_and_ctrl_c() {
    let server = Server::start();
    let mut typist = Typist::begin(&server, &BASH);
    typist.sees("ready> ");
    typist.types("$L run --lease 3s job -- sh -c 'echo be''gun; while read line; do echo got $line; done'\n");
    typist.sees("begun");
    typist.types("one\n");
    typist.sees("got one");
    typist.types("\x1a");
    typist.sees("Stopped");
    typist.sees("ready> ");
    // Longer than the lease.
    thread::sleep(SECOND * 4);
    assert!(!is_free(&server));
    typist.types("echo $((40 + 2))\n");
    typist.sees("42");
    typist.types("fg\n");
    typist.types("two\n");
    typist.sees("got two");
    typist.types("\x03");
    typist.sees("ready> ");
    typist.types("echo status $?\n");
    typist.sees("status 130");
    eventually("it is free", || is_free(&server));
}

#[test]
fn bg_and_a_background_job_that_wants_to_read() {
    let server = Server::start();
    let mut typist = Typist::begin(&server, &BASH);
    typist.sees("ready> ");
    typist.types("$L run job -- sh -c 'echo be''gun; read line; echo got $line' &\n");
    typist.sees("begun");
    typist.types("\n");
    eventually("it is held", || !is_free(&server));
    typist.types("until jobs | grep -q Stopped; do sleep 0.1; done; echo has sto''pped\n");
    typist.sees("has stopped");
    typist.types("fg\n");
    typist.types("three\n");
    typist.sees("got three");
    typist.sees("ready> ");
    // Not sh: a ctrl-Z between its vfork and its exec stops the child alone, with and without lockstock.
    typist.types("$L run job -- bash -c 'echo be''gun; sleep 1; echo en''ded'\n");
    typist.sees("begun");
    typist.types("\x1a");
    typist.sees("Stopped");
    typist.types("bg\n");
    typist.sees("ended");
}

#[test]
fn a_pipeline_whose_other_program_reads_the_terminal() {
    let server = Server::start();
    let mut typist = Typist::begin(&server, &BASH);
    typist.sees("ready> ");
    typist.types(
        "$L run job -- sh -c 'sleep 1; echo en''ded' | sh -c 'echo be''gun; read key </dev/tty; echo got $key; cat'\n",
    );
    typist.sees("begun");
    thread::sleep(SECOND / 2);
    typist.types("one\n");
    typist.sees("got one");
    typist.sees("ended");
    typist.sees("ready> ");
    // The command itself gets the terminal when it asks for it.
    typist.types("$L run job -- sh -c 'echo be''gun >/dev/tty; read key </dev/tty; echo got $key' | cat\n");
    typist.sees("begun");
    typist.types("two\n");
    typist.sees("got two");
    typist.sees("ready> ");
}

#[test]
fn a_command_that_nobody_can_give_the_terminal_does_not_stop_for_ever() {
    let server = Server::start();
    let mut typist = Typist::begin(&server, &BASH);
    typist.sees("ready> ");
    // The second command does not end by a hang-up.
    for trap in ["", "trap '' HUP; "] {
        let command = "sh -c 'echo be''gun; sleep 1; read line; echo never'";
        typist.types(&format!("( {trap}$L run job -- {command} </dev/tty & )\n"));
        typist.sees("begun");
        eventually("the lock is free", || is_free(&server));
    }
    assert!(!typist.seen.contains("never"));
}

#[test]
fn a_script_without_job_control_hears_ctrl_c_too() {
    let server = Server::start();
    let mut typist = Typist::begin(&server, &BASH);
    typist.sees("ready> ");
    // bash within: dash, alone in a terminal too, loses a ctrl-C that comes between its echo and its sleep.
    typist.types("sh -c '$L run job -- bash -c \"echo be\"\"gun; sleep 60\"; echo not re''ached'\n");
    typist.sees("begun");
    typist.types("\x03");
    typist.sees("ready> ");
    typist.types("echo en''d\n");
    typist.sees("end");
    assert!(!typist.seen.contains("not reached"));
    eventually("it is free", || is_free(&server));
}

#[test]
fn a_window_that_changes_its_size() {
    let server = Server::start();
    let mut typist = Typist::begin(&server, &BASH);
    typist.sees("ready> ");
    typist
        .types("$L run job -- bash -c 'trap \"echo re\"\"sized\" WINCH; echo be''gun; while :; do sleep 0.05; done'\n");
    typist.sees("begun");
    let size = rustix::termios::Winsize { ws_row: 10, ws_col: 20, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&typist.keyboard, size).expect("resized");
    typist.sees("resized");
    typist.types("\x03");
    typist.sees("ready> ");
}
