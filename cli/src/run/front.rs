//! The process that the shell knows. It has one thread.

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{self, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_current_process_group, kill_process};

use super::command::{self, Ending};
use super::group::Group;
use super::guardian::margin;
use super::talk::{Task, ToFront, ToGuardian, line};
use super::terminal::Terminal;
use crate::fail::{Failure, LOST, NOT_EXECUTABLE, NOT_FOUND, NOT_GRANTED, UNAVAILABLE, USAGE, say};
use crate::inherited::{Inherited, Signals, is_ignored, stop};
use crate::options::{Run, Wait};

/// How long the guardian has to withdraw a request that is no longer wanted.
const FAREWELL: Duration = Duration::from_secs(1);

/// Takes the lock and runs the command; the status to end with.
pub fn run(url: String, options: Run, inherited: &Inherited) -> Result<i32, Failure> {
    let task = task(url, &options)?;
    let program = options.command.first().map_or(OsStr::new(""), OsString::as_os_str);
    command::look_up(program)?;
    let broken = |error: std::io::Error| Failure::new(UNAVAILABLE, format!("this system gives no process: {error}"));
    let signals = Signals::begin().map_err(broken)?;
    let (ours, theirs) = UnixStream::pair().map_err(broken)?;
    let mut guardian = process::Command::new("/proc/self/exe")
        .arg0("lockstock-guardian")
        .arg("guardian")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(broken)?;
    let terminal = Terminal::open();
    let mut front = Front {
        options,
        inherited,
        signals,
        guardian: ours,
        unread: Vec::new(),
        terminal,
        is_alone: std::io::stdin().is_terminal() && std::io::stdout().is_terminal(),
        command: None,
        heard: Instant::now(),
        hung_up: false,
        stage: Stage::Asking,
    };
    front.tell(&task);
    let token = OsString::from_vec(task.token);
    let mut silent = false;
    let outcome = loop {
        match front.turn(&token) {
            Some(outcome) => break outcome,
            None => match front.patience() {
                Some(Duration::ZERO) if silent => break front.alone("stands still"),
                Some(Duration::ZERO) => {
                    silent = true;
                    // We may have stood still with it.
                    std::thread::sleep(margin(front.options.lease));
                }
                left => {
                    silent = false;
                    front.sleep(left);
                }
            },
        }
    };
    // It has nothing left to do that another process waits for.
    let _ = guardian.try_wait();
    outcome
}

fn task(url: String, options: &Run) -> Result<Task, Failure> {
    let wrong = |why: &str| Err(Failure::new(USAGE, why));
    if options.lease < Duration::from_secs(1) {
        return wrong("--lease is at least 1s");
    }
    if options.keys.iter().any(|key| key.is_empty()) {
        return wrong("a key is not empty");
    }
    if options.keys.len() > 1 && (options.shared || options.limit.is_some()) {
        return wrong("--shared and --limit are for one key");
    }
    if options.session && !options.at_least.is_zero() {
        return wrong("--at-least is not for --session");
    }
    let token = options.token.clone().map_or_else(|| uuid::Uuid::new_v4().to_string().into_bytes(), OsString::into_vec);
    if token.is_empty() || token.len() > 512 {
        return wrong("a token has 1 to 512 bytes");
    }
    let url = if url.is_empty() { "redis://127.0.0.1:6379".into() } else { url };
    if let Err(error) = lockstock::Client::open(&url) {
        return wrong(&format!("--url: {error}"));
    }
    Ok(Task {
        url,
        keys: options.keys.iter().map(|key| key.as_bytes().to_vec()).collect(),
        token,
        wait: options.wait,
        lease: options.lease,
        shared: options.shared,
        limit: options.limit,
        session: options.session,
        replicas: options.replicas,
        grace: options.grace,
        at_least: options.at_least,
        verbose: options.verbose,
    })
}

struct Front<'a> {
    options: Run,
    inherited: &'a Inherited,
    signals: Signals,
    guardian: UnixStream,
    unread: Vec<u8>,
    terminal: Option<Terminal>,
    /// It reads and writes the terminal itself. Else another program of its pipeline may need the terminal, too.
    is_alone: bool,
    command: Option<Running>,
    /// When the guardian was last heard.
    heard: Instant,
    /// The command wanted a terminal that it cannot get.
    hung_up: bool,
    stage: Stage,
}

