//! Ten workers in line; each is killed while it works. The lease is a minute, and nobody waits for it.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{Site, WAIT, millis};
use crate::books::Findings;
use crate::client::Client;
use crate::show::Sheet;
use crate::stage::{Act, PROCESSES, Stage};
use crate::wire::{Hold, Job, Word, Work};

/// The lease: with a lease alone, every waiter would wait this long.
const LEASE: u64 = 60_000;
/// How long each worker works before it is killed.
const WORK: Duration = Duration::from_millis(60);
/// A hand-over that takes longer than this was not the crash's doing.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Plays the scene.
pub fn play(stage: &mut Stage<'_>) -> Result<Act> {
    let lock = stage.fresh_key("crash");
    let mut client = stage.client()?;
    let mut site = Site::new(stage.hire(PROCESSES)?);
    let mut findings = Findings::default();
    let mut sheet = Sheet::new(["worker", "what became of it", "fence", "next went on after"], 2);
    let bar = stage.bar(u64::try_from(PROCESSES)?)?;

    for worker in 0..PROCESSES {
        let hold = Hold { lock: lock.clone(), lease: LEASE, wait: WAIT, session: true, work: Work::UntilTold };
        site.crew.give(worker, &Job::Hold(hold))?;
    }
    let mut holder = site.granted()?;
    wait_for_line(&mut client, &lock)?;
    let (mut gaps, mut fences) = (Vec::new(), vec![holder.fence]);
    for _ in 1..PROCESSES {
        site.at_work(holder.worker)?;
        thread::sleep(WORK);
        let killed = Instant::now();
        site.crew.kill(holder.worker)?;
        let next = site.granted()?;
        let gap = killed.elapsed();
        let micros = u64::try_from(gap.as_micros())?;
        let name = format!("process {}", holder.worker + 1);
        bar.inc(1);
        bar.set_message(format!("workers, {name} killed, the next went on after {}", millis(micros)));
        sheet.row(vec![name, "killed in mid-work".into(), holder.fence.to_string(), millis(micros)]);
        gaps.push(gap);
        fences.push(next.fence);
        holder = next;
    }
    site.at_work(holder.worker)?;
    site.crew.say(holder.worker, &Word::Finish)?;
    let released = site.released(holder.worker)?;
    sheet.row(vec![
        format!("process {}", holder.worker + 1),
        "finished, released".into(),
        holder.fence.to_string(),
        "–".into(),
    ]);
    bar.finish_and_clear();

    gaps.sort();
    let slowest = gaps.last().copied().context("somebody was killed")?;
    let median = gaps.get(gaps.len() / 2).copied().context("somebody was killed")?;
    findings.check("the next goes on at once", slowest < AT_ONCE, || format!("one waited {slowest:?}"));
    findings
        .check("each hold has a higher fence", fences.is_sorted_by(|low, high| low < high), || format!("{fences:?}"));
    findings.check("no write was refused", site.resource.refused == 0, || format!("{} were", site.resource.refused));
    findings.check("the last one's release ended its hold", released.ended, || "LOCK.RELEASE said 0".into());
    findings
        .check("a free lock leaves nothing behind", client.is_free(&lock)?, || "LOCK.INFO has something to say".into());
    let (median, slowest) = (millis(u64::try_from(median.as_micros())?), millis(u64::try_from(slowest.as_micros())?));
    Ok(Act {
        sheet,
        notes: Vec::new(),
        verdict: format!("{} crashes, the next went on after {median} (at most {slowest}), not after 60 s", gaps.len()),
        findings,
        answers: u64::try_from(PROCESSES)?,
    })
}

/// Waits until all others are in the queue, so that no gap measures how long a process takes to start.
fn wait_for_line(client: &mut Client, lock: &str) -> Result<()> {
    let start = Instant::now();
    let waiting = u64::try_from(PROCESSES - 1)?;
    while client.waiting(lock)? < waiting {
        ensure!(start.elapsed() < Duration::from_millis(WAIT), "the others never queued up");
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
