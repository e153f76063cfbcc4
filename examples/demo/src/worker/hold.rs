//! A holder of a lock: writes to a resource, works, writes again, and gives the lock back.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};

use super::{Ears, tell};
use crate::client::{Acquire, Client, Grant};
use crate::wire::{Event, Hold, Released, Word, Work};

/// Takes the lock, does the work, gives the lock back, and tells each step.
pub fn run(address: &str, job: &Hold, ears: &mut Ears) -> Result<()> {
    let mut client = Client::connect(address)?;
    let asked_at = unix_micros()?;
    let wanted = Acquire { lock: &job.lock, lease: job.lease, wait: job.wait, session: job.session };
    let Grant { token, fence } = client.acquire(&wanted)?.context("the lock was not granted in time")?;
    tell(&Event::Granted { fence, asked_at, at: unix_micros()? })?;

    let mut refused = !write(fence, ears)?;
    let extended = match job.work {
        Work::UntilTold => wait_for_the_end(ears).map(|()| 0)?,
        Work::Extending { total, beat } => extend_while_working(address, job, &token, total, beat)?,
    };
    refused |= !write(fence, ears)?;

    // A worker that is refused has lost the lock. An extension must not bring it back.
    let revived = if refused { Some(client.extend(&job.lock, &token, job.lease)?) } else { None };
    let at = unix_micros()?;
    let ended = client.release(&job.lock, &token)?;
    tell(&Event::Released(Released { at, ended, extended, revived }))
}

/// Writes to the resource under `fence`: whether it took it.
fn write(fence: u64, ears: &mut Ears) -> Result<bool> {
    tell(&Event::Write { fence })?;
    match ears.word()? {
        Word::Accepted => Ok(true),
        Word::Refused => Ok(false),
        Word::Go | Word::Finish => bail!("no verdict on a write"),
    }
}

fn wait_for_the_end(ears: &mut Ears) -> Result<()> {
    match ears.word()? {
        Word::Finish => Ok(()),
        Word::Go | Word::Accepted | Word::Refused => bail!("told something else than to finish"),
    }
}

/// Works for `total` milliseconds while a second thread, with a connection of its own, extends the lease every `beat`.
/// Returns how often it did. The heart stops when the work ends.
fn extend_while_working(address: &str, job: &Hold, token: &str, total: u64, beat: u64) -> Result<u32> {
    let (done, work_is_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let heart = scope.spawn(move || {
            let mut client = Client::connect(address)?;
            let mut beats = 0;
            while work_is_done.recv_timeout(Duration::from_millis(beat)) == Err(RecvTimeoutError::Timeout) {
                if !client.extend(&job.lock, token, job.lease)? {
                    bail!("the lease ended between two extensions");
                }
                beats += 1;
            }
            Ok(beats)
        });
        thread::sleep(Duration::from_millis(total));
        drop(done);
        heart.join().map_err(|_| anyhow!("the heart panicked"))?
    })
}

/// Time since 1970: the one clock that all processes of a machine share.
fn unix_micros() -> Result<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is far off")?;
    u64::try_from(now.as_micros()).context("the clock is far off")
}