struct Running {
    pid: Pid,
    group: Group,
    /// It was given the terminal.
    foreground: bool,
}

enum Stage {
    /// The lock is asked for.
    Asking,
    /// It is ours, with this fence.
    Granted(i64),
    /// The command runs.
    Running,
    /// It has ended so; the guardian clears up.
    Over(Ending),
    /// It could not be run.
    NotRun(Failure),
    /// The lock is lost; the guardian ends the group.
    Lost,
}

impl Stage {
    /// Whether the guardian's word that the lock is lost decides the status. It does if the command has ended, too: TERM may be faster than
    /// that word, and a guardian that had heard of the end before the loss does not send it.
    fn can_be_lost(&self) -> bool {
        matches!(self, Self::Granted(_) | Self::Running | Self::Over(_))
    }
}

impl Front<'_> {
    /// Does all that there is to do now; the outcome, once there is one.
    fn turn(&mut self, token: &OsStr) -> Option<Result<i32, Failure>> {
        let open = self.read();
        while let Some(message) = self.message() {
            let outcome = self.heard(message);
            if outcome.is_some() {
                return outcome;
            }
        }
        if !open {
            return Some(self.alone("was killed"));
        }
        // Not before all was heard: after a sleep, the loss may stand behind the grant.
        if let Stage::Granted(fence) = self.stage {
            self.start(token, fence);
        }
        while let Some(signal) = self.signals.next() {
            let outcome = self.signalled(signal);
            if outcome.is_some() {
                return outcome;
            }
        }
        None
    }

    fn heard(&mut self, message: ToFront) -> Option<Result<i32, Failure>> {
        self.heard = Instant::now();
        match message {
            ToFront::Ping => self.tell(&ToGuardian::Pong),
            ToFront::Say(text) => say(&text),
            ToFront::Granted { fence } => self.stage = Stage::Granted(fence),
            ToFront::Refused { status: NOT_GRANTED, .. } if self.options.skip => return Some(Ok(0)),
            ToFront::Refused { status, reason } => return Some(Err(Failure::new(status, reason))),
            ToFront::Lost { reason } => {
                if self.stage.can_be_lost() {
                    self.stage = Stage::Lost;
                    say(&reason);
                }
            }
            ToFront::Done => return Some(self.finish()),
        }
        None
    }

    fn start(&mut self, token: &OsStr, fence: i64) {
        let keys: Vec<_> = self.options.keys.iter().map(OsString::as_os_str).collect();
        let environment = vec![
            ("LOCKSTOCK_KEY", self.options.keys.first().cloned().unwrap_or_default()),
            ("LOCKSTOCK_KEYS", keys.join(OsStr::new(" "))),
            ("LOCKSTOCK_TOKEN", token.to_owned()),
            ("LOCKSTOCK_FENCE", fence.to_string().into()),
        ];
        let terminal = self.terminal.as_ref().filter(|terminal| self.is_alone && terminal.is_ours());
        let started = command::start(&self.options.command, environment, self.inherited, terminal, &self.guardian);
        let pid = started.as_ref().ok().and_then(|child| Pid::from_raw(i32::try_from(child.id()).ok()?));
        match (started, pid) {
            (Ok(_), Some(pid)) => {
                self.command = Some(Running { pid, group: Group(pid), foreground: terminal.is_some() });
                self.stage = Stage::Running;
            }
            (Err(error), _) => {
                let status = if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
                let name = self.options.command.first().map(|name| name.display().to_string()).unwrap_or_default();
                // The child may have had the terminal.
                if let Some(terminal) = terminal {
                    terminal.give(rustix::process::getpgrp());
                }
                self.stage = Stage::NotRun(Failure::new(status, format!("{name}: {error}")));
                self.tell(&ToGuardian::Ended { ran: false });
            }
            // A process has a number.
            (Ok(_), None) => self.stage = Stage::Lost,
        }
    }

    fn signalled(&mut self, signal: i32) -> Option<Result<i32, Failure>> {
        let Some(running) = &self.command else {
            return match signal {
                libc::SIGTSTP => {
                    let _ = self.stop(false);
                    None
                }
                libc::SIGCHLD | libc::SIGCONT | libc::SIGWINCH => None,
                // Nothing runs that it could go to.
                _ => Some(Ok(self.give_up(signal))),
            };
        };
        match signal {
            libc::SIGCHLD => self.look_after(),
            libc::SIGCONT => self.resume(false),
            // Words between two programs; the command's children did not ask for them.
            libc::SIGUSR1 | libc::SIGUSR2 => {
                if let Some(signal) = Signal::from_named_raw(signal) {
                    let _ = kill_process(running.pid, signal);
                }
            }
            // As a terminal and a shell send them: to all of it.
            _ => {
                if let Some(signal) = Signal::from_named_raw(signal) {
                    running.group.send(signal);
                }
            }
        }
        None
    }

    /// Ends before the command began.
    fn give_up(&mut self, signal: i32) -> i32 {
        self.tell(&ToGuardian::Cancel);
        let end = Instant::now().checked_add(FAREWELL);
        // Its end of the socket closes when the request is taken back.
        while self.read() {
            let Some(left) =
                end.and_then(|end| end.checked_duration_since(Instant::now())).filter(|left| !left.is_zero())
            else {
                break;
            };
            self.sleep(Some(left));
            // So that they do not wake us again and again.
            while self.signals.next().is_some() {}
        }
        signal.saturating_add(128)
    }

    /// Checks the state of the command.
    fn look_after(&mut self) {
        let Some(running) = &self.command else { return };
        if let Some(ending) = command::ended(running.pid) {
            if matches!(self.stage, Stage::Running) {
                self.stage = Stage::Over(ending);
                self.tell(&ToGuardian::Ended { ran: true });
            }
            return;
        }
        let terminals = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
        if let Some(signal) = command::stopped(running.pid)
            && terminals.contains(&signal)
        {
            // It wants the terminal, and we can give it.
            if signal != libc::SIGTSTP && self.terminal.as_ref().is_some_and(Terminal::is_ours) {
                self.resume(true);
            } else if !self.stop(true) && signal != libc::SIGTSTP {
                self.hang_up();
            }
        }
    }

    /// Stops with the command, as the shell that looks at us expects; the guardian keeps the lock meanwhile.
    /// `false` if nobody can continue us.
    fn stop(&mut self, with_command: bool) -> bool {
        let foreground = self.command.as_ref().is_some_and(|running| running.foreground);
        if let (Some(terminal), Some(running)) = (&self.terminal, &self.command) {
            terminal.take_back(running.group.0);
        }
        self.tell(&ToGuardian::Stopping);
        let stopped = stop(foreground);
        self.heard = Instant::now();
        self.tell(&ToGuardian::Continued);
        if with_command && foreground && !stopped {
            // The command would have been stopped for ever.
            self.resume(false);
            return true;
        }
        stopped || is_ignored(libc::SIGTSTP)
    }

    /// Goes on, with the command, in the foreground if we are there, and if it `wants` the terminal or no other program may need it.
    fn resume(&mut self, wants: bool) {
        let Some(running) = &mut self.command else { return };
        if let Some(terminal) = &self.terminal {
            if terminal.is_ours() && (wants || self.is_alone) {
                terminal.give(running.group.0);
            }
            running.foreground = terminal.belongs_to(running.group.0);
        }
        running.group.send(Signal::CONT);
    }

    /// The command wants a terminal that nobody can give it, and would be stopped for ever: the kernel would refuse it the terminal if it
    /// were in our group.
    fn hang_up(&mut self) {
        let Some(running) = &self.command else { return };
        let first = !std::mem::replace(&mut self.hung_up, true);
        running.group.send(if first { Signal::HUP } else { Signal::KILL });
        running.group.send(Signal::CONT);
    }

    /// How long the guardian may be silent yet: it asks more often than once a lease. `None` if nothing runs.
    fn patience(&self) -> Option<Duration> {
        self.command.as_ref()?;
        let lease = self.options.lease;
        Some(lease.saturating_sub(margin(lease).saturating_mul(2)).saturating_sub(self.heard.elapsed()))
    }

    /// The guardian has done its work.
    fn finish(&mut self) -> Result<i32, Failure> {
        // It may have begun in the moment in which the lock was lost.
        self.end_group();
        self.reclaim();
        match std::mem::replace(&mut self.stage, Stage::Lost) {
            Stage::Over(ending) => Ok(ending.status),
            Stage::NotRun(failure) => Err(failure),
            // Said already.
            Stage::Lost => Ok(LOST),
            Stage::Asking | Stage::Granted(_) | Stage::Running => Err(Failure::new(LOST, "the guardian went away")),
        }
    }

    /// The guardian is gone, or as good as that: the command must be, too.
    fn alone(&mut self, why: &str) -> Result<i32, Failure> {
        if self.command.is_none() {
            return Err(Failure::new(UNAVAILABLE, format!("the guardian of the lock {why}")));
        }
        self.end_group();
        if let Stage::Over(ending) = self.stage {
            self.reclaim();
            return Ok(ending.status);
        }
        self.stage = Stage::Running;
        self.reclaim();
        Err(Failure::new(LOST, format!("the guardian of the lock {why}, and the command was killed")))
    }

    /// Ends all processes of the command; gives up on processes that even KILL does not end.
    fn end_group(&self) {
        let Some(group) = self.command.as_ref().map(|running| running.group) else { return };
        for _ in 0..1000 {
            if !group.is_alive() {
                return;
            }
            group.kill();
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The terminal is ours again, in order, and what ctrl-C ended ends as a whole.
    fn reclaim(&mut self) {
        let (Some(terminal), Some(running)) = (&self.terminal, &self.command) else { return };
        if !running.foreground {
            return;
        }
        let had = terminal.belongs_to(running.group.0);
        terminal.take_back(running.group.0);
        let signal = match self.stage {
            Stage::Over(ending) => ending.signal,
            _ => Some(libc::SIGKILL),
        };
        if signal.is_some() && had {
            terminal.settle();
        }
        // Typed, it would have gone to all of the group that we are in: to the script that called us, and to the pipe behind us.
        if had
            && let Some(signal) =
                signal.filter(|signal| [libc::SIGINT, libc::SIGQUIT].contains(signal)).and_then(Signal::from_named_raw)
        {
            let _ = kill_current_process_group(signal);
        }
    }

    fn tell(&mut self, message: &impl serde::Serialize) {
        // If it is gone, we notice when we read.
        let _ = self.guardian.write_all(&line(message));
    }

    /// Reads the lines that have come from the guardian; `false` at its end.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let _ = self.guardian.set_nonblocking(true);
        let open = loop {
            match self.guardian.read(&mut buffer) {
                Ok(0) => break false,
                Ok(count) => self.unread.extend_from_slice(buffer.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => break error.kind() == std::io::ErrorKind::WouldBlock,
            }
        };
        let _ = self.guardian.set_nonblocking(false);
        open
    }

    fn message(&mut self) -> Option<ToFront> {
        let end = self.unread.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.unread.drain(..=end).collect();
        serde_json::from_slice(&line).ok()
    }

    fn sleep(&self, longest: Option<Duration>) {
        let longest = longest.and_then(|time| Timespec::try_from(time).ok());
        let mut wanted = [PollFd::new(self.signals.fd(), PollFlags::IN), PollFd::new(&self.guardian, PollFlags::IN)];
        let _ = poll(&mut wanted, longest.as_ref());
    }
}

impl Wait {
    pub fn is_none(self) -> bool {
        self == Self::For(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_term_ended_has_lost_its_lock_though_its_end_is_heard_of_first() {
        assert!(Stage::Over(Ending { status: 0, signal: None }).can_be_lost());
        assert!(Stage::Running.can_be_lost() && Stage::Granted(1).can_be_lost());
    }

    #[test]
    fn a_command_that_did_not_run_keeps_its_own_reason() {
        assert!(!Stage::NotRun(Failure::new(NOT_FOUND, "no such command")).can_be_lost());
        assert!(!Stage::Asking.can_be_lost());
    }
}
