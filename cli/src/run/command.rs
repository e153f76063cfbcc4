//! The command: finding it, starting it, and its outcome.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, Child};

use rustix::fs::{Access, access};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpid, getppid, set_parent_process_death_signal, waitid,
};
use rustix::termios::tcsetpgrp;

use super::talk::{ToGuardian, line};
use super::terminal::Terminal;
use crate::fail::{Failure, NOT_EXECUTABLE, NOT_FOUND};
use crate::inherited::Inherited;

/// Where commands are if PATH does not say.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Refuses a command that cannot be run, before its keys are locked.
pub fn look_up(program: &OsStr) -> Result<(), Failure> {
    let name = program.display();
    let found = |path: &Path| fs::metadata(path).ok();
    let runs = |path: &Path| found(path).is_some_and(|file| file.is_file()) && access(path, Access::EXEC_OK).is_ok();
    let path = std::env::var_os("PATH").unwrap_or(DEFAULT_PATH.into());
    let places: Vec<_> = if program.as_bytes().contains(&b'/') {
        vec![program.into()]
    } else {
        std::env::split_paths(&path).map(|directory| directory.join(program)).collect()
    };
    if program.is_empty() || !places.iter().any(|place| found(place).is_some()) {
        return Err(Failure::new(NOT_FOUND, format!("{name}: there is no such command")));
    }
    if !places.iter().any(|place| runs(place)) {
        return Err(Failure::new(NOT_EXECUTABLE, format!("{name}: the file cannot be executed")));
    }
    Ok(())
}

/// Starts the command as the leader of a group of its own, in the foreground if `terminal` is given. The guardian hears of the group
/// from the child itself, before the command can have children.
pub fn start(
    words: &[OsString],
    environment: Vec<(&str, OsString)>,
    inherited: &Inherited,
    terminal: Option<&Terminal>,
    guardian: &UnixStream,
) -> io::Result<Child> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let front = getpid();
    let mut command = process::Command::new(program);
    command.args(arguments).envs(environment).process_group(0);
    let prepare = || {
        let group = getpid();
        let mut guardian = guardian;
        guardian.write_all(&line(&ToGuardian::Group(group.as_raw_nonzero().get())))?;
        if let Some(terminal) = terminal {
            // Not worth failing for: the command then asks for it as any background process does.
            let _ = tcsetpgrp(terminal.file().as_fd(), group);
        }
        // Sooner than the guardian can do it.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(front) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        inherited.restore();
        Ok(())
    };
    // The closure is called before `spawn` returns, so what it borrows is there; the compiler wants that promised.
    spawn_prepared(&mut command, prepare)
}

fn spawn_prepared<'a>(
    command: &mut process::Command,
    prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'a,
) -> io::Result<Child> {
    let prepare: Box<dyn FnMut() -> io::Result<()> + Send + Sync + 'a> = Box::new(prepare);
    // SAFETY: only the lifetime changes, and the closure, which `command` owns from now on, is not called after `spawn`: the caller drops
    // the command then, before anything that the closure borrows.
    let prepare: Box<dyn FnMut() -> io::Result<()> + Send + Sync + 'static> = unsafe { std::mem::transmute(prepare) };
    // SAFETY: this process has one thread, so its child's memory is in order whatever the closure does with it.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

/// How the command ended: its status, or 128 and the number of the signal that killed it. It is not reaped, so that its number, which is
/// its group's, is not used again.
pub fn ended(command: Pid) -> Option<Ending> {
    let status = look(command, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let signal = status.terminating_signal();
    let status = signal.map_or(status.exit_status().unwrap_or_default(), |signal| signal.saturating_add(128));
    Some(Ending { status, signal })
}

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    pub status: i32,
    pub signal: Option<i32>,
}

/// The signal that has stopped the command since this was last asked.
pub fn stopped(command: Pid) -> Option<i32> {
    look(command, WaitIdOptions::STOPPED)?.stopping_signal()
}

fn look(command: Pid, what: WaitIdOptions) -> Option<WaitIdStatus> {
    waitid(WaitId::Pid(command), what | WaitIdOptions::NOHANG).ok().flatten()
}
