//! The work takes five leases. A second thread extends the lease while it goes on, and stops when it ends; whoever waits
//! goes on after the release, and not before.

use anyhow::{Context, Result, bail};

use super::{Site, WAIT, millis};
use crate::books::Findings;
use crate::show::Sheet;
use crate::stage::{Act, Stage};
use crate::wire::{Event, Hold, Job, Word, Work};

/// The lease, in milliseconds.
const LEASE: u64 = 400;
/// How long the work takes.
const WORK: u64 = 2_000;
/// Between two extensions.
const BEAT: u64 = 120;
/// A hand-over later than this after the release was not the release's doing, in microseconds.
const LATE: u64 = 2_000_000;

/// Plays the scene.
pub fn play(stage: &mut Stage<'_>) -> Result<Act> {
    let lock = stage.fresh_key("extend");
    let mut site = Site::new(stage.hire(2)?);
    let hold = |work| Job::Hold(Hold { lock: lock.clone(), lease: LEASE, wait: WAIT, session: false, work });
    let bar = stage.bar(3)?;
    site.crew.give(0, &hold(Work::Extending { total: WORK, beat: BEAT }))?;
    let first = site.granted()?;
    bar.inc(1);
    bar.set_message("steps, process 1 works and extends");
    site.at_work(0)?;
    site.crew.give(1, &hold(Work::UntilTold))?;

    // The grant of one and the word of the other that it released may come in either order.
    let (mut granted, mut done) = (None, None);
    while granted.is_none() || done.is_none() {
        match site.next()? {
            (0, Event::Released(word)) => done = Some(word),
            (1, Event::Granted { fence, at, .. }) => granted = Some((fence, at)),
            (worker, _) => bail!("worker {} did something out of turn", worker + 1),
        }
        bar.inc(1);
    }
    let ((fence, granted_at), done) = granted.zip(done).context("both have told")?;
    site.at_work(1)?;
    site.crew.say(1, &Word::Finish)?;
    let released = site.released(1)?;
    bar.finish_and_clear();

    let worked = done.at.saturating_sub(first.at);
    let gap = granted_at.saturating_sub(done.at);
    let mut findings = Findings::default();
    findings.check("the work outlasted the lease", worked > 3 * LEASE * 1000, || millis(worked));
    findings.check("the lease was extended all the while", u64::from(done.extended) >= WORK / LEASE, || {
        format!("{} times", done.extended)
    });
    findings.check("the hold was there until its release", done.ended, || "LOCK.RELEASE said 0".into());
    findings.check("nobody held the lock meanwhile", granted_at >= done.at, || {
        format!("process 2 held it {} too early", millis(done.at - granted_at))
    });
    findings.check("the next goes on right after", gap < LATE, || millis(gap));
    findings
        .check("the next hold has a higher fence", fence > first.fence, || format!("{fence} after {}", first.fence));
    findings.check("every write was accepted", (site.resource.accepted, site.resource.refused) == (4, 0), || {
        format!("{} accepted, {} refused", site.resource.accepted, site.resource.refused)
    });
    findings.check("the last release ended its hold", released.ended, || "LOCK.RELEASE said 0".into());

    let mut sheet = Sheet::new(["worker", "what it did", "fence", "extensions", "held for"], 2);
    sheet.row(vec![
        "process 1".into(),
        "worked, released".into(),
        first.fence.to_string(),
        done.extended.to_string(),
        millis(worked),
    ]);
    sheet.row(vec![
        "process 2".into(),
        "waited, released".into(),
        fence.to_string(),
        released.extended.to_string(),
        millis(released.at.saturating_sub(granted_at)),
    ]);
    Ok(Act {
        sheet,
        notes: Vec::new(),
        verdict: format!("{} of work on leases of 400 ms, the next went on {} after it", millis(worked), millis(gap)),
        findings,
        answers: 2,
    })
}
