//! A worker process: reads jobs from its standard input until that ends, and does them one after another.

mod buy;
mod guard;
mod hold;
pub mod ride;

use std::io::{self, Lines, StdinLock, Write};

use anyhow::{Context, Result, ensure};

use crate::wire::{Event, Job, Word};

/// Does what it is told by its standard input, against the server at `address`.
pub fn work(address: &str) -> Result<()> {
    let mut ears = Ears(io::stdin().lines());
    while let Some(line) = ears.line()? {
        let job = serde_json::from_str(&line).context("understand the job")?;
        let done = match job {
            Job::Buy(job) => buy::run(address, &job, &mut ears),
            Job::Guard(job) => guard::run(address, &job, &mut ears),
            Job::Hold(job) => hold::run(address, &job, &mut ears),
            Job::Ride(job) => ride::run(address, &job, &mut ears),
        };
        match done {
            Ok(()) => tell(&Event::Done)?,
            Err(why) => return tell(&Event::Failed(format!("{why:#}"))),
        }
    }
    Ok(())
}

/// What the demo says to this worker.
struct Ears(Lines<StdinLock<'static>>);

impl Ears {
    /// The next line, or `None` when the demo is gone.
    fn line(&mut self) -> Result<Option<String>> {
        self.0.next().transpose().context("listen to the demo")
    }

    /// The next word in the middle of a job.
    fn word(&mut self) -> Result<Word> {
        let line = self.line()?.context("the demo is gone")?;
        serde_json::from_str(&line).context("understand the demo")
    }

    /// Says that this worker is ready, and waits until all workers are.
    fn wait_for_go(&mut self) -> Result<()> {
        tell(&Event::Ready)?;
        ensure!(matches!(self.word()?, Word::Go), "told something else than to go");
        Ok(())
    }
}

/// Tells the demo. One write for a line: the threads of a worker share its output.
fn tell(event: &Event) -> Result<()> {
    let mut line = serde_json::to_vec(event).context("put an event in words")?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line).and_then(|()| out.flush()).context("tell the demo")
}
