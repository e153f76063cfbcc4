//! Starting `lockstock`, and looking at what runs under it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use harness::{Server, eventually, eventually_some};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub const SECOND: Duration = Duration::from_secs(1);

/// `lockstock WORDS…` for this server; `{DIR}` in a word is a directory for its files.
pub fn lockstock(server: &Server, words: &[&str]) -> Command {
    at(&format!("redis://{}", server.address()), words)
}

/// A command that heeds SIGINT, SIGQUIT and SIGHUP, though the tests may ignore them: a script's `&` and `nohup` pass that on.
pub fn heeding() -> Command {
    let mut command = Command::new("/usr/bin/env");
    command.args(["--default-signal=INT", "--default-signal=QUIT", "--default-signal=HUP"]);
    command
}

pub fn at(url: &str, words: &[&str]) -> Command {
    let mut command = heeding();
    command.arg(env!("CARGO_BIN_EXE_lockstock"));
    command.args(words).env("LOCKSTOCK_URL", url).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What it writes and ends with, once it has ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { status: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

pub fn ended(mut command: Command) -> Ended {
    command.output().expect("lockstock runs").into()
}

/// Fails unless it ends with this status and one line on standard error, which has `words` in it.
#[track_caller]
pub fn refused(command: Command, status: i32, words: &str) {
    let ended = ended(command);
    assert_eq!((ended.status, ended.out.as_str()), (Some(status), ""), "{ended:?}");
    assert_one_line(&ended.err, words);
}

#[track_caller]
pub fn assert_one_line(err: &str, words: &str) {
    assert!(err.starts_with("lockstock: ") && err.ends_with('\n') && err.lines().count() == 1, "{err:?}");
    assert!(err.contains(words), "{err:?} lacks {words:?}");
}

/// A script that runs under `lockstock`. Its first act is to write its number, which is its group's, into `DIR/group`.
pub struct Job {
    pub front: Child,
    pub dir: TempDir,
}

impl Job {
    /// Starts it and waits until the script runs. `DIR` in its environment is a directory of its own.
    #[track_caller]
    pub fn start(server: &Server, options: &[&str], script: &str) -> Self {
        let job = Self::begin(server, options, script);
        job.appears("group");
        job
    }

    pub fn begin(server: &Server, options: &[&str], script: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        // Nothing but what the shell does itself: while a shell starts a program, it may lose a signal.
        let script = format!("echo $$ > $DIR/group; {script}");
        let words: Vec<&str> =
            ["run"].iter().chain(options).copied().chain(["job", "--", "sh", "-c", &script]).collect();
        let front = lockstock(server, &words).env("DIR", dir.path()).spawn().expect("lockstock runs");
        Self { front, dir }
    }

    /// Waits for a line that the script writes into this file.
    #[track_caller]
    pub fn appears(&self, name: &str) -> String {
        let path = self.dir.path().join(name);
        eventually_some(name, || fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n')))
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    #[track_caller]
    pub fn group(&self) -> i32 {
        self.appears("group").trim().parse().expect("a number")
    }

    /// The number of the guardian.
    #[track_caller]
    pub fn guardian(&self) -> i32 {
        let front = i32::try_from(self.front.id()).expect("a number");
        let group = self.group();
        let children = processes().into_iter().filter(|process| process.parent == front && process.group != group);
        let found: Vec<i32> = children.map(|process| process.number).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        found.first().copied().unwrap_or_default()
    }

    pub fn signal(&self, signal: Signal) {
        send(i32::try_from(self.front.id()).expect("a number"), signal);
    }

    /// Waits until nothing of the group lives.
    #[track_caller]
    pub fn dies(&self) -> Instant {
        let group = self.group();
        eventually("the group is dead", || !is_alive(group));
        Instant::now()
    }

    pub fn end(self) -> Ended {
        self.front.wait_with_output().expect("it ends").into()
    }
}

pub fn send(process: i32, signal: Signal) {
    kill_process(Pid::from_raw(process).expect("a number"), signal).expect("the process is there");
}

/// One process that has not ended.
pub struct Process {
    pub number: i32,
    pub state: char,
    pub parent: i32,
    pub group: i32,
}

pub fn processes() -> Vec<Process> {
    let read = |path: &Path| {
        let stat = fs::read_to_string(path.join("stat")).ok()?;
        let number = path.file_name()?.to_str()?.parse().ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        Some(Process { number, state, parent, group })
    };
    let all = fs::read_dir("/proc").expect("Linux").flatten().filter_map(|entry| read(&entry.path()));
    all.filter(|process| !matches!(process.state, 'Z' | 'X')).collect()
}

pub fn is_alive(group: i32) -> bool {
    processes().iter().any(|process| process.group == group)
}

pub fn state(number: i32) -> Option<char> {
    processes().into_iter().find(|process| process.number == number).map(|process| process.state)
}

pub fn is_free(server: &Server) -> bool {
    server.cmd("EXISTS job").int() == 0
}

/// The server stands still until this is dropped.
pub struct Frozen(i32);

impl Frozen {
    pub fn new(server: &Server) -> Self {
        let process = i32::try_from(server.pid()).expect("a number");
        send(process, Signal::STOP);
        Self(process)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        send(self.0, Signal::CONT);
    }
}
