//! The worker processes, seen from the demo: real processes of the operating system, each with its own connections.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use crate::wire::{Event, Job, Word};

/// A crew that says nothing for this long is stuck.
const PATIENCE: Duration = Duration::from_mins(1);

/// Worker processes, by number from 0.
pub struct Crew {
    workers: Vec<Worker>,
    news: Receiver<(usize, News)>,
}

struct Worker {
    process: Child,
    ears: ChildStdin,
    killed: bool,
}

/// A line from a worker, or the end of its output.
enum News {
    Told(Event),
    Garbled(String),
    Gone,
}

impl Crew {
    /// Starts `size` worker processes that will talk to the server at `address`.
    pub fn hire(size: usize, address: &str) -> Result<Self> {
        let (tell, news) = mpsc::channel();
        let mut crew = Self { workers: Vec::with_capacity(size), news };
        let program = std::env::current_exe().context("find this program")?;
        for number in 0..size {
            let mut process = Command::new(&program)
                .arg("worker")
                .arg(address)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .context("start a worker process")?;
            let ears = process.stdin.take();
            let mouth = process.stdout.take();
            // Both are there: they were asked for two lines above.
            let (ears, mouth) = ears.zip(mouth).context("a worker process has no pipes")?;
            crew.workers.push(Worker { process, ears, killed: false });
            let tell = tell.clone();
            thread::spawn(move || listen(number, mouth, &tell));
        }
        Ok(crew)
    }

    /// Gives worker `number` a job.
    pub fn give(&mut self, number: usize, job: &Job) -> Result<()> {
        self.send(number, job)
    }

    /// Says something to worker `number` in the middle of its job.
    pub fn say(&mut self, number: usize, word: &Word) -> Result<()> {
        self.send(number, word)
    }

    /// The next thing any worker has to tell.
    pub fn next(&self) -> Result<(usize, Event)> {
        loop {
            let (number, news) = self
                .news
                .recv_timeout(PATIENCE)
                .with_context(|| format!("no news from any worker for {PATIENCE:?}"))?;
            match news {
                News::Told(Event::Failed(why)) => bail!("worker {}: {why}", number + 1),
                News::Told(event) => return Ok((number, event)),
                News::Garbled(line) => bail!("worker {} said {line:?}", number + 1),
                News::Gone if self.workers.get(number).is_some_and(|worker| worker.killed) => {}
                News::Gone => bail!("worker {} ended without a word", number + 1),
            }
        }
    }

    /// `kill -9`: no handler, no destructor, no goodbye.
    pub fn kill(&mut self, number: usize) -> Result<()> {
        let worker = self.worker(number)?;
        worker.killed = true;
        worker.process.kill().context("kill a worker")
    }

    /// Freezes the process where it stands, as a long garbage collection or a swapped-out machine would.
    pub fn freeze(&mut self, number: usize) -> Result<()> {
        self.signal(number, Signal::STOP)
    }

    /// Lets a frozen process go on.
    pub fn thaw(&mut self, number: usize) -> Result<()> {
        self.signal(number, Signal::CONT)
    }

    fn signal(&mut self, number: usize, signal: Signal) -> Result<()> {
        let pid = Pid::from_child(&self.worker(number)?.process);
        kill_process(pid, signal).context("signal a worker")
    }

    fn send(&mut self, number: usize, message: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(message).context("write to a worker")?;
        line.push(b'\n');
        self.worker(number)?.ears.write_all(&line).with_context(|| format!("worker {} does not listen", number + 1))
    }

    fn worker(&mut self, number: usize) -> Result<&mut Worker> {
        self.workers.get_mut(number).with_context(|| format!("there is no worker {}", number + 1))
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            // Most have ended or been killed; all that matters is that none stays behind.
            let _ = worker.process.kill();
            let _ = worker.process.wait();
        }
    }
}

/// Passes on what a worker says until its output ends.
fn listen(number: usize, mouth: ChildStdout, tell: &Sender<(usize, News)>) {
    for line in BufReader::new(mouth).lines() {
        let news = match line {
            Ok(line) => serde_json::from_str(&line).map_or_else(|_| News::Garbled(line), News::Told),
            Err(_) => break,
        };
        if tell.send((number, news)).is_err() {
            return;
        }
    }
    // Nobody may be left to hear it.
    let _ = tell.send((number, News::Gone));
}
